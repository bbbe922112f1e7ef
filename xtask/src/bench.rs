//! Measures the real binary, driven by client processes, against the figures that it must reach.
//!
//! A figure is only worth something beside what the machine could do at that moment. Every report therefore shows the
//! machine, how busy it was and what its disk took for an fsync, and what has a floor is measured against it in the same
//! run, turn by turn.

pub mod claim;
pub mod client;
pub mod clients;
pub mod disk;
pub mod engine;
pub mod machine;
pub mod report;
pub mod router;
pub mod samples;
pub mod v2;
