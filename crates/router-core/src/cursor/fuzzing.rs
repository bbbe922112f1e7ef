//! Cursors that are fuzzed: what was sealed is opened as it was, and nothing else is a cursor.

use accounts::AccountId;
use jiff::Timestamp;

use super::{CursorKey, LIFETIME};
use crate::ModelId;

/// A text that is no cursor, and what it makes of a real one: the first byte says which of its characters is another one.
///
/// # Panics
/// If a text is taken for a cursor that is none, or a cursor is not opened as it was sealed.
pub(crate) fn cursor(bytes: &[u8]) {
    let key = CursorKey::derived_from(b"a secret");
    let account: AccountId = "acme".parse().expect("an id");
    let now = Timestamp::UNIX_EPOCH;
    let text = String::from_utf8_lossy(bytes);
    assert!(key.open(&text, &account, now).is_err(), "nobody sealed it");

    let named = text.parse::<ModelId>().ok();
    let position = named.unwrap_or_else(|| "bfl/flux-2".parse().expect("an id"));
    let sealed = key.seal(&position, &account, now);
    assert_eq!(key.open(&sealed, &account, now), Ok(position));
    assert!(key.open(&sealed, &account, now + LIFETIME).is_err(), "over");
    let other: AccountId = "other".parse().expect("an id");
    assert!(
        key.open(&sealed, &other, now).is_err(),
        "of another account"
    );
    let at = bytes.first().map_or(0, |byte| usize::from(*byte)) % sealed.len();
    let other = if sealed.as_bytes()[at] == b'A' {
        "B"
    } else {
        "A"
    };
    let forged = [&sealed[..at], other, &sealed[at + 1..]].concat();
    assert!(key.open(&forged, &account, now).is_err(), "character {at}");
}

#[cfg(test)]
mod tests {
    use super::cursor;
    use crate::fuzzed::feed;

    #[test]
    fn no_text_is_a_cursor_and_no_cursor_may_be_changed() {
        let seeds = [
            "bfl/flux-2-pro",
            "AAAAAAAAAAAA",
            "\u{0}\u{1}\u{2}",
            "own/\u{fffd}",
        ];
        let seeds: Vec<_> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
        feed(&seeds, 1_000, cursor);
    }
}
