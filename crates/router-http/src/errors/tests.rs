//! Every error once: status, bucket, headers and body.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use accounts::AccountsError;
use asset_store::BlobHash;
use bytes::Bytes;
use http_body_util::BodyExt;
use router_core::{LeftCall, Violation, ViolationStep};
use uuid::Uuid;

use super::*;

/// The table for people.
const TABLE: &str = include_str!("../../../../docs/ERRORS.md");

fn answer(body: &'static str) -> Answer {
    Answer {
        content_type: "application/json; odd=1".to_owned(),
        body: Bytes::from_static(body.as_bytes()),
    }
}

fn over_budget(window: BudgetWindow) -> RouterError {
    RouterError::OverBudget(accounts::OverBudget {
        cents: 40,
        of: None,
        left: accounts::BudgetLeft {
            window,
            limit_cents: 500,
            left_cents: 12,
            ends_at: window.end(jiff::Timestamp::UNIX_EPOCH),
        },
        retry_after: Duration::from_secs(7),
    })
}

fn samples() -> Vec<ApiError> {
    let id = |text: &str| text.parse::<ModelId>().expect("an id");
    let failed = |bucket| {
        RouterError::Ended(Outcome::Failed {
            bucket,
            message: "what happened".to_owned(),
        })
    };
    let violations = vec![
        Violation {
            location: vec![ViolationStep::Field("seed".to_owned())],
            message: "Field required".to_owned(),
            kind: "missing",
            context: None,
        },
        Violation {
            location: vec![
                ViolationStep::Field("images".to_owned()),
                ViolationStep::Index(2),
            ],
            message: "too small".to_owned(),
            kind: "greater_than_equal",
            context: Some(("ge", serde_json::json!(8))),
        },
    ];
    let second = Duration::from_millis(1_001);
    let routers = vec![
        RouterError::Malformed("`limit` must be an integer".to_owned()),
        RouterError::KeyConflict,
        RouterError::NotReplayable,
        RouterError::RequestNotFound,
        RouterError::CallNotFound,
        RouterError::ResultGone,
        RouterError::RequestCancelled,
        RouterError::WaitedTooLong,
        RouterError::NotDispatched {
            bucket: Bucket::InsufficientCredits,
            message: "what happened".to_owned(),
        },
        RouterError::BacklogFull { limit: 7 },
        RouterError::TooLarge { limit_bytes: 7 },
        RouterError::MediaType,
        RouterError::Schema(violations),
        RouterError::Ended(Outcome::Answered(answer("{}"))),
        RouterError::Ended(Outcome::Refused(ContentRefusal::Detail(answer(
            r#"{ "detail":[ ]}"#,
        )))),
        RouterError::Ended(Outcome::Refused(ContentRefusal::Content {
            code: "bad_size".to_owned(),
            message: "too wide".to_owned(),
        })),
        RouterError::Ended(Outcome::Policy {
            message: "not allowed".to_owned(),
            detail: None,
        }),
        RouterError::Ended(Outcome::Policy {
            message: "not allowed".to_owned(),
            detail: Some(answer(r#"{"detail" : [1.0]}"#)),
        }),
        failed(Bucket::ProviderError),
        failed(Bucket::ProviderTimeout),
        failed(Bucket::InternalError),
        failed(Bucket::ServiceUnavailable),
        RouterError::InsufficientCredits,
        over_budget(BudgetWindow::Hour),
        over_budget(BudgetWindow::Month),
        RouterError::ModelNotFound {
            suggestions: Vec::new(),
            lacks: None,
        },
        RouterError::ModelNotFound {
            suggestions: vec![id("bfl/flux-2"), id("bfl/flux-2-pro")],
            lacks: None,
        },
        RouterError::ModelNotFound {
            suggestions: Vec::new(),
            lacks: Some("BFL_API_KEY is not set".to_owned()),
        },
        RouterError::SwitchedOff,
        RouterError::Withdrawn,
        RouterError::Forbidden("the key lacks the scope router:run".into()),
        RouterError::NotEnabled,
        RouterError::TooManyCalls { limit: 5 },
        RouterError::SpendCap {
            hold_cents: 3,
            limit_cents: 100,
            current_cents: 98,
        },
        RouterError::SpendCap {
            hold_cents: 101,
            limit_cents: 100,
            current_cents: 110,
        },
        RouterError::InFlight {
            retry_after: second,
        },
        RouterError::RateLimited {
            quota: 60,
            window: "1m".to_owned(),
            retry_after: Duration::from_secs(7),
        },
        RouterError::Disconnected,
        RouterError::Deadline {
            left: LeftCall::NotDispatched,
            retry_after: None,
        },
        RouterError::Deadline {
            left: LeftCall::WithoutKey,
            retry_after: None,
        },
        RouterError::Deadline {
            left: LeftCall::WithKey,
            retry_after: Some(Duration::ZERO),
        },
        RouterError::Stopping { retry_after: None },
        RouterError::Stopping {
            retry_after: Some(second),
        },
        RouterError::TakenOver { retry_after: None },
        RouterError::TakenOver {
            retry_after: Some(second),
        },
        RouterError::Internal("a path".into()),
        RouterError::Unavailable("a path".into()),
        no_room(NoUnits::Key),
        no_room(NoUnits::Total),
    ];
    let others = vec![
        IdentityError::Unauthorized.into(),
        IdentityError::from(AccountsError("a path".into())).into(),
        ApiError::NoRoute,
        ApiError::MethodNotAllowed(HeaderValue::from_static("GET, HEAD")),
        BodyError::TooLarge { limit: 7 }.into(),
        BodyError::Idle.into(),
        BodyError::Broken("a path".into()).into(),
        ApiError::Content(ContentError::BadLink),
        ApiError::Content(ContentError::Unsatisfiable(HeaderValue::from_static(
            "bytes */7",
        ))),
        ApiError::Content(AssetsError::NotFound.into()),
        ApiError::Content(AssetsError::Damaged(BlobHash::of(b"")).into()),
        ApiError::Content(AssetsError::Store("a path".into()).into()),
        ApiError::Refused(Refusal::MissingHost),
        ApiError::Refused(Refusal::UnknownHost),
        ApiError::Refused(Refusal::TooManyStreams),
        ApiError::Refused(Refusal::UnknownTransferEncoding),
        ApiError::Refused(Refusal::Panicked),
    ];
    let routers = routers.into_iter().map(ApiError::Router);
    routers.chain(others).collect()
}

async fn parts(error: ApiError) -> String {
    let response = error.into_response(RequestId(Uuid::nil()), Dialect::First);
    let mut text = format!("{}", response.status().as_u16());
    let mut lines: Vec<String> = response
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
        .collect();
    lines.sort_unstable();
    for line in lines {
        write!(text, " | {line}").expect("a string takes everything");
    }
    let body = response.into_body().collect().await.expect("a body");
    let body = String::from_utf8(body.to_bytes().to_vec()).expect("text");
    format!("{text}\n{body}")
}

#[tokio::test]
async fn every_error_has_its_status_bucket_headers_and_body() {
    let mut all = String::new();
    for error in samples() {
        writeln!(all, "{}", parts(error).await).expect("a string takes everything");
    }
    let expected = include_str!("expected.txt");
    if all != expected {
        let path = std::env::temp_dir().join("router-errors.txt");
        std::fs::write(&path, &all).expect("a file");
        panic!(
            "the table changed; compare {} with expected.txt",
            path.display()
        );
    }
}

#[tokio::test]
async fn nothing_of_a_fault_is_told() {
    for error in samples() {
        let parts = parts(error).await;
        assert!(!parts.contains("a path"), "{parts}");
    }
}

#[test]
fn every_bucket_keeps_to_its_statuses_and_stands_in_the_table_for_people() {
    let mut met = BTreeSet::new();
    for error in samples() {
        let (bucket, refused) = (error.bucket(), matches!(error, ApiError::Refused(_)));
        let slow = matches!(error, ApiError::Body(BodyError::Idle));
        let ranged = matches!(error, ApiError::Content(ContentError::Unsatisfiable(_)));
        let parts = error.parts();
        assert_eq!(parts.bucket, bucket);
        // What HTTP itself has a status for, the plumbing answers with it.
        let status = parts.status.as_u16();
        assert!(
            bucket.statuses().contains(&status) || refused || slow || ranged,
            "{status} {bucket:?}"
        );
        met.insert(bucket);
    }
    assert_eq!(met.len(), Bucket::ALL.len(), "{met:?}");
    for bucket in Bucket::ALL {
        let line = format!("| `{}` |", bucket.name());
        assert!(TABLE.contains(&line), "docs/ERRORS.md has no {line}");
    }
}
