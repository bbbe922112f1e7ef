//! What a submission comes to that was not sent, or has no answer.

use router_core::{Charge, Failure, Ran, Refusal};

use super::{MISCONFIGURED, TOO_LARGE, UNREADABLE};
use crate::interpret::NOT_SERVED;
use crate::keys::Pause;
use crate::talk::Trouble;

const UNREACHABLE: &str = "the provider cannot be reached; try again later";
const NO_ANSWER: &str = "the provider did not answer in time";
const UNKNOWN_OUTCOME: &str =
    "the connection to the provider broke; the outcome is unknown; use a new key to run again";

/// A submission without an answer: either provably nothing was sent, or nobody knows what became of it.
pub(super) fn not_submitted(trouble: &Trouble) -> Failure {
    match trouble {
        Trouble::Refused(_) => Failure::Failed {
            ran: Ran::Nothing,
            message: MISCONFIGURED.to_owned(),
        },
        Trouble::Unsent(_) => Failure::Transient {
            message: UNREACHABLE.to_owned(),
        },
        Trouble::TimedOut => Failure::TimedOut {
            ran: Ran::Perhaps,
            message: NO_ANSWER.to_owned(),
        },
        Trouble::Broken(_) => failed(UNKNOWN_OUTCOME),
        Trouble::TooLarge(_) => failed(TOO_LARGE),
        Trouble::Encoding => failed(UNREADABLE),
    }
}

/// A submission that is not sent, because all keys of the partner pause.
pub(super) fn not_admitted(pause: Pause) -> Failure {
    if pause.is_refused {
        return Failure::Account {
            ran: Ran::Nothing,
            message: NOT_SERVED.to_owned(),
        };
    }
    let seconds = pause.rest.as_secs() + 1;
    Failure::Transient {
        message: format!("the provider does not answer as it should; try again in {seconds} s"),
    }
}

/// A body that cannot be sent; nothing was.
pub(super) fn not_content(code: &str, message: String) -> Failure {
    Failure::Refused {
        refusal: Refusal::Content {
            code: code.to_owned(),
            message,
        },
        charge: Charge::Cents(0),
    }
}

pub(super) fn failed(message: &str) -> Failure {
    Failure::Failed {
        ran: Ran::Perhaps,
        message: message.to_owned(),
    }
}
