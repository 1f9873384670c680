//! Patterns are written for Python's `regex` module; the general engine reads a few things differently. Those are
//! rewritten here, or refused where there is no rewriting: a pattern that silently means something else is the
//! classic bug between training and inference.

use std::iter::Peekable;
use std::str::Chars;

use crate::error::{Error, Result};

/// `pattern` in the spelling that makes the general engine match what `regex` matches.
pub fn for_engine(pattern: &str) -> Result<String> {
    let multiline = has_multiline_flag(pattern);
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut rest, &mut out, pattern, "[\\t\\p{Zs}]")?,
            // Python's `$` also matches before a line break that ends the text; this engine's `\Z` skips several.
            '$' if !multiline => out.push_str("(?=\\n?\\z)"),
            '{' if is_fuzzy(rest.clone()) => return Err(refused(pattern, "fuzzy matching", "leave it out")),
            '[' => set(&mut rest, &mut out, pattern)?,
            _ => out.push(c),
        }
    }
    Ok(out)
}

fn refused(pattern: &str, what: &str, way_out: &str) -> Error {
    Error::config(format!("pattern `{pattern}` has {what}, which is not supported")).hint(way_out)
}

/// Behind a backslash. `horizontal` is how `\h` is written here.
fn escape(rest: &mut Peekable<Chars>, out: &mut String, pattern: &str, horizontal: &str) -> Result<()> {
    match rest.next() {
        Some('Z') => out.push_str("\\z"),
        Some('h') => out.push_str(horizontal),
        Some('N') => return Err(refused(pattern, "`\\N`", "write the character itself, or `\\x{…}`")),
        Some(sign @ ('<' | '>')) => out.push(sign),
        Some(c) => out.extend(['\\', c]),
        None => out.push('\\'),
    }
    Ok(())
}

/// Behind the `[` of a set. Set operations and nested sets of the engine are plain characters in `regex`.
fn set(rest: &mut Peekable<Chars>, out: &mut String, pattern: &str) -> Result<()> {
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    if rest.next_if_eq(&']').is_some() {
        out.push_str("\\]");
    }
    while let Some(c) = rest.next() {
        match c {
            ']' => {
                out.push(']');
                return Ok(());
            }
            '\\' => escape(rest, out, pattern, "\\t\\p{Zs}")?,
            '[' if rest.peek() == Some(&':') => out.push_str(posix_class(rest, pattern)?),
            '[' | '&' | '~' => out.extend(['\\', c]),
            '-' if rest.peek() == Some(&'-') => {
                return Err(refused(pattern, "`--` in a set", "write a hyphen as `\\-`"));
            }
            _ => out.push(c),
        }
    }
    Ok(()) // the engine says what an open set is
}

fn posix_class(rest: &mut Peekable<Chars>, pattern: &str) -> Result<&'static str> {
    let ahead: String = rest.clone().take_while(|&c| c != ']').collect();
    let name = ahead.trim_matches(':');
    let class = match name {
        "alpha" => "\\p{Alphabetic}",
        "digit" => "0-9",
        "xdigit" => "0-9A-Fa-f",
        "lower" => "\\p{Lowercase}",
        "upper" => "\\p{Uppercase}",
        "space" => "\\s",
        _ => return Err(refused(pattern, &format!("the class `[:{name}:]`"), "use `\\p{…}`")),
    };
    for _ in 0..=ahead.chars().count() {
        rest.next();
    }
    Ok(class)
}

/// `(?m)`, `(?im:…)` and the like.
fn has_multiline_flag(pattern: &str) -> bool {
    pattern.match_indices("(?").any(|(at, _)| {
        let flags = pattern[at + 2..].chars().take_while(char::is_ascii_alphabetic);
        let (mut any, mut multiline) = (false, false);
        flags.for_each(|flag| {
            any = true;
            multiline |= flag == 'm';
        });
        any && multiline && !pattern[at + 2..].starts_with('P')
    })
}

/// `{e}`, `{e<=1}`, `{i<2,d<2}` behind an opening brace.
fn is_fuzzy(rest: Peekable<Chars>) -> bool {
    let inside: String = rest.take_while(|&c| c != '}').collect();
    inside.starts_with(['e', 'i', 'd', 's'])
        && inside.len() < 20
        && (inside.len() == 1 || inside.contains('<'))
}

#[cfg(test)]
mod tests {
    use super::for_engine;

    #[test]
    fn what_differs_is_rewritten_or_refused() {
        for (pattern, spelling) in [
            (r"\s+$|\S+", r"\s+(?=\n?\z)|\S+"),
            (r"(?m)a$", r"(?m)a$"),
            (r"(?P<m>a)$", r"(?P<m>a)(?=\n?\z)"),
            (r"[$\Z]|\$|x\Z", r"[$\z]|\$|x\z"),
            (r"[a[b]&&~~]", r"[a\[b]&&~~]"),
            (r"[a&&b]", r"[a\&\&b]"),
            (r"[]a]+|[^]]", r"[\]a]+|[^\]]"),
            (r"[[:alpha:]_]+\h", r"[\p{Alphabetic}_]+[\t\p{Zs}]"),
            (r"\<a\>", "<a>"),
            (r"\p{N}{1,3}|a{2}", r"\p{N}{1,3}|a{2}"),
        ] {
            assert_eq!(for_engine(pattern).unwrap(), spelling, "{pattern}");
        }
        for pattern in [r"\N{BULLET}", "(?:foo){e<=1}", "[a--b]", "[[:punct:]]"] {
            assert!(for_engine(pattern).is_err(), "{pattern}");
        }
    }
}
