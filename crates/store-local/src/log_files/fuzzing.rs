//! Files of a log that are fuzzed: any bytes at all are read within bounds, and damage takes no frame that stands before it.

use super::{HEAD_BYTES, LogPosition, entries, is_damaged, seal, turn_of};

/// Two files of any bytes, then a whole log of the same bytes in which one byte is another one.
///
/// # Panics
/// If entries are read that nobody wrote, or whole ones before the damage are not.
pub(crate) fn frames(bytes: &[u8]) {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let contents = [first.to_vec(), second.to_vec()];
    for epoch in 0..3 {
        for offset in [0, 1, bytes.len() as u64, u64::MAX] {
            let from = LogPosition { epoch, offset };
            assert!(entries(&contents, from).len() <= 2 * bytes.len());
            // It may be either.
            let _ = is_damaged(&contents, from);
        }
    }

    let Some((&[size, at, flip], rest)) = bytes.split_first_chunk::<3>() else {
        return;
    };
    let (epoch, mut file, mut ends) = (4, Vec::new(), Vec::new());
    for piece in rest.chunks(usize::from(size) + 1) {
        let mut frame = vec![0; HEAD_BYTES];
        frame.extend_from_slice(piece);
        seal(epoch, &mut frame).expect("a frame is short");
        file.extend_from_slice(&frame);
        ends.push(file.len());
    }
    let from = LogPosition { epoch, offset: 0 };
    let read = |file: &[u8]| {
        let mut contents = [Vec::new(), Vec::new()];
        contents[turn_of(epoch)] = file.to_vec();
        entries(&contents, from)
    };
    assert_eq!(read(&file), rest, "what was written is read");
    if file.is_empty() || flip == 0 {
        return;
    }
    let at = usize::from(at) * file.len() / 256;
    file[at] ^= flip;
    let whole = ends.iter().take_while(|end| **end <= at).count();
    let before = (whole * (usize::from(size) + 1)).min(rest.len());
    assert_eq!(read(&file), rest[..before], "byte {at}");
}

#[cfg(test)]
mod tests {
    use super::frames;
    use crate::fuzzed::feed;

    #[test]
    fn any_bytes_are_a_log_and_damage_ends_it() {
        let seeds: &[&[u8]] = &[
            b"\x05\x80\x01entries of some length, of which each frame has six",
            b"\x00\x10\x80abc",
            b"\xff\xff\xff",
        ];
        let seeds: Vec<_> = seeds.iter().map(|seed| seed.to_vec()).collect();
        feed(&seeds, 2_000, frames);
    }
}
