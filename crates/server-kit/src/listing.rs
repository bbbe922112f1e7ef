//! What commands list on standard output: a table for people, JSON for programs.

use clap::{Arg, ArgAction, ArgMatches};
use serde::Serialize;

/// The name of the flag.
const JSON: &str = "json";

/// The flag `--json` of a command that lists something.
#[must_use]
pub fn json_flag() -> Arg {
    Arg::new(JSON)
        .long(JSON)
        .action(ArgAction::SetTrue)
        .help("Prints JSON instead of a table")
}

/// Whether a command with [`json_flag`] was asked for JSON.
#[must_use]
pub fn wants_json(arguments: &ArgMatches) -> bool {
    arguments.get_flag(JSON)
}

/// A value as indented JSON, with a line feed at its end.
///
/// # Panics
/// If its keys are no text, which no list of a command has.
#[must_use]
pub fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value);
    format!("{}\n", text.expect("lists have keys of text"))
}

/// Columns as wide as what stands in them, two spaces apart.
#[must_use]
pub fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head = head.iter().map(|name| (*name).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_as_wide_as_what_stands_in_it() {
        let rows = [["a", "long name"], ["longer", "b"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let shown = table(&["ID", "NAME"], rows.into_iter());
        assert_eq!(shown, "ID      NAME\na       long name\nlonger  b\n");
    }
}
