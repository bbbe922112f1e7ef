//! Results that are kept: written down with the end, fetched by one process at a time, told once.

use super::{
    Account, Bytes, Claimed, Dispatched, Ending, FIRST, Generation, OwnerId, Rule, SECOND, Settled,
    Stores, account, answer, answered, at, claim, generation, id, kept, lease,
};
use crate::{
    DueResult, KeepOutcome, KeptFile, KeptResult, KeptState, Outcome, ResultAddress, ResultId,
    ResultLink, ResultTurn,
};
use uuid::Uuid;

pub(super) const RULES: [Rule; 8] = [
    |stores| Box::pin(results_are_written_down_with_the_end_that_counts(stores)),
    |stores| Box::pin(what_a_key_has_is_kept_too(stores)),
    |stores| Box::pin(one_at_a_time_fetches_a_result(stores)),
    |stores| Box::pin(accounts_take_turns(stores)),
    |stores| Box::pin(what_lapsed_is_the_next_ones_and_the_one_before_changes_nothing(stores)),
    |stores| Box::pin(a_failed_attempt_is_due_again_when_it_says(stores)),
    |stores| Box::pin(what_is_given_back_was_no_attempt(stores)),
    |stores| Box::pin(they_are_forgotten_in_bounded_steps(stores)),
];

const PLACES: [&str; 2] = ["/images/0/url", "/images/1/url"];

fn address(n: u128, place: usize) -> ResultAddress {
    let address = format!("https://partner.example/{n}/{place}?signature=s%20e");
    ResultAddress::read(&address).expect("it is one")
}

fn links(n: u128) -> Vec<ResultLink> {
    let links = PLACES.iter().enumerate();
    links
        .map(|(place, pointer)| ResultLink {
            pointer: (*pointer).to_owned(),
            address: address(n, place),
        })
        .collect()
}

pub(super) fn keeping(n: u128) -> Ending {
    let outcome = Outcome::Answered(answer(Bytes::from_static(b"{\"images\":[]}")));
    match kept(outcome, 4) {
        Ending::Kept {
            outcome,
            charge_cents,
            ..
        } => Ending::Kept {
            outcome,
            charge_cents,
            results: links(n),
        },
        released @ Ending::Released(_) => released,
    }
}

pub(super) fn result(n: u128, place: u32) -> ResultId {
    ResultId {
        generation: id(n),
        place,
    }
}

fn due(n: u128, place: u32, attempt: u32) -> DueResult {
    DueResult {
        id: result(n, place),
        account: account("acme"),
        address: address(n, place as usize),
        attempt,
    }
}

pub(super) fn file() -> KeptFile {
    KeptFile {
        file: Uuid::from_u128(77),
        hash: [7; 32],
        size_bytes: 1 << 40,
        content_type: "image/png".to_owned(),
    }
}

fn waiting(attempts: u32, reason: Option<&str>) -> KeptState {
    KeptState::Waiting {
        attempts,
        reason: reason.map(str::to_owned),
    }
}

pub(super) fn later(second: i64) -> KeepOutcome {
    KeepOutcome::Later {
        reason: "it answered 503".to_owned(),
        due_at: at(second),
    }
}

impl Stores {
    /// Ends a generation without a key at 60, whose two results are to be kept.
    async fn end_with_results(&self, n: u128) {
        self.end_with_results_of("acme", n).await;
    }

    async fn end_with_results_of(&self, name: &str, n: u128) {
        let generation = Generation {
            account: account(name),
            ..generation(n, 9)
        };
        let begun = self.dispatch_by(FIRST, None, generation).await;
        assert_eq!(begun, Dispatched::Begun);
        let settled = self.settle_of(name, n, keeping(n)).await;
        assert_eq!(settled, Settled::Now);
    }

    pub(super) async fn results(&self, n: u128) -> Vec<KeptResult> {
        let results = self.kept.of(id(n)).await;
        results.expect("the store answers")
    }

    async fn states(&self, n: u128) -> Vec<KeptState> {
        let results = self.results(n).await.into_iter();
        results.map(|result| result.state).collect()
    }

    /// Takes results one after the other, each as if it were the first one.
    async fn take(&self, owner: OwnerId, limit: usize, now: i64) -> Vec<DueResult> {
        let mut taken = Vec::new();
        while taken.len() < limit {
            match self.take_in_turn(owner, None, &[], now).await {
                Some(due) => taken.push(due),
                None => break,
            }
        }
        taken
    }

    pub(super) async fn take_in_turn(
        &self,
        owner: OwnerId,
        after: Option<&str>,
        without: &[&str],
        now: i64,
    ) -> Option<DueResult> {
        let turn = ResultTurn {
            after: after.map(account),
            without: without.iter().map(|name| account(name)).collect(),
        };
        let taken = self.kept.take(lease(owner), &turn, at(now)).await;
        taken.expect("the store answers")
    }

    pub(super) async fn renew_results(
        &self,
        owner: OwnerId,
        results: &[ResultId],
        now: i64,
    ) -> Vec<ResultId> {
        let lost = self.kept.renew(results, lease(owner), at(now)).await;
        lost.expect("the store answers")
    }

    pub(super) async fn note(
        &self,
        owner: OwnerId,
        result: ResultId,
        came: KeepOutcome,
        now: i64,
    ) -> Settled {
        let noted = self.kept.note((result, owner), came, at(now)).await;
        noted.expect("the store answers")
    }
}

async fn results_are_written_down_with_the_end_that_counts(stores: Stores) {
    stores.open_account().await;
    stores.dispatch(1, 9).await;
    assert_eq!(stores.results(1).await, []);
    let by_another = stores.settle_by(SECOND, "acme", 1, keeping(1)).await;
    assert_eq!(by_another, Settled::Before);
    assert_eq!(stores.results(1).await, []);
    assert_eq!(stores.settle(1, keeping(1)).await, Settled::Now);
    assert_eq!(stores.settle(1, keeping(2)).await, Settled::Before);
    let expected = |place: u32| KeptResult {
        id: result(1, place),
        account: account("acme"),
        pointer: PLACES[place as usize].to_owned(),
        state: waiting(0, None),
    };
    assert_eq!(stores.results(1).await, [expected(0), expected(1)]);
    stores.dispatch(2, 9).await;
    assert_eq!(stores.settle(2, answered(b"{}", 4)).await, Settled::Now);
    assert_eq!(stores.results(2).await, []);
    let credits = stores.credits().await;
    assert_eq!(credits.balance_cents, -8, "each is billed once");
    assert_eq!(stores.take(FIRST, 10, 60).await.len(), 2);
}

async fn what_a_key_has_is_kept_too(stores: Stores) {
    stores.open_account().await;
    assert_eq!(stores.claim(claim(1, 1), 0).await, Claimed::Fresh);
    stores.dispatch_keyed(1, 1, 9).await;
    assert_eq!(stores.settle(1, keeping(1)).await, Settled::Now);
    assert_eq!(
        stores.take(FIRST, 10, 60).await,
        [due(1, 0, 1), due(1, 1, 1)]
    );
    let replayed = stores.claim(claim(1, 9), 61).await;
    assert!(matches!(replayed, Claimed::Replay(of, _) if of == id(1)));
}

async fn one_at_a_time_fetches_a_result(stores: Stores) {
    stores.open_account().await;
    stores.end_with_results(1).await;
    assert_eq!(stores.take(FIRST, 10, 59).await, [], "not before it ended");
    assert_eq!(stores.take(FIRST, 1, 60).await, [due(1, 0, 1)]);
    assert_eq!(stores.take(SECOND, 10, 60).await, [due(1, 1, 1)]);
    assert_eq!(stores.take(FIRST, 10, 60).await, []);
    assert_eq!(stores.states(1).await, [waiting(1, None), waiting(1, None)]);
    let came = KeepOutcome::Kept(file());
    let by_another = stores.note(SECOND, result(1, 0), came.clone(), 61).await;
    assert_eq!(by_another, Settled::Before);
    assert_eq!(
        stores.note(FIRST, result(1, 0), came.clone(), 61).await,
        Settled::Now
    );
    assert_eq!(
        stores.note(FIRST, result(1, 0), later(62), 61).await,
        Settled::Before,
        "an outcome is noted once"
    );
    let reason = "it answered 404".to_owned();
    let failed = KeepOutcome::Failed {
        reason: reason.clone(),
    };
    assert_eq!(
        stores.note(SECOND, result(1, 1), failed, 61).await,
        Settled::Now
    );
    let expected = [KeptState::Kept(file()), KeptState::Failed { reason }];
    assert_eq!(stores.states(1).await, expected);
    assert_eq!(stores.take(FIRST, 10, 1000).await, []);
    assert_eq!(
        stores.note(FIRST, result(9, 0), came, 61).await,
        Settled::Before
    );
}

async fn accounts_take_turns(stores: Stores) {
    for name in ["acme", "beta", "gamma"] {
        let row = Account::new(account(name), (&account(name)).into(), at(0));
        stores.admin.create(row).await.expect("the id is free");
    }
    // The ids are in another order than the names, and acme has more than the others.
    for (name, n) in [("gamma", 1), ("acme", 2), ("acme", 3), ("beta", 4)] {
        stores.end_with_results_of(name, n).await;
    }
    let take = async |after: Option<&str>, without: &[&str]| {
        let due = stores.take_in_turn(FIRST, after, without, 60).await?;
        Some((due.account.to_string(), due.id))
    };
    let due = |name: &str, n, place| Some((name.to_owned(), result(n, place)));
    assert_eq!(take(None, &[]).await, due("acme", 2, 0));
    assert_eq!(take(Some("acme"), &[]).await, due("beta", 4, 0));
    assert_eq!(take(Some("beta"), &[]).await, due("gamma", 1, 0));
    assert_eq!(
        take(Some("gamma"), &[]).await,
        due("acme", 2, 1),
        "behind the last one the first one follows"
    );
    assert_eq!(
        take(Some("beta"), &["gamma"]).await,
        due("acme", 3, 0),
        "who has no turn is passed over"
    );
    // An account that is gone has its place among the names all the same.
    assert_eq!(take(Some("b"), &[]).await, due("beta", 4, 1));
    assert_eq!(take(Some("beta"), &["acme", "gamma"]).await, None);
    assert_eq!(take(Some("zeta"), &["acme"]).await, due("gamma", 1, 1));
    assert_eq!(
        take(Some("acme"), &[]).await,
        due("acme", 3, 1),
        "who is alone has every turn"
    );
    assert_eq!(take(Some("acme"), &[]).await, None);
    // What is due later does not hold up those whose results are due.
    let noted = stores.note(FIRST, result(3, 1), later(100), 61).await;
    assert_eq!(noted, Settled::Now);
    let noted = stores.note(FIRST, result(4, 1), KeepOutcome::GivenBack, 62);
    assert_eq!(noted.await, Settled::Now);
    let next = stores.take_in_turn(SECOND, None, &[], 62).await;
    assert_eq!(next.map(|due| due.id), Some(result(4, 1)));
}

async fn what_lapsed_is_the_next_ones_and_the_one_before_changes_nothing(stores: Stores) {
    stores.open_account().await;
    stores.end_with_results(1).await;
    assert_eq!(stores.take(FIRST, 10, 60).await.len(), 2);
    let renewed = [result(1, 0), result(7, 0)];
    assert_eq!(
        stores.renew_results(FIRST, &renewed, 80).await,
        [result(7, 0)],
        "what it does not have"
    );
    assert_eq!(stores.take(SECOND, 10, 89).await, []);
    assert_eq!(stores.take(SECOND, 10, 90).await, [due(1, 1, 2)]);
    assert_eq!(stores.take(SECOND, 10, 109).await, []);
    assert_eq!(stores.take(SECOND, 10, 110).await, [due(1, 0, 2)]);
    let lost = stores.renew_results(FIRST, &[result(1, 0)], 111).await;
    assert_eq!(lost, [result(1, 0)]);
    let came = KeepOutcome::Kept(file());
    assert_eq!(
        stores.note(FIRST, result(1, 0), came.clone(), 112).await,
        Settled::Before
    );
    assert_eq!(
        stores.note(SECOND, result(1, 0), came, 112).await,
        Settled::Now
    );
}

async fn a_failed_attempt_is_due_again_when_it_says(stores: Stores) {
    stores.open_account().await;
    stores.end_with_results(1).await;
    stores.end_with_results(2).await;
    assert_eq!(stores.take(FIRST, 2, 60).await.len(), 2);
    for place in [0, 1] {
        let noted = stores.note(FIRST, result(1, place), later(100), 61).await;
        assert_eq!(noted, Settled::Now);
    }
    let waits = waiting(1, Some("it answered 503"));
    assert_eq!(stores.states(1).await, [waits.clone(), waits]);
    // Those that are due longest come first.
    let first: Vec<ResultId> = stores
        .take(SECOND, 3, 100)
        .await
        .iter()
        .map(|due| due.id)
        .collect();
    assert_eq!(first, [result(2, 0), result(2, 1), result(1, 0)]);
    assert_eq!(stores.take(SECOND, 10, 100).await, [due(1, 1, 2)]);
}

async fn what_is_given_back_was_no_attempt(stores: Stores) {
    stores.open_account().await;
    stores.end_with_results(1).await;
    assert_eq!(stores.take(FIRST, 10, 60).await.len(), 2);
    let noted = stores.note(FIRST, result(1, 0), KeepOutcome::GivenBack, 61);
    assert_eq!(noted.await, Settled::Now);
    assert_eq!(stores.states(1).await, [waiting(0, None), waiting(1, None)]);
    assert_eq!(stores.take(SECOND, 10, 61).await, [due(1, 0, 1)]);
}

async fn they_are_forgotten_in_bounded_steps(stores: Stores) {
    stores.open_account().await;
    for n in [1, 2] {
        stores.end_with_results(n).await;
    }
    stores.take(FIRST, 1, 60).await;
    let came = KeepOutcome::Kept(file());
    stores.note(FIRST, result(1, 0), came, 61).await;
    let expire = async |keep_from, limit| {
        let gone = stores.retention.expire(at(61), at(keep_from), limit).await;
        gone.expect("the store answers")
    };
    assert_eq!(expire(60, 10).await, 0, "nothing is over");
    assert_eq!(
        expire(61, 3).await,
        2 + 3,
        "two generations and three results"
    );
    assert_eq!(expire(61, 3).await, 1);
    assert_eq!(expire(61, 3).await, 0);
    for n in [1, 2] {
        assert_eq!(stores.results(n).await, []);
    }
    assert_eq!(stores.take(SECOND, 10, 1000).await, []);
}
