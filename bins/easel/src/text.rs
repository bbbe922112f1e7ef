//! Texts for people: tables, times, sizes, and nothing that could steer a terminal.

use jiff::Timestamp;
use serde_json::Value;

use crate::terminal;

/// What a server says, without control characters: a label or a message must not steer the terminal. Line feeds stay where
/// `lines` is set.
pub(crate) fn clean(text: &str, lines: bool) -> String {
    let kept = |c: &char| !c.is_control() || (lines && matches!(c, '\n' | '\t'));
    text.chars().filter(kept).collect()
}

/// Rows in columns. On a terminal with a heading; elsewhere tabs and no heading, for `cut` and `awk`.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| clean(cell, false)).collect())
        .collect();
    let mut text = String::new();
    if !terminal::is_out() {
        for row in &rows {
            text.push_str(&row.join("\t"));
            text.push('\n');
        }
        return text;
    }
    let heading = heading.iter().map(|cell| (*cell).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&heading).chain(&rows).collect();
    let width = |column: usize| {
        let cells = all.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    for row in all {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Names and values, a line each.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in pairs {
        let value = clean(value, true).replace('\n', &format!("\n{:width$}  ", ""));
        text.push_str(&format!("{name:<width$}  {value}\n"));
    }
    text
}

/// JSON for a program: whole, with a line feed at the end.
pub(crate) fn json(value: &Value) -> String {
    format!("{value:#}\n")
}

/// A value for people: a text as it is, anything else as JSON.
pub(crate) fn plain(value: &Value) -> String {
    let text = value.as_str();
    text.map_or_else(|| value.to_string(), str::to_owned)
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// How long ago a time of the server was.
pub(crate) fn ago(time: Option<&str>, now: Timestamp) -> String {
    let Some(time) = time.and_then(|time| time.parse::<Timestamp>().ok()) else {
        return "-".to_owned();
    };
    let seconds = now.duration_since(time).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// A status in its colour.
pub(crate) fn colored(status: &str) -> String {
    let status = clean(status, false);
    if !terminal::has_colors() {
        return status;
    }
    let color = match status.as_str() {
        "succeeded" => 32,
        "failed" | "expired" => 31,
        "running" => 36,
        _ => 33,
    };
    format!("\u{1b}[{color}m{status}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\nc", false), "a[2Jbc");
        assert_eq!(clean("a\u{9b}b\nc", true), "ab\nc");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(3 << 30), "3.0 GiB");
    }

    #[test]
    fn times_are_relative() {
        let now: Timestamp = "2026-11-23T10:00:00Z".parse().expect("a time");
        let at = |text| ago(Some(text), now);
        assert_eq!(at("2026-11-23T09:59:30Z"), "30 s ago");
        assert_eq!(at("2026-11-23T08:00:00Z"), "2 h ago");
        assert_eq!(at("2026-11-20T08:00:00Z"), "3 d ago");
        assert_eq!(at("later"), "-");
    }
}
