//! What follows from each definition of the shipped catalog, whatever simulates its partner: every answer that a rule, a word of a
//! state or a status speaks of comes through real sockets, and is told as the files say. Tasks are stopped where they can be.

use it::partners::{Fault, Plan, Step};
use providers::{Expected, Step as Question};

use super::Bench;
use super::documented::Case;

#[tokio::test]
async fn every_answer_that_a_definition_speaks_of_is_told_as_it_says() {
    let bench = Bench::start().await;
    let mut wrong = Vec::new();
    for model in Case::all() {
        let (id, partner) = (model.id(), model.partner());
        let runner = bench.model(id).runner.as_ref().expect(id);
        for case in runner.cases().cases {
            let step = match case.step {
                Question::Submit => Step::Submit,
                Question::Poll => Step::Poll,
                Question::Result => Step::Result,
            };
            let mut headers = case.headers.clone();
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
            let fault = Fault::Answer(case.status, headers, case.body.clone().into_bytes());
            bench.partners.fault(partner, step, fault);
            let before = bench.submits(partner);
            let ended = bench.run(id, &model.example.body).await;
            let told = match &ended {
                Ok(_) => Expected::AskedAgain,
                Err(failure) => Expected::from(failure),
            };
            let submits = bench.submits(partner) - before;
            if (told, submits) != (case.expected, 1) {
                wrong.push(format!(
                    "{id}: {told:?} after {submits} submissions: {case:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_task_is_stopped_where_the_definition_says_how() {
    let bench = Bench::start().await;
    let mut wrong = Vec::new();
    for model in Case::all() {
        let (id, partner) = (model.id(), model.partner());
        let runner = bench.model(id).runner.as_ref().expect(id);
        if !runner.is_polled() {
            continue;
        }
        bench.partners.plan(partner, Plan::held());
        let handle = bench.accepted(id, &model.example.body).await;
        let before = bench.partners.requests_of(partner, Step::Cancel).len();
        bench.provider(id).cancel(&handle).await;
        let cancels = bench.partners.requests_of(partner, Step::Cancel).len() - before;
        if cancels != usize::from(runner.can_cancel()) {
            wrong.push(format!("{id}: {cancels} wishes to stop"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
