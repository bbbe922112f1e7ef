//! Answers that are fuzzed: any bytes at all are answered within bounds, and in the same way however they arrive.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};

use super::framing::Framing;
use super::head::{self, Head, LONGEST};

/// What was made of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    /// The last head, unless one was malformed.
    head: Option<(StatusCode, HeaderMap)>,
    body: Vec<u8>,
    /// Whether the bytes were refused.
    is_refused: bool,
    /// Whether the answer is whole if the connection ends behind the bytes.
    is_whole: bool,
    /// Bytes behind the answer.
    left: usize,
}

/// The answer to a request: the first byte says whether it asked for the head alone and in which pieces the others arrive.
///
/// # Panics
/// If the answer depends on the pieces, or has bytes that nobody sent.
pub(crate) fn answer(bytes: &[u8]) {
    let Some((how, bytes)) = bytes.split_first() else {
        return;
    };
    // A longer head is refused as soon as it is seen to be too long, which depends on the pieces.
    let bytes = &bytes[..bytes.len().min(LONGEST / 2)];
    let (is_head, piece) = (how & 1 == 1, usize::from(how >> 1) + 1);
    let whole = read(is_head, std::iter::once(bytes));
    let pieces = read(is_head, bytes.chunks(piece));
    assert_eq!(whole, pieces, "in pieces of {piece}");
    assert!(whole.body.len() + whole.left <= bytes.len());
}

fn read<'a>(is_head: bool, pieces: impl Iterator<Item = &'a [u8]>) -> Read {
    let mut read = Read {
        head: None,
        body: Vec::new(),
        is_refused: false,
        is_whole: false,
        left: 0,
    };
    let (mut received, mut seen) = (BytesMut::new(), 0);
    let mut framing: Option<Framing> = None;
    for piece in pieces {
        received.extend_from_slice(piece);
        while framing.is_none() {
            let length = match head::end(&received, seen) {
                Ok(Some(length)) => length,
                Ok(None) => {
                    seen = received.len();
                    break;
                }
                Err(_) => return refused(read),
            };
            let head: Bytes = received.split_to(length).freeze();
            seen = 0;
            let Ok(mut head) = Head::read(&head) else {
                return refused(read);
            };
            if head.is_interim() {
                if received.is_empty() {
                    break;
                }
                continue;
            }
            let Ok(found) = head.framing(is_head) else {
                return refused(read);
            };
            read.head = Some((head.status, head.headers));
            framing = Some(found);
        }
        if let Some(framing) = &mut framing {
            loop {
                match framing.take(&mut received) {
                    Ok(Some(data)) => read.body.extend_from_slice(&data),
                    Ok(None) => break,
                    Err(_) => return refused(read),
                }
            }
        }
    }
    read.is_whole = framing.is_some_and(|framing| framing.may_be_closed());
    read.left = received.len();
    read
}

fn refused(read: Read) -> Read {
    Read {
        is_refused: true,
        ..read
    }
}

#[cfg(test)]
mod tests {
    use super::answer;
    use crate::fuzzed::feed;

    #[test]
    fn any_answer_is_read_the_same_in_pieces() {
        let seeds: &[&[u8]] = &[
            b"\x06HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            b"\x02HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\nHTTP",
            b"\x08HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\nConnection: keep-alive\n\nuntil closed",
            b"\x03HTTP/1.1 304 Not Modified\r\nContent-Length: 7, 7\r\n\r\n",
        ];
        let seeds: Vec<_> = seeds.iter().map(|seed| seed.to_vec()).collect();
        feed(&seeds, 2_000, answer);
    }
}
