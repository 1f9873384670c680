//! Seconds of each stage on one thread: `cargo bench -p tokenmill-core -- PATH [PATTERN]`. The counts are compared
//! with a hash map's before anything is timed. Ratios to other libraries are made by `python -m bench`.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokenmill_core::count::{Counter, PretokenCounts, Watch};
use tokenmill_core::pretokenize::{Sink, Splitter};
use tokenmill_core::reference;
use tokenmill_core::source::{InvalidUtf8, Limits, OnError, PlainText, Policy, Reader};
use tokenmill_core::train::{Options, Ties, train_merges};

const SEPARATOR: &[u8] = b"<|endoftext|>";
/// Merges that a full recount can be asked for, and those of a vocab of 32,768.
const FEW: usize = 30;
const MANY: usize = 32_512;

struct Ends(usize);

impl Sink for Ends {
    fn pretoken(&mut self, _text: &[u8], start: usize, end: usize) {
        self.0 = self.0.wrapping_add(start ^ end);
    }
}

struct Map(HashMap<Vec<u8>, u64>);

impl Sink for Map {
    fn pretoken(&mut self, text: &[u8], start: usize, end: usize) {
        *self.0.entry(text[start..end].to_vec()).or_default() += 1;
    }
}

fn count(path: &str, splitter: &Arc<Splitter>) -> PretokenCounts {
    let mut reader = Reader::new(
        Policy { on_error: OnError::Fail, invalid_utf8: InvalidUtf8::Error },
        Limits::default(),
        1 << 20,
    );
    let mut source = Some(PlainText::range(path, path, SEPARATOR, 0, u64::MAX).expect("the path opens"));
    reader.feed(Box::new(move || Ok(source.take().map(|s| Box::new(s) as _))));
    let mut counter = Counter::new(splitter.clone(), 1);
    counter.count(&Mutex::new(reader), &Watch::default()).expect("the text is read");
    counter.take().expect("counts fit")
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let Some(path) = arguments.first() else { return println!("usage: cargo bench … -- PATH [PATTERN]") };
    let pattern = arguments.get(1).map_or("gpt4", String::as_str);
    let splitter = Arc::new(Splitter::new(pattern, &["<|endoftext|>".into()]).expect("the pattern is known"));
    let text = std::fs::read(path).expect("the path opens");
    let megabytes = text.len() as f64 / 1e6;

    let mut map = Map(HashMap::new());
    splitter.split(&text, &mut map).expect("splitting");
    let counts = count(path, &splitter);
    assert_eq!(counts.len(), map.0.len());
    assert!(counts.iter().all(|(pretoken, n)| map.0[pretoken] == n), "counts differ from a hash map's");
    drop(map);

    let time = |name: &str, work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        let seconds = start.elapsed().as_secs_f64();
        println!("{name:32} {seconds:9.3} s {:9.1} MB/s", megabytes / seconds);
    };
    let scan = |splitter: &Splitter| {
        let mut ends = Ends(0);
        splitter.split(&text, &mut ends).expect("splitting");
        black_box(ends.0);
    };
    let general =
        Splitter::new(&format!("(?:{})", splitter.regex()), &[]).expect("the same regex in brackets");
    time("split by the general engine", &mut || scan(&general));
    time("split by the scanner", &mut || scan(&splitter));
    time("read, split and count", &mut || drop(black_box(count(path, &splitter))));

    let merge = |num_merges: usize, forget: f64| {
        let options = Options { forget, ..Options::new(256 + num_merges, Ties::LowestIds) };
        train_merges(&counts, &options, &Watch::default()).expect("training")
    };
    let pairs: Vec<(&[u8], u64)> = counts.iter().collect();
    let recounted = reference::train(&pairs, 256 + FEW, Ties::LowestIds);
    assert_eq!(merge(FEW, 0.2).triples, recounted, "merges differ from a full recount's");
    assert_eq!(merge(MANY, 0.0).triples, merge(MANY, 0.2).triples, "forgetting pairs changed the merges");
    time(&format!("{FEW} merges, counting all pairs"), &mut || {
        drop(black_box(reference::train(&pairs, 256 + FEW, Ties::LowestIds)));
    });
    time(&format!("{FEW} merges"), &mut || drop(black_box(merge(FEW, 0.2))));
    time(&format!("{MANY} merges, forgetting no pair"), &mut || drop(black_box(merge(MANY, 0.0))));
    time(&format!("{MANY} merges"), &mut || drop(black_box(merge(MANY, 0.2))));
}
