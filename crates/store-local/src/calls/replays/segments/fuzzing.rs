//! Segments that are fuzzed: whatever a row names of a file, the answer is exactly those bytes or none.

use std::fs;
use std::path::Path;

use super::{MOST_BYTES, ReplaySegments, SegmentSlice};

/// A slice (hour, offset and length, 8 bytes each) of a file with the bytes behind it, in a folder of this caller's.
///
/// # Panics
/// If bytes are answered that the file does not have there.
pub(crate) fn segment(bytes: &[u8], folder: &Path) {
    let number = |at: usize| {
        let bytes = bytes.get(at..)?.first_chunk::<8>()?;
        Some(i64::from_le_bytes(*bytes))
    };
    let (Some(hour), Some(offset), Some(length)) = (number(0), number(8), number(16)) else {
        return;
    };
    let file = &bytes[24..];
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("3600"), file).expect("a file");
    let segments = ReplaySegments::new(folder.to_owned());
    // As it is written, and near to what is there.
    let near = |number: i64| number.rem_euclid(file.len() as i64 + 2);
    for (hour, offset, length) in [(hour, offset, length), (3600, near(offset), near(length))] {
        let slice = SegmentSlice {
            hour,
            offset,
            length,
        };
        // A name that no file has may be an error of the file system as well.
        let Ok(read) = segments.read(slice) else {
            continue;
        };
        let expected = || {
            let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
            if length == 0 {
                // Nothing is anywhere.
                return Some(&file[..0]);
            }
            let end = offset.checked_add(length)?;
            file.get(offset..end).filter(|_| length <= MOST_BYTES)
        };
        let expected = expected().filter(|_| hour == 3600);
        assert_eq!(
            read.as_deref(),
            expected,
            "{slice:?} of {} bytes",
            file.len()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::segment;
    use crate::fuzzed::feed;

    #[test]
    fn any_slice_is_what_the_file_has_there_or_nothing() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let seed = |hour: i64, offset: i64, length: i64| {
            let numbers = [hour, offset, length].map(i64::to_le_bytes);
            [numbers.as_flattened(), b"some results"].concat()
        };
        let seeds = [
            seed(3600, 0, 12),
            seed(3600, 5, 7),
            seed(7200, -1, i64::MAX),
        ];
        feed(&seeds, 300, |bytes| segment(bytes, folder.path()));
    }
}
