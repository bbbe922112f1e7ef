//! Tests of the bytes of a file: what a sync saves, and what a cut may leave.

use super::*;
use it::random::Random;

/// Cuts of all kinds.
fn fates(count: u64) -> impl Iterator<Item = Fate> {
    (0..count).map(|seed| Fate::of(Random::of_all(&[seed])))
}

fn filled(byte: u8, length: usize) -> Vec<u8> {
    vec![byte; length]
}

#[test]
fn bytes_read_as_they_were_written_over_pages_and_holes() {
    let mut content = Content::default();
    content.write(4090, b"over the edge");
    content.write(3, b"first");
    assert_eq!(content.size(), 4103);
    assert_eq!(content.read(4090, 100), b"over the edge");
    assert_eq!(content.read(0, 9), b"\0\0\0first\0");
    assert_eq!(content.read(5000, 10), b"");
    content.resize(4095);
    assert_eq!(content.read(4090, 100), b"over ");
    content.resize(4097);
    assert_eq!(content.read(4090, 100), b"over \0\0");
}

#[test]
fn no_cut_takes_what_was_synced() {
    for mut fate in fates(200) {
        let mut content = Content::default();
        content.write(0, &filled(1, 10_000));
        content.resize(9000);
        content.sync();
        assert!(content.is_synced());
        content.cut(&mut fate);
        assert_eq!(content.read(0, 20_000), filled(1, 9000));
    }
}

#[test]
fn a_cut_leaves_every_sector_in_one_of_its_states() {
    let mut seen = [false; 3];
    for mut fate in fates(300) {
        let mut content = Content::default();
        content.write(0, &filled(1, 8192));
        content.sync();
        content.write(0, &filled(2, 8192));
        content.write(1000, &filled(3, 3000));
        content.cut(&mut fate);
        assert!(content.is_synced());
        let found = content.read(0, 10_000);
        assert_eq!(found.len(), 8192);
        for (index, sector) in found.chunks(SECTOR_BYTES).enumerate() {
            let from = index * SECTOR_BYTES;
            let third: Vec<u8> = (from..from + SECTOR_BYTES)
                .map(|at| if (1000..4000).contains(&at) { 3 } else { 2 })
                .collect();
            let states = [filled(1, SECTOR_BYTES), filled(2, SECTOR_BYTES), third];
            let state = states.iter().position(|state| state == sector);
            seen[state.expect("one of its states")] = true;
        }
    }
    assert_eq!(seen, [true; 3], "every state is left by some cut");
}

#[test]
fn some_cuts_tear_a_page_and_some_a_file() {
    let (mut torn_pages, mut torn_files) = (0, 0);
    for mut fate in fates(300) {
        let mut content = Content::default();
        content.write(0, &filled(1, 8192));
        content.sync();
        content.write(0, &filled(2, 8192));
        content.cut(&mut fate);
        let is_mixed = |bytes: &[u8]| bytes.contains(&1) && bytes.contains(&2);
        let (first, second) = (content.read(0, 4096), content.read(4096, 4096));
        torn_pages += u32::from(is_mixed(&first));
        torn_files += u32::from(first != second);
    }
    assert!(
        torn_pages > 20 && torn_files > 50,
        "{torn_pages} {torn_files}"
    );
}

#[test]
fn a_file_may_grow_without_its_bytes_and_bytes_without_the_file() {
    let (mut grown_empty, mut rubbish, mut lost) = (0, 0, 0);
    for mut fate in fates(500) {
        let mut content = Content::default();
        content.write(0, &filled(1, 512));
        content.cut(&mut fate);
        match content.read(0, 512) {
            found if found.is_empty() => lost += 1,
            found if found == filled(0, 512) => grown_empty += 1,
            found if found == filled(1, 512) => {}
            _ => rubbish += 1,
        }
    }
    assert!(
        lost > 50 && grown_empty > 20 && rubbish > 5,
        "{lost} {grown_empty} {rubbish}"
    );
}

#[test]
fn a_truncation_takes_the_size_and_the_bytes_or_nothing() {
    let (mut taken, mut undone) = (0, 0);
    for mut fate in fates(300) {
        let mut content = Content::default();
        content.write(0, &filled(1, 10_000));
        content.sync();
        content.resize(0);
        content.cut(&mut fate);
        match content.read(0, 10_000) {
            found if found.is_empty() => taken += 1,
            found => {
                assert_eq!(found, filled(1, 10_000));
                undone += 1;
            }
        }
    }
    assert!(taken > 50 && undone > 50, "{taken} {undone}");
}

#[test]
fn what_was_never_written_is_zeros_whatever_the_cut() {
    for mut fate in fates(200) {
        let mut content = Content::default();
        content.resize(10_000);
        content.write(0, b"x");
        content.cut(&mut fate);
        let found = content.read(512, 10_000);
        assert!(found.iter().all(|byte| *byte == 0));
    }
}

/// A file against a model of it: a sync is a wall that no cut goes behind, and a cut leaves a size that the file had.
#[test]
fn any_history_reads_as_its_model() {
    for seed in 0..200 {
        let mut random = Random::of_all(&[seed]);
        let (mut content, mut model) = (Content::default(), Vec::<u8>::new());
        let mut sizes = vec![0];
        for step in 0..60_u8 {
            let at = usize::try_from(random.below(9000)).expect("small");
            match random.below(10) {
                0..6 => {
                    let length = usize::try_from(random.below(6000)).expect("small") + 1;
                    content.write(at as u64, &filled(step + 1, length));
                    model.resize(model.len().max(at + length), 0);
                    model[at..at + length].fill(step + 1);
                }
                6..8 => {
                    content.resize(at as u64);
                    model.resize(at, 0);
                }
                8 => {
                    content.sync();
                    sizes.clear();
                }
                _ => {
                    content.cut(&mut Fate::of(Random::of_all(&[seed, u64::from(step)])));
                    let found = content.read(0, 100_000);
                    assert!(sizes.contains(&found.len()), "a size that it had");
                    sizes.clear();
                    model = found;
                }
            }
            sizes.push(model.len());
            assert_eq!(content.read(0, 100_000), model, "seed {seed} step {step}");
            assert_eq!(content.size(), model.len() as u64);
        }
    }
}
