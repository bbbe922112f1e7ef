//! The simulated partners as a process: says where they are, then takes one command a line until its input ends.

use std::io::{self, BufRead, Write};

use it::partners::{Partners, console};
use tokio::runtime::Runtime;

fn main() -> io::Result<()> {
    let runtime = Runtime::new()?;
    let partners = runtime.block_on(Partners::start())?;
    let mut output = io::stdout().lock();
    for partner in console::directory(&partners) {
        writeln!(output, "{partner}")?;
    }
    for line in io::stdin().lock().lines() {
        match console::command(&partners, &line?) {
            Ok(answer) => writeln!(output, "{answer}")?,
            Err(why) => writeln!(io::stderr(), "{why}")?,
        }
    }
    Ok(())
}
