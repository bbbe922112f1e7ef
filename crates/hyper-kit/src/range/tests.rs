//! The three forms of a range, their edges, and everything else.

use super::ByteRange::{Part, Unsatisfiable, Whole};
use super::*;

/// What a GET with these headers is answered with, for ten bytes under the strong tag "now".
fn ask(headers: &[(http::HeaderName, &'static str)]) -> ByteRange {
    ask_of(&Method::GET, headers, 10)
}

fn ask_of(method: &Method, headers: &[(http::HeaderName, &'static str)], length: u64) -> ByteRange {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name, HeaderValue::from_static(value));
    }
    let current = ETag::strong("now").expect("a tag");
    requested_range(method, &map, length, Some(&current))
}

#[test]
fn the_three_forms_are_read() {
    assert_eq!(ask(&[(RANGE, "bytes=2-4")]), Part(2..5));
    assert_eq!(ask(&[(RANGE, "bytes=0-0")]), Part(0..1));
    assert_eq!(ask(&[(RANGE, "bytes=7-")]), Part(7..10));
    assert_eq!(ask(&[(RANGE, "bytes=-3")]), Part(7..10));
    assert_eq!(ask(&[(RANGE, "Bytes = 2-4")]), Part(2..5));
}

#[test]
fn an_end_behind_the_end_is_the_end() {
    assert_eq!(ask(&[(RANGE, "bytes=2-10")]), Part(2..10));
    assert_eq!(
        ask(&[(RANGE, "bytes=0-99999999999999999999999")]),
        Part(0..10)
    );
    assert_eq!(ask(&[(RANGE, "bytes=-11")]), Part(0..10));
    assert_eq!(
        ask(&[(RANGE, "bytes=-99999999999999999999999")]),
        Part(0..10)
    );
}

#[test]
fn a_start_behind_the_end_is_unsatisfiable() {
    assert_eq!(ask(&[(RANGE, "bytes=10-")]), Unsatisfiable);
    assert_eq!(ask(&[(RANGE, "bytes=10-20")]), Unsatisfiable);
    assert_eq!(
        ask(&[(RANGE, "bytes=99999999999999999999999-")]),
        Unsatisfiable
    );
    assert_eq!(ask(&[(RANGE, "bytes=-0")]), Unsatisfiable);
}

#[test]
fn several_or_malformed_ranges_are_the_whole() {
    for range in [
        "bytes=0-1,3-4",
        "bytes=4-2",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=+1-2",
        "bytes=1",
        "bytes 1-2",
        "items=1-2",
        "bytes=1-2-3",
        "bytes=0x1-2",
        "bytes=--1",
        "bytes=1 - 2",
        "",
    ] {
        assert_eq!(ask(&[(RANGE, range)]), Whole, "{range}");
    }
    assert_eq!(ask(&[(RANGE, "bytes=0-1"), (RANGE, "bytes=0-1")]), Whole);
    assert_eq!(ask(&[]), Whole);
}

#[test]
fn only_get_has_ranges() {
    assert_eq!(ask_of(&Method::HEAD, &[(RANGE, "bytes=2-4")], 10), Whole);
}

#[test]
fn of_nothing_nothing_can_be_asked() {
    assert_eq!(
        ask_of(&Method::GET, &[(RANGE, "bytes=0-")], 0),
        Unsatisfiable
    );
    assert_eq!(ask_of(&Method::GET, &[(RANGE, "bytes=-5")], 0), Whole);
}

#[test]
fn if_range_wants_the_very_tag() {
    let with = |condition| ask(&[(RANGE, "bytes=2-4"), (IF_RANGE, condition)]);
    assert_eq!(with(r#""now""#), Part(2..5));
    assert_eq!(with(r#""then""#), Whole);
    assert_eq!(with(r#"W/"now""#), Whole);
    assert_eq!(with("Wed, 21 Oct 2015 07:28:00 GMT"), Whole);
    // A stale condition wins over a range that could not be met.
    assert_eq!(ask(&[(RANGE, "bytes=10-"), (IF_RANGE, r#""then""#)]), Whole);
}

#[test]
fn the_answers_name_the_bytes() {
    assert_eq!(content_range(&(2..5), 10), "bytes 2-4/10");
    assert_eq!(unsatisfied_range(10), "bytes */10");
}
