//! Options, files of lines and the pictures that come of them.

use std::collections::BTreeSet;

use clap::Parser;
use serde_json::json;

use super::*;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    options: Options,
}

fn options(words: &[&str]) -> Result<Options, clap::Error> {
    let words = ["curves"].iter().chain(words);
    Command::try_parse_from(words).map(|command| command.options)
}

fn line(name: &str, size: u64, value: f64) -> Line {
    let unit = if name.ends_with("memory") { "MB" } else { "us" };
    Line {
        name: name.to_owned(),
        size,
        value,
        unit: unit.to_owned(),
        machine: json!({"cpu": "a processor", "cores": 2, "load_1m": 0.5}),
        build: json!({"profile": null, "commit": "abc", "changed_since": true}),
    }
}

/// What reading a file of this text says.
fn refusal(text: &str) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), text).expect("room");
    let error = lines::read(file.path()).expect_err("it is no file of lines");
    error.to_string()
}

#[test]
fn a_bound_leaves_larger_sizes_out_and_two_must_be_left() {
    let left = |axis, words: &[&str]| sizes(axis, &options(words).expect("options"));
    assert_eq!(left(Axis::Stored, &[]).expect("sizes").len(), 4);
    let words = ["--most-stored", "10000", "--most", "100000"];
    assert_eq!(left(Axis::Stored, &words).expect("sizes"), [1_000, 10_000]);
    assert_eq!(left(Axis::Queued, &words).expect("sizes").len(), 4);
    let error = left(Axis::Held, &["--most", "999"]).expect_err("0 alone is no curve");
    assert!(error.to_string().contains("--only"), "{error}");
}

#[test]
fn bad_options_are_refused() {
    for words in [
        &["--seconds", "0"][..],
        &["--only", "replicas"],
        &["--from", "a", "--write"],
        &["--from", "--seconds", "5"],
    ] {
        assert!(options(words).is_err(), "{words:?}");
    }
    assert_eq!(options(&["--from"]).expect("options").from, Some(None));
    let words = ["--only", "held", "--program", "/nowhere/all-in-one"];
    let error = run(
        Path::new("/nowhere"),
        &options(&words).expect("options"),
        &mut Vec::new(),
    );
    let error = error.expect_err("there is no such program").to_string();
    assert!(
        error.contains("/nowhere/all-in-one is no program"),
        "{error}"
    );
}

#[test]
fn every_figure_has_a_name_of_its_own_and_every_axis_a_file() {
    let axes: Vec<Axis> = Axis::chosen(&[]).collect();
    let names = axes.iter().flat_map(|axis| axis.series());
    let names: Vec<_> = names.map(|series| series.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    for axis in &axes {
        assert!(axis.sizes().is_sorted() && axis.sizes().len() >= LEAST_SIZES);
        assert!(
            axis.series()
                .iter()
                .all(|series| series.name.starts_with(axis.name()))
        );
    }
}

#[test]
fn a_new_run_replaces_its_axes_and_pictures_come_of_lines_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let first = [
        line("stored-look", 1_000, 10.0),
        line("stored-look", 10_000, 12.0),
        line("held-memory", 0, 30.0),
    ];
    let drawn = write(folder, &[Axis::Stored, Axis::Held], &first).expect("room");
    assert_eq!(drawn, 2);
    // The lines of an axis that was not measured whole are not written.
    let second = [
        line("stored-look", 1_000, 20.0),
        line("held-memory", 0, 99.0),
    ];
    write(folder, &[Axis::Stored], &second).expect("room");
    let left = lines::read(&folder.join(FILE)).expect("lines");
    assert_eq!(
        left,
        [
            line("held-memory", 0, 30.0),
            line("stored-look", 1_000, 20.0)
        ]
    );

    let picture = |name: &str| fs::read_to_string(folder.join(name)).expect("a picture");
    let stored = picture("stored.svg");
    // The gate is 1.1 times the value at the smallest size.
    assert!(stored.contains(">gate 22<") && stored.contains(">20<"));
    assert!(
        stored
            .contains("a processor, 2 cores, load 0.5; profile unknown, revision abc with changes")
    );
    assert!(picture("held.svg").contains(">gate 150<"));
    assert!(!folder.join("models.svg").exists());
    let again = tempfile::tempdir().expect("a folder");
    assert_eq!(draw(&left, again.path()).expect("room"), 2);
    let drawn = fs::read_to_string(again.path().join("stored.svg")).expect("a picture");
    assert_eq!(drawn, stored);
}

#[test]
fn what_a_run_printed_can_be_drawn_from() {
    let mut out = Vec::new();
    let mut lines = Lines::new(json!({}), json!({}), &mut out);
    let look = Axis::Stored.series()[0];
    lines.take(&look, 1_000, Some(10.04)).expect("room");
    lines.take(&look, 10_000, Some(11.0)).expect("room");
    assert!(lines.take(&look, 100_000, None).is_err());
    assert!(lines.take(&look, 100_000, Some(f64::INFINITY)).is_err());
    lines.table().expect("room");
    let text = String::from_utf8(out).expect("text");
    assert!(text.contains("1000: 10  10000: 11"), "{text}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), text).expect("room");
    let read = lines::read(file.path()).expect("lines");
    assert_eq!(
        read.iter().map(|line| line.size).collect::<Vec<_>>(),
        [1_000, 10_000]
    );
}

#[test]
fn a_file_that_is_none_of_lines_is_refused_with_the_line() {
    assert!(refusal("a table\n").contains("has no figure"));
    assert!(refusal("\n{\"name\":1}\n").contains("line 2"));
    let unknown = lines::text(&[line("cloud-submit", 1, 1.0)]);
    assert!(refusal(&unknown).contains("line 1") && refusal(&unknown).contains("`cloud-submit`"));
    let mut other_unit = line("stored-look", 1, 1.0);
    other_unit.unit = "ms".to_owned();
    assert!(refusal(&lines::text(&[other_unit])).contains("in `ms` instead of `us`"));
    let error = lines::read(Path::new("/nowhere/lines")).expect_err("there is none");
    assert!(
        error.to_string().contains("bench curves --write"),
        "{error}"
    );
}
