//! Forms that are fuzzed: any bytes at all are answered within bounds, and in the same way however they arrive. The fuzzer calls
//! this, and so do the tests of hyper-kit, with bytes that they change themselves.

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue};
use hyper_kit::{Body, Multipart, MultipartLimits, ReadPace};
use tokio::runtime::Runtime;

const LIMITS: MultipartLimits = MultipartLimits {
    total_bytes: 4096,
    part_bytes: 512,
    text_bytes: 64,
    parts: 8,
    pace: ReadPace::DEFAULT,
};

/// What was read of a form: names, names of files and bytes, and how it ended.
type Parts = (Vec<(String, Option<String>, Vec<u8>)>, Result<(), String>);

/// A form with the boundary `b`: the first byte says in which pieces the others arrive.
pub(crate) fn form(bytes: &[u8], runtime: &Runtime) {
    let Some((piece, bytes)) = bytes.split_first() else {
        return;
    };
    // What is too large is refused when it is seen, which depends on the pieces.
    let bytes = &bytes[..bytes.len().min(LIMITS.total_bytes as usize)];
    let whole = runtime.block_on(read(std::iter::once(bytes)));
    let pieces = runtime.block_on(read(bytes.chunks(usize::from(*piece) + 1)));
    let (parts, ended) = &whole;
    assert!(parts.len() <= LIMITS.parts);
    let taken: usize = parts.iter().map(|(.., bytes)| bytes.len()).sum();
    assert!(taken <= bytes.len(), "{taken} bytes of {}", bytes.len());
    if ended.is_ok() {
        assert_eq!(whole, pieces, "in pieces of {}", usize::from(*piece) + 1);
    } else {
        assert!(pieces.1.is_err(), "a broken form is broken in pieces, too");
    }
}

async fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Parts {
    let mut headers = HeaderMap::new();
    let form = HeaderValue::from_static("multipart/form-data; boundary=b");
    headers.insert("content-type", form);
    let pieces: Vec<_> = pieces
        .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)))
        .collect();
    let body = Body::stream(stream::iter(pieces));
    let mut form = Multipart::new(&headers, body, LIMITS).expect("the header names a boundary");
    let mut parts = Vec::new();
    loop {
        let mut part = match form.next_part().await {
            Ok(Some(part)) => part,
            Ok(None) => return (parts, Ok(())),
            Err(error) => return (parts, Err(error.to_string())),
        };
        let name = part.name().to_owned();
        let file_name = part.file_name().map(str::to_owned);
        let mut bytes = Vec::new();
        loop {
            match part.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return (parts, Err(error.to_string())),
            }
        }
        assert!(bytes.len() as u64 <= LIMITS.part_bytes);
        parts.push((name, file_name, bytes));
    }
}
