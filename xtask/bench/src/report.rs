//! One JSON line per scenario, and a table for people at the end.

use std::fmt::Debug;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::claim::Claim;
use super::disk::Disk;
use super::samples::Samples;

/// What was measured of one claim.
#[derive(Debug, Clone)]
pub struct Figure {
    /// What was to be reached.
    pub claim: Claim,
    /// The value, in the unit of the claim.
    pub value: f64,
    /// The single times behind it, if there are any.
    pub samples: Samples,
    /// What the server used.
    pub server: ServerUse,
    /// Whatever else belongs beside the value, by name.
    pub beside: Value,
}

/// What a server used while a figure was measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerUse {
    /// Processor seconds during the measurement.
    pub cpu_seconds: f64,
    /// Memory at its end, in bytes.
    pub resident_bytes: u64,
}

/// What is the same for all figures of a run.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The machine.
    pub machine: Value,
    /// The build.
    pub build: Value,
    /// The disk, measured at the start of the run.
    pub disk: Disk,
}

/// A run that is being told: a line for each figure as it comes, the table and what could not be measured at the end.
pub struct Report<'a> {
    setting: Setting,
    out: &'a mut dyn Write,
    figures: Vec<Figure>,
    /// Said below the table.
    notes: Vec<String>,
    complete: bool,
}

impl<'a> Report<'a> {
    /// A report without figures yet.
    pub fn new(setting: Setting, out: &'a mut dyn Write) -> Self {
        Self {
            setting,
            out,
            figures: Vec::new(),
            notes: Vec::new(),
            complete: true,
        }
    }

    /// Takes in what a scenario gave. One that failed leaves the others worth having.
    ///
    /// # Errors
    /// When the report cannot be written.
    pub fn take(
        &mut self,
        scenario: impl Debug,
        measured: io::Result<Vec<Figure>>,
    ) -> io::Result<()> {
        match measured {
            Ok(measured) => {
                for figure in &measured {
                    writeln!(self.out, "{}", figure.line(&self.setting))?;
                    self.out.flush()?;
                }
                self.figures.extend(measured);
            }
            Err(error) => {
                self.complete = false;
                self.note(format!("{scenario:?} was not measured: {error}"));
            }
        }
        Ok(())
    }

    /// Has a line said below the table.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Ends the report; whether everything was measured and passed its gate.
    ///
    /// # Errors
    /// When the report cannot be written.
    pub fn close(self) -> io::Result<bool> {
        table(&self.figures, self.out)?;
        for note in &self.notes {
            writeln!(self.out, "{note}")?;
        }
        writeln!(
            self.out,
            "{}; the load of the machine was {} when the run began",
            self.setting.disk, self.setting.machine["load_1m"]
        )?;
        let passed = |figure: &Figure| figure.claim.passes(figure.value) != Some(false);
        Ok(self.complete && self.figures.iter().all(passed))
    }
}

impl Figure {
    /// The figure as one line of JSON.
    fn line(&self, setting: &Setting) -> String {
        json!({
            "scenario": self.claim.name,
            "value": rounded(self.value),
            "unit": self.claim.unit,
            "gate": self.claim.gate,
            "aim": self.claim.aim,
            "passed": self.claim.passes(self.value),
            "aimed": self.claim.is_aimed(self.value),
            "samples": self.samples.count(),
            "p50_ms": self.samples.median_ms(),
            "p99_ms": self.samples.percentile_ms(99.0),
            "server_cpu_seconds": rounded(self.server.cpu_seconds),
            "server_rss_mb": rounded(megabytes(self.server.resident_bytes)),
            "fsync_p50_ms": setting.disk.overwrite_p50_ms,
            "fsync_p99_ms": setting.disk.overwrite_p99_ms,
            "fsync_append_p50_ms": setting.disk.append_p50_ms,
            "beside": self.beside,
            "machine": setting.machine,
            "build": setting.build,
        })
        .to_string()
    }
}

/// Writes the figures as a table.
fn table(figures: &[Figure], out: &mut dyn Write) -> io::Result<()> {
    let bound = |bound: Option<f64>| {
        bound.map_or_else(|| "-".to_owned(), |bound| rounded(bound).to_string())
    };
    writeln!(
        out,
        "\n{:<16} {:>10} {:<7} {:>9} {:>9}  {:<7} {:>9} {:>9}  measured",
        "scenario", "value", "unit", "gate", "aim", "verdict", "p50 ms", "p99 ms"
    )?;
    for figure in figures {
        let verdict = match (
            figure.claim.passes(figure.value),
            figure.claim.is_aimed(figure.value),
        ) {
            (Some(false), _) => "short",
            (_, Some(true)) => "aim",
            (Some(true), _) => "gate",
            (None, Some(false)) => "short",
            (None, None) => "-",
        };
        writeln!(
            out,
            "{:<16} {:>10} {:<7} {:>9} {:>9}  {:<7} {:>9} {:>9}  {}",
            figure.claim.name,
            rounded(figure.value),
            figure.claim.unit,
            bound(figure.claim.gate),
            bound(figure.claim.aim),
            verdict,
            bound(figure.samples.median_ms()),
            bound(figure.samples.percentile_ms(99.0)),
            figure.claim.what,
        )?;
    }
    Ok(())
}

/// Bytes as millions of them.
#[must_use]
pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// A number with as many digits as its size deserves.
#[must_use]
pub fn rounded(number: f64) -> f64 {
    let factor = match number.abs() {
        large if large >= 100.0 => 1.0,
        middle if middle >= 10.0 => 10.0,
        middle if middle >= 1.0 => 100.0,
        _ => 1000.0,
    };
    (number * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Better;

    fn figure(value: f64, gate: Option<f64>, aim: Option<f64>) -> Figure {
        Figure {
            claim: Claim {
                name: "polls",
                what: "polls",
                unit: "1/s",
                better: Better::Higher,
                gate,
                aim,
            },
            value,
            samples: Samples::new(vec![1000, 3000]),
            server: ServerUse::default(),
            beside: json!({"clients": 64}),
        }
    }

    fn setting() -> Setting {
        Setting {
            machine: json!({"load_1m": 0.5}),
            build: json!("b"),
            disk: Disk {
                overwrite_p50_ms: 0.2,
                overwrite_p99_ms: 0.9,
                append_p50_ms: 0.4,
            },
        }
    }

    #[test]
    fn a_line_has_the_verdict_and_what_it_was_measured_on() {
        let line = figure(2000.4, Some(1000.0), Some(3000.0)).line(&setting());
        let line: Value = serde_json::from_str(&line).expect("json");
        assert_eq!(line["value"], 2000.0);
        assert_eq!(
            (&line["passed"], &line["aimed"]),
            (&json!(true), &json!(false))
        );
        assert_eq!(
            (&line["p50_ms"], &line["p99_ms"]),
            (&json!(1.0), &json!(3.0))
        );
        assert_eq!(
            (&line["machine"], &line["fsync_p50_ms"]),
            (&json!({"load_1m": 0.5}), &json!(0.2))
        );
    }

    #[test]
    fn the_table_tells_short_gate_and_aim_apart() {
        let figures = [
            figure(1.0, Some(2.0), Some(3.0)),
            figure(2.0, Some(2.0), Some(3.0)),
            figure(3.0, Some(2.0), Some(3.0)),
            figure(3.0, None, None),
        ];
        let mut out = Vec::new();
        table(&figures, &mut out).expect("a vector takes every line");
        let text = String::from_utf8(out).expect("text");
        let verdicts: Vec<_> = text
            .lines()
            .skip(2)
            .map(|line| line.split_whitespace().nth(5).unwrap_or_default())
            .collect();
        assert_eq!(verdicts, ["short", "gate", "aim", "-"]);
    }

    #[test]
    fn a_report_says_what_is_missing_and_passes_only_whole() {
        let told = |measured: Vec<io::Result<Vec<Figure>>>| {
            let mut out = Vec::new();
            let mut report = Report::new(setting(), &mut out);
            for (number, measured) in measured.into_iter().enumerate() {
                report.take(number, measured).expect("room for a line");
            }
            report.note("a note".to_owned());
            let passed = report.close().expect("room for a table");
            (passed, String::from_utf8(out).expect("text"))
        };
        let good = || Ok(vec![figure(2.0, Some(1.0), None)]);
        let (passed, text) = told(vec![good(), good()]);
        assert!(passed && text.starts_with('{'));
        assert_eq!(text.matches("\"scenario\":\"polls\"").count(), 2);
        assert!(text.contains("\na note\n") && text.contains("the load of the machine was 0.5"));

        let (passed, _) = told(vec![good(), Ok(vec![figure(0.5, Some(1.0), None)])]);
        assert!(!passed);
        let (passed, text) = told(vec![Err(io::Error::other("gone")), good()]);
        assert!(!passed && text.contains("0 was not measured: gone"));
    }

    #[test]
    fn numbers_keep_three_digits_or_so() {
        assert_eq!(rounded(1234.56), 1235.0);
        assert_eq!(rounded(12.345), 12.3);
        assert_eq!(rounded(0.123_45), 0.123);
    }
}
