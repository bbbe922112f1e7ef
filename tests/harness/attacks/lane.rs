//! One lane of an attack: what it holds, and what came of its strikes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::wire::Reply;

/// What came of an attack so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Lanes that held something, were answered or were refused at least once.
    pub begun: usize,
    /// What is held now: requests that are not answered, connections, streams, jobs.
    pub held: usize,
    /// Strikes that the server answered as the documents say, and that were made again.
    pub answered: usize,
    /// What the server cut, and what was taken anew.
    pub cut: usize,
    /// What the server refused with a bound that the documents name.
    pub refused: usize,
    /// What the server did that no document says.
    pub wrong: Vec<String>,
}

/// How a strike ended.
#[derive(Debug)]
pub(super) enum End {
    /// With an answer.
    Told(Reply),
    /// As it should: the server has done all of it.
    Done,
    /// Every stream of it was refused.
    Refused,
}

/// One lane.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) number: usize,
    refusals: &'static [(u16, &'static str)],
    answers: &'static [u16],
    begun: AtomicBool,
    counts: Arc<watch::Sender<Counts>>,
}

/// Something of the server that an attack holds. Dropping it means that it is held no longer.
#[derive(Debug)]
pub(super) struct Hold(Arc<watch::Sender<Counts>>);

impl Lane {
    pub(super) fn new(
        number: usize,
        refusals: &'static [(u16, &'static str)],
        answers: &'static [u16],
        counts: &Arc<watch::Sender<Counts>>,
    ) -> Self {
        Self {
            number,
            refusals,
            answers,
            begun: AtomicBool::new(false),
            counts: Arc::clone(counts),
        }
    }

    /// Counts something as held from now on.
    pub(super) fn hold(&self) -> Hold {
        self.counts.send_modify(|counts| counts.held += 1);
        Hold(Arc::clone(&self.counts))
    }

    /// Says that the lane has got where it wanted to.
    pub(super) fn begun(&self) {
        if !self.begun.swap(true, Ordering::Relaxed) {
            self.counts.send_modify(|counts| counts.begun += 1);
        }
    }

    /// Counts something that the server cut.
    pub(super) fn cut(&self) {
        self.counts.send_modify(|counts| counts.cut += 1);
    }

    /// Counts an answer; false when it was a refusal. A stream that has no window has no text either.
    pub(super) fn takes(&self, reply: &Reply) -> bool {
        let mut refusals = self.refusals.iter();
        let fits = |(status, word): &&(u16, &str)| {
            *status == reply.status && (reply.text.is_empty() || reply.text.contains(word))
        };
        if refusals.any(|refusal| fits(&refusal)) {
            self.counts.send_modify(|counts| counts.refused += 1);
            return false;
        }
        // What the account has in memory may be less in a moment.
        let is_busy = reply.status == 429 && reply.text.to_lowercase().contains("too_busy");
        if is_busy || self.answers.contains(&reply.status) {
            self.counts.send_modify(|counts| counts.answered += 1);
        } else {
            let wrong = format!("{} {}", reply.status, reply.text);
            self.counts.send_modify(|counts| counts.wrong.push(wrong));
        }
        true
    }

    /// Counts how a strike ended; false when there shall be no other.
    pub(super) fn goes_on_after(&self, ended: io::Result<End>) -> bool {
        let goes_on = match ended {
            Ok(End::Told(reply)) => self.takes(&reply),
            Ok(End::Done) => {
                self.counts.send_modify(|counts| counts.answered += 1);
                true
            }
            Ok(End::Refused) => false,
            Err(error) if is_cut(&error) => {
                self.cut();
                true
            }
            Err(error) => {
                let wrong = error.to_string();
                self.counts.send_modify(|counts| counts.wrong.push(wrong));
                false
            }
        };
        self.begun();
        goes_on && self.counts.borrow().wrong.is_empty()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.held -= 1);
    }
}

/// Whether the server closed the connection, which is what it does with those that it has no room for.
fn is_cut(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}
