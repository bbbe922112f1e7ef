//! Runs a loop in one process of an installation at a time.

use std::time::Duration;

use installation::{Turns, Work};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

/// The times of turns.
#[derive(Clone, Copy, Debug)]
struct TurnTimes {
    /// How long a turn lasts without being kept: how long a work lies still after its process was lost.
    turn: Duration,
    /// How often a turn is kept, or asked for.
    keep: Duration,
}

const PACE: TurnTimes = TurnTimes {
    turn: Duration::from_secs(60),
    keep: Duration::from_secs(20),
};

/// Runs a loop while this process has the turn at a work, until `stop` fires. `begin` begins the loop, which ends well soon after
/// `stop`; it is dropped when the turn is lost, and begun anew when it is this process' again.
pub async fn in_turn<F: Future<Output = ()>>(
    turns: &dyn Turns,
    work: Work,
    stop: &CancellationToken,
    begin: impl FnMut() -> F,
) {
    in_turn_at(PACE, turns, work, stop, begin).await;
}

async fn in_turn_at<F: Future<Output = ()>>(
    pace: TurnTimes,
    turns: &dyn Turns,
    work: Work,
    stop: &CancellationToken,
    mut begin: impl FnMut() -> F,
) {
    while !stop.is_cancelled() {
        if take(pace, turns, work).await == Some(true) {
            tokio::select! {
                () = begin() => {}
                () = lost(pace, turns, work) => {
                    tracing::info!(work = work.as_str(), "another server continues this work");
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pace.keep) => {}
            () = stop.cancelled() => {}
        }
    }
    if let Err(error) = turns.give_back(work).await {
        let error: &dyn std::error::Error = &error;
        tracing::debug!(
            error,
            "a turn could not be given back; it expires by itself"
        );
    }
}

/// Keeps a turn for as long as it can be kept.
async fn lost(pace: TurnTimes, turns: &dyn Turns, work: Work) {
    let mut end = tokio::time::Instant::now() + pace.turn;
    loop {
        tokio::time::sleep(pace.keep).await;
        let asked = tokio::time::Instant::now();
        match take(pace, turns, work).await {
            Some(true) => end = asked + pace.turn,
            Some(false) => return,
            None if tokio::time::Instant::now() >= end => return,
            None => {}
        }
    }
}

/// Whether the turn is this process'; nothing where that cannot be told.
async fn take(pace: TurnTimes, turns: &dyn Turns, work: Work) -> Option<bool> {
    let now = Timestamp::now();
    let until = now.checked_add(pace.turn).unwrap_or(Timestamp::MAX);
    match turns.take(work, now, until).await {
        Ok(is_mine) => Some(is_mine),
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                error,
                work = work.as_str(),
                "the store cannot say which server has the turn; trying again"
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use installation::MemoryTurns;
    use tokio::sync::mpsc;

    use super::*;

    /// So long that a turn ends because it is given back, and looked at often.
    const QUICK: TurnTimes = TurnTimes {
        turn: Duration::from_secs(3_600),
        keep: Duration::from_millis(1),
    };

    #[tokio::test]
    async fn the_next_process_goes_on_when_the_first_one_ends() {
        let one = Arc::new(MemoryTurns::default());
        let other = Arc::new(one.of_another_replica());
        let (begun, mut heard) = mpsc::unbounded_channel();
        let run = |turns: Arc<MemoryTurns>, name: &'static str| {
            let (begun, stop) = (begun.clone(), CancellationToken::new());
            let stopped = stop.clone();
            let running = tokio::spawn(async move {
                let begin = || {
                    let (begun, stop) = (begun.clone(), stopped.clone());
                    async move {
                        begun.send(name).expect("the test is there");
                        stop.cancelled().await;
                    }
                };
                in_turn_at(QUICK, &*turns, Work::Scrub, &stopped, begin).await;
            });
            (running, stop)
        };
        let (first, stop_first) = run(one, "first");
        assert_eq!(heard.recv().await, Some("first"));
        let (second, stop_second) = run(other, "second");
        stop_first.cancel();
        first.await.expect("it ends");
        assert_eq!(heard.recv().await, Some("second"));
        stop_second.cancel();
        second.await.expect("it ends");
    }
}
