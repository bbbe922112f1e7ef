//! Names of output files: numbered ones, and those beside others.

use std::io;
use std::path::{Path, PathBuf};

/// A numbered name: `{stem}_{number}_{rest}`, such as `photo_00001_.png`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Numbered<'a> {
    pub(super) stem: &'a str,
    pub(super) number: u64,
    rest: &'a str,
}

impl<'a> Numbered<'a> {
    /// Reads the name of a file, as [`workflow_core::OutputName::Counted`] makes it.
    pub(super) fn read(name: &'a str) -> Option<Self> {
        let (front, extension) = name.rsplit_once("_.")?;
        let (stem, number) = front.rsplit_once('_')?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        Some(Self {
            stem,
            number: number.parse().ok().filter(|_| is_number)?,
            rest: &name[name.len() - extension.len() - 1..],
        })
    }

    /// The same name with another number.
    pub(super) fn with(&self, number: u64) -> String {
        format!("{}_{number:05}_{}", self.stem, self.rest)
    }
}

/// The highest number that a file or folder in `folder` has behind `stem`, whatever its ending; 0 where there is none. It
/// counts as ComfyUI counts in its output folder.
pub(super) fn highest(folder: &Path, stem: &str) -> io::Result<u64> {
    let mut highest = 0;
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| {
            let behind = name.strip_prefix(stem)?.strip_prefix('_')?;
            behind.split('_').next()?.parse::<u64>().ok()
        });
        highest = highest.max(number.unwrap_or(0));
    }
    Ok(highest)
}

/// `name.png`, `name (1).png`, `name (2).png`, ...
pub(super) fn beside(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(" ({number})"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numbered_name_has_its_number_between_two_lines() {
        let read = Numbered::read("a_b_00041_.png").expect("it is one");
        assert_eq!((read.stem, read.number), ("a_b", 41));
        assert_eq!(read.with(42), "a_b_00042_.png");
        assert_eq!(read.with(123_456), "a_b_123456_.png");
        for name in [
            "a.png",
            "a_1.png",
            "a__.png",
            "_.png",
            "a_x1_.png",
            "a_+1_.png",
        ] {
            assert_eq!(Numbered::read(name), None, "{name}");
        }
    }

    #[test]
    fn a_number_stands_before_the_extension() {
        assert_eq!(
            beside(Path::new("x/a.b.png"), 2),
            Path::new("x/a.b (2).png")
        );
        assert_eq!(beside(Path::new("x/a"), 1), Path::new("x/a (1)"));
    }
}
