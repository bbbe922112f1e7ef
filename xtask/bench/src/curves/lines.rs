//! Lines of JSON: one for each figure at each size, with all that a picture needs.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::picture::{Panel, Picture};
use super::series::{Axis, Series};
use crate::report::rounded;

/// One figure at one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) value: f64,
    pub(super) unit: String,
    pub(super) machine: Value,
    pub(super) build: Value,
}

/// Lines that are written as they come.
pub(crate) struct Lines<'a> {
    machine: Value,
    build: Value,
    out: &'a mut dyn Write,
    all: Vec<Line>,
}

impl<'a> Lines<'a> {
    /// None yet.
    pub(super) fn new(machine: Value, build: Value, out: &'a mut dyn Write) -> Self {
        Self {
            machine,
            build,
            out,
            all: Vec::new(),
        }
    }

    /// Takes in what was measured; none is no figure.
    ///
    /// # Errors
    /// When there is none, or the line cannot be written.
    pub(crate) fn take(
        &mut self,
        series: &Series,
        size: u64,
        value: Option<f64>,
    ) -> io::Result<()> {
        let value = value.filter(|value| value.is_finite());
        let value = value.ok_or_else(|| {
            io::Error::other(format!("nothing was measured of {} at {size}", series.name))
        })?;
        let line = Line {
            name: series.name.to_owned(),
            size,
            value: rounded(value),
            unit: series.unit.to_owned(),
            machine: self.machine.clone(),
            build: self.build.clone(),
        };
        writeln!(self.out, "{}", serde_json::to_string(&line)?)?;
        self.out.flush()?;
        self.all.push(line);
        Ok(())
    }

    /// What came so far.
    pub(super) fn all(&self) -> &[Line] {
        &self.all
    }

    /// Writes a line for people.
    pub(super) fn say(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// Writes all of them as a table, one row for each figure.
    pub(super) fn table(&mut self) -> io::Result<()> {
        writeln!(
            self.out,
            "\n{:<17} {:<5} value at each size",
            "figure", "unit"
        )?;
        for series in Axis::chosen(&[]).flat_map(Axis::series) {
            let points = points(series, &self.all);
            if points.is_empty() {
                continue;
            }
            let points: Vec<String> = points
                .iter()
                .map(|(size, value)| format!("{size}: {value}"))
                .collect();
            let (name, unit, points) = (series.name, series.unit, points.join("  "));
            writeln!(self.out, "{name:<17} {unit:<5} {points}")?;
        }
        Ok(())
    }
}

/// The lines of a file: of one that was written, or of what a run printed.
///
/// # Errors
/// When it cannot be read, or has a line of JSON that is no figure of a curve, or none at all.
pub(super) fn read(file: &Path) -> io::Result<Vec<Line>> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|error| {
        let text = format!(
            "{name} cannot be read ({error}): measure with `cargo xtask bench curves --write`, or name another file"
        );
        io::Error::new(error.kind(), text)
    })?;
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut lines = Vec::new();
    for (number, text) in text.lines().enumerate() {
        // The table below the lines of a run.
        if !text.starts_with('{') {
            continue;
        }
        let at = number + 1;
        let line: Line = serde_json::from_str(text).map_err(|error| {
            wrong(format!(
                "line {at} of {name} is no figure of a curve ({error}): remove it"
            ))
        })?;
        let Some(series) = series_of(&line.name) else {
            let known = &line.name;
            return Err(wrong(format!(
                "line {at} of {name} is of `{known}`, which is no figure of a curve: remove it"
            )));
        };
        if line.unit != series.unit {
            let (is, must) = (&line.unit, series.unit);
            return Err(wrong(format!(
                "line {at} of {name} is in `{is}` instead of `{must}`: measure it again"
            )));
        }
        lines.push(line);
    }
    match lines.is_empty() {
        true => Err(wrong(format!(
            "{name} has no figure of a curve: measure with `cargo xtask bench curves --write`"
        ))),
        false => Ok(lines),
    }
}

/// Lines as a file has them.
pub(super) fn text(lines: &[Line]) -> String {
    let lines = lines.iter().map(|line| {
        let line = serde_json::to_string(line).expect("a line is made of texts and numbers");
        line + "\n"
    });
    lines.collect()
}

/// The picture of an axis; `None` without lines of it.
pub(super) fn picture(axis: Axis, lines: &[Line]) -> Option<Picture> {
    let newest = lines.iter().rfind(|line| axis.has(&line.name))?;
    let panels = axis.series().iter().filter_map(|series| {
        let points = points(series, lines);
        let (_, at_smallest) = *points.first()?;
        Some(Panel {
            title: series.what,
            unit: series.unit,
            gate: series.gate.map(|gate| gate.bound(at_smallest)),
            points,
        })
    });
    Some(Picture {
        along: axis.title(),
        note: measured_on(newest),
        panels: panels.collect(),
    })
}

/// The values of a series by size; of two at one size the later.
fn points(series: &Series, lines: &[Line]) -> Vec<(u64, f64)> {
    let lines = lines.iter().filter(|line| line.name == series.name);
    let points: BTreeMap<u64, f64> = lines.map(|line| (line.size, line.value)).collect();
    points.into_iter().collect()
}

fn series_of(name: &str) -> Option<&'static Series> {
    let mut all = Axis::chosen(&[]).flat_map(Axis::series);
    all.find(|series| series.name == name)
}

/// What a line was measured on, for people.
fn measured_on(line: &Line) -> String {
    let text = |value: &Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_null() => "unknown".to_owned(),
        None => value.to_string(),
    };
    let changes = match line.build["changed_since"].as_bool() {
        Some(true) => " with changes",
        Some(false) | None => "",
    };
    format!(
        "{}, {} cores, load {}; profile {}, revision {}{changes}",
        text(&line.machine["cpu"]),
        text(&line.machine["cores"]),
        text(&line.machine["load_1m"]),
        text(&line.build["profile"]),
        text(&line.build["commit"]),
    )
}
