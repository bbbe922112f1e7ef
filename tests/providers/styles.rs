//! Every shipped style against its simulated partner: success, rejections, failure, trouble on the way.

use it::partners::{Fault, Outcome, Partner, Plan, Step};
use router_core::{Charge, Failure, Ran};

use super::Bench;

/// What no reader of JSON gives back as it found it; every simulated result holds it.
pub(super) const ODD: &str =
    r#""odd" : 1.0,  "odd":123456789012345678901234567890 , "text":"\u00e9\/""#;

/// How a body travels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Travels {
    AsItIs,
    Inside(&'static str, &'static str),
    AsForm,
}

/// One style: a model of it, what it is sent, and where it differs from what most do.
struct Style {
    model: &'static str,
    partner: Partner,
    body: &'static str,
    polled: bool,
    travels: Travels,
    /// Whether the result is JSON.
    json: bool,
    /// How a task that was moderated after it was taken is told.
    moderated: &'static str,
    /// How a submission that breaks a policy is told.
    refused: &'static str,
}

const fn polled(model: &'static str, partner: Partner, body: &'static str) -> Style {
    Style {
        model,
        partner,
        body,
        polled: true,
        travels: Travels::AsItIs,
        json: true,
        moderated: "policy",
        refused: "policy",
    }
}

const fn at_once(model: &'static str, partner: Partner, body: &'static str) -> Style {
    Style {
        polled: false,
        ..polled(model, partner, body)
    }
}

const STYLES: &[Style] = &[
    polled(
        "bfl/flux-pro-1.1",
        Partner::Bfl,
        r#"{ "prompt":"a cat", "width":1.0e3,"width":1024 }"#,
    ),
    polled("fal/flux-dev", Partner::FalQueue, r#"{"prompt": "a cat"}"#),
    at_once(
        "fal-sync/flux-dev",
        Partner::FalSync,
        r#"{"prompt": "a cat"}"#,
    ),
    Style {
        travels: Travels::Inside(r#"{"input":"#, "}"),
        // Only what runs is moderated there.
        refused: "refused",
        ..polled(
            "replicate/flux-schnell",
            Partner::Replicate,
            r#"{"prompt" : "a cat"}"#,
        )
    },
    Style {
        refused: "refused",
        ..polled(
            "runway/gen4_image",
            Partner::Runway,
            r#"{"model":"gen4_image","promptText":"a cat","ratio":"1024:1024"}"#,
        )
    },
    polled(
        "kling/text2video",
        Partner::Kling,
        r#"{"prompt":"a cat","duration":"5"}"#,
    ),
    at_once(
        "openai/gpt-image-1",
        Partner::OpenaiImages,
        r#"{"model":"gpt-image-1","prompt":"a cat"}"#,
    ),
    at_once(
        "google/gemini-2.5-flash-image",
        Partner::Google,
        r#"{"contents":[{"parts":[{"text":"a cat"}]}]}"#,
    ),
    polled(
        "google/veo-3.0-generate-001",
        Partner::Google,
        r#"{"instances":[{"prompt":"a cat"}]}"#,
    ),
    Style {
        travels: Travels::AsForm,
        json: false,
        ..at_once(
            "stability/stable-image-core",
            Partner::Stability,
            r#"{"prompt":"a cat"}"#,
        )
    },
    Style {
        travels: Travels::AsForm,
        json: false,
        ..polled(
            "stability/upscale-creative",
            Partner::Stability,
            r#"{"image":"aGk=","prompt":"a cat"}"#,
        )
    },
    polled(
        "minimax/hailuo-02",
        Partner::Minimax,
        r#"{"model":"MiniMax-Hailuo-02","prompt":"a cat"}"#,
    ),
    polled(
        "luma/ray-2",
        Partner::Luma,
        r#"{"model":"ray-2","prompt":"a cat"}"#,
    ),
    at_once(
        "recraft/recraftv3",
        Partner::Recraft,
        r#"{"prompt":"a cat"}"#,
    ),
    Style {
        travels: Travels::AsForm,
        ..at_once(
            "ideogram/ideogram-v3",
            Partner::Ideogram,
            r#"{"prompt":"a cat"}"#,
        )
    },
    at_once(
        "byteplus/seedream-4-0",
        Partner::Byteplus,
        r#"{"model":"seedream-4-0-250828","prompt":"a cat"}"#,
    ),
    polled(
        "byteplus/seedance-1-0-pro",
        Partner::Byteplus,
        r#"{"model":"seedance-1-0-pro-250528","content":[{"type":"text","text":"a cat"}]}"#,
    ),
    polled(
        "dashscope/wan2.2-t2i-flash",
        Partner::Dashscope,
        r#"{"model":"wan2.2-t2i-flash","input":{"prompt":"a cat"}}"#,
    ),
    polled(
        "xai/grok-imagine-video",
        Partner::Xai,
        r#"{"model":"grok-imagine-video","prompt":"a cat"}"#,
    ),
    polled(
        "pixverse/text-to-video",
        Partner::Pixverse,
        r#"{"prompt":"a cat","model":"v5","duration":5,"quality":"540p","aspect_ratio":"16:9"}"#,
    ),
    polled(
        "tripo/text-to-model",
        Partner::Tripo,
        r#"{"type":"text_to_model","prompt":"a cat"}"#,
    ),
    Style {
        travels: Travels::AsForm,
        // It tells a failure and no reason.
        moderated: "failed",
        ..polled(
            "rodin/rodin-gen2",
            Partner::Rodin,
            r#"{"tier":"Gen-2","prompt":"a cat"}"#,
        )
    },
    Style {
        json: false,
        ..at_once(
            "elevenlabs/sound-generation",
            Partner::Elevenlabs,
            r#"{"text":"a cat"}"#,
        )
    },
];

pub(super) fn kind(failure: &Failure) -> &'static str {
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

#[tokio::test]
async fn every_partner_of_the_catalog_is_simulated_and_tried() {
    let bench = Bench::start().await;
    let styles = STYLES.iter().map(|style| style.model);
    let calls = it::partners::sheets().iter().flat_map(|sheet| &sheet.calls);
    let documented = calls
        .flat_map(|call| &call.examples)
        .map(|example| &*example.id);
    let models = styles.chain(documented);
    let mut tried: Vec<&str> = models
        .map(|model| model.split('/').next().unwrap())
        .collect();
    tried.sort_unstable();
    tried.dedup();
    let shipped: Vec<&str> = bench
        .loaded
        .partners
        .iter()
        .map(|partner| &*partner.id)
        .collect();
    assert_eq!(tried, shipped);
}

#[tokio::test]
async fn success_returns_the_partners_bytes_after_one_submit() {
    let bench = Bench::start().await;
    for style in STYLES {
        let before = bench.submits(style.partner);
        let done = bench.run(style.model, style.body).await;
        let done = done.unwrap_or_else(|failure| panic!("{}: {failure:?}", style.model));
        let submits = bench.partners.requests_of(style.partner, Step::Submit);
        assert_eq!(submits.len(), before + 1, "{}", style.model);
        assert_eq!(done.task_id.is_some(), style.polled, "{}", style.model);
        if style.json {
            let text = String::from_utf8(done.answer.body.to_vec()).unwrap();
            assert!(text.contains(ODD), "{}: {text}", style.model);
            assert!(done.answer.content_type.starts_with("application/json"));
        } else {
            assert!(
                !done.answer.content_type.contains("json"),
                "{}",
                style.model
            );
            assert!(String::from_utf8(done.answer.body.to_vec()).is_err());
        }
        let sent = &submits[before];
        match style.travels {
            Travels::AsItIs => assert_eq!(sent.body, style.body.as_bytes(), "{}", style.model),
            Travels::Inside(before, after) => {
                assert_eq!(sent.body, [before, style.body, after].concat().as_bytes());
            }
            Travels::AsForm => {
                let kind = sent.header("content-type").unwrap();
                assert!(kind.starts_with("multipart/form-data; boundary="), "{kind}");
                let text = String::from_utf8(sent.body.clone()).unwrap();
                assert!(text.contains("\r\n\r\na cat\r\n"), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_tried_keeps_to_the_shipped_schemas() {
    let bench = Bench::start().await;
    for style in STYLES {
        let body = serde_json::from_str(style.body).unwrap();
        let violations = bench.model(style.model).model.document().violations(&body);
        assert!(violations.is_empty(), "{}: {violations:?}", style.model);
        let empty = serde_json::json!([]);
        let violations = bench.model(style.model).model.document().violations(&empty);
        assert_eq!(violations.len(), 1, "{}", style.model);
    }
}

#[tokio::test]
async fn rejections_are_told_apart() {
    let bench = Bench::start().await;
    for style in STYLES {
        for (outcome, expected) in [
            (Outcome::Moderate, style.moderated),
            (Outcome::RefusePolicy, style.refused),
            (Outcome::RefuseInput, "refused"),
            (Outcome::RefuseFunds, "account"),
        ] {
            let before = bench.submits(style.partner);
            bench.partners.plan(style.partner, Plan::of(outcome));
            let failure = bench.run(style.model, style.body).await;
            let failure = failure.expect_err(style.model);
            let told = format!("{}: {outcome:?}: {failure:?}", style.model);
            assert_eq!(kind(&failure), expected, "{told}");
            if let Failure::Account { ran, .. } = failure {
                assert_eq!(ran, Ran::Nothing, "{told}");
            }
            assert_eq!(bench.submits(style.partner), before + 1, "{told}");
        }
    }
}

#[tokio::test]
async fn the_partners_own_failure_may_have_run() {
    let bench = Bench::start().await;
    for style in STYLES {
        let plan = Plan::of(Outcome::Fail);
        bench.partners.plan(style.partner, plan);
        let failure = bench.run(style.model, style.body).await;
        let failure = failure.expect_err(style.model);
        // fal documents that such a failure is final and free.
        let is_free = style.partner == Partner::FalQueue;
        let expected = if is_free { Ran::InVain } else { Ran::Perhaps };
        let Failure::Failed { ran, .. } = failure else {
            panic!("{}: {failure:?}", style.model);
        };
        assert_eq!(ran, expected, "{}", style.model);
    }
}

#[tokio::test]
async fn trouble_on_the_way_costs_no_second_submit() {
    let bench = Bench::start().await;
    for style in STYLES {
        let before = bench.submits(style.partner);
        if style.polled {
            for fault in [Fault::Status(503), Fault::Status(429), Fault::CutMidAnswer] {
                bench.partners.fault(style.partner, Step::Poll, fault);
            }
            let done = bench.run(style.model, style.body).await;
            assert!(done.is_ok(), "{}: {done:?}", style.model);
        } else {
            let fault = Fault::CutAfterRequest;
            bench.partners.fault(style.partner, Step::Submit, fault);
            let failure = bench.run(style.model, style.body).await;
            assert!(
                matches!(
                    failure,
                    Err(Failure::Failed {
                        ran: Ran::Perhaps,
                        ..
                    })
                ),
                "{}: {failure:?}",
                style.model
            );
        }
        let submits = bench.submits(style.partner);
        assert_eq!(submits, before + 1, "{}", style.model);
    }
}

#[tokio::test]
async fn what_is_charged_follows_the_catalog_and_the_partner() {
    let bench = Bench::start().await;
    let recraft = bench
        .run("recraft/recraftv3", r#"{"prompt":"a cat"}"#)
        .await;
    assert_eq!(recraft.unwrap().charge, Charge::Cents(8));
    let flux = bench.run("bfl/flux-2-pro", r#"{"prompt":"a cat"}"#).await;
    assert_eq!(flux.unwrap().charge, Charge::Cents(4));
    let fal = bench.run("fal/flux-dev", r#"{"prompt":"a cat"}"#).await;
    assert_eq!(fal.unwrap().charge, Charge::AsHeld);
    // Ideogram charges for what it refuses, OpenAI's refusals are not known to cost.
    for (model, partner, expected) in [
        ("ideogram/ideogram-v3", Partner::Ideogram, Charge::AsHeld),
        (
            "openai/gpt-image-1",
            Partner::OpenaiImages,
            Charge::Cents(0),
        ),
    ] {
        bench.partners.plan(partner, Plan::of(Outcome::Moderate));
        let failure = bench.run(model, r#"{"prompt":"a cat"}"#).await;
        let Err(Failure::Policy { charge, .. }) = failure else {
            panic!("{model}: {failure:?}");
        };
        assert_eq!(charge, expected, "{model}");
    }
}
