//! A mounted disk: a thread that carries out what the kernel asks for, until the disk is unmounted or its power goes.
//!
//! Once the power is off, every request fails and changes nothing. No process acts on that error: the process whose request
//! switched the power off is killed before it gets the answer, and the others are dead before the disk is mounted again.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};

use super::disk::{Disk, Kind, Power, Refusal};
use super::names::Name;
use super::wire::{Fields, Operation, REQUEST_BYTES, Reply, Request, Settings, TooShort, kind_of};

/// A disk that outlives its mounts.
pub(super) type Shared = Arc<Mutex<Disk>>;

/// The thread of one mount.
#[derive(Debug)]
pub(super) struct Served {
    is_off: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// What a request comes to.
type Answered = Result<Reply, Refusal>;

/// The flag of a write that the kernel makes of mapped memory when it likes.
const OF_THE_CACHE: u32 = 1;
/// The flag of a sync that wants the bytes and the size alone.
const BYTES_ALONE: u32 = 1;
/// The flag of a rename that leaves alone what is there.
const LEAVE_ALONE: u32 = 1;
/// The flag of an allocation that leaves the size alone.
const KEEP_SIZE: u32 = 1;

impl Served {
    /// Carries out what comes through `device`, which a mount was made with.
    pub(super) fn start(device: File, disk: Shared) -> io::Result<Self> {
        let is_off = Arc::new(AtomicBool::new(false));
        let off = Arc::clone(&is_off);
        let thread = thread::Builder::new()
            .name("power-disk".to_owned())
            .spawn(move || serve(&device, &disk, &off))?;
        Ok(Self {
            is_off,
            thread: Some(thread),
        })
    }

    /// Takes the power away: nothing that is asked for from now on happens.
    pub(super) fn switch_off(&self) {
        self.is_off.store(true, Ordering::SeqCst);
    }

    /// Waits until the disk is unmounted.
    pub(super) fn join(mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread of a disk panicked")))
    }
}

/// The disk of a mount; a thread that panicked leaves it as it was between two operations at worst.
pub(super) fn lock(disk: &Shared) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut device: &File, disk: &Shared, is_off: &AtomicBool) -> io::Result<()> {
    let mut buffer = vec![0; REQUEST_BYTES];
    loop {
        let length = match device.read(&mut buffer) {
            Ok(length) => length,
            // A request that was taken back before it was read.
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::NotFound) => {
                continue;
            }
            Err(error) if error.raw_os_error() == Some(UNMOUNTED) => return Ok(()),
            Err(error) => return Err(error),
        };
        let Ok(request) = Request::read(&buffer[..length]) else {
            return Err(io::Error::other("a request is too short"));
        };
        if matches!(request.operation, Operation::Forget | Operation::Interrupt) {
            continue;
        }
        let (reply, error) = match answer(&request, disk, is_off) {
            Ok(reply) => (reply, 0),
            Err(refusal) => (Reply::empty(), refusal as i32),
        };
        match device.write_all(&reply.finish(request.id, error)) {
            // The one who asked is gone.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(UNMOUNTED) => return Ok(()),
            written => written?,
        }
    }
}

/// The error of a device whose mount is gone.
const UNMOUNTED: i32 = 19;

fn answer(request: &Request<'_>, disk: &Shared, is_off: &AtomicBool) -> Answered {
    if request.operation == Operation::Initialize {
        return Ok(Reply::initialized());
    }
    if is_off.load(Ordering::SeqCst) {
        return Err(Refusal::Io);
    }
    let mut disk = lock(disk);
    if request.operation.is_change() && !is_of_the_cache(request) && disk.begin() == Power::Off {
        is_off.store(true, Ordering::SeqCst);
        // Before it gets its answer, so that it never acts on it.
        kill(request.thread);
        return Err(Refusal::Io);
    }
    carry_out(request, &mut disk).unwrap_or(Err(Refusal::Invalid))
}

/// Whether the kernel asks by itself: such a write comes at any time, so no cut is counted by it.
fn is_of_the_cache(request: &Request<'_>) -> bool {
    let mut fields = request.body;
    let flags = fields.skip(20).and_then(|()| fields.u32());
    request.operation == Operation::Write && flags.is_ok_and(|flags| flags & OF_THE_CACHE != 0)
}

fn carry_out(request: &Request<'_>, disk: &mut Disk) -> Result<Answered, TooShort> {
    let (inode, mut body) = (request.inode, request.body);
    let in_here = |name: &[u8]| Name {
        directory: inode,
        name: name.to_vec(),
    };
    Ok(match request.operation {
        Operation::Lookup => {
            let found = disk.find(&in_here(body.name()?));
            found.and_then(|found| Ok(Reply::empty().entry(found, disk.node(found)?)))
        }
        Operation::GetAttributes => disk
            .node(inode)
            .map(|node| Reply::empty().attributes(inode, node)),
        Operation::SetAttributes => set(disk, inode, &Settings::read(body)?),
        Operation::MakeNode => {
            let mode = body.u32()?;
            body.skip(12)?;
            make(
                disk,
                in_here(body.name()?),
                kind_of(mode),
                mode,
                request.owner,
            )
        }
        Operation::MakeDirectory => {
            let mode = body.u32()?;
            body.skip(4)?;
            let name = in_here(body.name()?);
            make(disk, name, Some(Kind::Directory), mode, request.owner)
        }
        Operation::Create => {
            body.skip(4)?;
            let mode = body.u32()?;
            body.skip(8)?;
            let name = in_here(body.name()?);
            make(disk, name, Some(Kind::File), mode, request.owner).map(Reply::opened)
        }
        Operation::Unlink => done(disk.remove(in_here(body.name()?), false)),
        Operation::RemoveDirectory => done(disk.remove(in_here(body.name()?), true)),
        Operation::Rename => {
            let directory = body.u64()?;
            rename(disk, in_here(body.name()?), directory, body, 0)?
        }
        Operation::RenameWith => {
            let directory = body.u64()?;
            let flags = body.u32()?;
            body.skip(4)?;
            rename(disk, in_here(body.name()?), directory, body, flags)?
        }
        Operation::Link => {
            let linked = body.u64()?;
            let made = disk.link(linked, in_here(body.name()?));
            made.and_then(|()| Ok(Reply::empty().entry(linked, disk.node(linked)?)))
        }
        Operation::Open => disk.node(inode).map(|_| Reply::empty().opened()),
        Operation::Read => {
            let (offset, length) = range(&mut body)?;
            let node = disk.node(inode);
            node.map(|node| Reply::empty().bytes(&node.content.read(offset, length)))
        }
        Operation::Write => {
            let (offset, length) = range(&mut body)?;
            body.skip(20)?;
            let written = disk.write(inode, offset, body.bytes(length)?);
            written.map(|()| Reply::empty().written(u32::try_from(length).unwrap_or(u32::MAX)))
        }
        Operation::ReadDirectory => {
            let (offset, length) = range(&mut body)?;
            Ok(list(disk, inode, offset, length))
        }
        Operation::Sync | Operation::SyncDirectory => {
            body.skip(8)?;
            done(disk.sync(inode, body.u32()? & BYTES_ALONE == 0))
        }
        Operation::SyncFileSystem => {
            disk.sync_all();
            Ok(Reply::empty())
        }
        Operation::Allocate => {
            body.skip(8)?;
            let end = body.u64()?.saturating_add(body.u64()?);
            allocate(disk, inode, end, body.u32()?)
        }
        Operation::Statistics => Ok(Reply::empty().statistics()),
        Operation::Release | Operation::Initialize | Operation::Destroy => Ok(Reply::empty()),
        Operation::Forget | Operation::Interrupt | Operation::Other => Err(Refusal::NotSupported),
    })
}

fn make(disk: &mut Disk, name: Name, kind: Option<Kind>, mode: u32, owner: (u32, u32)) -> Answered {
    let kind = kind.ok_or(Refusal::NotSupported)?;
    let inode = disk.create(name, kind, mode & 0o7777, owner)?;
    Ok(Reply::empty().entry(inode, disk.node(inode)?))
}

fn rename(
    disk: &mut Disk,
    from: Name,
    directory: u64,
    mut body: Fields<'_>,
    flags: u32,
) -> Result<Answered, TooShort> {
    let to = Name {
        directory,
        name: body.name()?.to_vec(),
    };
    Ok(match flags & !LEAVE_ALONE {
        0 => done(disk.rename(from, to, flags & LEAVE_ALONE != 0)),
        _ => Err(Refusal::Invalid),
    })
}

fn set(disk: &mut Disk, inode: u64, settings: &Settings) -> Answered {
    if let Some(size) = settings.size {
        disk.resize(inode, size)?;
    }
    disk.set(inode, |attributes| {
        attributes.mode = settings.mode.unwrap_or(attributes.mode);
        let (user, group) = attributes.owner;
        attributes.owner = (
            settings.user.unwrap_or(user),
            settings.group.unwrap_or(group),
        );
        if let Some(modified) = settings.modified {
            attributes.modified = modified.unwrap_or_else(now);
        }
    })?;
    Ok(Reply::empty().attributes(inode, disk.node(inode)?))
}

/// Room is there anyway, so that an allocation only changes the size.
fn allocate(disk: &mut Disk, inode: u64, end: u64, flags: u32) -> Answered {
    if flags & !KEEP_SIZE != 0 {
        return Err(Refusal::NotSupported);
    }
    let size = disk.node(inode)?.content.size();
    if flags & KEEP_SIZE == 0 && end > size {
        disk.resize(inode, end)?;
    }
    Ok(Reply::empty())
}

fn list(disk: &Disk, directory: u64, offset: u64, room: usize) -> Reply {
    let mut reply = Reply::empty();
    let here = [&b"."[..], b".."].map(|name| (name.to_vec(), directory));
    let names = here.into_iter().chain(disk.list(directory));
    for (index, (name, inode)) in (0_u64..)
        .zip(names)
        .skip(usize::try_from(offset).unwrap_or(0))
    {
        let kind = disk.node(inode).map_or(Kind::File, |node| node.kind);
        if !reply.directory_entry((inode, kind), index + 1, &name, room) {
            break;
        }
    }
    reply
}

/// The offset and the length of a request to read or write.
fn range(body: &mut Fields<'_>) -> Result<(u64, usize), TooShort> {
    body.skip(8)?;
    let offset = body.u64()?;
    let length = body.u32()?;
    // The flags behind the length are not needed.
    Ok((offset, usize::try_from(length).map_err(|_| TooShort)?))
}

fn done(result: Result<(), Refusal>) -> Answered {
    result.map(|()| Reply::empty())
}

/// Kills the process that a thread belongs to.
fn kill(thread: u32) {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let process = lines.find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    if let Some(process) = process.and_then(Pid::from_raw) {
        // A process that is gone already is as dead as it shall be.
        let _ = kill_process(process, Signal::KILL);
    }
}

fn now() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}
