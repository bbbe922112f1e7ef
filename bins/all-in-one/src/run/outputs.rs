//! Outputs on their way out: each under its name, whole or not at all, and never over another file.
//!
//! A file that is there with the very same bytes is taken for the output; beside one with other bytes the output goes as
//! `name (1).png` and so on.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use asset_store::{Assets, BlobHash};
use futures_util::StreamExt;
use kit::program::{Failure, chain};
use tempfile::NamedTempFile;
use workflow_core::{Job, JobOutput};

use super::folder_of;

/// Tries before giving up on finding a free name.
const MOST_NAMES: u32 = 10_000;

/// Writes every output of the job below `folder`; answers where each of them is, in the order they were made.
pub(super) async fn write(
    assets: &Assets,
    job: &Job,
    folder: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    let mut written = Vec::with_capacity(job.outputs.len());
    for output in &job.outputs {
        // The name is one of an asset, and so leads nowhere else.
        let wanted = folder.join(output.path.as_str());
        let path = write_one(assets, output, &wanted)
            .await
            .map_err(|error| Failure {
                exit_code: 1,
                message: format!(
                    "{} cannot be written: {}",
                    wanted.display(),
                    chain(error.as_ref())
                ),
            })?;
        written.push(path);
    }
    Ok(written)
}

async fn write_one(
    assets: &Assets,
    output: &JobOutput,
    wanted: &Path,
) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let folder = folder_of(wanted);
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new()
        .prefix(".easel-")
        // As any other new file: the user's mask decides who may read it.
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    let mut bytes = assets.open(&output.hash, 0..output.size_bytes).await?.bytes;
    while let Some(chunk) = bytes.next().await {
        file.write_all(&chunk?)?;
    }
    Ok(keep(file, &output.hash, wanted)?)
}

/// Gives a finished file the first name that is free or has the same bytes already.
fn keep(mut file: NamedTempFile, hash: &BlobHash, wanted: &Path) -> io::Result<PathBuf> {
    for number in 0..MOST_NAMES {
        let path = numbered(wanted, number);
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => {
                if path.is_file() && BlobHash::of(&std::fs::read(&path)?) == *hash {
                    return Ok(path);
                }
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

/// `name.png`, `name (1).png`, `name (2).png`, ...
fn numbered(path: &Path, number: u32) -> PathBuf {
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

    fn made(folder: &Path, bytes: &[u8]) -> PathBuf {
        let mut file = NamedTempFile::new_in(folder).expect("a file");
        file.write_all(bytes).expect("written");
        let path = keep(file, &BlobHash::of(bytes), &folder.join("a.png")).expect("kept");
        assert_eq!(std::fs::read(&path).expect("there"), bytes);
        path
    }

    #[test]
    fn other_bytes_are_never_overwritten_and_the_same_are_no_second_file() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let folder = folder.path();
        assert_eq!(made(folder, b"one"), folder.join("a.png"));
        assert_eq!(made(folder, b"one"), folder.join("a.png"));
        assert_eq!(made(folder, b"two"), folder.join("a (1).png"));
        assert_eq!(made(folder, b"two"), folder.join("a (1).png"));
        assert_eq!(made(folder, b"three"), folder.join("a (2).png"));
        let left = std::fs::read_dir(folder).expect("a folder").count();
        assert_eq!(left, 3, "nothing temporary is left");
    }

    #[test]
    fn a_folder_of_this_name_is_stepped_around() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(folder.path().join("a.png")).expect("a folder");
        assert_eq!(made(folder.path(), b"one"), folder.path().join("a (1).png"));
    }

    #[test]
    fn a_number_stands_before_the_extension() {
        assert_eq!(
            numbered(Path::new("x/a.b.png"), 2),
            Path::new("x/a.b (2).png")
        );
        assert_eq!(numbered(Path::new("x/a"), 1), Path::new("x/a (1)"));
    }
}
