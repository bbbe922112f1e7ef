//! Spellings that no whole request shows.

use super::*;

#[test]
fn a_time_is_rfc_3339_in_utc_to_the_millisecond() {
    for (at, shown) in [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z"),
        (
            "2026-01-01T01:00:00.123999999+01:00",
            "2026-01-01T00:00:00.123Z",
        ),
    ] {
        assert_eq!(time(at.parse().expect("a time")), shown);
    }
}

#[test]
fn details_are_null_and_never_left_out() {
    let envelope = ErrorEnvelope::new("not_found", "no such job".to_owned(), None);
    let text = serde_json::to_string(&envelope).expect("JSON");
    let expected = r#"{"error":{"code":"not_found","message":"no such job","details":null}}"#;
    assert_eq!(text, expected);
}
