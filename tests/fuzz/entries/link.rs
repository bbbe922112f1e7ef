//! Signed links that are fuzzed: what was signed is read as it was signed, and nothing else is a link. The fuzzer calls this, and
//! so do the tests of asset-store, with bytes that they change themselves.

use asset_store::{BlobHash, Link, LinkKeys};
use jiff::Timestamp;

/// A token and a name, with a zero byte between them, and what they make of a real link.
pub(crate) fn link(bytes: &[u8]) {
    let keys = LinkKeys::new(vec![(1, [1; 32]), (2, [2; 32])]);
    let now = Timestamp::UNIX_EPOCH;
    let text = String::from_utf8_lossy(bytes);
    let (token, name) = text.split_once('\0').unwrap_or((&text, ""));
    assert!(keys.verify(token, name, now).is_err(), "nobody signed it");

    let link = Link {
        hash: BlobHash::of(bytes),
        size_bytes: bytes.len() as u64,
        content_type: token.to_owned(),
        file_name: name.to_owned(),
        expires_at: Timestamp::from_second(60).expect("in range"),
    };
    let signed = keys.sign(&link);
    assert_eq!(keys.verify(&signed, name, now).as_ref(), Ok(&link));
    let over = keys.verify(&signed, name, link.expires_at);
    assert!(over.is_err(), "it is over");
    // One character is another one.
    let at = bytes.first().map_or(0, |byte| usize::from(*byte)) % signed.len();
    let other = if signed.as_bytes()[at] == b'A' {
        "B"
    } else {
        "A"
    };
    let forged = [&signed[..at], other, &signed[at + 1..]].concat();
    assert!(keys.verify(&forged, name, now).is_err(), "character {at}");
    let other = format!("{name}x");
    assert!(keys.verify(&signed, &other, now).is_err(), "another name");
}
