//! Manual pages of a program and its commands.
//!
//! They say of which day they are. Who packs them sets `SOURCE_DATE_EPOCH`, so that the same sources make the same pages.

use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use jiff::Timestamp;

/// The day of pages that are written now.
pub(crate) fn day() -> String {
    let told = std::env::var("SOURCE_DATE_EPOCH").ok();
    let told = told.and_then(|seconds| Timestamp::from_second(seconds.trim().parse().ok()?).ok());
    let day = told.unwrap_or_else(Timestamp::now);
    day.strftime("%Y-%m-%d").to_string()
}

/// Writes a page for the program and for each command that its help shows.
///
/// # Errors
/// If the folder cannot be written.
pub(crate) fn write(program: Command, day: &str, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut program = program.disable_help_subcommand(true);
    program.build();
    write_each(&program, day, folder)
}

fn write_each(command: &Command, day: &str, folder: &Path) -> io::Result<()> {
    let commands = command.get_subcommands();
    for command in commands.filter(|command| !command.is_hide_set()) {
        write_each(command, day, folder)?;
    }
    Man::new(command.clone()).date(day).generate_to(folder)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_says_of_which_day_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let hidden = Command::new("hidden").hide(true);
        let shown = Command::new("shown").subcommand(Command::new("below"));
        let program = Command::new("program").subcommands([hidden, shown]);
        write(program, "2023-11-14", folder.path()).expect("room");
        let mut titles: Vec<String> = std::fs::read_dir(folder.path())
            .expect("the folder")
            .map(|entry| std::fs::read_to_string(entry.expect("an entry").path()).expect("a page"))
            .map(|page| {
                let title = page.lines().find(|line| line.starts_with(".TH "));
                title.expect("a title").trim_end().to_owned()
            })
            .collect();
        titles.sort_unstable();
        let names: Vec<&str> = titles
            .iter()
            .filter_map(|title| title.split(' ').nth(1))
            .collect();
        assert_eq!(names, ["program", "program-shown", "program-shown-below"]);
        assert!(
            titles.iter().all(|title| title.contains(" 2023-11-14 ")),
            "{titles:?}"
        );
    }
}
