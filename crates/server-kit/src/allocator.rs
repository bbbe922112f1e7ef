//! The allocator of every program.
//!
//! What a call takes is given back by another thread than took it, and thousands of calls wait at once: the system's
//! allocator locks for the first and scatters the second (docs/BENCHMARKS.md).

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;
