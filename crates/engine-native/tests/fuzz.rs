//! The fuzz targets without a fuzzer: the same entries, fed with committed files that are changed, always in the same way.

#![expect(clippy::unwrap_used, reason = "a test that cannot get on is to stop")]

use std::fs;
use std::path::{Path, PathBuf};

use workflow_core::NodeCatalog;

#[path = "../../../tests/fuzz/entries.rs"]
mod entries;

/// Marsaglia's xorshift.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

/// Bytes that parsers trip over.
const NUMBERS: [&[u8]; 8] = [
    &[0],
    &[0xff],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff],
    &[0, 0, 0, 0],
    b"-1",
    b"1e400",
    b"[[[[",
];

fn seeds(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// A seed, changed a few times: a byte, a stretch left out or doubled, a number put in, the end of another seed.
fn changed(seeds: &[Vec<u8>], at: usize, random: &mut Xorshift) -> Vec<u8> {
    let mut bytes = seeds[at].clone();
    for _ in 0..1 + random.below(4) {
        let from = random.below(bytes.len());
        let to = (from + 1 + random.below(16)).min(bytes.len());
        match random.below(6) {
            _ if bytes.is_empty() => return bytes,
            0 => bytes[from] ^= 1 << random.below(8),
            1 => bytes[from] = random.below(256) as u8,
            2 => drop(bytes.drain(from..to)),
            3 => bytes.extend_from_within(from..to),
            4 => {
                let number = NUMBERS[random.below(NUMBERS.len())];
                drop(bytes.splice(
                    from..(from + number.len()).min(bytes.len()),
                    number.iter().copied(),
                ));
            }
            _ => {
                let other = &seeds[random.below(seeds.len())];
                bytes.truncate(from);
                bytes.extend_from_slice(&other[random.below(other.len())..]);
            }
        }
    }
    bytes
}

fn feed(seeds: &[Vec<u8>], rounds: usize, entry: impl Fn(&[u8])) {
    assert!(!seeds.is_empty(), "there is something to change");
    let mut random = Xorshift(0x2545_f491_4f6c_dd1d);
    for (at, seed) in seeds.iter().enumerate() {
        entry(seed);
        for _ in 0..rounds {
            entry(&changed(seeds, at, &mut random));
        }
    }
}

#[test]
fn any_graph_is_answered() {
    let nodes = engine_native::nodes::all();
    let catalog = NodeCatalog::new(nodes.iter().map(|node| node.definition()));
    let seeds = seeds("../../tests/fuzz/corpus/graph");
    feed(&seeds, 400, |bytes| entries::graph(bytes, &catalog));
}

#[test]
fn any_picture_is_answered() {
    feed(&seeds("testdata"), 8, entries::picture);
}

#[test]
fn any_png_text_is_answered() {
    feed(&seeds("testdata"), 8, entries::png_text);
}
