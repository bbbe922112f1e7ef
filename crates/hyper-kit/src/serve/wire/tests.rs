//! Connections as text, and the doubt they raise.

use proptest::prelude::*;

use super::*;

fn watch(connection: &str) -> Option<Refusal> {
    HeadWatch::new().feed(connection.as_bytes())
}

fn head(lines: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n")
}

const SOUND: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
const CHUNKED: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
    4;ext=1\r\n\n\r\n\n\r\n0\r\nTrailer: 1\r\n\r\n";
const TWICE: &str = "POST / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n";

#[test]
fn sound_requests_raise_no_doubt() {
    assert_eq!(watch("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), None);
    assert_eq!(
        watch(&[SOUND, CHUNKED, "\r\n", SOUND, SOUND].concat()),
        None
    );
}

#[test]
fn a_length_beside_an_encoding_is_doubtful() {
    let doubt = Some(Refusal::LengthAndEncoding);
    assert_eq!(
        watch(&head("Content-Length: 3\r\nTransfer-Encoding: chunked")),
        doubt
    );
    assert_eq!(
        watch(&head("transfer-encoding:chunked\r\nCONTENT-LENGTH:3")),
        doubt
    );
    assert_eq!(
        watch(&head("Transfer-Encoding: gzip\r\nContent-Length: x")),
        doubt
    );
}

#[test]
fn a_repeated_length_is_doubtful_even_when_equal() {
    let doubt = Some(Refusal::RepeatedLength);
    assert_eq!(
        watch(&head("Content-Length: 3\r\nContent-Length: 3")),
        doubt
    );
    assert_eq!(watch(TWICE), doubt);
}

#[test]
fn a_bare_line_feed_in_a_head_is_doubtful() {
    let doubt = Some(Refusal::BareLineFeed);
    assert_eq!(watch("GET / HTTP/1.1\nHost: a\n\n"), doubt);
    assert_eq!(
        watch("GET / HTTP/1.1\r\nHost: a\r\nX: 1\nY: 2\r\n\r\n"),
        doubt
    );
    assert_eq!(watch("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), doubt);
}

#[test]
fn later_requests_of_a_connection_are_watched_too() {
    let doubt = Some(Refusal::RepeatedLength);
    for before in [SOUND, CHUNKED, "GET / HTTP/1.1\r\n\r\n\r\n"] {
        assert_eq!(watch(&[before, before, TWICE].concat()), doubt, "{before}");
    }
}

#[test]
fn a_body_is_not_taken_for_a_head() {
    let length = TWICE.len();
    let plain = format!("{}{TWICE}", head(&format!("Content-Length: {length}")));
    assert_eq!(watch(&plain), None);
    let chunked = format!(
        "{}{length:x}\r\n{TWICE}\r\n",
        head("Transfer-Encoding: chunked")
    );
    assert_eq!(watch(&chunked), None);
}

#[test]
fn what_cannot_be_followed_is_left_to_hyper() {
    for lost in [
        head("Content-Length: x"),
        head("Content-Length: 99999999999999999999"),
        head("Transfer-Encoding: gzip"),
        head("Transfer-Encoding: chunked") + "xyz\r\n",
        head("Transfer-Encoding: chunked") + "fffffffffffffffff\r\n",
        head(&"x".repeat(LONGEST_LINE + 1)),
    ] {
        assert_eq!(watch(&(lost + TWICE)), None);
    }
}

proptest! {
    /// However the bytes arrive, the same is seen.
    #[test]
    fn pieces_do_not_matter(
        requests in prop::collection::vec(prop::sample::select(vec![SOUND, CHUNKED, TWICE, "GET / HTTP/1.1\n\n"]), 1..5),
        size in 1_usize..50,
    ) {
        let connection = requests.concat();
        let mut watch_pieces = HeadWatch::new();
        let first = connection
            .as_bytes()
            .chunks(size)
            .fold(None, |doubt, piece| doubt.or(watch_pieces.feed(piece)));
        prop_assert_eq!(first, watch(&connection));
        prop_assert_eq!(first.is_some(), requests.iter().any(|&request| request != SOUND && request != CHUNKED));
    }

    /// No bytes make the watch panic, or keep more than one line.
    #[test]
    fn any_bytes_are_survived(pieces in prop::collection::vec("[\r\n: a0f;]{0,20}|Content-Length|Transfer-Encoding: chunked", 0..20)) {
        let mut watch = HeadWatch::new();
        for piece in pieces {
            watch.feed(piece.as_bytes());
            prop_assert!(watch.line.len() <= LONGEST_LINE);
        }
    }
}
