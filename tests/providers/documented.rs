//! Every model of the shipped catalog against the sheet of its partner: what the partner's documentation shows as requests
//! and answers. A model without a sheet fails, and so does a sheet for a model that is not shipped.

use std::collections::BTreeMap;

use it::partners::{Call, Example, Fault, Outcome, Partner, Plan, Sheet, Step, sheets};
use router_core::{Charge, Failure, Price, Ran};
use serde_json::{Value, json};

use super::Bench;
use super::styles::{ODD, kind};

/// A model, the call that it takes, and the partner that simulates it.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    sheet: &'static Sheet,
    pub(crate) call: &'static Call,
    pub(crate) example: &'static Example,
}

impl Case {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        sheets().iter().flat_map(|sheet| {
            let calls = sheet.calls.iter();
            calls.flat_map(move |call| {
                let examples = call.examples.iter();
                examples.map(move |example| Self {
                    sheet,
                    call,
                    example,
                })
            })
        })
    }

    pub(crate) fn id(&self) -> &'static str {
        &self.example.id
    }

    pub(crate) fn partner(&self) -> Partner {
        Partner::of_sheet(self.sheet)
    }

    /// Whether the sheet holds the exchanges; if not, the partner has a dialect of its own.
    fn is_of_the_sheet(&self) -> bool {
        self.call.submit.is_some()
    }

    fn is_form(&self) -> bool {
        self.call.submit.as_ref().is_some_and(|submit| submit.form)
    }
}

#[tokio::test]
async fn every_shipped_model_has_a_sheet() {
    let bench = Bench::start().await;
    let shipped: Vec<&str> = bench
        .loaded
        .models
        .iter()
        .map(|model| model.model.id().as_str())
        .collect();
    let mut listed: Vec<&str> = Case::all().map(|case| case.id()).collect();
    listed.sort_unstable();
    for pair in listed.windows(2) {
        assert_ne!(pair[0], pair[1], "one sheet lists a model twice");
    }
    let lacking: Vec<&&str> = shipped.iter().filter(|id| !listed.contains(id)).collect();
    assert!(lacking.is_empty(), "models without a sheet: {lacking:?}");
    let unknown: Vec<&&str> = listed.iter().filter(|id| !shipped.contains(id)).collect();
    assert!(
        unknown.is_empty(),
        "models that are not shipped: {unknown:?}"
    );
}

#[tokio::test]
async fn documented_bodies_keep_to_the_schemas_and_others_do_not() {
    let bench = Bench::start().await;
    for case in Case::all() {
        let id = case.id();
        let document = bench.model(id).model.document();
        let body: Value = serde_json::from_str(&case.example.body).expect(id);
        let violations = document.violations(&body);
        assert!(violations.is_empty(), "{}: {violations:?}", case.id());
        assert_eq!(document.violations(&json!([])).len(), 1, "{}", case.id());
        // Of every member of the body some other kind of value is wrong.
        let members = body.as_object().expect(id).keys();
        let wrong = members.filter(|name| {
            let others = [json!({"no": ["such", "value"]}), json!([[]])];
            others.into_iter().any(|other| {
                let mut changed = body.clone();
                changed[name.as_str()] = other;
                !document.violations(&changed).is_empty()
            })
        });
        assert!(wrong.count() > 0, "{}: anything passes", case.id());
    }
}

#[tokio::test]
async fn success_gives_the_documented_answer_after_one_submit() {
    let bench = Bench::start().await;
    let mut wrong = Vec::new();
    for case in Case::all() {
        wrong.extend(unlike_the_sheet(&bench, case).await.err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What differs from the sheet when the model succeeds.
async fn unlike_the_sheet(bench: &Bench, case: Case) -> Result<(), String> {
    let (id, partner) = (case.id(), case.partner());
    let before = bench.submits(partner);
    let done = bench.run(id, &case.example.body).await;
    let done = done.map_err(|failure| format!("{id}: {failure:?}"))?;
    let submits = bench.partners.requests_of(partner, Step::Submit);
    if submits.len() != before + 1 {
        return Err(format!("{id}: {} submissions", submits.len() - before));
    }
    let answer = done.answer.body.to_vec();
    let answer = String::from_utf8_lossy(&answer);
    let is_as_shown = if case.is_of_the_sheet() {
        let tasks = bench.partners.tasks(partner);
        let base_url = bench.partners.base_url(partner);
        answer.as_bytes() == case.call.result_of(tasks.last().expect(id), &base_url)
    } else {
        !done.answer.content_type.contains("json") || answer.contains(ODD)
    };
    if !is_as_shown {
        return Err(format!("{id}: {answer}"));
    }
    let sent = String::from_utf8_lossy(&submits[before].body);
    let is_as_shown = match &case.example.sent {
        // The body holds the name of the generation.
        Some(expected) if expected == "*" => sent.contains(&case.example.body[1..]),
        Some(expected) => sent == *expected,
        None if case.is_form() => true,
        None if case.is_of_the_sheet() => sent == case.example.body,
        None => true,
    };
    if is_as_shown {
        Ok(())
    } else {
        Err(format!("{id}: sent {sent}"))
    }
}

#[tokio::test]
async fn the_places_of_results_are_those_of_the_documented_answer() {
    let bench = Bench::start().await;
    let mut wrong = Vec::new();
    for case in Case::all().filter(Case::is_of_the_sheet) {
        let id = case.id();
        let returns = &bench.model(id).model.form().returns;
        if returns.from.is_empty() {
            continue;
        }
        let done = bench.run(id, &case.example.body).await.expect(id);
        let answer: Value = serde_json::from_slice(&done.answer.body).expect(id);
        let mut found = returns.from.iter().flat_map(|from| at(&answer, from));
        if found.next().is_none() {
            wrong.push(format!("{id}: nothing is at {:?}", returns.from));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The texts at a pointer in which `*` stands for every item.
fn at<'a>(document: &'a Value, pointer: &str) -> Vec<&'a str> {
    let segments = pointer.split('/').skip(1);
    let found = segments.fold(vec![document], |found, segment| {
        let next = found.into_iter().flat_map(|value| match (segment, value) {
            ("*", Value::Array(items)) => items.iter().collect(),
            ("*", Value::Object(members)) => members.values().collect(),
            (name, value) => value
                .pointer(&format!("/{name}"))
                .into_iter()
                .collect::<Vec<_>>(),
        });
        next.collect()
    });
    found.into_iter().filter_map(Value::as_str).collect()
}

#[tokio::test]
async fn documented_refusals_are_told_apart() {
    let bench = Bench::start().await;
    for case in Case::all().filter(Case::is_of_the_sheet) {
        let (id, partner, means) = (case.id(), case.partner(), &case.call.means);
        for (outcome, expected) in [
            (Outcome::Moderate, &means.moderated),
            (Outcome::RefusePolicy, &means.policy),
            (Outcome::RefuseInput, &means.input),
            (Outcome::RefuseFunds, &means.funds),
        ] {
            let before = bench.submits(partner);
            bench.partners.plan(partner, Plan::of(outcome));
            let failure = bench.run(id, &case.example.body).await.expect_err(id);
            let told = format!("{id}: {outcome:?}: {failure:?}");
            assert_eq!(kind(&failure), expected, "{told}");
            if let Failure::Account { ran, .. } = failure {
                assert_eq!(ran, Ran::Nothing, "{told}");
            }
            assert_eq!(bench.submits(partner), before + 1, "{told}");
        }
    }
}

#[tokio::test]
async fn faults_of_the_partner_and_of_the_way_are_told_apart() {
    let bench = Bench::start().await;
    for case in Case::all().filter(Case::is_of_the_sheet) {
        let (id, partner, body) = (case.id(), case.partner(), &*case.example.body);
        bench.partners.plan(partner, Plan::of(Outcome::Fail));
        let failure = bench.run(id, body).await.expect_err(id);
        let failed = |failure: &Failure| {
            matches!(
                failure,
                Failure::Failed {
                    ran: Ran::Perhaps,
                    ..
                }
            )
        };
        assert!(failed(&failure), "{id}: {failure:?}");
        for (fault, expected) in [
            (Fault::Status(401), "account"),
            (Fault::Status(504), "timed out"),
            (Fault::CutAfterRequest, "failed"),
        ] {
            let told = format!("{id}: {fault:?}");
            bench.partners.fault(partner, Step::Submit, fault);
            let failure = bench.run(id, body).await.expect_err(&told);
            assert_eq!(kind(&failure), expected, "{told}: {failure:?}");
        }
        if case.call.poll.is_some() {
            let before = bench.submits(partner);
            for fault in [Fault::Status(503), Fault::Status(429), Fault::CutMidAnswer] {
                bench.partners.fault(partner, Step::Poll, fault);
            }
            let done = bench.run(id, body).await;
            assert!(done.is_ok(), "{id}: {done:?}");
            assert_eq!(bench.submits(partner), before + 1, "{id}");
        }
    }
}

#[tokio::test]
async fn a_task_is_stopped_where_the_documentation_says_how() {
    let bench = Bench::start().await;
    for case in Case::all().filter(|case| case.call.poll.is_some()) {
        let (id, partner) = (case.id(), case.partner());
        bench.partners.plan(partner, Plan::held());
        let handle = bench.accepted(id, &case.example.body).await;
        let before = bench.partners.requests_of(partner, Step::Cancel).len();
        bench.provider(id).cancel(&handle).await;
        let cancels = bench.partners.requests_of(partner, Step::Cancel).len() - before;
        assert_eq!(cancels, usize::from(case.call.cancel.is_some()), "{id}");
    }
}

#[tokio::test]
async fn every_price_has_an_estimate_that_the_bill_keeps_to() {
    let bench = Bench::start().await;
    for case in Case::all().filter(Case::is_of_the_sheet) {
        let id = case.id();
        let body: Value = serde_json::from_str(&case.example.body).expect(id);
        let price = bench.provider(id).price(&body);
        let done = bench.run(id, &case.example.body).await.expect(id);
        match (price, done.charge) {
            (Price::Exact { cents }, charge) => {
                assert_eq!(charge, Charge::AsHeld, "{id}");
                assert!(cents > 0, "{id}: it is priced and costs nothing");
            }
            (Price::Estimated { max_cents, .. }, Charge::Cents(cents)) => {
                assert!(cents <= max_cents, "{id}: {cents} of {max_cents}");
            }
            (Price::Estimated { max_cents, .. }, _) => assert!(max_cents > 0, "{id}"),
            (Price::Unknown { hold_cents }, _) => assert!(hold_cents > 0, "{id}"),
        }
    }
}

#[test]
fn every_sheet_names_the_page_that_it_follows() {
    let mut hosts = BTreeMap::new();
    for sheet in sheets() {
        assert!(
            sheet.documentation.starts_with("https://"),
            "{}",
            sheet.name
        );
        assert_eq!(
            hosts.insert(&sheet.host, &sheet.name),
            None,
            "one sheet a host"
        );
    }
}
