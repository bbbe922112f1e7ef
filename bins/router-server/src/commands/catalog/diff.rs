//! `catalog diff LIST`: what a list of models has that the catalog lacks, and the other way round.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use router_core::{ModelId, nearest};
use server_kit::program::{self, Failure};

use crate::catalog::CatalogSource;

/// Largest list: each missing model is compared with all of the catalog.
const MOST_BYTES: u64 = 1024 * 1024;

/// The words that say of what kind the models behind them are: video, image, audio, 3D, text.
const KINDS: [&str; 5] = ["v", "i", "a", "3", "t"];

/// The command.
pub(super) fn command() -> Command {
    let list = Arg::new("list")
        .value_name("LIST")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("A file with lines such as `bfl: flux-2-pro flux-2-max`, or one id such as bfl/flux-2-pro a line");
    Command::new("diff")
        .about(
            "Compares the catalog with a list of models: `-` is missing here, `+` is only here. The exit code is 0 if \
             nothing is missing, 1 if something is, and 2 if they cannot be compared",
        )
        .arg(list)
}

/// Runs it. Models that lack a credential or are switched off are there.
pub(super) fn run(arguments: &ArgMatches, source: &CatalogSource) -> Result<(), Failure> {
    let path: &PathBuf = arguments.get_one("list").expect("it is required");
    let refuse = |message: String| Failure {
        exit_code: 2,
        message,
    };
    let text = read(path)
        .map_err(|error| refuse(format!("{} cannot be read: {error}", path.display())))?;
    let listed = listed(&text)
        .map_err(|(line, reason)| refuse(format!("{}:{line}: {reason}", path.display())))?;
    let offer = source.load().map_err(|faults| Failure::usage(&faults))?;
    let known: BTreeSet<ModelId> = offer.ids().cloned().collect();
    program::print(&compared(&listed, &known));
    if listed.is_subset(&known) {
        return Ok(());
    }
    Err(Failure {
        exit_code: 1,
        message: String::new(),
    })
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?
        .take(MOST_BYTES + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        let why = format!("it has more than {MOST_BYTES} bytes");
        return Err(std::io::Error::other(why));
    }
    Ok(text)
}

/// The models of a list; otherwise the line that is wrong, and why.
fn listed(text: &str) -> Result<BTreeSet<ModelId>, (usize, String)> {
    let mut models = BTreeSet::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let wrong = |reason: String| (at + 1, reason);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((provider, names)) = line.split_once(':') else {
            let id = line.parse();
            models.insert(id.map_err(|error| wrong(format!("{error}")))?);
            continue;
        };
        for group in names.split('|') {
            let mut words = group.split_whitespace().peekable();
            words.next_if(|word| KINDS.contains(word));
            for name in words {
                let id = ModelId::new(provider.trim(), name);
                models.insert(id.map_err(|error| wrong(format!("`{name}`: {error}")))?);
            }
        }
    }
    match models.is_empty() {
        true => Err((1, "it lists no model".to_owned())),
        false => Ok(models),
    }
}

/// Both differences, and how many models there are.
fn compared(listed: &BTreeSet<ModelId>, known: &BTreeSet<ModelId>) -> String {
    let mut text = String::new();
    let (mut missing, mut own) = (0, 0);
    for id in listed.difference(known) {
        missing += 1;
        let near: Vec<String> = nearest(known.iter(), id.as_str())
            .iter()
            .map(ToString::to_string)
            .collect();
        let _ = match &near[..] {
            [] => writeln!(text, "- {id}"),
            near => writeln!(text, "- {id} (near: {})", near.join(", ")),
        };
    }
    for id in known.difference(listed) {
        own += 1;
        let _ = writeln!(text, "+ {id}");
    }
    let both = listed.intersection(known).count();
    let _ = writeln!(
        text,
        "{both} of {} listed models are in the catalog; {missing} are missing (-), {own} are only here (+).",
        listed.len()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> BTreeSet<ModelId> {
        names.iter().map(|name| name.parse().expect(name)).collect()
    }

    #[test]
    fn both_forms_of_lines_are_read() {
        let text = "# what there is\nbfl: v flux-3-video | i flux-2-pro v\n\nopenai/gpt-6-sol\n";
        let expected = ids(&[
            "bfl/flux-3-video",
            "bfl/flux-2-pro",
            "bfl/v",
            "openai/gpt-6-sol",
        ]);
        assert_eq!(listed(text), Ok(expected));
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        let line = |text: &str| listed(text).expect_err(text).0;
        assert_eq!(line("bfl: flux\nBFL: flux\n"), 2);
        assert_eq!(line("flux\n"), 1);
        assert_eq!(line("# none\n"), 1);
    }

    #[test]
    fn what_is_missing_names_what_is_near() {
        let listed = ids(&["acme/one", "bfl/flux-3-video", "moon/sun"]);
        let known = ids(&["acme/one", "bfl/flux-3-videos", "zz/q"]);
        let expected = "- bfl/flux-3-video (near: bfl/flux-3-videos)\n- moon/sun\n+ bfl/flux-3-videos\n+ zz/q\n\
                        1 of 3 listed models are in the catalog; 2 are missing (-), 2 are only here (+).\n";
        assert_eq!(compared(&listed, &known), expected);
    }
}
