//! Answers that are made while they are sent, so that memory holds a piece of them and never the whole.
//!
//! One that is done with its first piece is an ordinary answer, length included.

use std::future::Future;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use hyper_kit::Body;

/// About how many bytes a piece has: a system call's worth, and what is wasted on a reader who leaves.
pub(crate) const PIECE: usize = 32 * 1024;

/// What makes an answer.
pub(crate) trait Pieces: Send + 'static {
    /// Why it cannot go on.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Appends the next part, about [`PIECE`] bytes or fewer; whether more follows.
    fn next(&mut self, out: &mut Vec<u8>)
    -> impl Future<Output = Result<bool, Self::Error>> + Send;
}

/// A body of these pieces.
///
/// # Errors
/// If there is no first piece. What comes later can only break the answer off.
pub(crate) async fn body<P: Pieces>(mut pieces: P) -> Result<Body, P::Error> {
    let mut first = Vec::new();
    while first.len() < PIECE {
        if !pieces.next(&mut first).await? {
            return Ok(Body::full(first));
        }
    }
    let rest = stream::unfold(Some(pieces), |pieces| async move {
        let mut pieces = pieces?;
        let mut out = Vec::new();
        while out.len() < PIECE {
            match pieces.next(&mut out).await {
                Ok(true) => {}
                Ok(false) => return Some((Ok(Bytes::from(out)), None)),
                Err(error) => {
                    // The head is sent: all that is left is to break off, so that no part is taken for the whole.
                    tracing::warn!(
                        error = hyper_kit::error_chain(&error),
                        "making an answer broke off"
                    );
                    return Some((Err(error), None));
                }
            }
        }
        Some((Ok(Bytes::from(out)), Some(pieces)))
    });
    Ok(Body::stream(
        stream::iter([Ok(Bytes::from(first))]).chain(rest),
    ))
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt;

    use super::*;

    /// So many pieces of so many bytes, and then an error where one is wanted.
    struct Numbered {
        left: usize,
        bytes: usize,
        fails: bool,
    }

    impl Pieces for Numbered {
        type Error = std::io::Error;

        async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, std::io::Error> {
            if self.left == 0 {
                return match self.fails {
                    true => Err(std::io::Error::other("on purpose")),
                    false => Ok(false),
                };
            }
            self.left -= 1;
            out.extend(std::iter::repeat_n(b'x', self.bytes));
            Ok(true)
        }
    }

    fn numbered(left: usize, bytes: usize) -> Numbered {
        Numbered {
            left,
            bytes,
            fails: false,
        }
    }

    #[tokio::test]
    async fn a_short_answer_is_whole_and_a_long_one_comes_in_pieces() {
        let short = body(numbered(3, 100)).await.expect("it is made");
        assert_eq!(short.size_hint().exact(), Some(300));
        let mut long = body(numbered(1000, 1000)).await.expect("it begins");
        assert_eq!(long.size_hint().exact(), None);
        let (mut total, mut longest) = (0, 0);
        while let Some(frame) = long.frame().await {
            let piece = frame.expect("no error").into_data().expect("bytes");
            total += piece.len();
            longest = longest.max(piece.len());
        }
        assert_eq!(total, 1_000_000);
        assert!(longest < PIECE + 1000);
    }

    #[tokio::test]
    async fn an_error_is_told_before_the_head_or_breaks_off() {
        let fails = |left| Numbered {
            left,
            bytes: 100,
            fails: true,
        };
        body(fails(3)).await.expect_err("nothing is sent yet");
        let late = body(fails(1000)).await.expect("it begins");
        late.collect().await.expect_err("it breaks off");
    }
}
