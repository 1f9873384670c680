//! One row of JSON, read in place: where its strings are, without building anything.
//!
//! The cursor accepts what serde accepts, up to a depth (`tests` hold the two against each other). It is here because a
//! row is mostly long strings, and serde would look at each of them once for every level it is nested in. Bytes
//! above ASCII are not looked at: whoever wants UTF-8 checks the row as a whole.

use memchr::{memchr, memchr2};

/// Lists and objects around a value. A row of text has three; a limit keeps the stack safe.
const MAX_DEPTH: usize = 128;

/// The row is not JSON; [`complaint`] finds the words.
#[derive(Debug)]
pub struct NotJson;

type Result<T> = std::result::Result<T, NotJson>;

/// A string between its quotation marks.
#[derive(Clone, Copy, Debug)]
pub struct Quoted {
    pub start: usize,
    pub end: usize,
    pub has_escapes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Text,
    List,
    Object,
    Null,
    Boolean,
    Number,
}

impl Kind {
    /// As it stands in a message.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "a string",
            Kind::List => "a list",
            Kind::Object => "an object",
            Kind::Null => "null",
            Kind::Boolean => "a boolean",
            Kind::Number => "a number",
        }
    }
}

/// What is wrong with `row`, in serde's words and without its line number: each row is a JSON text of its own.
pub fn complaint(row: &[u8]) -> String {
    match serde_json::from_slice::<serde::de::IgnoredAny>(row) {
        // The only thing that serde takes and the cursor does not.
        Ok(_) => format!("nests more than {MAX_DEPTH} levels deep"),
        Err(error) => {
            let message = error.to_string();
            let reason = message.split(" at line ").next().unwrap_or(&message);
            format!("not valid JSON at column {}: {reason}", error.column())
        }
    }
}

#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    row: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(row: &'a [u8], at: usize) -> Self {
        Cursor { row, at }
    }

    fn next_byte(&mut self) -> Result<u8> {
        while let Some(&byte) = self.row.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(NotJson)
    }

    /// Nothing but white space may follow.
    pub fn finish(mut self) -> Result<()> {
        if self.next_byte().is_ok() { Err(NotJson) } else { Ok(()) }
    }

    /// What the value at the cursor is, by its first byte.
    pub fn kind(&mut self) -> Result<Kind> {
        match self.next_byte()? {
            b'"' => Ok(Kind::Text),
            b'[' => Ok(Kind::List),
            b'{' => Ok(Kind::Object),
            b'n' => Ok(Kind::Null),
            b't' | b'f' => Ok(Kind::Boolean),
            b'-' | b'0'..=b'9' => Ok(Kind::Number),
            _ => Err(NotJson),
        }
    }

    fn take(&mut self, wanted: u8) -> Result<()> {
        if self.next_byte()? == wanted {
            self.at += 1;
            Ok(())
        } else {
            Err(NotJson)
        }
    }

    pub fn string(&mut self) -> Result<Quoted> {
        self.take(b'"')?;
        let start = self.at;
        let mut has_escapes = false;
        loop {
            let stop = memchr2(b'"', b'\\', &self.row[self.at..]).ok_or(NotJson)?;
            let plain = &self.row[self.at..self.at + stop];
            // A sum over all, not a search: this the compiler does sixteen bytes at a time.
            if plain.iter().fold(false, |found, &byte| found | (byte < 0x20)) {
                return Err(NotJson);
            }
            self.at += stop + 1;
            if self.row[self.at - 1] == b'"' {
                return Ok(Quoted { start, end: self.at - 1, has_escapes });
            }
            has_escapes = true;
            match self.row.get(self.at) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                Some(b'u') => {
                    hex4(self.row.get(self.at + 1..).unwrap_or_default()).ok_or(NotJson)?;
                    self.at += 5;
                }
                _ => return Err(NotJson),
            }
        }
    }

    /// Call `member` at every value of the object at the cursor; it must leave the cursor behind that value.
    pub fn object<E: From<NotJson>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Quoted) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.take(b'{')?;
        if self.next_byte()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.take(b':')?;
            member(self, key)?;
            match self.next_byte()? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return Err(NotJson.into()),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// The same for the items of a list.
    pub fn list<E: From<NotJson>>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.take(b'[')?;
        if self.next_byte()? == b']' {
            self.at += 1;
            return Ok(());
        }
        loop {
            item(self)?;
            match self.next_byte()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return Err(NotJson.into()),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Go behind the value at the cursor, which `above` lists and objects hold.
    pub fn skip(&mut self, above: usize) -> Result<()> {
        if above > MAX_DEPTH {
            return Err(NotJson);
        }
        match self.kind()? {
            Kind::Text => self.string().map(|_| ()),
            Kind::List => self.list(|cursor| cursor.skip(above + 1)),
            Kind::Object => self.object(|cursor, _| cursor.skip(above + 1)),
            Kind::Null => self.word(b"null"),
            Kind::Boolean if self.row[self.at] == b't' => self.word(b"true"),
            Kind::Boolean => self.word(b"false"),
            Kind::Number => self.number(),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<()> {
        let found = self.row[self.at..].starts_with(word);
        self.at += word.len();
        if found { Ok(()) } else { Err(NotJson) }
    }

    fn number(&mut self) -> Result<()> {
        self.at += usize::from(self.row[self.at] == b'-');
        match self.row.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.row.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.row.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.row.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<()> {
        let digits = self.row[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        if digits > 0 { Ok(()) } else { Err(NotJson) }
    }
}

fn hex4(bytes: &[u8]) -> Option<u32> {
    bytes.get(..4)?.iter().try_fold(0, |sum, &byte| Some(sum * 16 + char::from(byte).to_digit(16)?))
}

/// Append to `out` what a string with escapes says. Half of a surrogate pair becomes the three bytes that would encode
/// it; `true` if there was one.
pub fn unescape(quoted: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = quoted;
    let mut has_half = false;
    while let Some(at) = memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let code = rest[at + 1];
        rest = &rest[at + 2..];
        match code {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let mut unit = hex4(rest).unwrap_or_default();
                rest = rest.get(4..).unwrap_or_default();
                if (0xD800..0xDC00).contains(&unit)
                    && let Some(low) = rest.strip_prefix(b"\\u").and_then(hex4)
                    && (0xDC00..0xE000).contains(&low)
                {
                    unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                    rest = &rest[6..];
                }
                match char::from_u32(unit) {
                    Some(letter) => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
                    None => {
                        has_half = true;
                        let low = |bits: u32| 0x80 | (unit >> bits & 0x3F) as u8;
                        out.extend_from_slice(&[0xE0 | (unit >> 12) as u8, low(6), low(0)]);
                    }
                }
            }
            itself => out.push(itself),
        }
    }
    out.extend_from_slice(rest);
    has_half
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(row: &[u8]) -> bool {
        let mut cursor = Cursor::new(row, 0);
        cursor.skip(0).and_then(|()| cursor.finish()).is_ok()
    }

    fn serde_accepts(row: &[u8]) -> bool {
        serde_json::from_slice::<serde::de::IgnoredAny>(row).is_ok()
    }

    #[test]
    fn the_cursor_accepts_what_serde_does() {
        let seeds: [&[u8]; 8] = [
            br#"{"messages": [{"role": "user", "content": "a\nb \u00e9\ud83d\ude00 \ud800"}], "n": -1.5e+3}"#,
            br#" [1, 0, -0, 0.5, 10E5, true, false, null, "", {}, [], {"a": {"b": [[]]}}] "#,
            b"1e999",
            b"[01, +1, .5, 1., 1e, --1, t, nul, \"\\x\", \"\\u12\"]",
            b"{\"a\": 1,}",
            b"[1 2]",
            b"\"\x01\"",
            "\"é\u{7f}日本\" ".as_bytes(),
        ];
        let mut state = 3u64;
        let mut random = move |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        let bytes = b"{}[]\",:\\ u0123456789eE+-.truefalsn\n\x01/bd8";
        let mut agreed = 0;
        for round in 0..400_000 {
            let mut row = seeds[round % seeds.len()].to_vec();
            for _ in 0..random(4) {
                let at = random(row.len());
                match random(3) {
                    0 => row[at] = bytes[random(bytes.len())],
                    1 => row.insert(at, bytes[random(bytes.len())]),
                    _ => drop(row.remove(at)),
                }
            }
            assert_eq!(accepts(&row), serde_accepts(&row), "{:?}", String::from_utf8_lossy(&row));
            agreed += usize::from(accepts(&row));
        }
        assert!(agreed > 20_000, "{agreed}");
        for depth in [1, 127, 128, 129, 100_000] {
            let row = ["[".repeat(depth), "1".to_owned(), "]".repeat(depth)].concat();
            assert_eq!(accepts(row.as_bytes()), depth <= MAX_DEPTH, "{depth}");
            assert_eq!(complaint(row.as_bytes()).starts_with("nests"), serde_accepts(row.as_bytes()));
        }
    }

    #[test]
    fn strings_say_what_serde_says() {
        for quoted in [r"a\nb", r"\ud83d\ude00x", r"\\\/\b\f\r\t", r#"\"\u0000"#, "é\\u00e9", ""] {
            let mut out = Vec::new();
            assert!(!unescape(quoted.as_bytes(), &mut out));
            let expected: String = serde_json::from_str(&format!("\"{quoted}\"")).unwrap();
            assert_eq!(out, expected.as_bytes());
        }
        let mut out = Vec::new();
        assert!(unescape(br"\ud800\ud800\udc00\udc00", &mut out));
        assert_eq!(out, b"\xED\xA0\x80\xF0\x90\x80\x80\xED\xB0\x80");
    }
}
