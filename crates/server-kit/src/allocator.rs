//! The allocator of Easel's programs, which each of them names in its `main.rs`; a program that embeds a server has its own.
//!
//! What a call takes is given back by another thread than took it, and thousands of calls wait at once: the system's
//! allocator locks for the first and scatters the second (docs/BENCHMARKS.md).

use tikv_jemallocator::Jemalloc;

/// Its type.
pub type Allocator = Jemalloc;

/// The allocator, for `#[global_allocator]`.
pub const ALLOCATOR: Allocator = Jemalloc;
