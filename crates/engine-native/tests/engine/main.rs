//! The engine as a worker uses it: whole graphs through validation, plan and run, with everything that it tells written down.

#![expect(clippy::unwrap_used, reason = "a test that cannot get on is to stop")]

mod bench;
mod caching;
mod events;
mod failures;
mod toys;
