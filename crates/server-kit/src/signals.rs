//! Signals: the first one asks a server to end well, the second one ends it at once. A hang-up of a server asks it to read its
//! configuration again, or to end where its terminal closed.

use std::future::Future;
use std::io::{self, IsTerminal};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signals that end a program: SIGTERM and SIGINT.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Where a hang-up does not end the program by itself.
    hangup: Option<Hangups>,
}

/// The signal SIGHUP, which does not end the process any more.
#[derive(Debug)]
pub(crate) struct Hangups {
    signal: Signal,
    has_terminal: bool,
}

/// How work under signals ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// By itself, or well after a first signal.
    Finished(T),
    /// By a second signal; what it was doing was dropped.
    Cut,
}

impl Signals {
    /// Takes the signals over from the system, which would end the process at once.
    ///
    /// # Errors
    /// If the system does not let it.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: None,
        })
    }

    /// The same for a server: SIGHUP ends it only if the terminal closed that it was started from.
    ///
    /// # Errors
    /// If the system does not let it.
    pub(crate) fn of_server() -> io::Result<Self> {
        Ok(Self {
            hangup: Some(Hangups::listen()?),
            ..Self::listen()?
        })
    }

    /// Completes when the next one arrives. Cancel-safe.
    pub async fn next(&mut self) {
        let closed = async {
            match &mut self.hangup {
                Some(hangups) => hangups.terminal_closed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = closed => {}
        }
    }

    /// Does `work`, which is handed a token that the first signal fires; the second signal drops the work.
    pub async fn over<T, W: Future<Output = T>>(
        &mut self,
        work: impl FnOnce(CancellationToken) -> W,
    ) -> Ended<T> {
        let asked = CancellationToken::new();
        let work = work(asked.clone());
        tokio::select! {
            done = work => return Ended::Finished(done),
            () = async {
                self.next().await;
                asked.cancel();
                self.next().await;
            } => {}
        }
        Ended::Cut
    }
}

impl Hangups {
    /// Takes the signal over from the system, which would end the process at once.
    ///
    /// # Errors
    /// If the system does not let it.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            signal: signal(SignalKind::hangup())?,
            has_terminal: has_terminal(),
        })
    }

    /// Completes when the next one arrives that asks for the configuration to be read again. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        loop {
            self.signal.recv().await;
            if !self.is_closed() {
                return;
            }
        }
    }

    /// Completes when one arrives because the terminal closed. Cancel-safe.
    async fn terminal_closed(&mut self) {
        loop {
            self.signal.recv().await;
            if self.is_closed() {
                return;
            }
        }
    }

    /// Whether there was a terminal and is none: one that closed is no terminal any more.
    fn is_closed(&self) -> bool {
        self.has_terminal && !has_terminal()
    }
}

fn has_terminal() -> bool {
    io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a signal to this very process, which must be listening by then.
    async fn send(name: &str) {
        let process = std::process::id().to_string();
        let sent = tokio::process::Command::new("kill")
            .args(["-s", name, &process])
            .status()
            .await;
        assert!(sent.expect("the system has kill").success());
    }

    // One test, because signals reach every listener of the process.
    #[tokio::test]
    async fn the_first_signal_asks_and_the_second_cuts() {
        let mut signals = Signals::listen().expect("signals");
        let ended = signals.over(|_| async { 1 }).await;
        assert_eq!(ended, Ended::Finished(1));

        let ended = signals.over(|asked| async move {
            send("TERM").await;
            asked.cancelled().await;
            2
        });
        assert_eq!(ended.await, Ended::Finished(2));

        let ended = signals.over(|asked| async move {
            send("INT").await;
            asked.cancelled().await;
            send("TERM").await;
            std::future::pending::<()>().await;
        });
        assert_eq!(ended.await, Ended::Cut);
    }
}
