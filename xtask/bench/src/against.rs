//! `--against REVISION`: two programs, one driver, turn by turn.
//!
//! The older program is built from a revision, the newer one from the working tree (or from another revision), with the
//! same profile and the same compiler. Everything else (clients, partners, scenarios) is of today and the same for both.
//! Start at [`turns`], which holds the order, and [`statistics`], which says what a difference means.

pub mod build;
pub mod checkout;
pub mod count;
pub mod instructions;
pub mod report;
pub mod statistics;
pub mod turns;

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::json;

use self::build::Workshop;
use self::checkout::Commit;
use self::count::Counter;
use self::report::{Report, Setting};
use self::turns::Side;
use super::disk::Disk;
use super::{machine, say};
use it::load::server::{Product, Profile};

/// The difference that matters, unless another one is asked for: in percent.
const BOUND: f64 = 3.0;
/// Pairs of counts: the fewest that give a verdict.
const COUNTS: usize = 5;

/// What is compared, and how.
#[derive(Debug, Clone, Default, Args)]
pub struct Against {
    /// Compare the working tree with this revision (a commit, branch or tag), turn by turn.
    #[arg(long, value_name = "REVISION")]
    against: Option<String>,
    /// Compare this revision instead of the working tree.
    #[arg(long, value_name = "REVISION", requires = "against")]
    of: Option<String>,
    /// Pairs of instruction counts with `--against`; 0 leaves them out. Five are the fewest that give a verdict, and the
    /// default.
    #[arg(long, value_name = "PAIRS", requires = "against")]
    counts: Option<usize>,
    /// Build both programs in this profile, when `--against` compares them.
    #[arg(long, value_parser = profile(), requires = "against")]
    profile: Option<Profile>,
    /// A difference up to so many percent is called `same`; 3 unless given.
    #[arg(long, value_name = "PERCENT", requires = "against")]
    bound: Option<f64>,
    /// End with exit code 1 if a figure is slower by more than the bound, beyond doubt.
    #[arg(long, requires = "against")]
    gate: bool,
    /// Where revisions are checked out and built programs are kept; `target/against` unless given.
    #[arg(long, value_name = "FOLDER", requires = "against")]
    checkouts: Option<PathBuf>,
}

/// A program of a comparison.
#[derive(Debug, Clone)]
pub struct Program {
    /// What it was built from.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

/// The two programs of a comparison.
#[derive(Debug)]
pub struct Programs {
    before: Program,
    after: Program,
    profile: Profile,
    compiler: String,
}

/// Reads a profile, and tells the help what each is.
fn profile() -> impl TypedValueParser<Value = Profile> {
    let shown = |profile: Profile| PossibleValue::new(profile.name()).help(profile.what());
    PossibleValuesParser::new(Profile::ALL.map(shown)).map(|name| {
        let mut all = Profile::ALL.into_iter();
        let named = all.find(|profile| profile.name() == name);
        named.expect("no other name is let through")
    })
}

impl Against {
    /// Whether two programs are to be compared.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        self.against.is_some()
    }

    /// Pairs of instruction counts.
    #[must_use]
    pub fn counts(&self) -> usize {
        self.counts.unwrap_or(COUNTS)
    }

    /// Builds what is compared; `given` takes the place of the newer program.
    ///
    /// # Errors
    /// When a revision is not there, a program does not build, or there is no room for it.
    pub fn programs(
        &self,
        root: &Path,
        product: Product,
        profile: Profile,
        given: Option<&Path>,
    ) -> io::Result<Programs> {
        let revision = self.against.as_deref().unwrap_or("HEAD");
        // Wrong arguments are reported before anything is built.
        if self.of.is_some() && given.is_some() {
            let message = "--of and --program both name the newer program: give one of them";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let commit = Commit::of(root, revision)?;
        let of = self
            .of
            .as_deref()
            .map(|revision| Commit::of(root, revision));
        let of = of.transpose()?;
        let named = self.checkouts.clone();
        let folder = std::path::absolute(named.unwrap_or_else(|| root.join("target/against")))?;
        let profile = self.profile.unwrap_or(profile);
        let compiler = build::compiler(root)?;
        let workshop = Workshop {
            folder: &folder,
            product,
            profile,
            compiler: &compiler,
        };
        let before = of_commit(root, &workshop, &commit)?;
        let after = match (given, of) {
            (Some(path), _) => Program {
                name: path.display().to_string(),
                path: path.to_owned(),
            },
            (None, Some(commit)) => of_commit(root, &workshop, &commit)?,
            (None, None) => of_working_tree(root, &workshop)?,
        };
        say(&format!("before: {}; after: {}", before.name, after.name));
        Ok(Programs {
            before,
            after,
            profile,
            compiler,
        })
    }

    /// A report on these two programs.
    pub fn report<'a>(
        &self,
        programs: &Programs,
        disk: Option<Disk>,
        out: &'a mut dyn io::Write,
    ) -> Report<'a> {
        let setting = Setting {
            names: [programs.before.name.clone(), programs.after.name.clone()],
            build: json!({"profile": programs.profile.name(), "rustc": programs.compiler}),
            machine: machine::machine(),
            disk,
            bound: self.bound.unwrap_or(BOUND) / 100.0,
            gate: self.gate,
        };
        let mut report = Report::new(setting, out);
        if programs.before.path == programs.after.path {
            report.note("both programs are the same file: every difference is noise".to_owned());
        }
        report
    }

    /// How instructions are counted, if they are; the report says why they are not.
    pub fn counter(&self, report: &mut Report<'_>) -> Option<Counter> {
        if self.counts() == 0 {
            return None;
        }
        match Counter::find() {
            Ok(counter) => Some(counter),
            Err(reason) => {
                say(&reason);
                report.note(reason);
                None
            }
        }
    }
}

impl Programs {
    /// The program of one side.
    #[must_use]
    pub fn of(&self, side: Side) -> &Path {
        match side {
            Side::Before => &self.before.path,
            Side::After => &self.after.path,
        }
    }
}

/// The program of a commit, which is checked out and built unless that was done before.
fn of_commit(root: &Path, workshop: &Workshop<'_>, commit: &Commit) -> io::Result<Program> {
    let name = commit.short();
    let path = match workshop.kept(name) {
        Some(path) => path,
        None => {
            let tree = commit.check_out(root, workshop.folder)?;
            workshop.build(&tree, name)?
        }
    };
    Ok(Program {
        name: name.to_owned(),
        path,
    })
}

/// The program of the working tree, which is always built: cargo knows what changed.
fn of_working_tree(root: &Path, workshop: &Workshop<'_>) -> io::Result<Program> {
    let head = Commit::of(root, "HEAD")?;
    let name = match checkout::is_changed(root)? {
        true => {
            say(
                "the working tree has changes that are not committed: they are part of what is compared",
            );
            format!("the working tree, {} with changes", head.short())
        }
        false => format!("the working tree, {}", head.short()),
    };
    let path = workshop.build(root, "working-tree")?;
    Ok(Program { name, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, FromArgMatches, Parser};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        against: Against,
    }

    fn parsed(line: &str) -> Result<Against, String> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        let line = Line::command()
            .try_get_matches_from(words)
            .and_then(|matches| Line::from_arg_matches(&matches));
        line.map(|line| line.against)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn options_of_a_comparison_need_a_revision() {
        for option in [
            "--of a",
            "--counts 3",
            "--profile dev",
            "--bound 1",
            "--gate",
            "--checkouts a",
        ] {
            let error = parsed(option).expect_err("nothing is compared");
            assert!(error.contains("--against <REVISION>"), "{error}");
            assert!(parsed(&format!("--against HEAD {option}")).is_ok());
        }
        let wrong = parsed("--against HEAD --profile fast").expect_err("no such profile");
        assert!(wrong.contains("dist, release, dev"), "{wrong}");
    }

    #[test]
    fn without_options_the_bound_is_three_percent_and_five_counts_are_made() {
        let against = parsed("--against HEAD").expect("a revision is enough");
        assert!(against.is_asked_for() && !against.gate);
        assert_eq!(against.counts(), 5);
        let mut out = Vec::new();
        let program = |name: &str| Program {
            name: name.to_owned(),
            path: PathBuf::from(name),
        };
        let programs = Programs {
            before: program("a"),
            after: program("a"),
            profile: Profile::Dist,
            compiler: "rustc".to_owned(),
        };
        let report = against.report(&programs, None, &mut out);
        assert!(report.close().expect("room for a table"));
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains("both programs are the same file"), "{text}");
    }

    #[test]
    fn wrong_arguments_are_reported_before_anything_is_built() {
        let product = Product::program("all-in-one");
        let against = parsed("--against HEAD --of HEAD").expect("both are revisions");
        let given = Some(Path::new("a-program"));
        let error = against.programs(it::root(), product, Profile::Dev, given);
        let text = error.expect_err("two newer programs").to_string();
        assert!(text.contains("give one of them"), "{text}");
        let against = parsed("--against no-such-revision").expect("a revision is a word");
        let error = against.programs(it::root(), product, Profile::Dev, None);
        let text = error.expect_err("there is no such revision").to_string();
        assert!(
            text.contains("`no-such-revision` names no commit"),
            "{text}"
        );
    }
}
