//! Whole requests, from head to body, against an API over memory.

mod assets;
mod credential;
mod document;
mod events;
mod harness;
mod jobs;
mod many;
mod older;
mod requests;
mod room;
mod uploads;
