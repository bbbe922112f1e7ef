//! Archives that come out the same for the same files: names in order, one time, nobody's user.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder};

/// One block of the format.
const BLOCK: usize = 512;

/// How long a name may be, and what goes before it with a slash between.
const NAME: usize = 100;
const PREFIX: usize = 155;

/// One file of an archive.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    path: String,
    mode: u32,
    bytes: Vec<u8>,
}

impl Entry {
    /// A file at this path below the archive's folder.
    pub(super) fn new(path: String, mode: u32, bytes: Vec<u8>) -> Self {
        Self { path, mode, bytes }
    }

    /// A text that anybody may read.
    pub(super) fn text(path: &str, text: &str) -> Self {
        Self::new(path.to_owned(), 0o644, text.into())
    }
}

/// Packs files below `folder` as a compressed tar.
///
/// # Errors
/// If a name is too long for the format, or stands twice.
pub(super) fn pack(
    folder: &str,
    mut entries: Vec<Entry>,
    time: u64,
    level: Compression,
) -> io::Result<Vec<u8>> {
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].path == pair[1].path) {
        return Err(io::Error::other(format!("{} is there twice", pair[0].path)));
    }
    // Neither a name nor a time of its own.
    let mut packed = GzBuilder::new().write(Vec::new(), level);
    for entry in &entries {
        packed.write_all(&header(&format!("{folder}/{}", entry.path), entry, time)?)?;
        packed.write_all(&entry.bytes)?;
        let rest = entry.bytes.len().next_multiple_of(BLOCK) - entry.bytes.len();
        packed.write_all(&[0; BLOCK][..rest])?;
    }
    packed.write_all(&[0; 2 * BLOCK])?;
    packed.finish()
}

/// The header of a file, in the format `ustar` of POSIX.
fn header(path: &str, entry: &Entry, time: u64) -> io::Result<[u8; BLOCK]> {
    let (prefix, name) = split(path)
        .ok_or_else(|| io::Error::other(format!("{path} is too long for an archive")))?;
    let mut block = [0; BLOCK];
    let mut put =
        |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{:07o}", entry.mode));
    // User and group: those of nobody in particular, which are root's.
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", entry.bytes.len()));
    put(136, &format!("{time:011o}"));
    // The sum is taken with blanks in its place.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    put(345, prefix);
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    let sum = format!("{sum:06o}\0 ");
    block[148..156].copy_from_slice(sum.as_bytes());
    Ok(block)
}

/// A path in the two fields that it has.
fn split(path: &str) -> Option<(&str, &str)> {
    if path.len() <= NAME {
        return Some(("", path));
    }
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    let at = slashes.find(|at| path.len() - at - 1 <= NAME)?;
    (at <= PREFIX).then(|| (&path[..at], &path[at + 1..]))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn entries() -> Vec<Entry> {
        let long = format!("share/{}/{}", "a".repeat(90), "b".repeat(60));
        vec![
            Entry::new("bin/program".to_owned(), 0o755, vec![7; 1000]),
            Entry::text(&long, "of a long name"),
            Entry::text("README.md", "as it is"),
        ]
    }

    fn packed(folder: &str, entries: Vec<Entry>, time: u64) -> io::Result<Vec<u8>> {
        pack(folder, entries, time, Compression::fast())
    }

    /// What the system's `tar` makes of an archive.
    fn tar(archive: &[u8], arguments: &[&str]) -> String {
        let mut tar = Command::new("tar")
            .args(arguments)
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`tar` is on every system");
        let mut stdin = tar.stdin.take().expect("it is piped");
        stdin.write_all(archive).expect("tar reads");
        drop(stdin);
        let output = tar.wait_with_output().expect("tar ends");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("text")
    }

    #[test]
    fn an_archive_is_sorted_and_nobodys() {
        let archive = packed("it-1.0", entries(), 1_700_000_000).expect("an archive");
        let listed = tar(&archive, &["-tvz", "--numeric-owner"]);
        let lines: Vec<&str> = listed.lines().collect();
        assert_eq!(lines.len(), 3, "{listed}");
        assert!(lines[0].starts_with("-rw-r--r-- 0/0"), "{listed}");
        assert!(
            lines[0].ends_with("8 2023-11-14 22:13 it-1.0/README.md"),
            "{listed}"
        );
        assert!(lines[1].starts_with("-rwxr-xr-x 0/0"), "{listed}");
        assert!(
            lines[1].ends_with("1000 2023-11-14 22:13 it-1.0/bin/program"),
            "{listed}"
        );
        assert!(lines[2].ends_with(&"b".repeat(60)), "{listed}");
        let readme = tar(&archive, &["-xzO", "it-1.0/README.md"]);
        assert_eq!(readme, "as it is");
    }

    #[test]
    fn the_order_of_files_makes_no_difference() {
        let mut turned = entries();
        turned.reverse();
        let [one, two] = [entries(), turned].map(|entries| packed("it", entries, 1));
        assert_eq!(one.expect("an archive"), two.expect("an archive"));
    }

    #[test]
    fn what_cannot_be_packed_is_refused_by_name() {
        let long = Entry::text(&"c".repeat(101), "");
        let refused = packed("it", vec![long], 1).expect_err("it is too long");
        assert!(refused.to_string().ends_with("is too long for an archive"));
        let twice = vec![Entry::text("a", ""), Entry::text("a", "b")];
        let refused = packed("it", twice, 1).expect_err("it is there twice");
        assert_eq!(refused.to_string(), "a is there twice");
    }
}
