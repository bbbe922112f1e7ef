//! What goes wrong, and with which request.

use std::collections::VecDeque;

use super::partner::Partner;
use super::wire::Step;

/// A fault of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Acts on the request, and answers only after [`super::Partners::release`]. Never released, it hangs.
    Stall,
    /// Does nothing but answer with this status and an empty JSON object.
    Status(u16),
    /// Does nothing but answer with this status, these headers and this body.
    Answer(u16, Vec<(String, String)>, Vec<u8>),
    /// Acts on the request, and answers with its status and half a JSON document.
    Malformed,
    /// Does nothing but send the client to this address.
    Redirect(String),
    /// Acts on the request, and answers with so many bytes of JSON, their number announced.
    Huge(u64),
    /// As `Huge`, in chunks without a number.
    HugeChunked(u64),
    /// Acts on the request, announces the whole answer and closes in the middle of it.
    CutMidAnswer,
    /// Acts on the request, and answers with a stream of events: piece by piece, with a [`super::Partners::release`] between one
    /// and the next and before the end, which is a cut connection if the flag is set.
    Pieces(Vec<Vec<u8>>, bool),
    /// Acts on the request and closes without an answer.
    CutAfterRequest,
    /// Does not act, and closes without an answer.
    CutUnread,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    planned: VecDeque<(Partner, Step, Fault)>,
}

impl Fault {
    /// Whether the partner acts on the request all the same.
    pub(super) fn acts(&self) -> bool {
        match self {
            Self::Stall
            | Self::Malformed
            | Self::Huge(_)
            | Self::HugeChunked(_)
            | Self::CutMidAnswer
            | Self::Pieces(..)
            | Self::CutAfterRequest => true,
            Self::Status(_) | Self::Answer(..) | Self::Redirect(_) | Self::CutUnread => false,
        }
    }
}

impl Faults {
    pub(super) fn add(&mut self, partner: Partner, step: Step, fault: Fault) {
        self.planned.push_back((partner, step, fault));
    }

    /// Takes the oldest fault that is meant for such a request.
    pub(super) fn next(&mut self, partner: Partner, step: Step) -> Option<Fault> {
        let fits = |planned: &(Partner, Step, Fault)| (planned.0, planned.1) == (partner, step);
        let at = self.planned.iter().position(fits)?;
        self.planned.remove(at).map(|(_, _, fault)| fault)
    }
}
