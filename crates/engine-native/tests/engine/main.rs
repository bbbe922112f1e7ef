//! The engine as a worker uses it: whole graphs through validation, plan and run, with everything that it tells written down.

#![expect(clippy::unwrap_used, reason = "a test that cannot get on is to stop")]
#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

mod asking;
mod bench;
mod boxes;
mod caching;
mod conversations;
mod dataset;
mod definitions;
mod downloads;
mod edits;
mod events;
mod failures;
mod files;
mod goldens;
mod graphs;
mod latents;
mod latest;
mod layers;
mod mapping;
mod overdue;
mod painter;
mod prepared;
mod recorded;
mod saved;
mod shaders;
mod sounds;
mod toys;
mod videos;
