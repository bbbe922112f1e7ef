//! Every error once: its status, its code, and what of it goes out.

use std::collections::BTreeSet;

use accounts::AccountsError;
use asset_store::{AssetId, BlobHash};
use serde_json::Value;
use workflow_core::{JobId, Reference, StoreError};

use super::*;

/// The table for people.
const TABLE: &str = include_str!("../../../../../docs/ERRORS.md");

fn samples() -> Vec<ApiError> {
    let hash = BlobHash::of(b"x");
    let syntax = serde_json::from_str::<Value>("{").expect_err("no JSON");
    let reference = Reference::gone(AssetId(Uuid::nil()));
    let unreadable = || StoreError::Unavailable("a path".into());
    vec![
        IdentityError::Unauthorized.into(),
        IdentityError::from(AccountsError("a path".into())).into(),
        AccountsError("a path".into()).into(),
        ApiError::InsufficientCredits,
        ApiError::MissingScope(Scope::JobsRead),
        ApiError::SubscriptionInactive,
        ApiError::ForeignOrigin,
        ApiError::BadLink,
        ApiError::NoRoute,
        ApiError::MethodNotAllowed(HeaderValue::from_static("GET")),
        ApiError::NotFound,
        AssetsError::HashMismatch {
            expected: hash,
            actual: hash,
        }
        .into(),
        AssetsError::BlobNotFound.into(),
        AssetsError::NotFound.into(),
        AssetsError::InUse.into(),
        AssetsError::KeyReused(AssetId(Uuid::nil())).into(),
        AssetsError::QuotaExceeded { limit_bytes: 7 }.into(),
        AssetsError::Damaged(hash).into(),
        AssetsError::Store("a path".into()).into(),
        JobsError::Graph(GraphError::NotAnObject).into(),
        JobsError::Graph(GraphError::UiFormat).into(),
        JobsError::NoOutputs.into(),
        JobsError::MissingAsset(vec![reference]).into(),
        JobsError::KeyReused(JobId(Uuid::nil())).into(),
        JobsError::QueueFull { retry_after_s: 7 }.into(),
        JobsError::RateLimited(accounts::UsedUp {
            quota: 7,
            span: "1m".to_owned(),
            retry_after: std::time::Duration::from_secs(7),
        })
        .into(),
        JobsError::StorageQuota { limit_bytes: 7 }.into(),
        JobsError::NotReady { retry_after_s: 7 }.into(),
        JobsError::Stopped.into(),
        JobsError::NotFound.into(),
        JobsError::Store(unreadable()).into(),
        JobsError::Assets(AssetsError::Store("a path".into())).into(),
        BodyError::TooLarge { limit: 7 }.into(),
        BodyError::Idle.into(),
        BodyError::Broken("a path".into()).into(),
        IntakeError::from(RoomError::from(BodyError::Idle)).into(),
        IntakeError::from(RoomError::from(NoUnits::Key)).into(),
        IntakeError::from(NoUnits::Total).into(),
        IntakeError::from(json_text::TooLarge::Values).into(),
        IntakeError::from(workflow_core::Abandoned).into(),
        JobsError::Graph(GraphError::TextTooLong).into(),
        JobsError::Graph(GraphError::NodeIdTooLong {
            beginning: "x...".to_owned(),
            bytes: 257,
        })
        .into(),
        JobsError::Abandoned(workflow_core::Abandoned).into(),
        NotJson::Missing.into(),
        ApiError::Encoded,
        MultipartError::NotMultipart.into(),
        MultipartError::NoBoundary.into(),
        MultipartError::Malformed("a form").into(),
        MultipartError::TooLarge { limit: 7 }.into(),
        MultipartError::TooManyParts { limit: 7 }.into(),
        MultipartError::Idle.into(),
        MultipartError::Broken("a path".into()).into(),
        ApiError::UploadTooLarge { limit_bytes: 7 },
        ApiError::Syntax(syntax),
        ApiError::NoSubmission("no graph"),
        ApiError::Field {
            name: "x",
            must: "y".to_owned(),
        },
        ApiError::Labels("no label".to_owned()),
        ApiError::Filter("no filter".to_owned()),
        ApiError::Cursor,
        ApiError::Unsatisfiable(HeaderValue::from_static("bytes */7")),
        ApiError::TooManyStreams,
        TooManyUploads::OfAccount.into(),
        TooManyUploads::OfAll.into(),
        ApiError::Refused(Refusal::MissingHost),
        ApiError::Refused(Refusal::UnknownHost),
        ApiError::Refused(Refusal::TooManyStreams),
        ApiError::Refused(Refusal::UnknownTransferEncoding),
        ApiError::Refused(Refusal::Panicked),
    ]
}

#[test]
fn what_goes_out_is_safe_and_says_something() {
    for error in samples() {
        let answer = error.answer();
        assert!(!answer.message.contains("a path"), "{error:?}");
        assert!(
            !answer.message.is_empty() && !answer.message.ends_with('.'),
            "{error:?}"
        );
        let is_fault = answer.status == StatusCode::INTERNAL_SERVER_ERROR;
        assert_eq!(is_fault, answer.code == FAULT, "{error:?}");
    }
}

#[test]
fn the_log_gets_every_cause() {
    let error = ApiError::from(AssetsError::Store("no room".into()));
    assert_eq!(
        hyper_kit::error_chain(&error),
        "the asset store failed: no room"
    );
}

#[test]
fn every_429_and_503_says_when_to_come_back() {
    for error in samples() {
        let answer = error.answer();
        let pauses = matches!(&answer.header, Some((name, _)) if *name == RETRY_AFTER);
        let passes = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        assert_eq!(pauses, passes.contains(&answer.status), "{error:?}");
    }
}

#[test]
fn the_table_for_people_has_every_code_with_its_statuses() {
    let answered: BTreeSet<(String, u16)> = samples()
        .iter()
        .map(ApiError::answer)
        .map(|answer| (answer.code.to_owned(), answer.status.as_u16()))
        .collect();
    // The first table of the page; each family has its own below a heading of its own.
    let table = TABLE.split("\n# ").next().unwrap_or_default();
    let mut documented = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let code = cells[1].trim_matches('`').to_owned();
        for status in cells[2].split(',') {
            let status = status.trim().parse().expect("a status");
            documented.insert((code.clone(), status));
        }
    }
    assert_eq!(documented, answered);
}

#[test]
fn the_document_for_programs_has_every_code() {
    let document: Value = serde_json::from_str(crate::OPENAPI).expect("JSON");
    let documented = document["components"]["schemas"]["ErrorCode"]["enum"].clone();
    let documented: BTreeSet<String> = serde_json::from_value(documented).expect("texts");
    let answered = samples();
    let answered = answered.iter().map(|error| error.answer().code.to_owned());
    assert_eq!(documented, answered.collect());
}
