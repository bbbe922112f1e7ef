//! A small disk of a test's own, in memory: only the processes that are started on it see it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use crate::{Server, process};

/// The disk. Dropping it ends the process that keeps it.
#[derive(Debug)]
pub struct Disk {
    /// Where it is mounted, for those who see it.
    mount: TempDir,
    keeper: Child,
}

impl Disk {
    /// A disk of this many MiB; `None` where this user may not mount one.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub async fn new(mib: u32) -> io::Result<Option<Self>> {
        let mount = tempfile::tempdir()?;
        let script =
            format!("mount -t tmpfs -o size={mib}m,mode=700 none \"$1\" && echo && exec cat");
        let mut keeper = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script, "sh"])
            .arg(mount.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let mut told = keeper.stdout.take().expect("standard output is piped");
        let mounted = told.read_u8().await.is_ok();
        Ok(mounted.then_some(Self { mount, keeper }))
    }

    /// Starts a server over a directory on the disk.
    ///
    /// # Errors
    /// If it ends before it is ready.
    pub async fn start(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Server> {
        Server::start_as(self.command(), &self.inside("data"), arguments).await
    }

    /// A command that becomes the program and sees the disk.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--mount", "--target", &self.keeper_id().to_string()])
            .arg(process::binary());
        command
    }

    /// A path on the disk, for those who see it.
    #[must_use]
    pub fn inside(&self, inside: &str) -> PathBuf {
        self.mount.path().join(inside)
    }

    /// A path on the disk, for those who do not see it.
    #[must_use]
    pub fn path(&self, inside: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.keeper_id()));
        let mount = self.mount.path();
        let below = mount.strip_prefix("/").unwrap_or(mount);
        root.join(below).join(inside)
    }

    /// Takes up room until only this many bytes are free; or gives back, if less are.
    ///
    /// # Errors
    /// If the disk cannot be asked or written.
    pub async fn leave(&self, bytes: u64) -> io::Result<()> {
        let path = self.path("filler");
        let taken = fs::metadata(&path).map_or(0, |file| file.len());
        let free = free(&self.path("")).await?;
        let wanted = (taken + free).saturating_sub(bytes);
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .append(true)
            .open(&path)?;
        if wanted < taken {
            return file.set_len(wanted);
        }
        let zeros = vec![0; 64 * 1024];
        let mut left = wanted - taken;
        while left > 0 {
            let some = usize::try_from(left).unwrap_or(usize::MAX).min(zeros.len());
            match file.write(&zeros[..some]) {
                Ok(written) => left -= written as u64,
                // Others take room too, and a full disk is what was asked for.
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn keeper_id(&self) -> u32 {
        self.keeper.id().expect("the keeper was not waited for")
    }
}

async fn free(path: &Path) -> io::Result<u64> {
    let asked = Command::new("stat")
        .args(["--file-system", "--format=%a %S"])
        .arg(path)
        .output()
        .await?;
    let text = String::from_utf8_lossy(&asked.stdout);
    let numbers: Vec<u64> = text
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    match numbers[..] {
        [blocks, size] => Ok(blocks * size),
        _ => Err(io::Error::other("the disk cannot be asked")),
    }
}
