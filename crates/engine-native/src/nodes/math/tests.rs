//! Expressions against what Python said of them, and bounds.

use serde_json::Value as Json;

use super::*;

/// `[expression, values, [float, whole, truth] or null]`, computed by the recorded class.
const RECORDED: &str = include_str!("tests/python.json");

/// Recorded where this engine has less on purpose: whole numbers wider than a link carries, and functions of objects.
const NARROWER: [&str; 8] = [
    "10**308",
    "2 ** 200",
    "pow(2, 4000)",
    "1 << 10000",
    "int(3e38)",
    "1e300*1e10",
    "a is b",
    "f'{a}'",
];

fn computed(expression: &str, values: &Json) -> Result<[Value; 3], Wrong> {
    let item = |value: &Json| number(&Value::from_json(value)).expect("a number");
    let values = values.as_object().expect("names").iter();
    let mut names: Vec<(String, Item)> = values
        .map(|(name, value)| (name.clone(), item(value)))
        .collect();
    let all = names.iter().map(|(_, item)| item.clone()).collect();
    names.push(("values".to_owned(), Item::List(all)));
    result(expression, names)
}

#[test]
fn expressions_come_to_what_python_says() {
    let recorded: Vec<(String, Json, Json)> =
        serde_json::from_str(RECORDED).expect("recorded cases");
    assert!(recorded.len() > 400);
    let mut wrong = Vec::new();
    for (expression, values, expected) in recorded {
        let found = computed(&expression, &values);
        let found = match &found {
            Ok(
                [
                    Value::Float(float),
                    Value::Int(whole),
                    Value::Boolean(truth),
                ],
            ) => {
                serde_json::json!([
                    crate::python_json::python_json(&(*float).into()),
                    whole.to_string(),
                    truth
                ])
            }
            _ => Json::Null,
        };
        if found != expected && !NARROWER.contains(&expression.as_str()) {
            wrong.push(format!(
                "{expression} with {values}: {found}, recorded {expected}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_cannot_be_computed_is_told_in_words() {
    for (expression, words) in [
        ("", "is empty"),
        ("a +", "a value is missing"),
        ("(a", "\")\" is missing"),
        ("b", "the names here are: a, values"),
        ("len(a)", "there is no function \"len\""),
        ("1 / 0", "divides by zero"),
        ("'x'", "no number"),
        ("a.bit_length()", "attributes are not supported"),
        ("(0.5).numerator", "whole numbers only"),
        ("2 ** 5000000", "4000000 at most"),
        ("10 ** 309", "too large"),
    ] {
        let wrong = computed(expression, &serde_json::json!({"a": 1})).expect_err(expression);
        assert!(
            wrong.message.contains(words),
            "{expression}: {}",
            wrong.message
        );
    }
}

#[test]
fn hostile_expressions_end_soon() {
    let huge = "9".repeat(4000);
    let long = |part: &str, times: usize| part.repeat(times);
    let hostile = [
        long("(", 500_000),
        long("-", 1_000_000),
        long("not ", 250_000),
        format!("1{}", long("+1", 500_000)),
        format!("{huge}{}", long(&format!("*1*{huge}//{huge}"), 120)),
        format!("2{}", long("**1", 300_000)),
        long("9**4000,", 10),
        format!("max({}1)", long("4000**4000//4000**3999,", 40_000)),
        long("a[", 300_000),
        format!("'a'{}", long("*2", 300_000)),
        format!("'{}'{}", long("a", 90_000), long(" in 'b'", 100_000)),
        long("1 if 1 else ", 80_000),
        long("abs(", 250_000),
        long("9", 1_000_000),
    ];
    for expression in hostile {
        // Steps are counted; without that count most of these run for hours.
        let _ = computed(&expression, &serde_json::json!({"a": 1}));
    }
}
