//! Heads as servers write them, well and badly.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<Head, Malformed> {
    Head::read(&Bytes::copy_from_slice(text.as_bytes()))
}

fn framing(lines: &str) -> Result<Framing, Malformed> {
    read(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n"))?.framing(false)
}

#[test]
fn a_request_says_what_it_is_for_and_how_long_it_is() {
    let request = Request::post("https://example.com/a%20b?c=d#e")
        .header("content-type", "application/json")
        .header("content-length", "7")
        .header("transfer-encoding", "chunked")
        .header("connection", "close")
        .body(())
        .expect("a request");
    let text = |announced| {
        let head = written(&request, || "example.com".to_owned(), announced);
        String::from_utf8(head).expect("ASCII")
    };
    let begins =
        "POST /a%20b?c=d HTTP/1.1\r\nhost: example.com\r\ncontent-type: application/json\r\n";
    assert_eq!(
        text(Announced::Length(12)),
        format!("{begins}content-length: 12\r\n\r\n")
    );
    assert_eq!(
        text(Announced::Chunks),
        format!("{begins}transfer-encoding: chunked\r\n\r\n")
    );
    assert_eq!(text(Announced::Nothing), format!("{begins}\r\n"));

    let bare = Request::get("http://example.com")
        .header("host", "other.example")
        .body(());
    let head = written(
        &bare.expect("a request"),
        || "example.com".to_owned(),
        Announced::Nothing,
    );
    assert_eq!(head, b"GET / HTTP/1.1\r\nhost: other.example\r\n\r\n");
}

#[test]
fn the_end_of_a_head_is_found_wherever_it_is_cut() {
    for head in [
        "HTTP/1.1 200 OK\r\na: b\r\n\r\n",
        "HTTP/1.1 200 OK\na: b\n\n",
        "HTTP/1.0 200\r\n\r\n",
    ] {
        let whole = format!("{head}body\r\n\r\n");
        for cut in 0..whole.len() {
            let seen = &whole.as_bytes()[..cut];
            let first = end(seen, 0).expect("it is a head");
            assert_eq!(
                first,
                (cut >= head.len()).then_some(head.len()),
                "{head:?} {cut}"
            );
            if first.is_none() {
                let then = end(whole.as_bytes(), cut).expect("it is a head");
                assert_eq!(then, Some(head.len()), "{head:?} {cut}");
            }
        }
    }
}

#[test]
fn what_is_no_head_is_told_at_once() {
    assert_eq!(end(b"SSH-2.0", 0), Err(Malformed::NotHttp));
    assert_eq!(end(b"HTTP/2 200", 0), Err(Malformed::NotHttp));
    assert_eq!(end(b"HTT", 0), Ok(None));
    let long = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(LONGEST));
    assert_eq!(end(long.as_bytes(), 0), Err(Malformed::TooLong));
    let many = format!(
        "HTTP/1.1 200 OK\r\n{}\r\n",
        "a: b\r\n".repeat(MOST_HEADERS + 1)
    );
    assert_eq!(read(&many).err(), Some(Malformed::TooLong));
    for text in [
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: \0\r\n\r\n",
        "HTTP/1.1 OK\r\n\r\n",
    ] {
        assert_eq!(read(text).err(), Some(Malformed::Head), "{text:?}");
    }
}

#[test]
fn the_length_of_a_body_is_what_its_head_says_in_one_way() {
    for (lines, expected) in [
        ("", Ok(Framing::UntilClosed)),
        ("Content-Length: 5\r\n", Ok(Framing::Length(5))),
        ("Content-Length: 0\r\n", Ok(Framing::Over)),
        (
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            Ok(Framing::Length(5)),
        ),
        ("Content-Length: 5, 5\r\n", Ok(Framing::Length(5))),
        (
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            Err(Malformed::Length),
        ),
        ("Content-Length: 5, 6\r\n", Err(Malformed::Length)),
        ("Content-Length: +5\r\n", Err(Malformed::Length)),
        ("Content-Length: -5\r\n", Err(Malformed::Length)),
        ("Content-Length: 0x5\r\n", Err(Malformed::Length)),
        ("Content-Length:\r\n", Err(Malformed::Length)),
        (
            "Content-Length: 99999999999999999999\r\n",
            Err(Malformed::Length),
        ),
        ("Transfer-Encoding: chunked\r\n", Ok(Framing::chunked())),
        (
            "Transfer-Encoding: gzip, Chunked\r\nContent-Length: 5\r\n",
            Ok(Framing::chunked()),
        ),
        ("Transfer-Encoding: gzip\r\n", Ok(Framing::UntilClosed)),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n",
            Ok(Framing::UntilClosed),
        ),
    ] {
        assert_eq!(framing(lines), expected, "{lines:?}");
    }
    let old = read("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let framing = old.expect("a head").framing(false);
    assert_eq!(framing, Err(Malformed::Length));
}

#[test]
fn some_answers_have_no_body_whatever_they_say() {
    let length = "Content-Length: 5\r\n\r\n";
    for (status, is_head, expected) in [
        (200, true, Ok(Framing::Over)),
        (204, false, Ok(Framing::Over)),
        (304, false, Ok(Framing::Over)),
        (101, false, Err(Malformed::Head)),
        (404, false, Ok(Framing::Length(5))),
    ] {
        let mut head = read(&format!("HTTP/1.1 {status} x\r\n{length}")).expect("a head");
        assert_eq!(head.framing(is_head), expected, "{status} {is_head}");
    }
    for (status, expected) in [(100, true), (103, true), (101, false), (200, false)] {
        let head = read(&format!("HTTP/1.1 {status} x\r\n\r\n")).expect("a head");
        assert_eq!(head.is_interim(), expected, "{status}");
    }
}

#[test]
fn a_connection_lives_as_long_as_both_versions_say() {
    for (head, expected) in [
        ("HTTP/1.1 200 OK\r\n", true),
        (
            "HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\n",
            false,
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection: x\r\nConnection: close\r\n",
            false,
        ),
        ("HTTP/1.0 200 OK\r\n", false),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", true),
    ] {
        let head = read(&format!("{head}\r\n")).expect("a head");
        assert_eq!(head.keeps_alive(), expected, "{head:?}");
    }
}

proptest! {
    /// Whatever a server says, it is a head, none, or not yet one; and a head tells in one way how its body ends.
    #[test]
    fn no_bytes_break_a_reader(
        begins in prop_oneof![Just(""), Just("HTTP/1.1 200 OK\r\n"), Just("HTTP/1.0 1")],
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b':')], 0..200),
        seen in 0..200_usize,
    ) {
        let received = [begins.as_bytes(), &bytes].concat();
        let seen = seen.min(received.len());
        if let Ok(Some(end)) = end(&received, seen) {
            prop_assert!(end <= received.len());
            if let Ok(mut head) = Head::read(&Bytes::from(received[..end].to_vec())) {
                let _told = (head.framing(false), head.keeps_alive(), head.is_interim());
            }
        }
    }
}
