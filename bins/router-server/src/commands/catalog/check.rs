//! `catalog check DIR`: whether the files of a catalog are right, and whether its models read what their partners answer as the
//! files say.
//!
//! The second is the part of the suite of the shipped catalog that needs no network: answers that follow from rules, states and
//! statuses.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use providers::{Expected, LoadedModel, PartnerModel, Source};
use server_kit::program::{self, Failure};

use crate::catalog::{CatalogFaults, CatalogSource};

/// The command.
pub(super) fn command() -> Command {
    let folder = Arg::new("directory")
        .value_name("DIR")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The catalog: a folder for each partner");
    Command::new("check")
        .about(
            "Checks a catalog without a network: shows the file, line and reason of each fault, and reads examples of its \
             partners' answers",
        )
        .arg(folder)
}

/// Runs it.
pub(super) fn run(arguments: &ArgMatches, source: &CatalogSource) -> Result<(), Failure> {
    let folder: &PathBuf = arguments.get_one("directory").expect("it is required");
    let files = Source::with_builtin(Some(folder.clone()));
    // Credentials do not matter to what is read, and only models with one are put together.
    let any = |name: &str| (!name.ends_with("_WEIGHT")).then(|| "any".to_owned());
    let loaded = providers::load(&files, source.settings(), &any)
        .map_err(|faults| Failure::usage(&CatalogFaults(faults)))?;
    let models: usize = loaded.partners.iter().map(|partner| partner.models).sum();
    let all = loaded.models.iter().chain(&loaded.switched_off);
    let mut text = format!("The files are right: {models} models, with those built in.\n");
    let mut wrong = Vec::new();
    let own = all.filter(|model| is_of(folder, model));
    let asked = own.filter_map(|model| Some((model, model.runner.as_ref()?)));
    for (model, runner) in asked {
        let id = model.model.id();
        text.push_str(&read(&id.to_string(), runner, &mut wrong));
        if !model.model.document().is_authored() {
            text.push_str("  There is no schema: any object is sent to the partner.\n");
        }
    }
    for (id, lacks) in &loaded.without_credentials {
        if folder.join(id.provider()).is_dir() {
            let _ = writeln!(text, "{id}: not read, because {lacks}");
        }
    }
    if text.lines().count() > 1 {
        text.push_str("What partners really answer was not asked: see `catalog try`.\n");
    }
    program::print(&text);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure {
        exit_code: 2,
        message: wrong.join("\n"),
    })
}

/// Whether the folder has the file of a model, or of its partner.
fn is_of(folder: &Path, model: &LoadedModel) -> bool {
    let id = model.model.id();
    let partner = folder.join(id.provider());
    let own = partner.join(format!("{}.toml", id.model()));
    own.is_file() || partner.join("partner.toml").is_file()
}

/// What came of reading the answers of a model.
fn read(id: &str, model: &PartnerModel, wrong: &mut Vec<String>) -> String {
    let found = model.cases();
    for case in &found.cases {
        let read = model.reads(case);
        if read != Some(case.expected) {
            let read = read.map_or_else(|| "a success".to_owned(), |read| read.to_string());
            wrong.push(format!(
                "{id}: {} is for the answer {} {}, which is read as {read} instead of {}",
                case.of, case.status, case.body, case.expected
            ));
        }
    }
    let mut text = format!(
        "{id}: {} answers that follow from the rules, states and statuses of its files were read.\n",
        found.cases.len()
    );
    for rule in &found.never {
        let _ = writeln!(
            text,
            "  {rule} decides about nothing, because rules before it do or this call has no such answer."
        );
    }
    let has_policy = |case: &providers::Case| case.expected == Expected::Policy;
    if !found.cases.iter().any(has_policy) {
        text.push_str(
            "  No answer means `content_policy_violation`: a caller reads of rejected content as of a mistake in the call, or of a failure.\n",
        );
    }
    if model.is_polled() && !model.can_cancel() {
        text.push_str(
            "  There is no `cancel`: a task whose caller has left continues at the partner.\n",
        );
    }
    text
}
