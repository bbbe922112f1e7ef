//! How much of a disk a store keeps free.

/// The free space below which no upload is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinFree {
    /// 1 GiB or a twentieth of the disk, whichever is more.
    Auto,
    /// This many bytes.
    Bytes(u64),
}

/// What is kept back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReserveOptions {
    /// Below it no upload is taken.
    pub min_free: MinFree,
    /// Bytes of the file that is given up for the ends of jobs. With less than this free besides, nothing may grow.
    pub ballast_bytes: u64,
}

impl ReserveOptions {
    /// Nothing is kept back; what another process kept stays as it is.
    pub const NONE: Self = Self {
        min_free: MinFree::Bytes(0),
        ballast_bytes: 0,
    };

    /// 16 MiB: room for the ends of some thousand jobs.
    pub const BALLAST_BYTES: u64 = 16 << 20;
}

impl MinFree {
    const LEAST: u64 = 1 << 30;
    const PART: u64 = 20;

    /// What this means on a disk of `total_bytes`.
    #[must_use]
    pub fn bytes(self, total_bytes: u64) -> u64 {
        match self {
            Self::Auto => Self::LEAST.max(total_bytes / Self::PART),
            Self::Bytes(bytes) => bytes,
        }
    }
}
