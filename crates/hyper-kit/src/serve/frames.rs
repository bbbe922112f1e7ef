//! Watches the frames that a client of HTTP/2 sends for those that cost it nothing: pings, settings, window updates,
//! priorities, resets, empty data.
//!
//! Each makes this server work or answer, none needs a request, and HTTP/2 bounds none of them. So a connection earns a
//! number of them with time, with requests and with what it is sent, and ends when it goes far beyond. What a frame means is
//! the library's business; here only its head is read.

use std::time::{Duration, Instant};

/// Bytes of the head of a frame.
const HEAD: usize = 9;

/// Control frames that a connection may send at once, besides what it has earned.
const BURST: i64 = 4096;

/// Control frames that a connection earns in a second: far above what keeps a connection alive or measures its line.
const PER_SECOND: i64 = 256;

/// Those that a request earns: its client may grant bytes to stream and connection for each small answer, and cancel.
const PER_REQUEST: i64 = 4;

/// Bytes sent to the client that earn one: it grants bytes again for those that it took, the eager ones for each frame.
const BYTES_SENT_FOR_ONE: u64 = 256;

/// What a reset costs: more than its request earned, so that requests which are only made to be reset run out too.
const RESET_COST: i64 = 8;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;

/// Flags of DATA.
const END_STREAM: u8 = 0x1;
const PADDED: u8 = 0x8;

/// Follows one connection from behind its preface.
#[derive(Debug)]
pub(super) struct FrameWatch {
    head: [u8; HEAD],
    /// Bytes of the head that have come.
    known: usize,
    /// Bytes until the next head.
    skip: usize,
    /// Control frames that may come.
    left: i64,
    /// Bytes sent that have earned nothing yet.
    sent: u64,
    /// When time last earned something.
    earned_at: Instant,
}

impl FrameWatch {
    /// Begins; `preface` bytes come before the first frame.
    pub(super) fn new(preface: usize) -> Self {
        Self {
            head: [0; HEAD],
            known: 0,
            skip: preface,
            left: BURST,
            sent: 0,
            earned_at: Instant::now(),
        }
    }

    /// Looks at the next bytes of the connection; whether its control frames are too many now.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return false;
            }
            let taken = (HEAD - self.known).min(bytes.len());
            let (head, rest) = bytes.split_at(taken);
            self.head[self.known..self.known + taken].copy_from_slice(head);
            self.known += taken;
            bytes = rest;
            if self.known == HEAD {
                self.known = 0;
                let [a, b, c, kind, flags, ..] = self.head;
                let length = u32::from_be_bytes([0, a, b, c]);
                self.skip = length as usize;
                self.left += worth(kind, flags, length);
                if self.left < 0 && !self.earns(Instant::now()) {
                    return true;
                }
                self.left = self.left.min(BURST);
            }
        }
    }

    /// Counts bytes that were sent to the client.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// Adds what was earned with bytes sent and with time; whether it is enough.
    fn earns(&mut self, now: Instant) -> bool {
        let by_bytes = self.sent / BYTES_SENT_FOR_ONE;
        self.sent %= BYTES_SENT_FOR_ONE;
        let passed = now.saturating_duration_since(self.earned_at);
        self.earned_at = now;
        // More would be cut to the burst anyway.
        let millis = i64::try_from(passed.min(Duration::from_secs(60)).as_millis()).unwrap_or(0);
        let by_time = millis * PER_SECOND / 1000;
        let by_bytes = i64::try_from(by_bytes).unwrap_or(BURST);
        self.left = (self.left + by_time + by_bytes).min(BURST);
        self.left >= 0
    }
}

/// What a frame earns, or costs.
fn worth(kind: u8, flags: u8, length: u32) -> i64 {
    match kind {
        HEADERS => PER_REQUEST,
        // A head is bounded as a whole.
        CONTINUATION => 0,
        DATA if flags & PADDED != 0 => -1,
        DATA if length == 0 && flags & END_STREAM == 0 => -1,
        DATA => 0,
        RST_STREAM => -RESET_COST,
        // Also those that nobody knows, which are skipped.
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).expect("a small frame").to_be_bytes();
        let mut bytes = length[1..].to_vec();
        bytes.extend([kind, flags, 0, 0, 0, 1]);
        bytes.resize(HEAD + payload, 0);
        bytes
    }

    /// How many of these frames pass.
    fn passes(watch: &mut FrameWatch, bytes: &[u8], most: usize) -> usize {
        (0..most).take_while(|_| !watch.feed(bytes)).count()
    }

    #[test]
    fn a_flood_of_any_control_frame_ends() {
        for (kind, flags, payload) in [
            (PING, 0, 8),
            (4, 0, 0),
            (WINDOW_UPDATE, 0, 4),
            (2, 0, 5),
            (RST_STREAM, 0, 4),
            (DATA, 0, 0),
            (DATA, PADDED, 10),
            (0xbb, 0, 0),
        ] {
            let mut watch = FrameWatch::new(24);
            assert!(!watch.feed(&[0; 24]));
            let passed = passes(&mut watch, &frame(kind, flags, payload), 100_000);
            assert!(passed < 10_000, "{kind}: {passed}");
        }
    }

    #[test]
    fn requests_and_their_bodies_cost_nothing() {
        let mut watch = FrameWatch::new(0);
        let mut call = frame(HEADERS, 4, 30);
        call.extend(frame(DATA, 0, 1000));
        call.extend(frame(DATA, END_STREAM, 0));
        call.extend(frame(WINDOW_UPDATE, 0, 4));
        call.extend(frame(WINDOW_UPDATE, 0, 4));
        assert_eq!(passes(&mut watch, &call, 100_000), 100_000);
    }

    #[test]
    fn requests_that_are_made_to_be_reset_end() {
        let mut watch = FrameWatch::new(0);
        let mut call = frame(HEADERS, 5, 30);
        call.extend(frame(RST_STREAM, 0, 4));
        assert!(passes(&mut watch, &call, 100_000) < 10_000);
    }

    #[test]
    fn a_download_earns_the_updates_of_its_windows() {
        let mut watch = FrameWatch::new(0);
        let mut updates = frame(WINDOW_UPDATE, 0, 4);
        updates.extend(frame(WINDOW_UPDATE, 0, 4));
        for _ in 0..100_000 {
            watch.sent(16 * 1024);
            assert!(!watch.feed(&updates));
        }
    }

    #[test]
    fn heads_are_read_however_they_are_cut() {
        let mut watch = FrameWatch::new(3);
        let mut bytes = vec![0; 3];
        bytes.extend(frame(PING, 0, 8));
        bytes.extend(frame(HEADERS, 5, 300));
        bytes.extend(frame(PING, 0, 8));
        for byte in &bytes {
            assert!(!watch.feed(std::slice::from_ref(byte)));
        }
        // What a request earns beyond the burst is not kept.
        assert_eq!((watch.known, watch.skip, watch.left), (0, 0, BURST - 1));
    }

    #[test]
    fn time_earns_them_again() {
        let mut watch = FrameWatch::new(0);
        let ping = frame(PING, 0, 8);
        assert!(passes(&mut watch, &ping, 100_000) < 10_000);
        let later = watch.earned_at + Duration::from_secs(2);
        watch.left = -1;
        assert!(watch.earns(later));
        assert_eq!(watch.left, 2 * PER_SECOND - 1);
    }
}
