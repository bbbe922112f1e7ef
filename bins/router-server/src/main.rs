//! The program `router-server`.

use std::process::ExitCode;

fn main() -> ExitCode {
    router_server::program::main()
}
