//! Outputs on their way to the disk: each whole or not at all, and never over another file.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use client::{Client, ClientError, Job, Output};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::failure::{Failure, Kind, Obstacle};

/// How the names of unfinished files begin.
const TEMPORARY: &str = ".easel-";

/// Tries before giving up on finding a free name.
const MOST_NAMES: u32 = 10_000;

/// An output that is on the disk.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) path: PathBuf,
    output: Output,
}

impl Saved {
    pub(crate) fn json(&self) -> Value {
        json!({
            "path": self.path.display().to_string(),
            "node_id": self.output.node_id,
            "name": self.output.name,
            "type": self.output.kind,
            "content_type": self.output.content_type,
            "size_bytes": self.output.size_bytes,
            "asset_id": self.output.id,
            "hash": self.output.hash,
        })
    }

    pub(crate) fn is_image(&self) -> bool {
        self.output.kind == "image" || self.output.content_type.starts_with("image/")
    }
}

/// Files on their way to a folder. One that cannot be saved keeps none of the others from the disk.
pub(crate) struct Saving<T> {
    saved: Vec<T>,
    failed: Option<Failure>,
}

impl<T> Saving<T> {
    pub(crate) fn new() -> Self {
        Self {
            saved: Vec::new(),
            failed: None,
        }
    }

    /// Notes what became of a file.
    pub(crate) fn note(&mut self, file: Result<T, Failure>) {
        match (file, self.failed.take()) {
            (Ok(file), failed) => {
                self.saved.push(file);
                self.failed = failed;
            }
            (Err(failure), None) => self.failed = Some(failure),
            (Err(failure), Some(first)) => self.failed = Some(first.and(failure)),
        }
    }

    /// Notes how many files were not tried any more.
    fn leave(&mut self, count: usize) {
        let line = match count {
            0 => return,
            1 => "and 1 more was not asked for".to_owned(),
            _ => format!("and {count} more were not asked for"),
        };
        self.failed = self.failed.take().map(|failure| failure.line(&line));
    }

    /// What is saved, and a failure that names everything that is not.
    pub(crate) fn end(self) -> (Vec<T>, Result<(), Failure>) {
        (self.saved, self.failed.map_or(Ok(()), Err))
    }
}

/// Finds out before the work whether files can be written below `folder`, which an option names; leaves nothing behind.
pub(crate) fn probe(option: &str, folder: &Path) -> Result<(), Failure> {
    let refused = |reason: String| {
        Failure::usage(format!("{option} {}: {reason}", folder.display()))
            .hint("name another folder")
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
    let tried = temporary(there);
    tried
        .map(drop)
        .map_err(|error| refused(format!("nothing can be written there: {error}")))
}

/// Saves the outputs of a job below `folder`, in the order they were made: those that are there now, and why others are not.
pub(crate) async fn save(
    client: &Client,
    job: &Job,
    folder: &Path,
) -> (Vec<Saved>, Result<(), Failure>) {
    of_one_host(job.outputs.iter(), async |output| {
        let wanted = folder.join(file_name(&output.name, &output.id));
        match fetch(client, &output.id, output.hash.as_deref(), &wanted).await {
            Ok(path) => Ok(Saved {
                path,
                output: output.clone(),
            }),
            Err(failure) if failure.obstacle == Some(Obstacle::Disk) => Err(failure.hint(format!(
                "`easel outputs {} --out FOLDER` saves the outputs in another folder",
                job.id
            ))),
            Err(failure) => Err(failure),
        }
    })
    .await
}

/// Saves files of one host, one after the other. If the host cannot be reached, the rest is not asked for, and the failure says how many
/// files that are.
pub(crate) async fn of_one_host<I, T>(
    mut files: impl ExactSizeIterator<Item = I>,
    mut save: impl AsyncFnMut(I) -> Result<T, Failure>,
) -> (Vec<T>, Result<(), Failure>) {
    let mut saving = Saving::new();
    while let Some(file) = files.next() {
        let file = save(file).await;
        let is_away = file
            .as_ref()
            .is_err_and(|failure| failure.obstacle == Some(Obstacle::Host));
        saving.note(file);
        if is_away {
            saving.leave(files.len());
            break;
        }
    }
    saving.end()
}

/// Saves the bytes of an asset under this name, or one beside it if another file has it. Returns where they are.
pub(crate) async fn fetch(
    client: &Client,
    id: &str,
    hash: Option<&str>,
    wanted: &Path,
) -> Result<PathBuf, Failure> {
    let failed = |error: io::Error| unwritable(wanted, &error);
    let folder = folder_of(wanted);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let file = temporary(folder).map_err(failed)?;
    let mut out = tokio::fs::File::from_std(file.reopen().map_err(failed)?);
    let fetched = client.download(id, hash, &mut out).await;
    let fetched = fetched.map_err(|error| {
        if let ClientError::File { source, .. } = &error {
            unwritable(wanted, source)
        } else {
            Failure::from(error).of_file(wanted)
        }
    })?;
    drop(out);
    keep(file, wanted, fetched.size_bytes).map_err(failed)
}

/// Saves what a link leads to under this name, or one beside it if another file has it.
pub(crate) async fn linked(
    client: &Client,
    url: &str,
    most_bytes: usize,
    wanted: &Path,
) -> Result<PathBuf, Failure> {
    let bytes = client.fetch_link(url, most_bytes).await;
    // The host need not be that of --server.
    let bytes = bytes.map_err(|error| Failure::from(error).of_file(wanted).no_hint())?;
    write(&bytes, wanted)
}

/// Writes bytes under this name, or one beside it if another file has it.
pub(crate) fn write(bytes: &[u8], wanted: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: io::Error| unwritable(wanted, &error);
    let folder = folder_of(wanted);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let file = temporary(folder).map_err(failed)?;
    std::fs::write(file.path(), bytes).map_err(failed)?;
    keep(file, wanted, bytes.len() as u64).map_err(failed)
}

/// The last part of a name, without what a file system or a terminal would take for something else.
pub(crate) fn file_name(name: &str, otherwise: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = last
        .chars()
        .map(|c| if c.is_control() || c == ':' { '_' } else { c })
        .collect();
    let plain = plain.trim_start_matches('.').to_owned();
    if plain.is_empty() {
        otherwise.to_owned()
    } else {
        plain
    }
}

/// Gives a finished file the first name that is free. A file with the same bytes is kept and not doubled.
fn keep(mut file: NamedTempFile, wanted: &Path, size_bytes: u64) -> io::Result<PathBuf> {
    for number in 0..MOST_NAMES {
        let path = beside(wanted, number);
        if is_same(&path, file.path(), size_bytes)? {
            return Ok(path);
        }
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => {
                file = refused.file;
            }
            Err(refused) => return Err(refused.error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        "too many files of this name are there; choose another folder",
    ))
}

fn is_same(path: &Path, other: &Path, size_bytes: u64) -> io::Result<bool> {
    let is_candidate = std::fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.len() == size_bytes);
    Ok(is_candidate && std::fs::read(path)? == std::fs::read(other)?)
}

/// As any other new file: the user's mask decides who may read it.
fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(TEMPORARY)
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
}

/// `name.png`, `name (1).png`, `name (2).png`, ...
fn beside(path: &Path, number: u32) -> PathBuf {
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

/// The folder of a path; the current one for a bare name.
fn folder_of(path: &Path) -> &Path {
    let parent = path.parent().unwrap_or(Path::new("/"));
    if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Kind::Failed,
        format!("{} cannot be written: {error}", path.display()),
    )
    .obstacle(Obstacle::Disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_is_never_overwritten_and_the_same_never_doubled() {
        let folder = tempfile::tempdir().expect("a folder");
        let wanted = folder.path().join("a.png");
        assert_eq!(write(b"one", &wanted).expect("kept"), wanted);
        assert_eq!(write(b"one", &wanted).expect("kept"), wanted);
        let beside = folder.path().join("a (1).png");
        assert_eq!(write(b"two", &wanted).expect("kept"), beside);
        assert_eq!(write(b"two", &wanted).expect("kept"), beside);
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 2, "nothing temporary is left");
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        assert_eq!(file_name("../../etc/passwd", "x"), "passwd");
        assert_eq!(file_name("..", "x"), "x");
        assert_eq!(file_name("a\u{1b}b\\c:d.png", "x"), "c_d.png");
        assert_eq!(file_name(".profile", "x"), "profile");
    }

    #[test]
    fn a_folder_that_takes_no_files_is_found_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, b"mine").expect("a file");
        for out in [&file, &file.join("below")] {
            let refused = probe("--save", out).expect_err("no folder");
            assert_eq!(refused.kind, Kind::Usage);
            assert!(refused.message.starts_with("--save "), "{refused:?}");
        }
        probe("--out", &folder.path().join("new/deep")).expect("it can be made");
    }

    #[test]
    fn every_file_that_is_not_saved_is_named() {
        let mut saving = Saving::new();
        let lost = |name: &str| Failure::new(Kind::Server, "no").of_file(Path::new(name));
        for file in [Err(lost("a.png")), Ok("b.png"), Err(lost("c.png"))] {
            saving.note(file);
        }
        let (saved, whole) = saving.end();
        assert_eq!(saved, ["b.png"]);
        let failure = whole.expect_err("two are lost");
        assert_eq!(failure.kind, Kind::Server);
        assert_eq!(failure.message, "a.png: no\n  c.png: no");
    }

    #[tokio::test]
    async fn a_host_that_is_away_is_asked_once_and_the_rest_is_counted() {
        fn lost<T>(error: fn(String) -> ClientError, told: &str) -> Result<T, Failure> {
            Err(error(told.to_owned()).into())
        }
        let away = |()| lost::<()>(ClientError::Unreachable, "away");
        let names = ["cut", "there", "away", "left", "left"];
        let mut asked = Vec::new();
        let (saved, whole) = of_one_host(names.into_iter(), async |name| {
            asked.push(name);
            match name {
                "cut" => lost(ClientError::Interrupted, "cut"),
                "away" => lost(ClientError::Unreachable, "away"),
                name => Ok(name),
            }
        })
        .await;
        assert_eq!(asked, names[..3], "an answer that breaks stops none");
        assert_eq!(saved, ["there"]);
        let message = whole.expect_err("some are lost").message;
        assert_eq!(message, "cut\n  away\n  and 2 more were not asked for");
        let (_, whole) = of_one_host([(); 2].into_iter(), async |file| away(file)).await;
        let message = whole.expect_err("both are lost").message;
        assert_eq!(message, "away\n  and 1 more was not asked for");
        let (_, whole) = of_one_host([()].into_iter(), async |file| away(file)).await;
        assert_eq!(whole.expect_err("it is lost").message, "away");
    }
}
