//! Senders that are just fast enough, and those that are not; the clock is paused.

use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use tokio::time::sleep;

use super::*;
use crate::body::Body;

/// Sends `bytes` bytes every `every`, without end; the clock is paused, so no test waits.
fn drip(bytes: usize, every: Duration) -> Body {
    let drops = stream::repeat(()).then(move |()| async move {
        sleep(every).await;
        Ok::<_, BoxError>(Bytes::from(vec![0; bytes]))
    });
    Body::stream(drops)
}

/// How long a body was read before it was given up; `None` when it outlived an hour.
async fn given_up_after(body: Body, pace: ReadPace) -> Option<Duration> {
    let start = Instant::now();
    let mut body = PacedBody::new(body, pace);
    while start.elapsed() < Duration::from_secs(3600) {
        match body.frame().await {
            Some(Ok(_)) => {}
            Some(Err(BodyError::Idle)) => return Some(start.elapsed()),
            other => panic!("expected a chunk or the end of patience, got {other:?}"),
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn one_byte_a_second_uses_up_the_grace() {
    let lasted = given_up_after(drip(1, Duration::from_secs(1)), ReadPace::DEFAULT).await;
    assert_eq!(lasted.map(|lasted| lasted.as_secs()), Some(10));
}

#[tokio::test(start_paused = true)]
async fn the_least_rate_is_enough() {
    let drip = drip(1024, Duration::from_secs(1));
    assert_eq!(given_up_after(drip, ReadPace::DEFAULT).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_cut_at_the_idle_time_whatever_came_before() {
    let start = Body::full(vec![0; 1 << 20]);
    let mut body = PacedBody::new(start, ReadPace::DEFAULT);
    body.frame().await.expect("a chunk").expect("no error");
    assert_eq!(body.credit, Duration::from_secs(15));

    let rare = drip(1 << 20, Duration::from_secs(16));
    let patient = ReadPace {
        grace: Duration::from_secs(60),
        ..ReadPace::DEFAULT
    };
    let lasted = given_up_after(rare, patient).await;
    assert_eq!(lasted.map(|lasted| lasted.as_secs()), Some(15));
}

#[tokio::test(start_paused = true)]
async fn without_a_least_rate_only_the_pause_counts() {
    let pace = ReadPace {
        min_bytes_per_second: 0,
        ..ReadPace::DEFAULT
    };
    let drip = drip(1, Duration::from_secs(14));
    assert_eq!(given_up_after(drip, pace).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_costs_the_sender_nothing() {
    let chunks = stream::repeat_with(|| Ok::<_, BoxError>(Bytes::from("a")));
    let mut body = PacedBody::new(Body::stream(chunks), ReadPace::DEFAULT);
    for _ in 0..100 {
        sleep(Duration::from_secs(5)).await;
        body.frame().await.expect("a chunk").expect("no error");
    }
}
