//! Senders at their bounds, and room that comes back.

use futures_util::{FutureExt, stream};
use tokio::time::Instant;

use super::*;
use crate::Body;

const LARGEST: usize = 1 << 20;

fn room() -> BodyRoom<&'static str> {
    BodyRoom::new(LARGEST)
}

/// A body of so many bytes whose length is not announced.
fn chunked(bytes: usize) -> Body {
    let chunks = vec![Bytes::from(vec![b'x'; bytes / 2]); 2];
    Body::stream(stream::iter(chunks.into_iter().map(Ok::<_, BoxError>)))
}

/// A body that never comes.
fn silent() -> Body {
    Body::stream(stream::pending::<Result<Bytes, BoxError>>())
}

async fn read(
    room: &BodyRoom<&'static str>,
    sender: &'static str,
    body: Body,
) -> Result<Bytes, RoomError> {
    room.read(&sender, body, LARGEST, ReadPace::DEFAULT).await
}

#[tokio::test]
async fn room_is_taken_until_the_last_copy_of_the_bytes_is_gone() {
    let room = room();
    for body in [Body::full(vec![b'x'; 200_000]), chunked(200_000)] {
        let bytes = read(&room, "a", body).await.expect("there is room");
        assert_eq!((bytes.len(), room.used()), (200_000, 200_000));
        let part = bytes.slice(7..9);
        drop(bytes);
        assert_eq!((&part[..], room.used()), (&b"xx"[..], 200_000));
        drop(part);
        assert_eq!(room.used(), 0);
    }
    assert_eq!(
        read(&room, "a", Body::empty())
            .await
            .expect("nothing")
            .len(),
        0
    );
}

#[tokio::test]
async fn room_is_taken_before_a_byte_comes_and_given_back_with_the_request() {
    let room = room();
    let mut slow = Box::pin(read(&room, "a", silent()));
    assert!((&mut slow).now_or_never().is_none());
    assert_eq!(room.used(), SMALL_BYTES, "its length is not known");
    drop(slow);
    assert_eq!(room.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_sender_at_its_bound_waits_ten_seconds_and_nobody_else_does() {
    let room = room();
    let mut held = Vec::new();
    for _ in 0..LARGEST_PER_SENDER {
        held.push(
            read(&room, "a", Body::full(vec![0; LARGEST]))
                .await
                .expect("its share"),
        );
    }
    let begun = Instant::now();
    let refused = read(&room, "a", Body::full(vec![0; LARGEST])).await;
    assert!(
        matches!(refused, Err(RoomError::NoRoom(NoUnits::Key))),
        "{refused:?}"
    );
    assert_eq!(begun.elapsed(), LONGEST_WAIT);
    // What is small, and what is another's, has room at once.
    let begun = Instant::now();
    read(&room, "a", Body::full(vec![0; SMALL_BYTES]))
        .await
        .expect("small");
    read(&room, "b", Body::full(vec![0; LARGEST]))
        .await
        .expect("another's");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // And the waiting request goes on when room is given back.
    let waits = read(&room, "a", Body::full(vec![0; LARGEST]));
    let (waited, ()) = tokio::join!(waits, async { drop(held.pop()) });
    waited.expect("there is room again");
}

#[tokio::test(start_paused = true)]
async fn all_senders_together_have_a_bound() {
    let room = room();
    let mut held = Vec::new();
    for sender in ["a", "b", "c", "d"] {
        for _ in 0..LARGEST_TOTAL / 4 {
            held.push(
                read(&room, sender, Body::full(vec![0; LARGEST]))
                    .await
                    .expect("room"),
            );
        }
    }
    let refused = read(&room, "e", Body::full(vec![0; LARGEST])).await;
    assert!(
        matches!(refused, Err(RoomError::NoRoom(NoUnits::Total))),
        "{refused:?}"
    );
    read(&room, "e", Body::full(vec![0; 100]))
        .await
        .expect("small");
}

#[tokio::test]
async fn a_body_that_is_too_large_takes_no_room() {
    let room = room();
    for body in [Body::full(vec![0; LARGEST + 2]), chunked(LARGEST + 2)] {
        let refused = read(&room, "a", body).await;
        assert!(
            matches!(refused, Err(RoomError::Body(BodyError::TooLarge { .. }))),
            "{refused:?}"
        );
        assert_eq!(room.used(), 0);
    }
}
