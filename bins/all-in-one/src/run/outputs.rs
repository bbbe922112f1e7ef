//! Outputs on their way out: each under its name, whole or not at all, and never over another file.
//!
//! Numbered outputs (`name_00001_.png`) count on from the highest number of their name in the folder, as ComfyUI does. What
//! has no number, and meets another file, goes as `name (1).png` and so on.

mod name;

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use asset_store::Assets;
use futures_util::StreamExt;
use hyper_kit::error_chain;
use server_kit::program::Failure;
use tempfile::NamedTempFile;
use workflow_core::{Job, JobOutput};

use super::folder_of;
use name::{Numbered, beside, highest};

/// Tries before giving up on finding a free name.
const MOST_NAMES: u32 = 10_000;

/// Finds out before the work whether outputs can be written below `folder`; leaves nothing behind.
pub(super) fn probe(folder: &Path) -> Result<(), Failure> {
    let refused = |reason: String| Failure {
        exit_code: 2,
        message: format!("--out {}: {reason}; name another folder", folder.display()),
    };
    // What is missing is made with the first output.
    let mut there = folder;
    while let Err(error) = std::fs::metadata(there) {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(refused(format!(
                "{} cannot be used: {error}",
                there.display()
            )));
        }
        there = folder_of(there);
    }
    if !there.is_dir() {
        return Err(refused(format!("{} is no folder", there.display())));
    }
    let tried = tempfile::Builder::new()
        .prefix(TEMPORARY)
        .tempfile_in(there);
    tried.map(drop).map_err(|error| {
        refused(format!(
            "nothing can be written in {}: {error}",
            there.display()
        ))
    })
}

/// How the names of unfinished files begin.
const TEMPORARY: &str = ".easel-";

/// Writes every output of the job below `folder`; answers where each of them is, in the order they were made, and the first
/// failure. One that cannot be written keeps none of the others from the disk: they may have taken hours.
pub(super) async fn write(
    assets: &Assets,
    job: &Job,
    folder: &Path,
) -> (Vec<PathBuf>, Result<(), Failure>) {
    let mut written = Vec::with_capacity(job.outputs.len());
    let mut whole = Ok(());
    let mut names = Names::default();
    for output in &job.outputs {
        // The name is one of an asset, and so leads nowhere else.
        let wanted = folder.join(output.path.as_str());
        match write_one(assets, output, &wanted, &mut names).await {
            Ok(path) => written.push(path),
            Err(error) => {
                whole = whole.and(Err(Failure {
                    exit_code: 1,
                    message: format!(
                        "{} cannot be written: {}",
                        wanted.display(),
                        error_chain(error.as_ref())
                    ),
                }));
            }
        }
    }
    (written, whole)
}

async fn write_one(
    assets: &Assets,
    output: &JobOutput,
    wanted: &Path,
    names: &mut Names,
) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let folder = folder_of(wanted);
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new()
        .prefix(TEMPORARY)
        // As any other new file: the user's mask decides who may read it.
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    let mut bytes = assets.open(&output.hash, 0..output.size_bytes).await?.bytes;
    while let Some(chunk) = bytes.next().await {
        file.write_all(&chunk?)?;
    }
    Ok(names.keep(file, wanted)?)
}

/// The highest number of each numbered name, by folder and name, as far as it was looked up.
#[derive(Debug, Default)]
struct Names(HashMap<(PathBuf, String), u64>);

impl Names {
    /// Gives a finished file the next name that is free.
    fn keep(&mut self, mut file: NamedTempFile, wanted: &Path) -> io::Result<PathBuf> {
        let name = wanted.file_name().and_then(|name| name.to_str());
        let numbered = name.and_then(Numbered::read);
        for attempt in 0..MOST_NAMES {
            let path = match &numbered {
                Some(numbered) => wanted.with_file_name(self.next(folder_of(wanted), numbered)?),
                None => beside(wanted, attempt),
            };
            match file.persist_noclobber(&path) {
                Ok(_) => return Ok(path),
                // Another program took the name meanwhile.
                Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => {
                    file = refused.file;
                }
                Err(refused) => return Err(refused.error),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "too many files of this name are there; choose another folder with --out",
        ))
    }

    /// The next name: neither below what the installation counted to, nor one that the folder has.
    fn next(&mut self, folder: &Path, numbered: &Numbered<'_>) -> io::Result<String> {
        let key = (folder.to_owned(), numbered.stem.to_owned());
        let used = match self.0.get(&key) {
            Some(used) => *used,
            None => highest(folder, numbered.stem)?,
        };
        let number = numbered.number.max(used.saturating_add(1));
        self.0.insert(key, number);
        Ok(numbered.with(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(names: &mut Names, folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
        let mut file = NamedTempFile::new_in(folder).expect("a file");
        file.write_all(bytes).expect("written");
        let path = names.keep(file, &folder.join(name)).expect("kept");
        assert_eq!(std::fs::read(&path).expect("there"), bytes);
        path
    }

    #[test]
    fn numbers_go_on_from_the_highest_in_the_folder() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let folder = folder.path();
        std::fs::write(folder.join("a_00004_.webp"), b"mine").expect("a file");
        std::fs::create_dir(folder.join("a_00006_")).expect("a folder");
        let mut names = Names::default();
        let mut next = |bytes| made(&mut names, folder, "a_00001_.png", bytes);
        assert_eq!(next(b"one"), folder.join("a_00007_.png"));
        // The same bytes again are another picture.
        assert_eq!(next(b"one"), folder.join("a_00008_.png"));
        std::fs::write(folder.join("a_00009_.png"), b"mine").expect("a file");
        assert_eq!(next(b"two"), folder.join("a_00010_.png"));
        let kept = std::fs::read(folder.join("a_00009_.png")).expect("there");
        assert_eq!(kept, b"mine");
    }

    #[test]
    fn the_number_of_the_installation_is_the_least() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = made(&mut Names::default(), folder.path(), "a_00012_.png", b"one");
        assert_eq!(path, folder.path().join("a_00012_.png"));
    }

    #[test]
    fn what_has_no_number_is_never_overwritten_either() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let folder = folder.path();
        let mut names = Names::default();
        let mut next = |bytes| made(&mut names, folder, "a.png", bytes);
        assert_eq!(next(b"one"), folder.join("a.png"));
        assert_eq!(next(b"two"), folder.join("a (1).png"));
        std::fs::create_dir(folder.join("a (2).png")).expect("a folder");
        assert_eq!(next(b"three"), folder.join("a (3).png"));
        let left = std::fs::read_dir(folder).expect("a folder").count();
        assert_eq!(left, 4, "nothing temporary is left");
    }

    #[test]
    fn a_folder_that_takes_no_files_is_found_out_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("file");
        std::fs::write(&file, b"mine").expect("a file");
        for out in [&file, &file.join("below")] {
            let refused = probe(out).expect_err("it is no folder");
            assert_eq!(refused.exit_code, 2);
            assert!(refused.message.contains("--out"), "{}", refused.message);
        }
        probe(&folder.path().join("new/deep")).expect("it can be made");
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 1, "only the file");
    }
}
