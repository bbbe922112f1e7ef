//! Which bodies are submissions, and what is wrong with the others.

use secrecy::ExposeSecret;

use super::*;

fn read(text: &str) -> Result<SubmissionBody, ApiError> {
    SubmissionBody::read(text.as_bytes())
}

#[test]
fn the_graph_is_taken_as_it_came() {
    let graph = r#"{ "2" : {"b":1.0, "a":1e2},"1":{} }"#;
    let body = read(&format!(r#"{{"workflow": {graph} , "unknown": [1]}}"#));
    assert_eq!(body.expect("a submission").workflow, graph);
}

#[test]
fn what_is_json_and_no_submission_is_no_workflow() {
    for text in ["[]", "null", "7", r#""x""#, "{}", r#"{"prompt": {}}"#] {
        assert!(
            matches!(read(text), Err(ApiError::NoSubmission(_))),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_json_is_malformed() {
    let bad: [&[u8]; 6] = [
        b"",
        b"{",
        b"{\"workflow\": NaN}",
        b"{'workflow': {}}",
        b"{} {}",
        b"\"\xff\"",
    ];
    for bytes in bad {
        let read = SubmissionBody::read(bytes);
        assert!(matches!(read, Err(ApiError::Syntax(_))), "{bytes:?}");
    }
}

#[test]
fn reserved_fields_are_refused() {
    for name in RESERVED {
        let read = read(&format!(r#"{{"workflow": {{}}, "{name}": null}}"#));
        assert!(matches!(read, Err(ApiError::Field { name: field, .. }) if field == name));
    }
}

#[test]
fn the_secret_goes_by_either_name_and_is_never_printed() {
    for name in SECRET_NAMES {
        let body = read(&format!(
            r#"{{"workflow": {{}}, "extra_data": {{"{name}": "s3cret"}}}}"#
        ));
        let body = body.expect("a submission");
        assert!(!format!("{body:?}").contains("s3cret"));
        let secret = body.secret.expect("a secret");
        assert_eq!(secret.expose_secret(), "s3cret");
    }
    let twice =
        r#"{"workflow": {}, "extra_data": {"api_key_comfy_org": "s", "api_key_service_org": "s"}}"#;
    assert!(read(twice).expect("a submission").secret.is_some());
}

#[test]
fn extra_data_is_closed_and_no_refusal_repeats_it() {
    let long = format!(
        r#"{{"api_key_comfy_org": "{}"}}"#,
        "x".repeat(MOST_SECRET_BYTES + 1)
    );
    for extra in [
        "[]",
        "7",
        r#"{"api_key_comfy_org": ""}"#,
        r#"{"api_key_comfy_org": null}"#,
        r#"{"api_key_comfy_org": "s3cret\n"}"#,
        r#"{"api_key": "s3cret"}"#,
        r#"{"api_key_comfy_org": "s3cret", "extra_pnginfo": {}}"#,
        r#"{"api_key_comfy_org": "s3cret", "api_key_service_org": "other"}"#,
        &long,
    ] {
        let read = read(&format!(r#"{{"workflow": {{}}, "extra_data": {extra}}}"#));
        let Err(ApiError::Field { name, must }) = read else {
            panic!("{extra} was taken");
        };
        assert_eq!(name, "extra_data");
        assert!(!must.contains("s3cret"));
    }
    for nothing in ["null", "{}"] {
        let read = read(&format!(r#"{{"workflow": {{}}, "extra_data": {nothing}}}"#));
        assert!(read.expect("a submission").secret.is_none(), "{nothing}");
    }
}

#[test]
fn what_passes_for_json_and_cannot_be_read_is_told() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for text in [deep.as_str(), "1e999", r#""\ud800""#] {
        assert!(
            matches!(unreadable(text.as_bytes()), Some(ApiError::Syntax(_))),
            "{text}"
        );
    }
    assert!(unreadable(b"{}").is_none());
}
