//! Talking to partners: where requests may go, how they are sent, and what is taken of the answers.

mod decode;
mod egress;
mod opened;
mod recorder;
mod tracked_body;

pub(crate) use egress::{Address, Egress, Outgoing, Trouble};
pub use recorder::{Exchange, ExchangeRecorder, Heard, Received};
