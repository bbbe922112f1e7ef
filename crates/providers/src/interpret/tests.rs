//! What answers mean, by table: the whole of it without a socket.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use router_core::{Answer, Charge, Failure, Ran, Refusal};

use super::{Dialect, Reading, Reply, SubmitReading};
use crate::definition::{ModelFile, PartnerFile};

fn dialect(partner: &str, model: &str) -> Dialect {
    let partner: PartnerFile = toml::from_str(partner).expect("it is well written");
    let model: ModelFile = toml::from_str(model).expect("it is well written");
    let call = partner.call.values().next().expect("there is one");
    Dialect::new(&partner, call, &model)
}

const MODEL: &str = "charges_on_policy_rejection = \"no\"\n[price]\nkind = \"fixed\"\ncents = 4\n";

const CHARGING: &str =
    "charges_on_policy_rejection = \"yes\"\n[price]\nkind = \"fixed\"\ncents = 4\n";

const SYNC: &str = r#"
name = "S"
base_url = "https://a.test"
auth = { kind = "none" }
texts = { code = ["/error/code"], message = ["/error/message"] }
[[errors]]
pointer = "/error/code"
is = ["moderation*"]
bucket = "content_policy_violation"
[[errors]]
pointer = "/error/code"
is = ["quota"]
bucket = "service_unavailable"
[[errors]]
pointer = "/error/code"
is = ["busy"]
bucket = "service_unavailable"
retryable = true
[call.x]
style = "sync"
submit = { path = "/" }
[[call.x.guards]]
pointer = "/blocked"
present = true
bucket = "content_policy_violation"
"#;

const POLL: &str = r#"
name = "P"
base_url = "https://a.test"
auth = { kind = "none" }
texts = { code = ["/code"], message = ["/why"] }
[[errors]]
pointer = "/code"
is = ["SAFETY.*"]
bucket = "content_policy_violation"
[[errors]]
pointer = "/code"
is = ["INPUT"]
bucket = "invalid_input"
[[errors]]
status = [401]
pointer = "/code"
is = ["QUOTA"]
bucket = "service_unavailable"
[call.x]
style = "poll"
submit = { path = "/" }
task = { id = "/id", keep = { url = "/url" } }
poll = { url = "{url}", not_found_grace_ms = 30000 }
state = { pointer = "/status", ok = ["OK"], failed = ["FAILED"], policy = ["BANNED"], pending = ["WAIT"] }
[[call.x.guards]]
on = ["poll"]
pointer = "/throttled"
is = [true]
bucket = "service_unavailable"
retryable = true
"#;

fn reply(status: u16, body: &str) -> Reply {
    Reply {
        status,
        headers: Box::new(HeaderMap::from_iter([(
            CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        )])),
        retry_after: None,
        body: body.to_owned().into(),
    }
}

fn submit(dialect: &Dialect, status: u16, body: &str) -> Result<SubmitReading, Failure> {
    dialect.read_submit(reply(status, body))
}

fn poll(status: u16, body: &str, elapsed_s: u64) -> Result<Reading, Failure> {
    let dialect = dialect(POLL, MODEL);
    let polled = dialect.call.polled.as_ref().expect("it polls");
    dialect.read_poll(polled, reply(status, body), Duration::from_secs(elapsed_s))
}

fn ran(failure: &Failure) -> Option<Ran> {
    match failure {
        Failure::Failed { ran, .. }
        | Failure::TimedOut { ran, .. }
        | Failure::Account { ran, .. } => Some(*ran),
        Failure::InStream { .. } => Some(Ran::Perhaps),
        Failure::Refused { .. } | Failure::Policy { .. } | Failure::Transient { .. } => None,
    }
}

fn kind(failure: &Failure) -> &'static str {
    match failure {
        Failure::Refused { .. } => "refused",
        Failure::Policy { .. } => "policy",
        Failure::Failed { .. } => "failed",
        Failure::TimedOut { .. } => "timed out",
        Failure::Account { .. } => "account",
        Failure::Transient { .. } => "transient",
        Failure::InStream { cause, .. } => kind(cause),
    }
}

#[test]
fn what_a_status_means_for_a_submission() {
    let dialect = dialect(SYNC, MODEL);
    for (status, expected, expected_ran) in [
        (400, "refused", None),
        (422, "refused", None),
        (413, "refused", None),
        // Our own account's trouble, never the caller's.
        (401, "account", Some(Ran::Nothing)),
        (402, "account", Some(Ran::Nothing)),
        (403, "account", Some(Ran::Nothing)),
        (404, "failed", Some(Ran::Nothing)),
        (429, "transient", None),
        (408, "timed out", Some(Ran::Perhaps)),
        (409, "failed", Some(Ran::Perhaps)),
        (500, "failed", Some(Ran::Perhaps)),
        (503, "failed", Some(Ran::Perhaps)),
        (504, "timed out", Some(Ran::Perhaps)),
        // A redirect is no answer.
        (302, "failed", Some(Ran::Perhaps)),
        (307, "failed", Some(Ran::Perhaps)),
    ] {
        let failure = submit(&dialect, status, "{}").expect_err("no success");
        assert_eq!(kind(&failure), expected, "{status}");
        assert_eq!(ran(&failure), expected_ran, "{status}");
    }
}

#[test]
fn a_rule_comes_before_the_status() {
    let dialect = dialect(SYNC, MODEL);
    let of = |status, code: &str| {
        let body = format!(r#"{{"error":{{"code":"{code}"}}}}"#);
        let failure = submit(&dialect, status, &body).expect_err("no success");
        kind(&failure)
    };
    assert_eq!(of(400, "moderation_blocked"), "policy");
    assert_eq!(of(429, "quota"), "account");
    assert_eq!(of(500, "busy"), "transient");
    assert_eq!(of(400, "else"), "refused");
}

#[test]
fn a_refusal_inside_a_200_is_one() {
    let body = r#"{"blocked":"SAFETY"}"#;
    let free = submit(&dialect(SYNC, MODEL), 200, body).expect_err("a refusal");
    let Failure::Policy { charge, detail, .. } = free else {
        panic!("{free:?}");
    };
    assert_eq!((charge, detail), (Charge::Cents(0), None));
    let charged = submit(&dialect(SYNC, CHARGING), 200, body).expect_err("a refusal");
    assert!(matches!(
        charged,
        Failure::Policy {
            charge: Charge::AsHeld,
            ..
        }
    ));
}

#[test]
fn a_synchronous_answer_passes_as_it_is() {
    let dialect = dialect(SYNC, MODEL);
    for body in [
        "{ \"b\":1.0, \"a\" : 1, \"b\":123456789012345678901234567890 }",
        "[\"\\u00e9\\/\", 1e5, -0.0]",
        "{\"half\": \"\\ud800\", \"huge\": 1e999}",
        "  null\n",
    ] {
        let read = submit(&dialect, 200, body).expect("a success");
        let SubmitReading::Result { reply, .. } = read else {
            panic!("{read:?}");
        };
        assert_eq!(reply.body, body);
    }
}

#[test]
fn an_answer_that_cannot_be_interpreted_is_a_failure() {
    let dialect = dialect(SYNC, MODEL);
    for (status, body) in [
        (200, "{\"a\":"),
        (200, ""),
        (200, "<html>"),
        (202, "{}"),
        (204, ""),
    ] {
        let failure = submit(&dialect, status, body).expect_err("no result");
        assert_eq!(ran(&failure), Some(Ran::Perhaps), "{status} {body}");
    }
}

#[test]
fn a_page_for_people_is_no_result() {
    let dialect = dialect(SYNC, MODEL);
    let read = |media_type| {
        let mut reply = reply(200, "<html>down for maintenance</html>");
        let media_type = HeaderValue::from_static(media_type);
        reply.headers.insert(CONTENT_TYPE, media_type);
        dialect.read_submit(reply)
    };
    assert!(matches!(
        read("Text/HTML; charset=utf-8"),
        Err(Failure::Failed { .. })
    ));
    assert!(matches!(
        read("text/plain"),
        Ok(SubmitReading::Result { .. })
    ));
}

#[test]
fn a_detail_array_of_the_provider_passes_unchanged() {
    let dialect = dialect(SYNC, MODEL);
    let body = r#"{ "detail":[ {"loc":["body"],"msg":"m","type":"t","n":1.0,"n":2} ] }"#;
    let failure = submit(&dialect, 422, body).expect_err("a refusal");
    let expected = Refusal::Detail(Answer {
        content_type: "application/json".to_owned(),
        body: body.into(),
    });
    let Failure::Refused { refusal, charge } = failure else {
        panic!("{failure:?}");
    };
    assert_eq!((refusal, charge), (expected, Charge::Cents(0)));
}

#[test]
fn another_providers_content_error_becomes_one_entry() {
    let dialect = dialect(SYNC, MODEL);
    let long = "é".repeat(2000);
    for (body, code, message) in [
        (
            r#"{"error":{"code":"bad_size","message":"too big"}}"#.to_owned(),
            "bad_size",
            "too big".to_owned(),
        ),
        (
            r#"{"detail":"text"}"#.to_owned(),
            "rejected",
            "the provider rejected the input".to_owned(),
        ),
        (
            "no json".to_owned(),
            "rejected",
            "the provider rejected the input".to_owned(),
        ),
        (
            format!(r#"{{"error":{{"code":"c","message":"{long}"}}}}"#),
            "c",
            "é".repeat(1024),
        ),
    ] {
        let failure = submit(&dialect, 400, &body).expect_err("a refusal");
        let Failure::Refused { refusal, .. } = failure else {
            panic!("{failure:?}");
        };
        let expected = Refusal::Content {
            code: code.to_owned(),
            message,
        };
        assert_eq!(refusal, expected);
    }
}

#[test]
fn a_submission_names_its_task() {
    let dialect = dialect(POLL, MODEL);
    let read = submit(&dialect, 200, r#"{"id": 17, "url": "https://a.test/17"}"#);
    let Ok(SubmitReading::Accepted(task)) = read else {
        panic!("{read:?}");
    };
    assert_eq!(task.id, "17");
    assert_eq!(task.kept["url"], "https://a.test/17");
    for body in [
        r#"{"id": "a"}"#,
        r#"{"url": "u"}"#,
        "{}",
        "[]",
        "<html>",
        "",
    ] {
        let failure = submit(&dialect, 200, body).expect_err("no task");
        assert_eq!(ran(&failure), Some(Ran::Perhaps), "{body}");
    }
}

#[test]
fn what_a_look_at_a_task_says() {
    for (status, body, expected) in [
        (200, r#"{"status":"OK"}"#, Ok("done")),
        (200, r#"{"status":"WAIT"}"#, Ok("pending")),
        // An unknown state keeps polling, and so does what is no document.
        (200, r#"{"status":"WARMING"}"#, Ok("pending")),
        (200, "{\"status\":", Ok("pending")),
        (200, "<html>", Ok("pending")),
        (200, r#"{"status":"FAILED"}"#, Err("failed")),
        (200, r#"{"status":"BANNED"}"#, Err("policy")),
        (
            200,
            r#"{"status":"FAILED","code":"SAFETY.INPUT.TEXT"}"#,
            Err("policy"),
        ),
        (200, r#"{"status":"FAILED","code":"INPUT"}"#, Err("refused")),
        (
            200,
            r#"{"status":"FAILED","throttled":true}"#,
            Ok("pending"),
        ),
        // Trouble with asking is transient.
        (429, "{}", Ok("pending")),
        (500, "{}", Ok("pending")),
        (503, "", Ok("pending")),
        (302, "", Ok("pending")),
        (401, "{}", Ok("pending")),
        (403, "{}", Ok("pending")),
        (401, r#"{"code":"QUOTA"}"#, Ok("pending")),
        // The partner's own refusal is not.
        (422, r#"{"why":"no"}"#, Err("refused")),
        (400, r#"{"code":"SAFETY.X"}"#, Err("policy")),
    ] {
        let read = poll(status, body, 5).map(|reading| match reading {
            Reading::Done(..) => "done",
            Reading::Pending => "pending",
        });
        let read = read.as_ref().map(|read| *read).map_err(kind);
        assert_eq!(read, expected, "{status} {body}");
    }
}

#[test]
fn a_failure_is_free_where_the_definition_says_so_and_nowhere_else() {
    let free = "[[errors]]\nstatus = [500]\npointer = \"/detail\"\npresent = true\nbucket = \"provider_error\"\nfree = true\n";
    let partner = SYNC.replacen("[call.x]", &format!("{free}[call.x]"), 1);
    let dialect = dialect(&partner, MODEL);
    let failed = submit(&dialect, 500, r#"{"detail":"it broke"}"#).expect_err("a failure");
    assert_eq!(ran(&failed), Some(Ran::InVain));
    for (status, body) in [(500, "{}"), (502, r#"{"detail":"a gateway"}"#)] {
        let failed = submit(&dialect, status, body).expect_err("a failure");
        assert_eq!(ran(&failed), Some(Ran::Perhaps), "{status}");
    }
    let ended = |text: &str| {
        let dialect = self::dialect(text, MODEL);
        let polled = dialect.call.polled.as_ref().expect("it is polled");
        let failed = reply(200, r#"{"status":"FAILED"}"#);
        let failed = dialect.read_poll(polled, failed, Duration::ZERO);
        ran(&failed.expect_err("a failure"))
    };
    assert_eq!(ended(POLL), Some(Ran::Perhaps));
    let free = POLL.replacen("pending = [", "failed_is_free = true, pending = [", 1);
    assert_ne!(free, POLL);
    assert_eq!(ended(&free), Some(Ran::InVain));
}

#[test]
fn not_found_right_after_submit_keeps_polling_a_while() {
    for status in [404, 410] {
        assert_eq!(poll(status, "{}", 29), Ok(Reading::Pending));
        let failure = poll(status, "{}", 30).expect_err("it is forgotten");
        assert_eq!(ran(&failure), Some(Ran::Perhaps));
    }
}

#[test]
fn a_result_that_is_refused_or_broken_ends_the_work() {
    let dialect = dialect(POLL, MODEL);
    let polled = dialect.call.polled.as_ref().expect("it polls");
    let read = |status, body| dialect.read_result(polled, reply(status, body), Duration::ZERO);
    assert!(matches!(read(200, "{}"), Ok(Reading::Done(..))));
    assert_eq!(read(503, "{}"), Ok(Reading::Pending));
    assert_eq!(read(404, "{}"), Ok(Reading::Pending));
    assert!(matches!(read(422, "{}"), Err(Failure::Refused { .. })));
    assert!(matches!(read(200, "{"), Err(Failure::Failed { .. })));
}

#[test]
fn what_a_partner_says_that_it_took_is_what_is_charged() {
    let model = "charges_on_policy_rejection = \"no\"\n[price]\nkind = \"fixed\"\ncents = 4\n\
                 settle = { pointer = \"/credits\", cents_per_unit = 0.1 }\n";
    let dialect = dialect(SYNC, model);
    for (body, expected) in [
        (r#"{"credits": 80}"#, Charge::Cents(8)),
        (r#"{"credits": "a"}"#, Charge::AsHeld),
        ("{}", Charge::AsHeld),
    ] {
        let read = submit(&dialect, 200, body);
        assert!(
            matches!(read, Ok(SubmitReading::Result { charge, .. }) if charge == expected),
            "{body}"
        );
    }
}

proptest! {
    /// Whatever a partner says, it is one of the outcomes, and a message never holds the partner's words unless the
    /// content was rejected.
    #[test]
    fn no_answer_makes_it_panic_or_leak(
        status in 100_u16..600,
        body in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..64),
            "\\{\"(status|detail|id|url|code|error)\":(\"[A-Z]{0,6}\"|[0-9]{1,3}|\\[\\{\\}\\]|null)\\}"
                .prop_map(String::into_bytes),
        ],
    ) {
        let reply = Reply {
            status,
            headers: Box::default(),
            retry_after: None,
            body: body.into(),
        };
        let sync = dialect(SYNC, MODEL);
        let polling = dialect(POLL, MODEL);
        let polled = polling.call.polled.as_ref().expect("it polls");
        let outcomes = [
            sync.read_submit(reply.clone()).err(),
            polling.read_submit(reply.clone()).err(),
            polling.read_poll(polled, reply.clone(), Duration::ZERO).err(),
            polling.read_result(polled, reply, Duration::ZERO).err(),
        ];
        for failure in outcomes.into_iter().flatten() {
            let message = match failure {
                Failure::Refused { .. } | Failure::InStream { .. } => continue,
                Failure::Policy { message, .. }
                | Failure::Failed { message, .. }
                | Failure::TimedOut { message, .. }
                | Failure::Account { message, .. }
                | Failure::Transient { message } => message,
            };
            prop_assert!(message.starts_with("the "), "{}", message);
        }
    }
}
