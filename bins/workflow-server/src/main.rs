//! The program `workflow-server`.

use std::process::ExitCode;

fn main() -> ExitCode {
    workflow_server::program::main()
}
