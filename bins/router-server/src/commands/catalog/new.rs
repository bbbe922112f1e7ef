//! `catalog new DIR`: asks five questions about a partner and its first model, and writes their files.
//!
//! Each answer is tried out as soon as it is given: the files that it makes are loaded as a catalog. The files come into the
//! folder in one step and take the place of nothing.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use providers::{Settings, Source};
use server_kit::program::{self, Failure};

use draft::{Draft, Question};

mod draft;

/// Most bytes of an answer: a few addresses are far shorter.
const MOST_ANSWER_BYTES: u64 = 8 * 1024;

/// The command.
pub(super) fn command() -> Command {
    let folder = Arg::new("directory")
        .value_name("DIR")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The catalog: the partner becomes a folder in it");
    let flags = Question::ALL.map(|question| {
        Arg::new(question.flag())
            .long(question.flag())
            .value_name("ANSWER")
            .help(format!(
                "{}; such as '{}'",
                question.asks(),
                question.example()
            ))
    });
    Command::new("new")
        .about(
            "Asks five questions about a partner and a model, and writes their files; a flag answers a question, and \
             without a terminal the lines of standard input answer the others",
        )
        .arg(folder)
        .args(flags)
}

/// Asks, and writes. `settings` say how partners may be reached.
pub(super) fn run(arguments: &ArgMatches, settings: &Settings) -> Result<(), Failure> {
    let folder: &PathBuf = arguments.get_one("directory").expect("it is required");
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let mut draft = Draft::new(today);
    for (at, question) in Question::ALL.into_iter().enumerate() {
        let given = arguments.get_one::<String>(question.flag());
        draft = match given {
            Some(text) => next(&draft, question, text, folder, settings)
                .map_err(|reason| unusable(question, &reason))?,
            None if io::stdin().is_terminal() => asked(&draft, at, question, folder, settings)?,
            None => {
                let text = line()?.ok_or_else(|| unanswered(question))?;
                next(&draft, question, &text, folder, settings)
                    .map_err(|reason| unusable(question, &reason))?
            }
        };
    }
    write(&draft, folder).map_err(|error| {
        let place = folder.join(draft.partner());
        refuse(format!("{} cannot be written: {error}", place.display()))
    })?;
    program::print(&draft.next_steps(folder));
    Ok(())
}

/// Asks at the terminal until the answer is one.
fn asked(
    draft: &Draft,
    at: usize,
    question: Question,
    folder: &Path,
    settings: &Settings,
) -> Result<Draft, Failure> {
    let (number, all) = (at + 1, Question::ALL.len());
    let (asks, example) = (question.asks(), question.example());
    say(&format!(
        "{number} of {all}  {asks}\n        such as: {example}\n"
    ));
    if let Some(more) = question.explains() {
        say(&format!("        {more}\n"));
    }
    loop {
        say("> ");
        let text = line()?.ok_or_else(|| unanswered(question))?;
        match next(draft, question, &text, folder, settings) {
            Ok(draft) => return Ok(draft),
            Err(reason) => say(&format!("{reason}.\nWrite for instance: {example}\n")),
        }
    }
}

/// The draft with one more answer, if a catalog can have it.
fn next(
    draft: &Draft,
    question: Question,
    text: &str,
    folder: &Path,
    settings: &Settings,
) -> Result<Draft, String> {
    let draft = draft.with(question, text.trim())?;
    if question == Question::Model {
        is_new(draft.partner(), folder, settings)?;
    }
    check(&draft, settings)?;
    Ok(draft)
}

/// No file is taken the place of: neither one that lies there, nor one that is compiled in.
fn is_new(partner: &str, folder: &Path, settings: &Settings) -> Result<(), String> {
    let there = folder.join(partner);
    if fs::symlink_metadata(&there).is_ok() {
        return Err(format!(
            "{} exists already; choose another name, or add the file of a model to the folder of its partner.toml",
            there.display()
        ));
    }
    let shipped = providers::load(&Source::with_builtin(None), settings, &|_| None);
    let shipped = shipped.map(|loaded| loaded.partners).unwrap_or_default();
    if shipped.iter().any(|known| known.id == partner) {
        return Err(format!(
            "{partner} is a partner of the catalog that is built in; choose another name"
        ));
    }
    Ok(())
}

/// Loads the files of a draft as a catalog of their own.
fn check(draft: &Draft, settings: &Settings) -> Result<(), String> {
    let aside = tempfile::tempdir().map_err(|error| format!("no folder for a trial: {error}"))?;
    draft
        .write(aside.path())
        .map_err(|error| format!("a trial cannot be written: {error}"))?;
    let source = Source {
        builtin: false,
        folder: Some(aside.path().to_owned()),
    };
    let checked = providers::check(&source, settings);
    checked.map(drop).map_err(|faults| {
        let reasons: Vec<String> = faults.into_iter().map(|fault| fault.reason).collect();
        reasons.join("; ")
    })
}

/// Puts the partner into the folder in one step, so that a server that looks meanwhile finds all of it or nothing. What came
/// to be there meanwhile stays.
fn write(draft: &Draft, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let aside = tempfile::Builder::new()
        .prefix(".new-")
        .tempdir_in(folder)?;
    draft.write(aside.path())?;
    fs::rename(
        aside.path().join(draft.partner()),
        folder.join(draft.partner()),
    )
}

/// The next line of standard input; `None` at its end.
fn line() -> Result<Option<String>, Failure> {
    let mut text = String::new();
    let read = io::stdin()
        .lock()
        .take(MOST_ANSWER_BYTES)
        .read_line(&mut text);
    let read = read.map_err(|error| refuse(format!("standard input cannot be read: {error}")))?;
    if read as u64 == MOST_ANSWER_BYTES && !text.ends_with('\n') {
        return Err(refuse(format!(
            "nothing is written: an answer is longer than {MOST_ANSWER_BYTES} bytes; write a shorter one"
        )));
    }
    Ok((read > 0).then_some(text))
}

/// Questions are not what the command was asked for, so they are kept out of standard output.
fn say(text: &str) {
    let mut terminal = io::stderr().lock();
    // A terminal that is gone is noticed when it is read.
    let _ = terminal
        .write_all(text.as_bytes())
        .and_then(|()| terminal.flush());
}

fn unanswered(question: Question) -> Failure {
    let (flag, example) = (question.flag(), question.example());
    refuse(format!(
        "nothing is written: --{flag} has no answer ({}); such as --{flag} '{example}'",
        question.asks()
    ))
}

fn unusable(question: Question, reason: &str) -> Failure {
    let (flag, example) = (question.flag(), question.example());
    refuse(format!(
        "nothing is written: --{flag}: {reason}; write for instance: {example}"
    ))
}

fn refuse(message: String) -> Failure {
    Failure {
        exit_code: 2,
        message,
    }
}
