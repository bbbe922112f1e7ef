//! Every model that streams against the sheet of its partner: success with its usage, a failure told by an event, a stream that is
//! cut, and refusals before the first event.

use it::partners::{Example, Fault, Outcome, Partner, Plan, Sheet, Step, Stream, sheets};
use router_core::{Charge, Done, Failure, Ran};
use serde_json::{Value, json};

use super::Bench;
use super::styles::kind;

/// A model that streams, with what its sheet shows of that.
#[derive(Clone, Copy)]
struct Case {
    sheet: &'static Sheet,
    stream: &'static Stream,
    example: &'static Example,
    /// What the caller gets for a refusal of the content.
    input: &'static str,
    /// What the caller gets for our account's trouble.
    funds: &'static str,
}

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        let calls = sheets()
            .iter()
            .flat_map(|sheet| sheet.calls.iter().map(move |call| (sheet, call)));
        calls.flat_map(|(sheet, call)| {
            let stream = call.stream.as_ref();
            let examples = call.examples.iter().filter(move |_| stream.is_some());
            examples.map(move |example| Self {
                sheet,
                stream: stream.expect("it is filtered"),
                example,
                input: &call.means.input,
                funds: &call.means.funds,
            })
        })
    }

    fn id(&self) -> &'static str {
        &self.example.id
    }

    fn partner(&self) -> Partner {
        Partner::of_sheet(self.sheet)
    }

    /// The body that asks for a stream.
    fn body(&self) -> String {
        let (_, rest) = self.example.body.split_once('{').expect("an object");
        format!(r#"{{ "stream" : true,{rest}"#)
    }

    /// What is charged for a stream that breaks off before its last event.
    fn cut_charge(&self) -> Charge {
        let cents = self.stream.cut_cents.get(self.id());
        Charge::Cents(cents.copied().unwrap_or(0))
    }

    /// The stream in two pieces, its last event in neither.
    fn cut(&self) -> Vec<Vec<u8>> {
        let whole = &self.stream.succeeded;
        let blank = if whole.contains('\r') {
            "\r\n\r\n"
        } else {
            "\n\n"
        };
        let first = whole.find(blank).expect("an event") + blank.len();
        let whole = whole.as_bytes();
        // The first event is whole; the second piece ends within another one.
        vec![whole[..first].to_vec(), whole[first..first + 9].to_vec()]
    }
}

/// How a stream failed: the cause, and what it costs.
fn in_stream(failure: &Failure) -> (&'static str, Charge) {
    let Failure::InStream { charge, .. } = failure else {
        panic!("not in the stream: {failure:?}");
    };
    (kind(failure), *charge)
}

#[tokio::test]
async fn every_model_that_streams_has_a_sheet_of_it() {
    let bench = Bench::start().await;
    let models = bench.loaded.models.iter();
    let streaming = models.filter(|model| model.model.form().streams);
    let mut streaming: Vec<&str> = streaming.map(|model| model.model.id().as_str()).collect();
    let mut listed: Vec<&str> = Case::all().map(|case| case.id()).collect();
    streaming.sort_unstable();
    listed.sort_unstable();
    assert_eq!(streaming, listed);
    assert!(listed.len() > 30, "{listed:?}");
}

#[tokio::test]
async fn a_stream_comes_as_it_is_and_costs_what_the_whole_answer_costs() {
    let bench = Bench::start().await;
    for case in Case::all() {
        let (id, partner, body) = (case.id(), case.partner(), case.body());
        if let Some(whole) = &case.stream.whole {
            let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
            let answer = Fault::Answer(200, headers, whole.clone().into_bytes());
            bench.partners.fault(partner, Step::Submit, answer);
        }
        let whole = bench.run(id, &case.example.body).await.expect(id);
        let before = bench.submits(partner);
        let done = bench.run(id, &body).await.expect(id);
        assert_eq!(done.answer.body, case.stream.succeeded, "{id}");
        assert_eq!(
            done.answer.content_type, "text/event-stream; charset=utf-8",
            "{id}"
        );
        assert_eq!(done.charge, whole.charge, "{id}");
        if case.stream.cut_cents.contains_key(id) {
            let charge = done.charge;
            assert!(matches!(charge, Charge::Cents(10..)), "{id}: {charge:?}");
        }
        let submits = bench.partners.requests_of(partner, Step::Submit);
        assert_eq!(submits.len(), before + 1, "{id}");
        let sent: Value = serde_json::from_slice(&submits[before].body).expect(id);
        let asks = match case.stream.route {
            Some(_) => Value::Null,
            None => json!(true),
        };
        assert_eq!(sent["stream"], asks, "{id}");
    }
}

#[tokio::test]
async fn what_asks_elsewhere_is_not_sent_where_it_does_not_ask() {
    let bench = Bench::start().await;
    for case in Case::all().filter(|case| case.stream.route.is_some()) {
        let (id, partner) = (case.id(), case.partner());
        let body = case.body().replace("true", "false");
        bench.run(id, &body).await.expect(id);
        let submits = bench.partners.requests_of(partner, Step::Submit);
        let sent = submits.last().expect(id);
        assert!(sent.target.ends_with(":generateContent"), "{}", sent.target);
        assert!(!String::from_utf8_lossy(&sent.body).contains("stream"));
    }
}

#[tokio::test]
async fn what_an_event_tells_is_the_end_of_the_work() {
    let bench = Bench::start().await;
    for case in Case::all() {
        let (id, partner, body) = (case.id(), case.partner(), case.body());
        bench.partners.plan(partner, Plan::of(Outcome::Fail));
        let failure = bench.run(id, &body).await.expect_err(id);
        assert_eq!(in_stream(&failure), ("failed", case.cut_charge()), "{id}");
        bench.partners.plan(partner, Plan::of(Outcome::Moderate));
        let failure = bench.run(id, &body).await.expect_err(id);
        assert_eq!(in_stream(&failure).0, "policy", "{id}");
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_is_a_failure_that_costs_what_was_told() {
    let bench = Bench::start().await;
    for case in Case::all() {
        let (id, partner, body) = (case.id(), case.partner(), case.body());
        let pieces = Fault::Pieces(case.cut(), true);
        bench.partners.fault(partner, Step::Submit, pieces);
        let failure = ended(&bench, id, &body).await.expect_err(id);
        assert_eq!(in_stream(&failure), ("failed", case.cut_charge()), "{id}");
        let Failure::InStream { cause, .. } = &failure else {
            panic!("{id}");
        };
        assert!(matches!(
            &**cause,
            Failure::Failed {
                ran: Ran::Perhaps,
                ..
            }
        ));
    }
}

#[tokio::test]
async fn a_stream_without_its_last_event_is_no_result() {
    let bench = Bench::start().await;
    let named = Case::all().filter(|case| case.stream.succeeded.starts_with("event:"));
    for case in named {
        let (id, partner, body) = (case.id(), case.partner(), case.body());
        let pieces = Fault::Pieces(case.cut()[..1].to_vec(), false);
        bench.partners.fault(partner, Step::Submit, pieces);
        let failure = ended(&bench, id, &body).await.expect_err(id);
        assert_eq!(in_stream(&failure), ("failed", case.cut_charge()), "{id}");
    }
}

#[tokio::test]
async fn before_the_first_event_all_is_as_without_a_stream() {
    let bench = Bench::start().await;
    for case in Case::all() {
        let (id, partner, body) = (case.id(), case.partner(), case.body());
        for (outcome, expected) in [
            (Outcome::RefusePolicy, "policy"),
            (Outcome::RefuseInput, case.input),
            (Outcome::RefuseFunds, case.funds),
        ] {
            bench.partners.plan(partner, Plan::of(outcome));
            let failure = bench.run(id, &body).await.expect_err(id);
            let told = format!("{id}: {outcome:?}: {failure:?}");
            assert!(!matches!(failure, Failure::InStream { .. }), "{told}");
            assert_eq!(kind(&failure), expected, "{told}");
        }
        for (fault, expected) in [
            (Fault::Status(401), "account"),
            (Fault::Status(504), "timed out"),
            (Fault::CutAfterRequest, "failed"),
            (Fault::Pieces(Vec::new(), true), "failed"),
            (Fault::Pieces(Vec::new(), false), "failed"),
        ] {
            let told = format!("{id}: {fault:?}");
            bench.partners.fault(partner, Step::Submit, fault);
            let failure = bench.run(id, &body).await.expect_err(&told);
            assert!(!matches!(failure, Failure::InStream { .. }), "{told}");
            assert_eq!(kind(&failure), expected, "{told}: {failure:?}");
        }
    }
}

/// Runs a model while every piece of a stream is let go.
async fn ended(bench: &Bench, id: &str, body: &str) -> Result<Done, Failure> {
    let mut running = std::pin::pin!(bench.run(id, body));
    loop {
        tokio::select! {
            biased;
            done = &mut running => return done,
            () = tokio::task::yield_now() => bench.partners.release(),
        }
    }
}
