//! Room in memory for the bodies of requests: so many bytes in all, so many of one sender.
//!
//! Room is taken before the first byte of a body is read, and given back when the last copy of its bytes is dropped, wherever
//! they went. Small bodies have room of their own: what everybody sends all the time does not wait behind what is large or
//! slow.

use std::hash::Hash;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;

use crate::body::{BodyError, BoxError, Gathered};
use crate::pace::{PacedBody, ReadPace};
use crate::semaphore::{KeyedLimits, KeyedPermit, KeyedSemaphore, NoUnits};

/// A body of at most this many bytes is small.
pub const SMALL_BYTES: usize = 64 * 1024;

/// Bytes of all small bodies, and of those of one sender: 1,024 and 256 of the largest ones.
const SMALL_TOTAL: usize = 1024 * SMALL_BYTES;
const SMALL_PER_SENDER: usize = 256 * SMALL_BYTES;

/// How many of the largest bodies there is room for, and for how many of one sender: it may send the others of its calls while
/// some of them are on their way to a slow reader.
const LARGEST_TOTAL: usize = 16;
const LARGEST_PER_SENDER: usize = 5;

/// Requests of one sender that wait for room; as many as a client has connections, and more are refused at once.
const WAITERS_PER_SENDER: usize = 1024;

/// How long a request waits for room: most bodies are gone within a second.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Why a body was not read into its room.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// It could not be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// There was no room for it; the rest of it was not read.
    #[error(transparent)]
    NoRoom(#[from] NoUnits),
}

/// Room for bodies. `K` tells senders apart. Clones share it.
#[derive(Clone, Debug)]
pub struct BodyRoom<K: Clone + Eq + Hash> {
    small: KeyedSemaphore<K>,
    large: KeyedSemaphore<K>,
}

/// Bytes with the room that they take.
struct Held<K: Clone + Eq + Hash> {
    bytes: Bytes,
    _room: KeyedPermit<K>,
}

impl<K: Clone + Eq + Hash> AsRef<[u8]> for Held<K> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> BodyRoom<K> {
    /// Room for bodies of which the largest has so many bytes: 16 of those in all and 5 of one sender, besides 64 MiB of small
    /// ones.
    #[must_use]
    pub fn new(largest: usize) -> Self {
        let of = |total, per_key| {
            KeyedSemaphore::new(KeyedLimits {
                total,
                per_key,
                waiters_per_key: WAITERS_PER_SENDER,
            })
        };
        let largest = largest.max(SMALL_BYTES);
        let times = |count: usize| largest.saturating_mul(count);
        Self {
            small: of(SMALL_TOTAL, SMALL_PER_SENDER),
            large: of(times(LARGEST_TOTAL), times(LARGEST_PER_SENDER)),
        }
    }

    /// Bytes that room is taken for.
    #[must_use]
    pub fn used(&self) -> usize {
        self.small.used() + self.large.used()
    }

    /// Reads a whole body of at most `limit` bytes at `pace`, once there is room for it. One whose length is not announced takes
    /// the room of a small one, and that of `limit` when it turns out larger.
    ///
    /// # Errors
    /// As [`crate::read_limited`], and [`RoomError::NoRoom`] after ten seconds without room, or at once where more requests of
    /// its sender wait than may.
    pub async fn read<B>(
        &self,
        sender: &K,
        body: B,
        limit: usize,
        pace: ReadPace,
    ) -> Result<Bytes, RoomError>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let too_large = || BodyError::TooLarge {
            limit: limit as u64,
        };
        let (announced, exact) = (body.size_hint().lower(), body.size_hint().exact());
        let Some(least) = usize::try_from(announced)
            .ok()
            .filter(|least| *least <= limit)
        else {
            return Err(too_large().into());
        };
        let expected = match exact {
            Some(_) => least,
            None => least.max(SMALL_BYTES).min(limit),
        };
        if expected == 0 {
            return Ok(Bytes::new());
        }
        let mut room = self.room(sender, expected).await?;
        let mut body = PacedBody::new(body, pace);
        let mut gathered = Gathered::new(announced);
        while let Some(frame) = body.frame().await {
            let Ok(chunk) = frame?.into_data() else {
                continue;
            };
            let bytes = gathered.len() + chunk.len();
            if bytes > limit {
                return Err(too_large().into());
            }
            if bytes > room.units() {
                // A request that has room for a large body never waits for room of small ones, so no requests wait in a circle.
                room = self.room(sender, limit).await?;
            }
            gathered.push(chunk);
        }
        let bytes = gathered.whole();
        room.shrink_to(bytes.len());
        Ok(Bytes::from_owner(Held { bytes, _room: room }))
    }

    async fn room(&self, sender: &K, bytes: usize) -> Result<KeyedPermit<K>, NoUnits> {
        let room = match bytes <= SMALL_BYTES {
            true => &self.small,
            false => &self.large,
        };
        room.acquire_within(sender.clone(), bytes, LONGEST_WAIT)
            .await
    }
}

#[cfg(test)]
mod tests;
