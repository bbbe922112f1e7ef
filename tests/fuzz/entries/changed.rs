//! Seeds that are changed, always in the same way, for tests that have no fuzzer.

use std::fs;
use std::path::{Path, PathBuf};

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

/// The files of a folder beside the manifest, in the order of their names.
pub(crate) fn seeds(folder: &str) -> Vec<Vec<u8>> {
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

/// Gives every seed to `entry`, and `rounds` changed copies of each.
pub(crate) fn feed(seeds: &[Vec<u8>], rounds: usize, entry: impl Fn(&[u8])) {
    assert!(!seeds.is_empty(), "there is something to change");
    let mut random = Xorshift(0x2545_f491_4f6c_dd1d);
    for (at, seed) in seeds.iter().enumerate() {
        entry(seed);
        for _ in 0..rounds {
            entry(&changed(seeds, at, &mut random));
        }
    }
}
