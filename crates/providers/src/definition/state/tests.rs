//! What states are read, by table.

use serde_json::{Value, json};

use super::{State, StateReader};

fn reader(text: &str) -> StateReader {
    toml::from_str(text).expect("it is well written")
}

#[test]
fn an_unknown_state_is_neither_an_end_nor_a_result() {
    let reader = reader(
        r#"
        pointer = "/status"
        ok = ["Ready"]
        failed = ["Error"]
        policy = ["Content Moderated"]
        pending = ["Pending"]
        "#,
    );
    for (document, expected) in [
        (json!({"status": "Ready"}), State::Ok),
        (json!({"status": "READY"}), State::Ok),
        (json!({"status": "error"}), State::Failed),
        (json!({"status": "content moderated"}), State::Policy),
        (json!({"status": "Pending"}), State::Pending),
        (json!({"status": "Warming up"}), State::Unknown),
        (json!({"status": null}), State::Unknown),
        (json!({"status": ["Ready"]}), State::Unknown),
        (json!({}), State::Unknown),
        (json!([]), State::Unknown),
    ] {
        assert_eq!(reader.read(200, &document), expected, "{document}");
    }
}

#[test]
fn states_are_compared_exactly_where_it_is_said() {
    let reader = reader("pointer = \"/s\"\ncase = \"exact\"\nok = [\"Done\"]");
    assert_eq!(reader.read(200, &json!({"s": "Done"})), State::Ok);
    assert_eq!(reader.read(200, &json!({"s": "done"})), State::Unknown);
}

#[test]
fn states_may_be_numbers() {
    let reader = reader("pointer = \"/s\"\nok = [1]\npending = [5]\npolicy = [7]\nfailed = [6, 8]");
    for (value, expected) in [
        (json!(1), State::Ok),
        (json!("1"), State::Ok),
        (json!(5), State::Pending),
        (json!(7), State::Policy),
        (json!(8), State::Failed),
        (json!(1.5), State::Unknown),
    ] {
        assert_eq!(reader.read(200, &json!({"s": value})), expected);
    }
}

#[test]
fn a_state_may_be_the_http_status() {
    let reader = reader("http_status = true\nok = [200]\npending = [202]");
    assert_eq!(reader.read(200, &Value::Null), State::Ok);
    assert_eq!(reader.read(202, &Value::Null), State::Pending);
    assert_eq!(reader.read(204, &Value::Null), State::Unknown);
}

#[test]
fn a_flag_says_done() {
    let reader = reader("done = \"/done\"");
    assert_eq!(reader.read(200, &json!({"done": true})), State::Ok);
    assert_eq!(reader.read(200, &json!({"done": false})), State::Pending);
    assert_eq!(reader.read(200, &json!({})), State::Pending);
    assert_eq!(reader.read(200, &json!({"done": "yes"})), State::Unknown);
}

#[test]
fn several_jobs_become_one_state() {
    let of = |reduce: &str, states: &[&str]| {
        let reader = reader(&format!(
            "pointer = \"/jobs/*/s\"\nreduce = \"{reduce}\"\nok = [\"ok\"]\nfailed = [\"bad\"]\npolicy = [\"no\"]\npending = [\"wait\"]"
        ));
        let jobs: Vec<Value> = states.iter().map(|state| json!({"s": state})).collect();
        reader.read(200, &json!({"jobs": jobs}))
    };
    for (states, first, any, all) in [
        (&["ok", "ok"][..], State::Ok, State::Ok, State::Ok),
        (&["ok", "wait"], State::Ok, State::Ok, State::Pending),
        (&["wait", "ok"], State::Pending, State::Ok, State::Pending),
        (&["ok", "bad"], State::Ok, State::Ok, State::Failed),
        (
            &["bad", "wait"],
            State::Failed,
            State::Pending,
            State::Failed,
        ),
        (&["bad", "no"], State::Failed, State::Policy, State::Policy),
        (&["bad", "bad"], State::Failed, State::Failed, State::Failed),
        (&["ok", "odd"], State::Ok, State::Ok, State::Unknown),
        (&[], State::Unknown, State::Unknown, State::Unknown),
    ] {
        assert_eq!(of("first", states), first, "{states:?}");
        assert_eq!(of("any", states), any, "{states:?}");
        assert_eq!(of("all", states), all, "{states:?}");
    }
}

#[test]
fn a_state_has_one_source() {
    for text in [
        "ok = [\"a\"]",
        "pointer = \"/a\"",
        "pointer = \"/a\"\ndone = \"/b\"\nok = [\"a\"]",
        "pointer = \"/a\"\nhttp_status = true\nok = [\"a\"]",
        "pointer = \"/a\"\nok = [\"a\"]\nreduce = \"most\"",
        "pointer = \"/a\"\nok = [\"a\"]\nfinished = [\"b\"]",
    ] {
        assert!(toml::from_str::<StateReader>(text).is_err(), "{text}");
    }
}
