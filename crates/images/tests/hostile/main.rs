//! Pictures made to do harm, each decoded within limits: every one ends in a picture or in an error, never in a panic, and
//! never in more memory than its limits say.

#![expect(clippy::unwrap_used, reason = "a test that cannot get on is to stop")]

mod corpus;

use std::fs;

use images::codec::{Channel, CodecError, Limits, decode, decode_channel, decode_first};

/// What one decoding may take. Any bomb that gets past it shows in the process.
const LIMIT_BYTES: u64 = 32 << 20;

/// What the process may take besides: what libraries allocate for themselves, and what the allocator does not give back.
const SLACK_BYTES: u64 = 16 << 20;

#[test]
fn hostile_pictures_are_answered_within_their_limits() {
    let limits = Limits {
        max_bytes: LIMIT_BYTES,
        ..Limits::default()
    };
    let corpus = corpus::all();
    assert!(corpus.len() >= 200, "only {} pictures", corpus.len());
    let (mut shown, mut malformed, mut too_large) = (0, 0, 0);
    for (name, bytes) in &corpus {
        images::release_spare_memory();
        let before = memory("VmRSS:");
        let measures = forget_peak();
        let decoded = decode(bytes, &limits);
        let peak = memory("VmHWM:");
        if measures {
            let taken = peak.saturating_sub(before);
            assert!(
                taken <= LIMIT_BYTES + SLACK_BYTES,
                "{name} took {} MB",
                taken >> 20
            );
        }
        match &decoded {
            Ok(_) => shown += 1,
            Err(CodecError::TooLarge { .. }) => too_large += 1,
            Err(_) => malformed += 1,
        }
        // The other readers take less: what can be decoded as a whole they can read too.
        let channel = decode_channel(bytes, Channel::Alpha, &limits);
        let raster = decode_first(bytes, &limits);
        if decoded.is_ok() {
            assert!(channel.is_ok() && raster.is_ok(), "{name}");
        }
    }
    // Some show what can be shown, as the original does.
    assert!(
        malformed > corpus.len() / 3 && shown > 0 && too_large > 0,
        "{shown} shown, {malformed} malformed, {too_large} too large"
    );
}

/// A line of the process' own account of its memory, in bytes; 0 where there is none.
fn memory(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|text| {
        text.strip_prefix(line)?
            .trim()
            .strip_suffix(" kB")?
            .parse::<u64>()
            .ok()
    });
    kilobytes.unwrap_or(0) << 10
}

/// Lets the peak begin anew; answers whether this system can.
fn forget_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}
