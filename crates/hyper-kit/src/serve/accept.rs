//! What to do when `accept` fails.
//!
//! A failure is either the connection's own, which is gone, or the process's: out of descriptors or memory. In the second
//! case accepting again at once would fail again at once, so the loop waits, longer each time, and never gives up.

use std::io;
use std::time::Duration;

use rustix::io::Errno;

/// The first wait; descriptors come back when connections end, which is soon.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The longest wait: how late a server may notice that it can accept again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The waits of one run of failures; a success starts a new one.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    last: Option<Duration>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AcceptRetry {
    /// The connection died before it was accepted; the next one may be sound.
    Again,
    /// The process cannot accept now. `first` of a run is worth a log line, the others are not.
    After { pause: Duration, first: bool },
}

impl Backoff {
    pub(super) fn judge(&mut self, error: &io::Error) -> AcceptRetry {
        if is_of_the_connection(error) {
            return AcceptRetry::Again;
        }
        let pause = match self.last {
            Some(last) => (last * 2).min(LONGEST_PAUSE),
            None => FIRST_PAUSE,
        };
        let first = self.last.replace(pause).is_none();
        AcceptRetry::After { pause, first }
    }
}

/// accept(2): errors already pending on the new socket are reported by `accept` and are to be treated as "try again".
fn is_of_the_connection(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| {
        [
            Errno::CONNABORTED,
            Errno::CONNRESET,
            Errno::INTR,
            Errno::PERM,
            Errno::PROTO,
            Errno::NETDOWN,
            Errno::NETUNREACH,
            Errno::HOSTDOWN,
            Errno::HOSTUNREACH,
            Errno::NOPROTOOPT,
            Errno::TIMEDOUT,
        ]
        .contains(&errno)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(backoff: &mut Backoff, errno: Errno) -> AcceptRetry {
        backoff.judge(&io::Error::from(errno))
    }

    #[test]
    fn a_connection_that_died_early_costs_no_wait() {
        let mut backoff = Backoff::default();
        for errno in [Errno::CONNABORTED, Errno::INTR, Errno::PROTO] {
            assert_eq!(judge(&mut backoff, errno), AcceptRetry::Again);
        }
    }

    #[test]
    fn want_of_descriptors_waits_longer_each_time_and_never_for_good() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM] {
            let mut backoff = Backoff::default();
            let pauses: Vec<_> = (0..9).map(|_| judge(&mut backoff, errno)).collect();
            let after = |ms, first| AcceptRetry::After {
                pause: Duration::from_millis(ms),
                first,
            };
            let doubled = [20, 40, 80, 160, 320, 640, 1000, 1000].map(|ms| after(ms, false));
            assert_eq!(pauses[0], after(10, true));
            assert_eq!(pauses[1..], doubled);
        }
    }

    #[test]
    fn an_unknown_failure_waits_too() {
        let verdict = Backoff::default().judge(&io::Error::other("strange"));
        assert!(matches!(verdict, AcceptRetry::After { .. }));
    }
}
