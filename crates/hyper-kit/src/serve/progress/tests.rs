//! Clients that take nothing, too little, enough, and everything.

use std::future::pending;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::advance;

use super::*;

/// At least 200 bytes in 20 s.
const PACE: WritePace = WritePace {
    stall: Duration::from_secs(20),
    min_bytes_per_second: 10,
};

/// What a stream hands out, and how it ends; `ends` says that it is over then, for its own part.
async fn stream(bytes: &'static [u8], ends: bool) -> (CountedBytes, JoinHandle<Ended>) {
    let (hand_out, handed_out) = oneshot::channel();
    let stream = async move {
        let progress = current().expect("a watched task has a progress");
        let bytes = CountedBytes::new(Bytes::from_static(bytes), Some(&progress));
        assert!(hand_out.send(bytes).is_ok(), "the test waits for it");
        if !ends {
            pending::<()>().await;
        }
    };
    let watching = tokio::spawn(watched(stream, PACE));
    let bytes = handed_out.await.expect("the stream hands it out");
    // The clock starts when the stream waits.
    tokio::task::yield_now().await;
    (bytes, watching)
}

/// Lets time pass, and whatever is due.
async fn pass(seconds: u64) {
    advance(Duration::from_secs(seconds)).await;
    tokio::task::yield_now().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_ends_its_stream() {
    let start = Instant::now();
    let (_bytes, watching) = stream(&[0; 1000], false).await;
    assert_eq!(watching.await.expect("no panic"), Ended::Reset);
    assert_eq!(start.elapsed(), PACE.stall);
}

#[tokio::test(start_paused = true)]
async fn a_byte_now_and_then_is_too_little() {
    let (mut bytes, watching) = stream(&[0; 1000], false).await;
    for _ in 0..3 {
        pass(5).await;
        bytes.advance(49);
        assert!(!watching.is_finished());
    }
    pass(5).await;
    assert_eq!(watching.await.expect("no panic"), Ended::Reset);
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_that_goes_on_is_left_alone() {
    let (mut bytes, watching) = stream(&[0; 10_000], false).await;
    for _ in 0..100 {
        pass(5).await;
        bytes.advance(70);
        assert!(!watching.is_finished());
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_whose_client_took_everything_is_left_alone() {
    let (bytes, watching) = stream(b"event", false).await;
    let progress = bytes.progress.clone().expect("it is counted");
    drop(bytes);
    for _ in 0..100 {
        pass(19).await;
        // The next event is on its way for a moment, across the end of a span.
        let next = CountedBytes::new(Bytes::from_static(b"event"), Some(&progress));
        pass(1).await;
        assert!(!watching.is_finished());
        drop(next);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_response_is_waited_for_and_not_for_good() {
    let (bytes, watching) = stream(b"the end", true).await;
    pass(19).await;
    assert!(!watching.is_finished());
    drop(bytes);
    assert_eq!(watching.await.expect("no panic"), Ended::Whole);

    let start = Instant::now();
    let (_bytes, watching) = stream(b"the end", true).await;
    assert_eq!(watching.await.expect("no panic"), Ended::Abandoned);
    assert_eq!(start.elapsed(), PACE.stall);
}
