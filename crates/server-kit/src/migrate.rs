//! The command `migrate`: moves an installation between a data directory, and a database with a bucket.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Arg, ArgAction, ArgMatches, Command};
use indicatif::{ProgressBar, ProgressStyle};
use installation::transfer::{
    Step, TransferOptions, TransferStore, Transferred, arriving, transfer,
};
use uuid::Uuid;

use crate::config::{CloudPlace, InstallationPlace, PlaceError};
use crate::program::{self, Failure};

/// What the command is called.
pub const NAME: &str = "migrate";

const ABOUT: &str = "Moves everything between a data directory, and a PostgreSQL database with a bucket, while no server uses either; if it is interrupted, the same command continues";

/// The command, to be added to a program.
#[must_use]
pub fn command() -> Command {
    let place = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_names(["DIR or postgres://...", "s3://..."])
            .num_args(1..=2)
            .required(true)
            .help(help)
    };
    let leave_damaged = Arg::new("leave-damaged")
        .long("leave-damaged")
        .action(ArgAction::SetTrue)
        .help("Leaves out files whose bytes are missing or damaged in the source; their records are moved");
    Command::new(NAME)
        .about(ABOUT)
        .arg(place("from", "Where the installation is"))
        .arg(place(
            "to",
            "Where it goes: a new directory, or an empty database and a place in a bucket",
        ))
        .arg(leave_damaged)
}

/// Moves an installation between places whose stores `movable_at` makes.
///
/// # Errors
/// If a place is none, cannot be used, or the move does not come to its end.
pub fn run(
    arguments: &ArgMatches,
    movable_at: impl Fn(&InstallationPlace) -> Result<Arc<dyn TransferStore>, PlaceError>,
) -> Result<(), Failure> {
    let from = movable_at(&place(arguments, "from")?)?;
    let to = movable_at(&place(arguments, "to")?)?;
    let options = TransferOptions {
        leave_damaged: arguments.get_flag("leave-damaged"),
    };
    program::runtime()?.block_on(async {
        let bar = Bar::new();
        let moved = run_between(&*from, &*to, options, &bar).await;
        bar.end();
        let moved = moved?;
        program::print(&summary(moved, &from.location(), &to.location()));
        Ok(())
    })
}

async fn run_between(
    from: &dyn TransferStore,
    to: &dyn TransferStore,
    options: TransferOptions,
    bar: &Bar,
) -> Result<Transferred, Failure> {
    let (here, there) = (from.location(), to.location());
    let source = from
        .source()
        .await
        .map_err(|error| Failure::fault(&error))?;
    let fresh = arriving(Uuid::new_v4(), &here);
    let target = to
        .target(&fresh)
        .await
        .map_err(|error| Failure::fault(&error))?;
    let places = ((&*source, here.as_str()), (&*target, there.as_str()));
    let moved = transfer(places.0, places.1, options, &|step| bar.show(step)).await;
    moved.map_err(|error| Failure::fault(&error))
}

/// A place as it was named.
fn place(arguments: &ArgMatches, name: &str) -> Result<InstallationPlace, Failure> {
    let values = arguments.get_many::<String>(name).into_iter().flatten();
    let values: Vec<&str> = values.map(String::as_str).collect();
    let is_address = |text: &str| text.contains("://") || text.contains('=');
    let usage = |message: String| Failure {
        exit_code: 2,
        message,
    };
    match values[..] {
        [directory] if !is_address(directory) => {
            Ok(InstallationPlace::directory(directory.as_ref()))
        }
        [database, bucket] if is_address(database) && bucket.starts_with("s3://") => {
            Ok(InstallationPlace {
                // Nothing of this process is needed there.
                data_dir: std::env::temp_dir(),
                cloud: Some(CloudPlace {
                    database: database.into(),
                    bucket: bucket.to_owned(),
                    connections: CloudPlace::CONNECTIONS,
                }),
            })
        }
        _ => Err(usage(format!(
            "--{name} takes a data directory, or a database and a bucket: --{name} postgres://USER@HOST/NAME s3://BUCKET/PREFIX"
        ))),
    }
}

fn summary(moved: Transferred, from: &str, to: &str) -> String {
    let Transferred {
        rows,
        blobs,
        left_behind,
    } = moved;
    let left = match left_behind {
        0 => String::new(),
        count => format!(
            "; {count} of the files were left behind, because their bytes are missing or damaged"
        ),
    };
    format!(
        "{from} is in {to} now: {rows} rows and {blobs} files{left}. Start the server over that place\n"
    )
}

/// Shows how far a move is: as a bar on a terminal, as a line for each kind of rows elsewhere.
struct Bar {
    bar: ProgressBar,
    last: Mutex<Option<Step>>,
}

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{msg:24} {wide_bar} {human_pos}/{human_len}");
        bar.set_style(style.expect("the template is one"));
        Self {
            bar,
            last: Mutex::default(),
        }
    }

    fn show(&self, step: Step) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_next = last.is_none_or(|last| {
            (last.part.name, last.is_comparing) != (step.part.name, step.is_comparing)
        });
        if is_next {
            say(last.take());
            self.bar.set_message(doing(&step));
        }
        self.bar.set_length(step.of.max(step.rows));
        self.bar.set_position(step.rows);
        *last = Some(step);
    }

    fn end(&self) {
        self.bar.finish_and_clear();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        say(last.take());
    }
}

/// Says that a kind of rows is done, where no bar tells it.
fn say(step: Option<Step>) {
    let mut out = io::stderr().lock();
    if let Some(step) = step
        && step.rows > 0
        && !out.is_terminal()
    {
        // Without a standard error there is nobody left to tell.
        drop(writeln!(out, "{}: {}", doing(&step), step.rows));
    }
}

fn doing(step: &Step) -> String {
    let name = step.part.name.replace('_', " ");
    match step.is_comparing {
        true => format!("comparing {name}"),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<String, String> {
        let matches = command().try_get_matches_from([&["migrate"][..], words].concat());
        let matches = matches.map_err(|error| error.to_string())?;
        let place = place(&matches, "to").map_err(|failure| failure.message)?;
        Ok(match place.cloud {
            Some(cloud) => cloud.bucket,
            None => place.data_dir.display().to_string(),
        })
    }

    #[test]
    fn a_place_is_a_directory_or_a_database_with_a_bucket() {
        let to = |words: &[&str]| read(&[&["--from", "here", "--to"][..], words].concat());
        assert_eq!(to(&["there"]).as_deref(), Ok("there"));
        let both = to(&["postgres://me@db/name", "s3://pictures/main"]);
        assert_eq!(both.as_deref(), Ok("s3://pictures/main"));
        for wrong in [
            &["postgres://me@db/name"][..],
            &["s3://pictures"],
            &["there", "s3://pictures"],
            &["postgres://me@db/name", "pictures"],
        ] {
            let refused = to(wrong).expect_err("it is no place");
            assert!(refused.contains("a database and a bucket"), "{refused}");
        }
        read(&["--to", "there"]).expect_err("it comes from somewhere");
    }

    #[test]
    fn the_summary_says_what_was_left_behind() {
        let mut moved = Transferred {
            rows: 3,
            blobs: 2,
            left_behind: 0,
        };
        let said = summary(moved, "here", "there");
        assert!(
            said.starts_with("here is in there now: 3 rows and 2 files. "),
            "{said}"
        );
        moved.left_behind = 1;
        assert!(summary(moved, "here", "there").contains("1 of the files were left behind"));
    }
}
