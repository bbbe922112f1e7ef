//! The messages of FUSE as bytes: requests of the kernel are read, replies are written. See `linux/fuse.h`.
//!
//! A request is a head of 40 bytes and what its operation adds; a reply is a head of 16 bytes and what its operation wants. All
//! numbers are those of this machine.

use std::time::Duration;

use super::disk::{Attributes, Kind, Node};
use super::names::Inode;

/// The version that is spoken: 7.36 or later has every field that is written here.
const VERSION: (u32, u32) = (7, 39);
/// Most bytes of one write.
const MOST_WRITTEN: u32 = 1 << 20;
/// Bytes that hold any request: one write and what comes with it.
pub(super) const REQUEST_BYTES: usize = MOST_WRITTEN as usize + 4096;
/// How long the kernel may cache names and attributes: nothing else changes them.
const VALID_S: u64 = 3600;

/// What the kernel asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Lookup,
    Forget,
    GetAttributes,
    SetAttributes,
    MakeNode,
    MakeDirectory,
    Unlink,
    RemoveDirectory,
    Rename,
    RenameWith,
    Link,
    Open,
    Read,
    Write,
    Statistics,
    Release,
    Sync,
    Initialize,
    ReadDirectory,
    SyncDirectory,
    Create,
    Interrupt,
    Destroy,
    Allocate,
    SyncFileSystem,
    /// One that the kernel does without.
    Other,
}

/// A request.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) operation: Operation,
    /// Names the request in its reply.
    pub(super) id: u64,
    pub(super) inode: Inode,
    pub(super) owner: (u32, u32),
    /// The thread that asks; 0 if it is the kernel by itself.
    pub(super) thread: u32,
    pub(super) body: Fields<'a>,
}

/// Fields of a request that are not read yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(&'a [u8]);

/// A request that is shorter than it must be.
#[derive(Debug, Clone, Copy)]
pub(super) struct TooShort;

/// A reply in the making.
#[derive(Debug)]
pub(super) struct Reply(Vec<u8>);

impl Operation {
    fn of(number: u32) -> Self {
        match number {
            1 => Self::Lookup,
            2 | 42 => Self::Forget,
            3 => Self::GetAttributes,
            4 => Self::SetAttributes,
            8 => Self::MakeNode,
            9 => Self::MakeDirectory,
            10 => Self::Unlink,
            11 => Self::RemoveDirectory,
            12 => Self::Rename,
            45 => Self::RenameWith,
            13 => Self::Link,
            14 | 27 => Self::Open,
            15 => Self::Read,
            16 => Self::Write,
            17 => Self::Statistics,
            18 | 29 => Self::Release,
            20 => Self::Sync,
            26 => Self::Initialize,
            28 => Self::ReadDirectory,
            30 => Self::SyncDirectory,
            35 => Self::Create,
            36 => Self::Interrupt,
            38 => Self::Destroy,
            43 => Self::Allocate,
            50 => Self::SyncFileSystem,
            _ => Self::Other,
        }
    }

    /// Whether it changes or syncs something.
    pub(super) fn is_change(self) -> bool {
        matches!(
            self,
            Self::SetAttributes
                | Self::MakeNode
                | Self::MakeDirectory
                | Self::Unlink
                | Self::RemoveDirectory
                | Self::Rename
                | Self::RenameWith
                | Self::Link
                | Self::Write
                | Self::Sync
                | Self::SyncDirectory
                | Self::Create
                | Self::Allocate
                | Self::SyncFileSystem
        )
    }
}

impl<'a> Request<'a> {
    /// Reads the head.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, TooShort> {
        let mut head = Fields(bytes);
        let _length = head.u32()?;
        let operation = Operation::of(head.u32()?);
        let (id, inode) = (head.u64()?, head.u64()?);
        let owner = (head.u32()?, head.u32()?);
        let thread = head.u32()?;
        let _extensions = head.u32()?;
        Ok(Self {
            operation,
            id,
            inode,
            owner,
            thread,
            body: head,
        })
    }
}

impl<'a> Fields<'a> {
    pub(super) fn u32(&mut self) -> Result<u32, TooShort> {
        Ok(u32::from_ne_bytes(*self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, TooShort> {
        Ok(u64::from_ne_bytes(*self.array()?))
    }

    /// Passes over so many bytes.
    pub(super) fn skip(&mut self, bytes: usize) -> Result<(), TooShort> {
        self.0 = self.0.get(bytes..).ok_or(TooShort)?;
        Ok(())
    }

    /// A name, which ends in a zero.
    pub(super) fn name(&mut self) -> Result<&'a [u8], TooShort> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(TooShort)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Ok(name)
    }

    /// Exactly so many bytes.
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], TooShort> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(TooShort)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], TooShort> {
        let (array, rest) = self.0.split_first_chunk().ok_or(TooShort)?;
        self.0 = rest;
        Ok(array)
    }
}

impl Reply {
    /// One that has nothing to say.
    pub(super) fn empty() -> Self {
        // The head is filled in at the end.
        Self(vec![0; 16])
    }

    /// The bytes of a reply to the request `id`; `error` is 0 for a success, which alone has something to say.
    pub(super) fn finish(mut self, id: u64, error: i32) -> Vec<u8> {
        if error != 0 {
            self.0.truncate(16);
        }
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0[4..8].copy_from_slice(&(-error).to_ne_bytes());
        self.0[8..16].copy_from_slice(&id.to_ne_bytes());
        self.0
    }

    fn u16(mut self, number: u16) -> Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    fn u32(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    fn u64(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    /// Bytes of a file.
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// What is agreed on at the beginning: large writes, and nothing that would keep a write from coming at once.
    pub(super) fn initialized() -> Self {
        const ASYNC_READ: u32 = 1;
        const BIG_WRITES: u32 = 1 << 5;
        const PARALLEL_DIRECTORIES: u32 = 1 << 18;
        const MAX_PAGES: u32 = 1 << 22;
        Self::empty()
            .u32(VERSION.0)
            .u32(VERSION.1)
            .u32(1 << 17)
            .u32(ASYNC_READ | BIG_WRITES | PARALLEL_DIRECTORIES | MAX_PAGES)
            .u16(64)
            .u16(48)
            .u32(MOST_WRITTEN)
            .u32(1)
            .u16(256)
            .zeros(34)
    }

    /// A file that was looked up or made.
    pub(super) fn entry(self, inode: Inode, node: &Node) -> Self {
        self.u64(inode)
            .u64(0)
            .u64(VALID_S)
            .u64(VALID_S)
            .u64(0)
            .node(inode, node)
    }

    /// What is known of a file.
    pub(super) fn attributes(self, inode: Inode, node: &Node) -> Self {
        self.u64(VALID_S).u64(0).node(inode, node)
    }

    /// An open file: what the kernel has of it stays good.
    pub(super) fn opened(self) -> Self {
        const KEEP_CACHE: u32 = 2;
        self.u64(0).u32(KEEP_CACHE).u32(0)
    }

    /// So many bytes were written.
    pub(super) fn written(self, count: u32) -> Self {
        self.u32(count).u32(0)
    }

    /// A disk with 64 GiB, all of it free.
    pub(super) fn statistics(self) -> Self {
        const BLOCKS: u64 = 1 << 24;
        self.u64(BLOCKS)
            .u64(BLOCKS)
            .u64(BLOCKS)
            .u64(BLOCKS)
            .u64(BLOCKS)
            .u32(4096)
            .u32(255)
            .u32(4096)
            .zeros(28)
    }

    /// One name of a directory; `next` is where reading goes on behind it. Answers whether it fits into `room`.
    pub(super) fn directory_entry(
        &mut self,
        (inode, kind): (Inode, Kind),
        next: u64,
        name: &[u8],
        room: usize,
    ) -> bool {
        let length = (24 + name.len()).next_multiple_of(8);
        if self.0.len() - 16 + length > room {
            return false;
        }
        let start = self.0.len();
        self.0.extend_from_slice(&inode.to_ne_bytes());
        self.0.extend_from_slice(&next.to_ne_bytes());
        let name_bytes = u32::try_from(name.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&name_bytes.to_ne_bytes());
        let kind = format_of(kind) >> 12;
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(name);
        self.0.resize(start + length, 0);
        true
    }

    fn node(self, inode: Inode, node: &Node) -> Self {
        let Attributes {
            mode,
            owner,
            modified,
        } = node.attributes;
        let (size, seconds) = (node.content.size(), modified.as_secs());
        let links = if node.kind == Kind::Directory { 2 } else { 1 };
        self.u64(inode)
            .u64(size)
            .u64(size.div_ceil(512))
            .u64(seconds)
            .u64(seconds)
            .u64(seconds)
            .u32(modified.subsec_nanos())
            .u32(modified.subsec_nanos())
            .u32(modified.subsec_nanos())
            .u32(format_of(node.kind) | mode)
            .u32(links)
            .u32(owner.0)
            .u32(owner.1)
            .u32(0)
            .u32(4096)
            .u32(0)
    }
}

/// The bits of a mode that say what kind of file it is.
fn format_of(kind: Kind) -> u32 {
    match kind {
        Kind::File => 0o100_000,
        Kind::Directory => 0o040_000,
        Kind::Socket => 0o140_000,
    }
}

/// The kind that these bits say; `None` for one that the disk does not have.
pub(super) fn kind_of(mode: u32) -> Option<Kind> {
    let kinds = [Kind::File, Kind::Directory, Kind::Socket];
    kinds
        .into_iter()
        .find(|kind| format_of(*kind) == mode & 0o170_000)
}

/// What a request to set attributes has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) size: Option<u64>,
    pub(super) mode: Option<u32>,
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    /// Since 1970; `None` in it is now.
    pub(super) modified: Option<Option<Duration>>,
}

impl Settings {
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, TooShort> {
        let valid = fields.u32()?;
        fields.skip(4 + 8)?;
        let size = fields.u64()?;
        fields.skip(8 + 8)?;
        let seconds = fields.u64()?;
        fields.skip(8 + 4)?;
        let nanoseconds = fields.u32()?;
        fields.skip(4)?;
        let mode = fields.u32()?;
        fields.skip(4)?;
        let (user, group) = (fields.u32()?, fields.u32()?);
        let has = |bit: u32| valid & bit != 0;
        let modified = match (has(1 << 8), has(1 << 5)) {
            (true, _) => Some(None),
            (false, true) => Some(Some(Duration::new(seconds, nanoseconds))),
            (false, false) => None,
        };
        Ok(Self {
            size: has(1 << 3).then_some(size),
            mode: has(1).then_some(mode & 0o7777),
            user: has(1 << 1).then_some(user),
            group: has(1 << 2).then_some(group),
            modified,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_field_by_field() {
        let mut bytes = Vec::new();
        for number in [48_u32, 12] {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        for number in [7_u64, 9] {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        for number in [1_u32, 2, 3, 0] {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        bytes.extend_from_slice(b"old\0new\0");
        let request = Request::read(&bytes).expect("it is whole");
        assert_eq!(request.operation, Operation::Rename);
        assert_eq!((request.id, request.inode, request.thread), (7, 9, 3));
        assert_eq!(request.owner, (1, 2));
        let mut body = request.body;
        assert_eq!(body.name().expect("a name"), b"old");
        assert_eq!(body.name().expect("a name"), b"new");
        assert!(body.name().is_err() && body.u32().is_err());
        assert!(Request::read(&bytes[..39]).is_err());
    }

    #[test]
    fn replies_are_as_long_as_the_kernel_wants_them() {
        let length = |reply: Reply| reply.finish(1, 0).len() - 16;
        let mut disk = super::super::disk::Disk::new(super::super::Broken::Nothing);
        let name = super::super::names::Name {
            directory: 1,
            name: b"file".to_vec(),
        };
        let inode = disk
            .create(name, Kind::File, 0o600, (0, 0))
            .expect("there is none");
        let node = disk.node(inode).expect("it was made");
        assert_eq!(length(Reply::initialized()), 64);
        assert_eq!(length(Reply::empty().entry(inode, node)), 128);
        assert_eq!(length(Reply::empty().attributes(inode, node)), 104);
        assert_eq!(length(Reply::empty().opened()), 16);
        assert_eq!(length(Reply::empty().statistics()), 80);
        assert_eq!(length(Reply::empty().written(5)), 8);
    }

    #[test]
    fn an_error_says_nothing_else() {
        let reply = Reply::empty().bytes(b"abc").finish(3, 5);
        assert_eq!(reply.len(), 16);
        assert_eq!(reply[4..8], (-5_i32).to_ne_bytes());
    }

    #[test]
    fn directory_entries_end_where_the_room_does() {
        let mut reply = Reply::empty();
        assert!(reply.directory_entry((2, Kind::File), 1, b"a", 64));
        assert!(reply.directory_entry((3, Kind::Directory), 2, b"b", 64));
        assert!(!reply.directory_entry((4, Kind::File), 3, b"c", 64));
        assert_eq!(reply.finish(1, 0).len(), 16 + 64);
    }
}
