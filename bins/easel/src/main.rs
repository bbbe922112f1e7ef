//! The program `easel`.

use std::process::ExitCode;

fn main() -> ExitCode {
    easel::program::main()
}
