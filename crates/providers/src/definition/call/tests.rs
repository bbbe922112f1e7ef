//! Which calls are understood, and which mistakes are found before anything is sent.

use std::time::Duration;

use super::{Call, Send, Target};

const POLL: &str = r#"
style = "poll"
submit = { path = "/v1/{endpoint}" }
task = { id = "/id", keep = { url = "/url" } }
poll = { url = "{url}" }
state = { pointer = "/status", ok = ["done"] }
"#;

fn refusal(text: &str) -> String {
    let error = toml::from_str::<Call>(text).expect_err(text);
    error.message().to_owned()
}

#[test]
fn what_is_left_out_has_a_usual_value() {
    let call: Call = toml::from_str(POLL).expect("it is well written");
    assert!(matches!(call.submit.body, Send::Passthrough));
    assert_eq!(call.max_answer_bytes, 64 * 1024 * 1024);
    let polled = call.polled.expect("it polls");
    assert_eq!(polled.pace.interval, Duration::from_secs(1));
    assert_eq!(polled.not_found_grace, Duration::from_secs(30));
    assert_eq!(polled.poll.method, http::Method::GET);
    assert!(matches!(polled.poll.target, Target::Url(_)));
    assert!(polled.result.is_empty() && polled.cancel.is_none());
}

#[test]
fn a_submission_is_sent_in_a_way_that_carries_a_body() {
    let method = |submit: &str| {
        let text = format!("style = \"sync\"\nsubmit = {{ {submit} path = \"/\" }}");
        toml::from_str::<Call>(&text).map(|call| http::Method::from(call.submit.method))
    };
    assert_eq!(method("").ok(), Some(http::Method::POST));
    assert_eq!(method("method = \"PUT\",").ok(), Some(http::Method::PUT));
    assert!(method("method = \"GET\",").is_err());
}

#[test]
fn a_model_fills_what_nothing_else_does() {
    let open = |text: &str| {
        let call: Call = toml::from_str(text).expect("it is well written");
        let names = call.open_names().into_iter().map(str::to_owned);
        names.collect::<Vec<_>>()
    };
    assert_eq!(open(POLL), ["endpoint"]);
    let known = POLL.replace("{endpoint}", "{model}/{generation}");
    assert!(open(&known).is_empty());
    // A task has no name before it is submitted, nor is a thing kept before it was said.
    assert_eq!(open(&POLL.replace("{endpoint}", "{task}")), ["task"]);
    let steps = format!(
        "{POLL}\n[[result]]\npath = \"/{{file}}\"\n[[result]]\nkeep = {{ file = \"/f\" }}\npath = \"/{{file}}/{{task}}/{{kind}}\"\n"
    );
    assert_eq!(open(&steps), ["endpoint", "file", "kind"]);
}

#[test]
fn a_call_that_cannot_work_is_refused() {
    let replaced = |from: &str, to: &str| {
        assert!(POLL.contains(from), "{from}");
        refusal(&POLL.replace(from, to))
    };
    for (message, expected) in [
        (
            replaced("\"/v1/{endpoint}\"", "\"v1\""),
            "the `path` of `submit` begins with `/`",
        ),
        (
            replaced("url = \"{url}\"", "path = \"x\""),
            "a `path` begins with `/`",
        ),
        (
            replaced("url = \"{url}\"", "url = \"{url}\", path = \"/x\""),
            "a request has either a `path` or a `url`",
        ),
        (
            replaced(
                "url = \"{url}\"",
                "url = \"{url}\", body = '{\"a\": {url}}'",
            ),
            "the `body` of a request is JSON, with gaps inside its strings",
        ),
        (
            replaced("url = \"{url}\"", "url = \"{url}\", interval_ms = 0"),
            "`interval_ms` is at least 1 and at most `max_interval_ms`",
        ),
        (
            replaced("url = \"{url}\"", "url = \"{url}\", backoff = 0.5"),
            "`backoff` is from 1 to 10, and `jitter` from 0 to 0.5",
        ),
        (
            replaced("keep = { url", "keep = { task"),
            "`task` is no name to keep something by: write lower-case letters, digits and `_`",
        ),
        (
            replaced("\"poll\"", "\"sync\""),
            "a call of style `sync` has no `task`, `poll`, `state`, `result`, `cancel`",
        ),
    ] {
        assert_eq!(message, expected);
    }
}

#[test]
fn a_body_is_wrapped_where_a_value_goes() {
    let wrapped = |text: &str| {
        let call =
            format!("style = \"sync\"\nsubmit = {{ path = \"/\", body = {{ wrap = '{text}' }} }}");
        toml::from_str::<Call>(&call).map(|call| match call.submit.body {
            Send::Wrap(wrap) => [wrap.before, wrap.after],
            Send::Passthrough | Send::MultipartFromJson(_) => panic!("it wraps"),
        })
    };
    let parts = wrapped(r#"{"input":$body,"n":1}"#).expect("it is well written");
    assert_eq!(parts, [r#"{"input":"#, r#","n":1}"#]);
    for wrong in [
        "{}",
        r#"{"a":"$body"}"#,
        r#"{"a":$body"#,
        r#"{"a":$body,"b":$body}"#,
        r#"{$body:1}"#,
    ] {
        assert!(wrapped(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_catalog_sets_no_header_of_transport_or_credential() {
    for header in [
        "Authorization",
        "host",
        "Content-Length",
        "Transfer-Encoding",
        "a b",
    ] {
        let text = POLL.replace(
            "submit = { path = \"/v1/{endpoint}\" }",
            &format!("submit = {{ path = \"/\", headers = {{ \"{header}\" = \"x\" }} }}"),
        );
        assert!(toml::from_str::<Call>(&text).is_err(), "{header}");
    }
}
