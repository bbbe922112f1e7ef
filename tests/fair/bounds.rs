//! What the process may use more under an attack than without it, each figure with its reason.

use it::Usage;

/// How much more there may be.
#[derive(Debug)]
pub(super) struct Bounds {
    /// Descriptors that the process may have at all.
    pub(super) limit: u32,
    pub(super) threads: u64,
    pub(super) descriptors: u64,
    pub(super) bytes: u64,
}

const MIB: u64 = 1 << 20;

/// Few enough that an attack on descriptors shows, and more than honest connections need.
const FEW: u32 = 1_024;

/// As many as each call of a partner may take, of which there are more than a thousand at once.
const MANY: u32 = 4_096;

/// Threads that come and go with work that blocks, whatever the attack: eight that open files, four that read rows, those that
/// write, and the nodes of two jobs. On a busy machine most of them meet.
const USUAL_THREADS: u64 = 24;

/// A piece of work gives its turn back a moment before its thread rests. On a busy machine the next piece begins in that moment, on a
/// second thread, which stays for some seconds.
const THREADS_OF_TURN: u64 = 2;

/// Connections of the neighbour, files of the database, calls of partners.
const USUAL_DESCRIPTORS: u64 = 32;

/// What the allocator and the runtime take for work at all; a program built for tests takes more than a shipped one.
const USUAL_BYTES: u64 = 96 * MIB;

/// A node that outlives its job leaves its thread to itself: at most 16 of them are replaced, with those that share large pictures.
pub(super) const REGEX: Bounds = Bounds {
    limit: FEW,
    threads: USUAL_THREADS,
    descriptors: USUAL_DESCRIPTORS,
    bytes: USUAL_BYTES + 256 * MIB,
};

/// The files that may be open for readers, each read by a thread of its own at times, and what is read ahead for each stream.
pub(super) const ZERO_WINDOW: Bounds = Bounds {
    limit: FEW,
    threads: USUAL_THREADS + THREADS_OF_TURN * 64,
    descriptors: USUAL_DESCRIPTORS + 400,
    bytes: USUAL_BYTES + 128 * MIB,
};

/// The trees of two bodies of the largest size at a time.
pub(super) const JSON: Bounds = Bounds {
    limit: FEW,
    threads: USUAL_THREADS,
    descriptors: USUAL_DESCRIPTORS,
    bytes: USUAL_BYTES + 128 * MIB,
};

/// The bodies that may be read at a time, for the account and in all.
pub(super) const BODIES: Bounds = Bounds {
    limit: FEW,
    threads: USUAL_THREADS,
    descriptors: USUAL_DESCRIPTORS + 100,
    bytes: USUAL_BYTES + 256 * MIB,
};

/// A job of 3 MB for each answer that is made.
pub(super) const HISTORY: Bounds = Bounds {
    limit: FEW,
    threads: USUAL_THREADS,
    descriptors: USUAL_DESCRIPTORS,
    bytes: USUAL_BYTES + 256 * MIB,
};

/// Each upload has a connection; those that are written have a file, and a piece of half a MiB.
pub(super) const UPLOADS: Bounds = Bounds {
    limit: FEW,
    threads: USUAL_THREADS,
    descriptors: USUAL_DESCRIPTORS + 600,
    bytes: USUAL_BYTES + 64 * MIB,
};

/// The pictures of two long jobs, and a thousand streams of 32 KiB at most.
pub(super) const EVENTS: Bounds = Bounds {
    limit: FEW,
    threads: USUAL_THREADS,
    descriptors: USUAL_DESCRIPTORS,
    bytes: USUAL_BYTES + 512 * MIB,
};

/// The pictures of the long jobs that run.
pub(super) const QUEUE: Bounds = Bounds {
    limit: FEW,
    threads: USUAL_THREADS,
    descriptors: USUAL_DESCRIPTORS,
    bytes: USUAL_BYTES + 512 * MIB,
};

/// The pictures of the long jobs that run, and the connections.
pub(super) const SOCKETS: Bounds = Bounds {
    limit: FEW,
    threads: USUAL_THREADS,
    descriptors: USUAL_DESCRIPTORS + 200,
    bytes: USUAL_BYTES + 512 * MIB,
};

/// The memory of a job for each of the two slots of the account, and for pictures that are gone.
pub(super) const PICTURES: Bounds = Bounds {
    limit: FEW,
    threads: USUAL_THREADS,
    descriptors: USUAL_DESCRIPTORS,
    bytes: USUAL_BYTES + 768 * MIB,
};

/// Each call has a connection to its partner while it is submitted.
pub(super) const CALLS: Bounds = Bounds {
    limit: MANY,
    threads: USUAL_THREADS,
    descriptors: USUAL_DESCRIPTORS + 1_152,
    bytes: USUAL_BYTES + 256 * MIB,
};

/// Everything together. Threads: those that read files for streams without a window, and those that write files of uploads.
/// Descriptors: the calls, a connection for each upload, socket and body, the files of streams and of uploads, and the other
/// connections of the attacks. Memory: the pictures of the jobs, as for pictures alone, and half as much for bodies, trees,
/// answers and calls.
pub(super) const ALL: Bounds = Bounds {
    limit: MANY,
    threads: USUAL_THREADS + THREADS_OF_TURN * (64 + 32),
    descriptors: USUAL_DESCRIPTORS + 1_152 + 300 + 200 + 50 + 64 + 32 + 50,
    bytes: USUAL_BYTES + (768 + 384) * MIB,
};

impl Bounds {
    /// Compares the most that was used with what was used before.
    pub(super) fn hold(&self, before: &Usage, most: &Usage) {
        let threads = most.threads.saturating_sub(before.threads);
        assert!(threads <= self.threads, "{threads} threads more: {self:?}");
        let descriptors = most.descriptors.saturating_sub(before.descriptors);
        assert!(
            descriptors <= self.descriptors,
            "{descriptors} descriptors more: {self:?}"
        );
        let bytes = most.peak_bytes.saturating_sub(before.resident_bytes);
        assert!(bytes <= self.bytes, "{bytes} bytes more: {self:?}");
    }
}
