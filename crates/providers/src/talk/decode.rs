//! Freeing a body of its content encoding.
//!
//! Requests ask for none, and what a partner encodes all the same is decoded, because its encoding is not passed on. The
//! bound counts what comes out: a small body does not become a large one unseen.

use std::io::Read;

use bytes::Bytes;
use flate2::read::{MultiGzDecoder, ZlibDecoder};

/// Why a body cannot be freed of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecodeError {
    /// More comes out than is taken.
    TooLarge,
    /// It is broken, or encoded in a way that is not understood.
    Unreadable,
}

/// The bytes that an encoding stands for, at most `limit` of them.
pub(super) fn decoded(
    body: Bytes,
    encoding: Option<&str>,
    limit: usize,
) -> Result<Bytes, DecodeError> {
    let encoding = encoding.unwrap_or_default().trim().to_ascii_lowercase();
    match encoding.as_str() {
        "" | "identity" => Ok(body),
        "gzip" | "x-gzip" => read(MultiGzDecoder::new(&body[..]), limit),
        "deflate" => read(ZlibDecoder::new(&body[..]), limit),
        _ => Err(DecodeError::Unreadable),
    }
}

fn read(decoder: impl Read, limit: usize) -> Result<Bytes, DecodeError> {
    let mut bytes = Vec::new();
    let mut bounded = decoder.take(limit as u64 + 1);
    bounded
        .read_to_end(&mut bytes)
        .map_err(|_| DecodeError::Unreadable)?;
    if bytes.len() > limit {
        return Err(DecodeError::TooLarge);
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn gzip(bytes: &[u8]) -> Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory").into()
    }

    #[test]
    fn an_encoding_is_taken_off() {
        let plain = Bytes::from_static(b"{ \"a\": 1.0 }");
        assert_eq!(decoded(plain.clone(), None, 5), Ok(plain.clone()));
        let zipped = gzip(&plain);
        assert_eq!(decoded(zipped, Some("GZIP"), 100), Ok(plain.clone()));
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&plain).expect("memory");
        let deflated = encoder.finish().expect("memory");
        assert_eq!(decoded(deflated.into(), Some("deflate"), 100), Ok(plain));
    }

    #[test]
    fn the_bound_counts_what_comes_out() {
        let bomb = gzip(&vec![0; 1 << 20]);
        assert!(bomb.len() < 10_000);
        assert_eq!(
            decoded(bomb, Some("gzip"), 10_000),
            Err(DecodeError::TooLarge)
        );
    }

    #[test]
    fn what_is_not_understood_is_not_guessed() {
        let body = Bytes::from_static(b"x");
        for encoding in ["br", "zstd", "gzip, br", "gzip"] {
            assert_eq!(
                decoded(body.clone(), Some(encoding), 10),
                Err(DecodeError::Unreadable),
                "{encoding}"
            );
        }
    }
}
