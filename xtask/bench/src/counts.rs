//! `bench counts`: the instructions of a few pieces of work, held against those that are committed.
//!
//! A time says little on a machine that does other things, too. Instructions stay the same there, within a percent or two, so
//! a change that makes a call or a job dearer is seen in a run of a minute, with the function that grew.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::against::build::compiler;
use super::against::count::Counter;
use super::against::instructions::Instructions;
use super::{router, say, until_interrupted, v2};

/// What is counted, and what to do with it.
#[derive(Debug, Args)]
pub struct Options {
    /// The folder of `router-server` and `all-in-one`, built for speed.
    #[arg(long, value_name = "FOLDER", default_value = "target/release")]
    programs: PathBuf,
    /// Write the counts instead of holding them against the written ones.
    #[arg(long)]
    write: bool,
}

/// Where counts are committed, from the root of the repository.
const FILE: &str = "xtask/counts.json";
/// How what is counted is built.
const BUILD: &str = "build it with `cargo build --release --no-default-features -p PACKAGE`, each package in a call of its own as what is shipped";
/// A piece of work that takes more than so many times the instructions fails the run.
const BOUND: f64 = 1.05;
/// A function that has a smaller share of its piece of work is not written.
const LEAST_SHARE: f64 = 0.004;
/// How many functions that grew are named.
const NAMED: usize = 5;
/// What a processor can do beyond what all can, as far as callgrind lets a program use it: libraries choose by it.
const FEATURES: [&str; 7] = ["aes", "avx", "avx2", "bmi2", "fma", "pclmulqdq", "sse4_2"];

/// Counts, and what they depend on besides the code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Counts {
    compiler: String,
    processor: Vec<String>,
    pieces: BTreeMap<String, Piece>,
}

/// The instructions of a piece of work, and of the functions that take the most of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Piece {
    total: u64,
    functions: BTreeMap<String, u64>,
}

/// Counts and compares; returns whether no piece of work grew beyond the bound.
///
/// # Errors
/// When nothing can be counted, a server does not start, or the written counts cannot be read.
pub fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    Counter::callgrind().map_err(io::Error::other)?;
    let file = root.join(FILE);
    let program = |name| {
        let path = std::path::absolute(options.programs.join(name))?;
        match path.is_file() {
            true => Ok(path),
            false => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("{} is not there: {BUILD}", path.display()),
            )),
        }
    };
    let (router, server) = (program("router-server")?, program("all-in-one")?);
    // Clients and partners are this program, however it was built: only servers are counted.
    let own = env::current_exe()?;
    let pieces = until_interrupted(async {
        say("instructions of calls");
        let target = root.join("target");
        let calls = router::counts(router, own.clone(), &target).await?;
        say("instructions of jobs");
        let jobs = v2::counts(&server, &own, root).await?;
        Ok(calls.into_iter().chain(jobs))
    })?;
    let now = Counts {
        compiler: compiler(root)?,
        processor: processor(&fs::read_to_string("/proc/cpuinfo")?),
        pieces: pieces
            .map(|(name, each)| (name.to_owned(), Piece::of(&each)))
            .collect(),
    };
    if options.write {
        fs::write(&file, serde_json::to_string_pretty(&now)? + "\n")?;
        writeln!(
            out,
            "{} pieces of work are written to {FILE}",
            now.pieces.len()
        )?;
        return Ok(true);
    }
    let written = fs::read_to_string(&file).map_err(|error| {
        let message = format!(
            "{FILE} cannot be read ({error}): write it with `cargo xtask bench counts --write`"
        );
        io::Error::new(error.kind(), message)
    })?;
    report(&serde_json::from_str(&written)?, &now, out)
}

impl Piece {
    fn of(each: &Instructions) -> Self {
        let functions = each.functions.iter();
        let large = functions.filter(|(_, cost)| **cost >= LEAST_SHARE * each.total);
        Self {
            total: whole(each.total),
            functions: large
                .map(|(name, cost)| (name.clone(), whole(*cost)))
                .collect(),
        }
    }

    /// The functions that grew the most since `before`, and by how much.
    fn grown(&self, before: &Self) -> Vec<(&str, u64)> {
        let grown = self.functions.iter().map(|(name, now)| {
            let before = before.functions.get(name).copied().unwrap_or_default();
            (name.as_str(), now.saturating_sub(before))
        });
        let mut grown: Vec<_> = grown.filter(|(_, by)| *by > 0).collect();
        grown.sort_by_key(|(_, by)| std::cmp::Reverse(*by));
        grown.truncate(NAMED);
        grown
    }
}

/// Says what grew; whether all stayed within the bound.
fn report(written: &Counts, now: &Counts, out: &mut dyn Write) -> io::Result<bool> {
    let mut within = true;
    let is_comparable = written.compiler == now.compiler && written.processor == now.processor;
    for (name, piece) in &now.pieces {
        let Some(before) = written.pieces.get(name) else {
            writeln!(
                out,
                "{name}: {} instructions, not in {FILE} yet",
                piece.total
            )?;
            within = false;
            continue;
        };
        let ratio = piece.total as f64 / before.total.max(1) as f64;
        let percent = (ratio - 1.0) * 100.0;
        writeln!(out, "{name}: {} instructions, {percent:+.1} %", piece.total)?;
        if ratio <= BOUND {
            continue;
        }
        within = false;
        for (function, by) in piece.grown(before) {
            writeln!(out, "    +{by} in {function}")?;
        }
    }
    if !is_comparable {
        writeln!(
            out,
            "skipped: {FILE} was written with {} on a processor with {}, and this is {} on one with {}",
            written.compiler,
            written.processor.join(" "),
            now.compiler,
            now.processor.join(" ")
        )?;
    } else if !within {
        let allowed = (BOUND - 1.0) * 100.0;
        writeln!(
            out,
            "more than {allowed:.0} %: make it cheaper, or, where it is worth that, write the counts with `cargo xtask bench counts --write`"
        )?;
    }
    Ok(within || !is_comparable)
}

/// The features of the first processor that `/proc/cpuinfo` lists.
fn processor(cpuinfo: &str) -> Vec<String> {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags"));
    let flags: Vec<&str> = flags.unwrap_or_default().split_whitespace().collect();
    let features = FEATURES.iter().filter(|feature| flags.contains(feature));
    features.map(|feature| (*feature).to_owned()).collect()
}

fn whole(count: f64) -> u64 {
    count.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(compiler: &str, total: u64, functions: &[(&str, u64)]) -> Counts {
        let functions = functions
            .iter()
            .map(|(name, cost)| ((*name).to_owned(), *cost));
        let piece = Piece {
            total,
            functions: functions.collect(),
        };
        Counts {
            compiler: compiler.to_owned(),
            processor: Vec::new(),
            pieces: BTreeMap::from([("call".to_owned(), piece)]),
        }
    }

    fn reported(written: &Counts, now: &Counts) -> (bool, String) {
        let mut out = Vec::new();
        let within = report(written, now, &mut out).expect("it can be written");
        (within, String::from_utf8(out).expect("it is text"))
    }

    #[test]
    fn a_piece_that_grew_names_what_grew_in_it() {
        let written = counts("rustc 1", 1000, &[("parse", 400), ("send", 300)]);
        let (within, text) = reported(
            &written,
            &counts(
                "rustc 1",
                1060,
                &[("parse", 455), ("send", 290), ("log", 15)],
            ),
        );
        assert!(!within);
        assert!(
            text.contains("+6.0 %") && text.contains("+55 in parse\n    +15 in log\n"),
            "{text}"
        );
        assert!(!text.contains("in send"), "{text}");
    }

    #[test]
    fn what_stays_within_the_bound_passes() {
        let written = counts("rustc 1", 1000, &[]);
        for total in [500, 1000, 1050] {
            assert!(
                reported(&written, &counts("rustc 1", total, &[])).0,
                "{total}"
            );
        }
        assert!(!reported(&written, &counts("rustc 1", 1051, &[])).0);
    }

    #[test]
    fn counts_of_another_compiler_are_no_measure() {
        let (within, text) = reported(&counts("rustc 1", 1000, &[]), &counts("rustc 2", 2000, &[]));
        assert!(within && text.contains("skipped: "), "{text}");
    }

    #[test]
    fn a_piece_that_was_never_written_fails() {
        let mut written = counts("rustc 1", 1000, &[]);
        written.pieces.clear();
        assert!(!reported(&written, &counts("rustc 1", 1000, &[])).0);
    }

    #[test]
    fn features_are_those_of_the_list() {
        let cpuinfo = "processor\t: 0\nflags\t\t: fpu sse4_2 avx avx512f\nprocessor\t: 1\n";
        assert_eq!(processor(cpuinfo), ["avx", "sse4_2"]);
    }
}
