//! The Rust part of continuous integration: formatting, clippy, tidy, tests, in the order of their price.
//!
//! Stops at the first failure, because a later step would mostly repeat it in more words. `.ci/run` installs what the
//! tests need beyond Rust and then makes the same checks, every one of them.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::tidy;

/// One step; its name is what one would type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// `cargo` with these arguments.
    Cargo(&'static [&'static str]),
    Tidy,
}

const STEPS: &[Step] = &[
    Step::Cargo(&["fmt", "--all", "--check"]),
    Step::Cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]),
    Step::Tidy,
    Step::Cargo(&["test", "--workspace"]),
];

/// Runs the steps on the repository at `root` and writes a line around each; returns whether all passed.
///
/// # Errors
/// When a step cannot be started or `out` cannot be written.
pub fn run(root: &Path, out: &mut dyn Write) -> io::Result<bool> {
    in_order(STEPS, out, |step, out| {
        let start = Instant::now();
        let passed = match step {
            Step::Cargo(arguments) => cargo(root, arguments)?,
            Step::Tidy => tidy::run(root, out)?,
        };
        Ok((passed, start.elapsed()))
    })
}

fn in_order(
    steps: &[Step],
    out: &mut dyn Write,
    mut execute: impl FnMut(Step, &mut dyn Write) -> io::Result<(bool, Duration)>,
) -> io::Result<bool> {
    for (index, step) in steps.iter().enumerate() {
        let name = step.name();
        writeln!(out, "==> [{}/{}] {name}", index + 1, steps.len())?;
        out.flush()?;
        let (passed, duration) = execute(*step, out)?;
        let seconds = duration.as_secs_f64();
        if !passed {
            writeln!(
                out,
                "==> failed after {seconds:.1} s: {name}; the steps behind it were not run"
            )?;
            return Ok(false);
        }
        writeln!(out, "==> passed in {seconds:.1} s: {name}")?;
    }
    writeln!(out, "==> all {} steps passed", steps.len())?;
    Ok(true)
}

fn cargo(root: &Path, arguments: &[&str]) -> io::Result<bool> {
    let status = it::process::cargo()
        .args(arguments)
        .current_dir(root)
        .status()?;
    Ok(status.success())
}

impl Step {
    fn name(self) -> String {
        match self {
            Self::Cargo(arguments) => format!("cargo {}", arguments.join(" ")),
            Self::Tidy => "cargo xtask tidy".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(failing: Option<Step>) -> (bool, String) {
        let mut out = Vec::new();
        let steps = [Step::Cargo(&["fmt"]), Step::Tidy];
        let passed = in_order(&steps, &mut out, |step, _| {
            Ok((Some(step) != failing, Duration::from_millis(1500)))
        });
        (
            passed.expect("a vector takes every line"),
            String::from_utf8(out).expect("lines are text"),
        )
    }

    #[test]
    fn every_step_is_announced_and_timed() {
        let (passed, report) = report(None);
        assert!(passed);
        assert_eq!(
            report,
            "==> [1/2] cargo fmt\n==> passed in 1.5 s: cargo fmt\n\
             ==> [2/2] cargo xtask tidy\n==> passed in 1.5 s: cargo xtask tidy\n\
             ==> all 2 steps passed\n",
        );
    }

    #[test]
    fn the_first_failure_stops() {
        let (passed, report) = report(Some(Step::Cargo(&["fmt"])));
        assert!(!passed);
        assert_eq!(
            report,
            "==> [1/2] cargo fmt\n\
             ==> failed after 1.5 s: cargo fmt; the steps behind it were not run\n",
        );
    }

    #[test]
    fn the_tests_of_the_readme_come_last() {
        assert_eq!(
            STEPS.last().map(|step| step.name()).as_deref(),
            Some("cargo test --workspace")
        );
    }
}
