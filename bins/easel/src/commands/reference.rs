//! `completions`, `schema` and `man`: what needs no server.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::failure::{Failure, Kind};
use crate::{terminal, text};

/// The schema of what `--json` prints.
const SCHEMA: &str = include_str!("../../../../docs/schemas/easel.json");

/// `easel completions`.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "easel", &mut script);
    terminal::print_bytes(&script)
}

/// `easel schema`.
pub(crate) fn schema(output: Option<&str>) -> Result<(), Failure> {
    let Some(output) = output else {
        return terminal::print(SCHEMA);
    };
    let unusable = |error: serde_json::Error| Failure::new(Kind::Failed, error.to_string());
    let schema: Value = serde_json::from_str(SCHEMA).map_err(unusable)?;
    let Some(found) = schema["outputs"].get(output) else {
        let names = schema["outputs"].as_object().into_iter().flatten();
        let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
        return Err(Failure::usage(format!(
            "there is no output {output:?}; there are {}",
            names.join(", ")
        )));
    };
    let mut whole =
        json!({"$schema": schema["$schema"], "title": format!("easel {output} --json")});
    if let (Some(whole), Some(found)) = (whole.as_object_mut(), found.as_object()) {
        whole.extend(found.clone());
    }
    whole["$defs"] = schema["$defs"].clone();
    terminal::print(&text::json(&whole))
}

/// `easel man`.
pub(crate) fn manual(folder: &Path) -> Result<(), Failure> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let written = std::fs::create_dir_all(folder).and_then(|()| pages(&program, &day(), folder));
    written.map_err(|error| {
        Failure::new(
            Kind::Failed,
            format!("{} cannot be written: {error}", folder.display()),
        )
        .hint("name another folder")
    })
}

/// A page for a command and for each below it that its help shows.
fn pages(command: &Command, day: &str, folder: &Path) -> io::Result<()> {
    let commands = command.get_subcommands();
    for command in commands.filter(|command| !command.is_hide_set()) {
        pages(command, day, folder)?;
    }
    Man::new(command.clone()).date(day).generate_to(folder)?;
    Ok(())
}

/// The day of pages that are written now. Who packs them sets `SOURCE_DATE_EPOCH`, so that the same sources make the same pages.
fn day() -> String {
    let told = std::env::var("SOURCE_DATE_EPOCH").ok();
    let told = told.and_then(|seconds| Timestamp::from_second(seconds.trim().parse().ok()?).ok());
    let day = told.unwrap_or_else(Timestamp::now);
    day.strftime("%Y-%m-%d").to_string()
}
