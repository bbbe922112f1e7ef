//! What a partner's answer means, decided from its status and bytes alone.
//!
//! Nothing here talks, waits or looks at a clock: the time since a task was accepted is an argument, and what a partner
//! said is a value. What is done about it is in `talk`.

mod failure;
mod pace;
mod reading;
mod reply;
mod sse;
mod streamed;

pub(crate) use failure::{Dialect, NOT_SERVED, submit_default};
pub(crate) use pace::next_look;
pub(crate) use reading::{Reading, SubmitReading, Task, keep};
pub(crate) use reply::{Document, Reply};
pub(crate) use streamed::{StreamEnd, StreamReader};

#[cfg(test)]
mod tests;
