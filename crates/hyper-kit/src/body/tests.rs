//! Limits on what is read, announced or not.

use std::time::Duration;

use futures_util::stream;
use http_body::Body as _;

use super::*;

fn pace() -> ReadPace {
    ReadPace {
        idle: Duration::from_secs(15),
        grace: Duration::from_secs(10),
        min_bytes_per_second: 1024,
    }
}

fn chunks(parts: &[&'static str]) -> Body {
    let parts: Vec<_> = parts.iter().map(|part| Ok(Bytes::from(*part))).collect();
    Body::stream::<_, BoxError>(stream::iter(parts))
}

#[tokio::test]
async fn a_whole_body_announces_its_length_and_a_stream_does_not() {
    assert_eq!(Body::full("four").size_hint().exact(), Some(4));
    assert_eq!(chunks(&["four"]).size_hint().exact(), None);
    assert!(Body::empty().is_end_stream());
}

#[tokio::test]
async fn chunks_are_joined_in_order() {
    let bytes = read_limited(chunks(&["ab", "", "cd", "e"]), 5, pace()).await;
    assert_eq!(bytes.expect("within the limit"), "abcde");
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_passes_and_one_byte_more_does_not() {
    assert!(
        read_limited(chunks(&["abc", "de"]), 5, pace())
            .await
            .is_ok()
    );
    let error = read_limited(chunks(&["abc", "def"]), 5, pace()).await;
    assert!(matches!(error, Err(BodyError::TooLarge { limit: 5 })));
}

#[tokio::test]
async fn an_announced_length_over_the_limit_is_refused_unread() {
    struct Unreadable;
    impl http_body::Body for Unreadable {
        type Data = Bytes;
        type Error = BoxError;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            panic!("the body was read")
        }
        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(6)
        }
    }
    let error = read_limited(Unreadable, 5, pace()).await;
    assert!(matches!(error, Err(BodyError::TooLarge { limit: 5 })));
}

#[tokio::test]
async fn a_chunk_that_passes_the_limit_ends_the_reading() {
    let endless = Body::stream::<_, BoxError>(stream::repeat_with(|| Ok(Bytes::from("abc"))));
    let error = read_limited(endless, 1000, pace()).await;
    assert!(matches!(error, Err(BodyError::TooLarge { limit: 1000 })));
}

#[tokio::test]
async fn a_broken_stream_is_told_with_its_cause() {
    let body = Body::stream(stream::iter([
        Ok(Bytes::from("ab")),
        Err(std::io::Error::other("gone")),
    ]));
    let Err(BodyError::Broken(cause)) = read_limited(body, 5, pace()).await else {
        panic!("a broken body was read");
    };
    assert_eq!(cause.to_string(), "gone");
}

#[tokio::test(start_paused = true)]
async fn a_silent_sender_is_given_up() {
    let silent = Body::stream::<_, BoxError>(stream::pending());
    let error = read_limited(silent, 5, pace()).await;
    assert!(matches!(error, Err(BodyError::Idle)));
}
