//! Mounting a disk, with the programs `mount` and `umount`: they are handed the device of FUSE as their standard input.
//!
//! A disk is mounted as if it lay on a block device: only then does the kernel forward `syncfs`, from Linux 6.18 on. The device
//! is an empty file that is never read.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::serve::{Served, Shared};

/// A mounted disk. Dropping it switches it off and unmounts it.
#[derive(Debug)]
pub(super) struct Mount {
    folder: PathBuf,
    served: Option<Served>,
}

/// The device that file systems in user space are carried out through.
const DEVICE: &str = "/dev/fuse";
/// Says that this process has mounts of its own.
const OWN_MOUNTS: &str = "XTASK_POWER_OWN_MOUNTS";
/// Where the kernel says which start of the machine it is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Bytes of the file that stands for a block device.
const BLOCK_DEVICE_BYTES: u64 = 4096;
/// A process that was killed is gone by then, and its files are closed.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// The pause before unmounting is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(2);

/// Starts this program again where its mounts are its own and go with it, however it ends. Returns if that is done.
///
/// # Errors
/// When it cannot be started.
pub(super) fn with_own_mounts() -> io::Result<()> {
    if std::env::var_os(OWN_MOUNTS).is_some() {
        return Ok(());
    }
    let error = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--"])
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(OWN_MOUNTS, "1")
        .exec();
    Err(io::Error::new(
        error.kind(),
        format!("`unshare` cannot be started: {error}"),
    ))
}

/// Lets every program in this namespace read an id of the machine's start that [`begin_boot`] changes.
///
/// # Errors
/// When it cannot be mounted.
pub(super) fn own_boots() -> io::Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    let mut mount = Command::new("mount");
    mount.args([
        OsStr::new("--bind"),
        file.path().as_os_str(),
        OsStr::new(BOOT_ID),
    ]);
    run(mount)?;
    begin_boot(0)
}

/// The machine starts again, as far as its programs can tell: after a power cut it does.
///
/// # Errors
/// When the id cannot be written.
pub(super) fn begin_boot(number: u64) -> io::Result<()> {
    fs::write(
        BOOT_ID,
        format!("00000000-0000-4000-8000-{:012x}\n", number >> 16),
    )
}

impl Mount {
    /// Mounts a disk in `folder`, which is made if it is missing.
    pub(super) fn new(folder: &Path, disk: Shared) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let block_device = folder.with_extension("device");
        File::create(&block_device)?.set_len(BLOCK_DEVICE_BYTES)?;
        let device = File::options().read(true).write(true).open(DEVICE)?;
        let words = ["-i", "-t", "fuseblk", "-o"].map(OsStr::new);
        let settings =
            "loop,fd=0,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other";
        let mut mount = Command::new("mount");
        mount
            .args(words)
            .arg(settings)
            .args([block_device.as_os_str(), folder.as_os_str()])
            .stdin(device.try_clone()?);
        run(mount)?;
        Ok(Self {
            folder: folder.to_owned(),
            served: Some(Served::start(device, disk)?),
        })
    }

    /// Switches the disk off, so that nothing that is asked for from now on happens.
    pub(super) fn switch_off(&self) {
        if let Some(served) = &self.served {
            served.switch_off();
        }
    }

    /// Unmounts it once no process has a file of it open.
    pub(super) fn unmount(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(served) = self.served.take() else {
            return Ok(());
        };
        let deadline = Instant::now() + LONGEST_WAIT;
        loop {
            let mut umount = Command::new("umount");
            umount.args([OsStr::new("-i"), self.folder.as_os_str()]);
            match run(umount) {
                Ok(()) => return served.join(),
                Err(error) if Instant::now() >= deadline => return Err(error),
                // The kernel sends no event when the last file is closed.
                Err(_) => thread::park_timeout(TRY_AGAIN),
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.switch_off();
        // Whatever stays mounted goes with this process.
        let _ = self.end();
    }
}

fn run(mut command: Command) -> io::Result<()> {
    let output = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(text.trim().to_owned()))
}
