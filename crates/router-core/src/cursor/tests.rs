//! Cursors read back, and nothing else does.

use proptest::prelude::*;

use super::*;

fn key(n: u8) -> CursorKey {
    CursorKey::derived_from(&[n; 32])
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn position() -> ModelId {
    "bfl/flux-2-pro".parse().expect("a valid id")
}

fn open(cursor: &str) -> Result<ModelId, InvalidCursor> {
    key(1).open(cursor, &AccountId::local(), second(0))
}

fn sealed() -> String {
    key(1).seal(&position(), &AccountId::local(), second(0))
}

#[test]
fn a_cursor_reads_back_for_24_hours() {
    let at = |now| key(1).open(&sealed(), &AccountId::local(), second(now));
    assert_eq!(at(0), Ok(position()));
    assert_eq!(at(24 * 3600 - 1), Ok(position()));
    assert_eq!(at(24 * 3600), Err(InvalidCursor));
}

#[test]
fn a_cursor_fits_its_pattern_at_the_longest_id() {
    let longest = ModelId::new(&"p".repeat(64), &"m".repeat(128)).expect("a valid id");
    let cursor = key(1).seal(&longest, &AccountId::local(), second(0));
    assert!((1..=512).contains(&cursor.len()), "{}", cursor.len());
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._~+/=-".contains(&byte);
    assert!(cursor.bytes().all(fits), "{cursor}");
    assert_eq!(open(&cursor), Ok(longest));
}

#[test]
fn a_foreign_cursor_is_refused() {
    let other_account: AccountId = "acme".parse().expect("a valid id");
    assert_eq!(
        key(1).open(&sealed(), &other_account, second(0)),
        Err(InvalidCursor)
    );
    let other_key = key(2).seal(&position(), &AccountId::local(), second(0));
    assert_eq!(open(&other_key), Err(InvalidCursor));
}

#[test]
fn empty_truncated_padded_and_malformed_cursors_are_refused() {
    let cursor = sealed();
    for cut in 0..cursor.len() {
        assert_eq!(open(&cursor[..cut]), Err(InvalidCursor), "cut at {cut}");
        assert_eq!(open(&cursor[cut + 1..]), Err(InvalidCursor), "cut to {cut}");
    }
    let changed = [
        format!("{cursor}="),
        format!("{cursor}A"),
        format!(" {cursor}"),
        "A".repeat(513),
        position().to_string(),
        "20".to_owned(),
        "ä".to_owned(),
    ];
    for changed in changed {
        assert_eq!(open(&changed), Err(InvalidCursor), "{changed}");
    }
}

#[test]
fn no_flipped_bit_is_accepted() {
    let bytes = URL_SAFE_NO_PAD.decode(sealed()).expect("base64url");
    for bit in 0..bytes.len() * 8 {
        let mut forged = bytes.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            open(&URL_SAFE_NO_PAD.encode(forged)),
            Err(InvalidCursor),
            "bit {bit}"
        );
    }
}

/// A million forgeries: any position, any expiry, any tag, and tags of other cursors.
#[test]
fn of_a_million_forged_cursors_none_is_accepted() {
    let genuine = URL_SAFE_NO_PAD.decode(sealed()).expect("base64url");
    let mut source = blake3::Hasher::new().finalize_xof();
    let mut accepted = 0;
    for n in 0..1_000_000_u32 {
        let mut forged = genuine.clone();
        let mut random = [0; 40];
        source.fill(&mut random);
        let tag_at = forged.len() - TAG;
        match n % 4 {
            0 => forged[tag_at..].copy_from_slice(&random[..TAG]),
            1 => forged[..EXPIRY].copy_from_slice(&random[..EXPIRY]),
            2 => forged[EXPIRY + usize::from(random[0] % 14)] ^= random[1] | 1,
            _ => {
                let last = forged.len() - 1;
                forged[last] ^= random[0] | 1;
                forged[tag_at] ^= random[1];
            }
        }
        accepted += usize::from(open(&URL_SAFE_NO_PAD.encode(forged)).is_ok());
    }
    assert_eq!(accepted, 0);
}

proptest! {
    #[test]
    fn no_text_of_somebody_else_is_a_cursor(text in "[A-Za-z0-9._~+/=-]{0,520}") {
        prop_assert_eq!(open(&text), Err(InvalidCursor));
    }
}
