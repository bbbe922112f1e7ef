//! Bodies in pieces, cut anywhere.

use proptest::prelude::*;

use super::*;

/// Feeds pieces to a framing; answers the body, whether it is over, and what is left.
fn read(mut framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, bool, Vec<u8>), Malformed> {
    let (mut received, mut body) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        received.extend_from_slice(piece);
        while let Some(bytes) = framing.take(&mut received)? {
            body.extend_from_slice(&bytes);
        }
    }
    Ok((body, framing == Framing::Over, received.to_vec()))
}

fn chunks(text: &str) -> Result<(Vec<u8>, bool, Vec<u8>), Malformed> {
    read(Framing::chunked(), &[text.as_bytes()])
}

#[test]
fn a_length_ends_a_body_and_leaves_the_rest() {
    let read = |length, bytes: &[u8]| read(Framing::of_length(length), &[bytes]).expect("bytes");
    assert_eq!(read(3, b"abcd"), (b"abc".to_vec(), true, b"d".to_vec()));
    assert_eq!(read(3, b"ab"), (b"ab".to_vec(), false, vec![]));
    assert_eq!(read(0, b"d"), (vec![], true, b"d".to_vec()));
    assert_eq!(read(u64::MAX, b"ab"), (b"ab".to_vec(), false, vec![]));
}

#[test]
fn chunks_end_with_an_empty_one_and_its_trailers() {
    for text in [
        "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nrest",
        "3;name=value\r\nabc\r\n02 \r\nde\r\n00;x\r\nA: b\r\nC: d\r\n\r\nrest",
    ] {
        let read = chunks(text).expect("chunks");
        assert_eq!(
            read,
            (b"abcde".to_vec(), true, b"rest".to_vec()),
            "{text:?}"
        );
    }
    let (body, is_over, _) = chunks("5\r\nabc").expect("chunks");
    assert_eq!((&*body, is_over), (&b"abc"[..], false));
}

#[test]
fn a_malformed_chunk_is_no_chunk() {
    for text in [
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "+1\r\n",
        " 1\r\n",
        "0x1\r\n",
        "1\n",
        "1\ra",
        "1;x\n",
        "1\r\nab\r\n",
        "1\r\na\n",
        "1\r\na\rb",
        "0\r\n\n",
        "0\r\na\n",
        "0\r\n\rx",
        "0\r\na\rb",
        "00000000000000001\r\na",
        "fffffffffffffffff\r\n",
    ] {
        assert_eq!(chunks(text), Err(Malformed::Chunk), "{text:?}");
    }
}

#[test]
fn what_means_nothing_is_bounded() {
    let long = "x".repeat(MOST_SKIPPED + 1);
    assert_eq!(chunks(&format!("1;{long}")), Err(Malformed::TooLong));
    assert_eq!(chunks(&format!("0\r\n{long}")), Err(Malformed::TooLong));
    let many = "1;xxxxxxxxxxxxxxxx\r\na\r\n".repeat(MOST_SKIPPED / 16);
    assert_eq!(chunks(&many), Err(Malformed::TooLong));
}

#[test]
fn a_body_without_a_length_is_whole_when_it_is_closed() {
    let whole = |framing: Framing| framing.may_be_closed();
    assert!(whole(Framing::UntilClosed) && whole(Framing::Over));
    assert!(!whole(Framing::Length(1)) && !whole(Framing::chunked()));
}

proptest! {
    /// However a body is cut into chunks, and those into pieces, it comes out as it went in.
    #[test]
    fn chunks_give_back_what_they_were_made_of(
        body in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..8),
        cuts in proptest::collection::vec(1..20_usize, 0..60),
    ) {
        let mut text = Vec::new();
        for chunk in &body {
            text.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
            text.extend_from_slice(chunk);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"0\r\n\r\nHTTP/1.1");
        let mut rest = &text[..];
        let mut pieces = Vec::new();
        for cut in cuts {
            let (piece, later) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = later;
        }
        pieces.push(rest);
        let read = read(Framing::chunked(), &pieces).expect("chunks");
        prop_assert_eq!(read, (body.concat(), true, b"HTTP/1.1".to_vec()));
    }

    /// Whatever is received ends, is refused, or waits for more; what is given out was received.
    #[test]
    fn no_bytes_break_a_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((body, _, left)) = read(Framing::chunked(), &[&bytes]) {
            prop_assert!(body.len() + left.len() <= bytes.len());
        }
    }
}
