//! The program `all-in-one`.

use std::process::ExitCode;

fn main() -> ExitCode {
    all_in_one::program::main()
}
