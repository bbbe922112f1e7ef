//! The committed pictures, each with bytes changed, cut out, doubled or cut off.

use std::fs;
use std::path::Path;

use super::Hostile;
use super::bits::Xorshift;

pub(crate) fn hostile() -> Vec<Hostile> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../images/testdata");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".json"))
        .collect();
    names.sort();
    let mut random = Xorshift(0x9e37_79b9);
    let mut all = Vec::new();
    for name in names {
        let picture = fs::read(folder.join(&name)).unwrap_or_default();
        if picture.len() < 16 {
            continue;
        }
        let mut bytes = picture.clone();
        match random.below(4) {
            0 => bytes.truncate(random.below(picture.len())),
            1 => drop(bytes.drain(random.below(8)..16)),
            2 => bytes.extend_from_slice(&picture[picture.len() / 2..]),
            _ => {}
        }
        for _ in 0..1 + random.below(6) {
            if bytes.is_empty() {
                break;
            }
            let at = random.below(bytes.len());
            bytes[at] = random.next() as u8;
        }
        all.push((format!("mutant of {name}"), bytes));
    }
    all
}
