//! Threads for work on large texts: so many pieces at once, the others wait in line.

use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;

/// Most pieces at once, whatever the machine has: a piece may take 256 MiB meanwhile.
const MOST: usize = 4;

/// Where a server reads and validates large bodies. Clones share the turns.
#[derive(Clone, Debug)]
pub struct LargeWork {
    turns: Arc<Semaphore>,
}

impl LargeWork {
    /// With turns for half of the processors, at least one and at most four: the others go on serving.
    #[must_use]
    pub fn new() -> Self {
        let processors = available_parallelism().map_or(1, std::num::NonZero::get);
        Self::at_once((processors / 2).clamp(1, MOST))
    }

    fn at_once(turns: usize) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(turns)),
        }
    }

    /// Runs a piece of work on a thread of the runtime for what blocks, when its turn comes. Whoever wants its outcome has a way
    /// of its own to it.
    pub fn run_in_turn(&self, work: Box<dyn FnOnce() + Send>) {
        let turns = Arc::clone(&self.turns);
        tokio::spawn(async move {
            // Nobody closes the turns.
            if let Ok(turn) = turns.acquire_owned().await {
                drop(tokio::task::spawn_blocking(move || {
                    work();
                    drop(turn);
                }));
            }
        });
    }
}

impl Default for LargeWork {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::sync::mpsc as events;

    use super::*;

    #[tokio::test]
    async fn no_more_pieces_run_at_once_than_there_are_turns() {
        let threads = LargeWork::at_once(2);
        let (began, mut begun) = events::unbounded_channel();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(std::sync::Mutex::new(gate));
        for number in 0..3 {
            let (began, gate) = (began.clone(), Arc::clone(&gate));
            threads.run_in_turn(Box::new(move || {
                let _ = began.send(number);
                let gate = gate.lock().expect("no test panics here");
                let _ = gate.recv();
            }));
        }
        for _ in 0..2 {
            begun.recv().await.expect("two begin");
        }
        assert!(begun.try_recv().is_err(), "the third waits");
        release.send(()).expect("somebody waits");
        begun.recv().await.expect("the third begins");
        drop(release);
    }

    #[tokio::test]
    async fn a_piece_that_panics_takes_no_turn_with_it() {
        let threads = LargeWork::at_once(1);
        threads.run_in_turn(Box::new(|| panic!("on purpose")));
        let (done, is_done) = tokio::sync::oneshot::channel();
        threads.run_in_turn(Box::new(move || {
            let _ = done.send(());
        }));
        is_done.await.expect("its turn comes");
    }
}
