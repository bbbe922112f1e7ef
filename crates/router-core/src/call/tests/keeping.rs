//! What is written down to be kept of a result, and what is not.

use std::sync::Arc;
use std::time::Duration;

use accounts::AccountChange;

use super::harness::*;
use super::restart::stopped;
use crate::{Collected, GenerationId, KeptResults, Submitted, Usage};

const ANSWER: &str = r#"{"images": [{"url": "https://partner.example/1.png"}, {"url": "https://partner.example/2.png"}], "url": "https://partner.example/3"}"#;

impl House {
    /// Makes a call that the partner answers at once.
    async fn answered(&self, call: Call<'_>) -> String {
        let under_way = self.begin(call).await;
        let (_, answer) = self.submitted().await;
        answer
            .send(Ok(Submitted::Done(done(ANSWER))))
            .expect("awaited");
        let body = under_way.answer().await.expect("the result").body;
        String::from_utf8(body.to_vec()).expect("it is text")
    }

    /// Where the results of the newest generation stand that are kept.
    async fn kept(&self) -> Vec<String> {
        let record = self.record().await;
        let newest = record.iter().filter_map(|row| row.call.generation).max();
        self.kept_of(newest.expect("there is one")).await
    }

    async fn kept_of(&self, id: GenerationId) -> Vec<String> {
        let kept = self.calls.of(id).await.expect("memory answers");
        kept.into_iter().map(|one| one.pointer).collect()
    }
}

#[tokio::test]
async fn results_are_kept_for_accounts_that_want_it_and_the_answer_is_as_it_came() {
    let house = House::new().await;
    assert_eq!(house.answered(call("{}")).await, ANSWER);
    assert!(house.kept().await.is_empty(), "nobody asked for it");
    house.change(AccountChange::KeepResults(Some(true))).await;
    for keeping in [call("{}"), keyed("{}")] {
        assert_eq!(house.answered(keeping).await, ANSWER);
        assert_eq!(house.kept().await, ["/images/0/url", "/images/1/url"]);
        house.router.results_arrive().await;
    }
    // A replay is the same generation.
    let (replay, replayed) = house.ask(keyed("{}")).await;
    assert!(replayed && replay.expect("the result").body == ANSWER);
    let record = house.record().await;
    let generations: Vec<_> = record.iter().map(|row| row.call.generation).collect();
    assert_eq!(generations[2], generations[3]);
    house.change(AccountChange::KeepResults(Some(false))).await;
    house.answered(call("{}")).await;
    assert!(house.kept().await.is_empty());
}

#[tokio::test]
async fn a_call_that_was_taken_over_keeps_as_its_account_does() {
    for keeps in [true, false] {
        let house = House::new().await;
        house.change(AccountChange::KeepResults(Some(keeps))).await;
        let first = house.begin(keyed("{}")).await;
        let (_, answer) = house.submitted().await;
        answer.send(Ok(accepted(2))).expect("awaited");
        let id = loop {
            let unfinished = house.calls.unfinished().await.expect("memory");
            if unfinished[0].accepted.is_some() {
                break unfinished[0].generation.id;
            }
            tokio::task::yield_now().await;
        };
        let house = Arc::new(stopped(house, first).await);
        let mut executions = house.router.recover().await.expect("memory answers");
        let execution = tokio::spawn(executions.remove(0));
        let collected = async {
            house.clock.somebody_sleeps().await;
            house.clock.advance(Duration::from_secs(2));
            house.collected(Ok(Collected::Done(done(ANSWER)))).await;
        };
        let (ended, ()) = tokio::join!(execution, collected);
        ended.expect("no panic");
        let kept = house.kept_of(id).await.len();
        assert_eq!(kept, if keeps { 2 } else { 0 });
    }
}
