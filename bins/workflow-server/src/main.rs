//! The program `workflow-server`.

use std::process::ExitCode;

/// Of the program alone: a library leaves the allocator to the program that it becomes a part of.
#[cfg(all(feature = "jemalloc", unix))]
#[global_allocator]
static ALLOCATOR: server_kit::allocator::Allocator = server_kit::allocator::ALLOCATOR;

fn main() -> ExitCode {
    workflow_server::program::main()
}
