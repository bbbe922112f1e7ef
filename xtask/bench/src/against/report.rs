//! What a comparison gave: a line of JSON for each figure, and a table at the end.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::statistics::{Estimate, Seen, Verdict, spread};
use super::turns::{Compared, Series};
use crate::disk::Disk;
use crate::report::rounded;
use crate::samples::median;

/// What is the same for all figures of a comparison.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The names of the two programs.
    pub names: [String; 2],
    /// How both were built.
    pub build: Value,
    /// The machine.
    pub machine: Value,
    /// The disk, measured at the start of the run.
    pub disk: Option<Disk>,
    /// A difference up to this is none that matters, such as 0.03.
    pub bound: f64,
    /// Whether the run fails when something is slower.
    pub gate: bool,
}

/// How the values of a figure came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By clocks.
    Times,
    /// By counting instructions, with the program of this name.
    Counts(&'static str),
}

/// A comparison that is being written.
pub struct Report<'a> {
    setting: Setting,
    out: &'a mut dyn Write,
    rows: Vec<Row>,
    /// Written below the table.
    notes: Vec<String>,
    complete: bool,
}

/// A figure with its verdict.
struct Row {
    series: Series,
    method: Method,
    estimate: Estimate,
    verdict: Verdict,
}

impl<'a> Report<'a> {
    /// A report without figures yet.
    pub fn new(setting: Setting, out: &'a mut dyn Write) -> Self {
        Self {
            setting,
            out,
            rows: Vec::new(),
            notes: Vec::new(),
            complete: true,
        }
    }

    /// Adds what a scenario gave. One that failed leaves the others worth having.
    ///
    /// # Errors
    /// When the report cannot be written.
    pub fn take(
        &mut self,
        scenario: &str,
        method: Method,
        compared: io::Result<Compared>,
    ) -> io::Result<()> {
        match compared {
            Ok(Compared::Measured(all)) => {
                for series in all {
                    self.add(series, method)?;
                }
            }
            Ok(Compared::Lacking(error)) => self.note(format!(
                "{scenario} was skipped: the program of {} cannot do it ({error})",
                self.setting.names[0]
            )),
            Err(error) => {
                self.complete = false;
                self.note(format!("{scenario} was not compared: {error}"));
            }
        }
        Ok(())
    }

    /// Adds a line below the table.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    fn add(&mut self, series: Series, method: Method) -> io::Result<()> {
        let Some(estimate) = Estimate::of(&series.pairs, series.better) else {
            self.complete = false;
            self.note(format!("{} has values that are not above 0", series.name));
            return Ok(());
        };
        let verdict = estimate.verdict(self.setting.bound);
        let row = Row {
            series,
            method,
            estimate,
            verdict,
        };
        writeln!(self.out, "{}", row.line(&self.setting))?;
        self.out.flush()?;
        self.rows.push(row);
        Ok(())
    }

    /// Ends the report; whether everything was compared and, where that is asked for, nothing is slower.
    ///
    /// # Errors
    /// When the report cannot be written.
    pub fn close(mut self) -> io::Result<bool> {
        self.table()?;
        self.note_repeatability();
        for note in &self.notes {
            writeln!(self.out, "{note}")?;
        }
        let load = &self.setting.machine["load_1m"];
        if let Some(disk) = &self.setting.disk {
            write!(self.out, "{disk}; ")?;
        }
        writeln!(
            self.out,
            "the load of the machine was {load} when the run began"
        )?;
        let slower = |row: &&Row| row.verdict == Verdict::Slower;
        let slower: Vec<_> = self.rows.iter().filter(slower).collect();
        for row in &slower {
            writeln!(
                self.out,
                "{} is slower by {} (between {} and {}), and the bound is {}",
                row.series.name,
                percent(row.estimate.ratio),
                percent(row.estimate.low),
                percent(row.estimate.high),
                percent(1.0 + self.setting.bound),
            )?;
        }
        Ok(self.complete && (slower.is_empty() || !self.setting.gate))
    }

    fn table(&mut self) -> io::Result<()> {
        let [before, after] = &self.setting.names;
        writeln!(self.out, "\nbefore: {before}\nafter:  {after}\n")?;
        writeln!(
            self.out,
            "{:<24} {:>11} {:>11} {:<7} {:>8}  {:<19} {:>5}  {:<8} seen",
            "figure", "before", "after", "unit", "cost", "interval", "pairs", "verdict"
        )?;
        for row in &self.rows {
            let [before, after] = row.medians();
            let (low, high) = (percent(row.estimate.low), percent(row.estimate.high));
            let seen = match row.estimate.seen() {
                Seen::More => "costs more",
                Seen::Less => "costs less",
                Seen::Nothing => "-",
            };
            writeln!(
                self.out,
                "{:<24} {:>11} {:>11} {:<7} {:>8}  {:<19} {:>5}  {:<8} {seen}",
                row.series.name,
                rounded(before),
                rounded(after),
                row.series.unit,
                percent(row.estimate.ratio),
                format!("{low} to {high}"),
                row.series.pairs.len(),
                row.verdict.word(),
            )?;
        }
        writeln!(self.out)
    }

    /// Says how the instructions were counted and how repeatable that was.
    fn note_repeatability(&mut self) {
        let mut most: Option<(&str, f64)> = None;
        for row in &self.rows {
            let Method::Counts(counter) = row.method else {
                continue;
            };
            let worst = row.spreads().into_iter().flatten().fold(0.0, f64::max);
            let worst = most.map_or(worst, |(_, before)| before.max(worst));
            most = Some((counter, worst));
        }
        if let Some((counter, worst)) = most {
            self.note(format!(
                "instructions were counted by {counter}, in user mode; from run to run the counts of one program are apart by {:.2} % at most",
                worst * 100.0
            ));
        }
    }
}

impl Row {
    fn values(&self) -> [Vec<f64>; 2] {
        let pairs = &self.series.pairs;
        [
            pairs.iter().map(|pair| pair.before).collect(),
            pairs.iter().map(|pair| pair.after).collect(),
        ]
    }

    fn medians(&self) -> [f64; 2] {
        self.values()
            .map(|values| median(values).unwrap_or(f64::NAN))
    }

    fn spreads(&self) -> [Option<f64>; 2] {
        self.values().map(|values| spread(&values))
    }

    /// The figure as one line of JSON.
    fn line(&self, setting: &Setting) -> String {
        let [before, after] = self.medians();
        let fine = |number: f64| (number * 1e5).round() / 1e5;
        let spreads = self.spreads().map(|spread| spread.map(fine));
        json!({
            "scenario": self.series.name,
            "unit": self.series.unit,
            "method": match self.method {
                Method::Times => "times",
                Method::Counts(counter) => counter,
            },
            "names": setting.names,
            "before": rounded(before),
            "after": rounded(after),
            "cost": fine(self.estimate.ratio),
            "interval": [fine(self.estimate.low), fine(self.estimate.high)],
            "confidence": fine(self.estimate.confidence),
            "pairs": self.series.pairs.len(),
            "spread": spreads,
            "bound": setting.bound,
            "verdict": self.verdict.word(),
            "seen": self.estimate.seen().word(),
            "fsync_p50_ms": setting.disk.map(|disk| disk.overwrite_p50_ms),
            "machine": setting.machine,
            "build": setting.build,
        })
        .to_string()
    }
}

/// A ratio as what it is more or less than 1.
fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::against::statistics::Pair;
    use crate::claim::Better;

    fn setting(gate: bool) -> Setting {
        Setting {
            names: ["1234".to_owned(), "the working tree".to_owned()],
            build: json!("b"),
            machine: json!({"load_1m": 0.5}),
            disk: None,
            bound: 0.03,
            gate,
        }
    }

    fn series(name: &str, shift: f64) -> Series {
        let pair = |index| Pair {
            before: 100.0 + f64::from(index % 3),
            after: (100.0 + f64::from(index % 3)) * (1.0 + shift),
        };
        Series {
            name: name.to_owned(),
            unit: "us",
            better: Better::Lower,
            pairs: (0..10).map(pair).collect(),
        }
    }

    fn written(gate: bool, all: Vec<(Method, io::Result<Compared>)>) -> (bool, String) {
        let mut out = Vec::new();
        let mut report = Report::new(setting(gate), &mut out);
        for (method, compared) in all {
            let took = report.take("scenario", method, compared);
            took.expect("room for a line");
        }
        let passed = report.close().expect("room for a table");
        (passed, String::from_utf8(out).expect("text"))
    }

    fn measured(shift: f64) -> io::Result<Compared> {
        Ok(Compared::Measured(vec![series("call-cpu", shift)]))
    }

    #[test]
    fn a_line_has_both_medians_the_interval_and_the_verdict() {
        let (passed, text) = written(true, vec![(Method::Times, measured(0.02))]);
        let line: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("json");
        assert_eq!(
            (&line["before"], &line["after"]),
            (&json!(101.0), &json!(103.0))
        );
        assert_eq!(
            (&line["verdict"], &line["seen"], &line["pairs"]),
            (&json!("same"), &json!("more"), &json!(10))
        );
        assert_eq!(line["interval"], json!([1.02, 1.02]));
        assert_eq!(line["method"], "times");
        assert!(passed);
        assert!(text.contains("call-cpu"), "{text}");
        assert!(text.contains("+2.0 % to +2.0 %"), "{text}");
    }

    #[test]
    fn only_a_gate_fails_what_is_slower() {
        let (passed, text) = written(true, vec![(Method::Times, measured(0.1))]);
        assert!(!passed);
        assert!(text.contains("call-cpu is slower by +10.0 %"), "{text}");
        assert!(written(false, vec![(Method::Times, measured(0.1))]).0);
        assert!(written(true, vec![(Method::Times, measured(-0.1))]).0);
    }

    #[test]
    fn what_the_older_program_lacks_is_skipped_and_what_fails_is_not_complete() {
        let lacking = Ok(Compared::Lacking(io::Error::other("no such option")));
        let (passed, text) = written(true, vec![(Method::Times, lacking)]);
        assert!(passed && text.contains("scenario was skipped: the program of 1234 cannot do it"));
        let failed = Err(io::Error::other("gone"));
        let (passed, text) = written(false, vec![(Method::Times, failed)]);
        assert!(!passed && text.contains("scenario was not compared: gone"));
    }

    #[test]
    fn counts_say_who_counted_and_how_repeatable_that_is() {
        let counts = Method::Counts("callgrind");
        let (_, text) = written(false, vec![(counts, measured(0.0))]);
        assert!(text.contains("counted by callgrind"), "{text}");
        assert!(text.contains("apart by 1.98 % at most"), "{text}");
        let (_, text) = written(false, vec![(Method::Times, measured(0.0))]);
        assert!(!text.contains("counted by"), "{text}");
    }
}
