//! What was measured as a table: for a terminal, or in Markdown for `docs/BENCHMARKS.md`.

use std::io::{self, Write};

use super::{AIM_FASTER, Measured};
use crate::report::rounded;

/// What stands above the columns.
const HEAD: [&str; 13] = [
    "scenario", "side", "batch", "threads", "ms", "ns/pixel", "images", "peer ms", "faster",
    "copies", "apart", "bound", "verdict",
];

/// For a terminal.
pub(super) fn plain(all: &[Measured], out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<_> = all.iter().map(cells).collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].len());
        widths.max().unwrap_or(0).max(HEAD[column].len())
    };
    let widths: [usize; HEAD.len()] = std::array::from_fn(width);
    writeln!(out)?;
    for row in std::iter::once(&HEAD.map(str::to_owned)).chain(&rows) {
        let cells = row.iter().zip(widths);
        let padded: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect();
        writeln!(out, "{}", padded.join("  "))?;
    }
    Ok(())
}

/// For the documentation.
pub(super) fn markdown(all: &[Measured], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\n| {} |\n|{}|",
        HEAD.join(" | "),
        ["---"; HEAD.len()].join("|")
    )?;
    for measured in all {
        writeln!(out, "| {} |", cells(measured).join(" | "))?;
    }
    Ok(())
}

fn cells(measured: &Measured) -> [String; HEAD.len()] {
    let number = |number: Option<f64>| {
        number.map_or_else(|| "-".to_owned(), |number| rounded(number).to_string())
    };
    let verdict = match (measured.passes(), measured.faster()) {
        (None, _) => "-",
        (Some(false), _) => "SHORT",
        (Some(true), Some(faster)) if faster >= AIM_FASTER => "aim",
        (Some(true), _) => "gate",
    };
    let apart = match measured.difference {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(difference) => format!("{difference:.0e}"),
    };
    [
        measured.scenario.name.to_owned(),
        measured.shape.side.to_string(),
        measured.shape.batch.to_string(),
        measured.shape.threads.to_string(),
        number(Some(measured.ms)),
        number(Some(measured.ms * 1e6 / measured.pixels())),
        number(Some(measured.peak_images())),
        number(measured.peer_ms),
        number(measured.faster()),
        number(measured.of_floor()),
        apart,
        measured.bound().to_owned(),
        verdict.to_owned(),
    ]
}
