//! Formats against what Python 3.11 gave.

use serde_json::Value as Json;

use super::*;

/// `[value, template, text]`, where no text is an error.
const RECORDED: &str = include_str!("../../../../tests/engine/recorded/formats.json");

#[test]
fn formats_are_python_s() {
    let cases: Vec<(Json, String, Option<String>)> =
        serde_json::from_str(RECORDED).expect("a list of cases");
    assert!(cases.len() > 250, "the set is whole");
    let mut wrong = Vec::new();
    for (value, template, expected) in &cases {
        let found = formatted(template, &|name| {
            (name == "a").then(|| Value::from_json(value))
        });
        if found.as_ref().ok() != expected.as_ref() {
            wrong.push(format!("{value} {template}: {found:?}, not {expected:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn formats_may_have_values_and_no_more_within_them() {
    let value = |name: &str| match name {
        "a" => Some(Value::string("hi")),
        "b" => Some(Value::Int(6)),
        _ => None,
    };
    let filled = |template: &str| formatted(template, &value).ok();
    assert_eq!(
        filled("{a:>{b}}|{a:{b}s}|{b}").as_deref(),
        Some("    hi|hi    |6")
    );
    assert_eq!(filled("{a:{b:{b}}}"), None);
}

#[test]
fn no_format_makes_a_text_without_end() {
    let values = |name: &str| (name == "a").then(|| Value::string("x".repeat(1 << 19)));
    let widths = ["{a:9999999}", "{a:99999999999999999999999}", "{a}{a}{a}"];
    for template in widths {
        let error = formatted(template, &values).expect_err("it is too long");
        assert!(error.to_string().contains("1048576"), "{error}");
    }
    let number = |_: &str| Some(Value::Float(1.5));
    let long = formatted("{a:.70000f}", &number).expect("it fits");
    assert_eq!(long.len(), 70_002);
    assert!(long.starts_with("1.500") && long.ends_with('0'));
}

#[test]
fn what_has_no_text_is_refused() {
    let image = |_: &str| {
        let frame = images::Frame::filled(1, 1, 3, 0.0);
        Some(images::Image::single(frame).into())
    };
    let error = formatted("{a}", &image).expect_err("a picture has no text");
    assert!(error.to_string().contains("IMAGE has no text"), "{error}");
    let error = formatted("{a.__class__}", &|_| Some(Value::Int(1)));
    assert!(error.is_err(), "attributes are those of numbers");
}
