//! Who serves a generation whose call names its providers.

use super::{
    Bucket, Claimed, FIRST, Generation, OwnerId, Rule, SECOND, Settled, Stores, Unfinished,
    answered, at, claim, generation, id, record,
};
use crate::{FailedAttempt, Serving, UsageQuery};

pub(super) const RULES: [Rule; 4] = [
    |stores| Box::pin(who_serves_it_is_kept_with_a_generation(stores)),
    |stores| Box::pin(a_later_attempt_takes_the_place_of_the_one_before(stores)),
    |stores| {
        Box::pin(only_its_owner_says_who_serves_a_generation_that_runs(
            stores,
        ))
    },
    |stores| Box::pin(it_is_forgotten_with_its_generation(stores)),
];

pub(super) fn serving(model: &str, hold_cents: u64) -> Serving {
    Serving {
        model: model.parse().expect("a valid id"),
        began_at: at(1),
        hold_cents,
        dropped: vec!["seed (fal has no \"such\" field)".to_owned()],
        failed: Vec::new(),
    }
}

/// The one that serves it after the first one failed.
fn fallback() -> Serving {
    Serving {
        began_at: at(9),
        dropped: Vec::new(),
        failed: vec![FailedAttempt {
            model: "fal/flux-2".parse().expect("a valid id"),
            began_at: at(1),
            ended_at: at(9),
            bucket: Bucket::ServiceUnavailable,
            message: "the provider is busy".to_owned(),
            upstream_status: Some(429),
        }],
        ..serving("together/flux-2", 4)
    }
}

fn served(n: u128) -> Generation {
    Generation {
        serving: Some(Box::new(serving("fal/flux-2", 7))),
        ..generation(n, 7)
    }
}

impl Stores {
    async fn serve(&self, owner: OwnerId, n: u128, serving: &Serving) -> Settled {
        let served = self.calls.serve((id(n), owner), serving).await;
        served.expect("the store answers")
    }

    async fn serving(&self, n: u128) -> Option<Serving> {
        let serving = self.calls.serving(id(n)).await;
        serving.expect("the store answers")
    }

    /// Dispatches two that name their providers: one with a key, and one without.
    async fn dispatch_both(&self) {
        self.open_account().await;
        assert_eq!(self.claim(claim(1, 1), 0).await, Claimed::Fresh);
        self.dispatch_by(FIRST, Some(1), served(1)).await;
        self.dispatch_by(FIRST, None, served(2)).await;
        self.dispatch(3, 7).await;
    }
}

fn kept(unfinished: &[Unfinished]) -> Vec<(Option<&Serving>, bool)> {
    let kept = unfinished.iter();
    kept.map(|one| (one.generation.serving.as_deref(), one.accepted.is_some()))
        .collect()
}

async fn who_serves_it_is_kept_with_a_generation(stores: Stores) {
    stores.dispatch_both().await;
    let first = serving("fal/flux-2", 7);
    for n in [1, 2] {
        assert_eq!(stores.serving(n).await, Some(first.clone()));
    }
    assert_eq!(
        (stores.serving(3).await, stores.serving(9).await),
        (None, None)
    );
    let unfinished = stores.usage.unfinished().await.expect("the store answers");
    let expected = [(Some(&first), false), (Some(&first), false), (None, false)];
    assert_eq!(kept(&unfinished), expected);
}

async fn a_later_attempt_takes_the_place_of_the_one_before(stores: Stores) {
    stores.dispatch_both().await;
    for n in [1, 2] {
        stores.accepted(n, b"of the first").await;
        assert_eq!(stores.serve(FIRST, n, &fallback()).await, Settled::Now);
        // A store that did not hear whether it counted says it again.
        assert_eq!(stores.serve(FIRST, n, &fallback()).await, Settled::Now);
    }
    let taken = stores.take_over(SECOND, 10, 100).await;
    let expected = [
        (Some(&fallback()), true),
        (Some(&fallback()), true),
        (None, false),
    ];
    assert_eq!(kept(&taken), expected);
    for n in [1, 2] {
        let settled = stores
            .settle_by(SECOND, "acme", n, answered(b"{}", 4))
            .await;
        assert_eq!(settled, Settled::Now);
        stores.record(record(n, 0));
        assert_eq!(stores.serving(n).await, Some(fallback()));
    }
    let page = stores.usage.page(&UsageQuery::default(), None, 10).await;
    let page = page.expect("the store answers");
    let told = page.iter().map(|row| {
        let generation = row.generation.as_ref().expect("it is there");
        generation.serving.as_deref().cloned()
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [Some(fallback()), Some(fallback())]
    );
}

async fn only_its_owner_says_who_serves_a_generation_that_runs(stores: Stores) {
    stores.dispatch_both().await;
    for n in [1, 2] {
        assert_eq!(stores.serve(SECOND, n, &fallback()).await, Settled::Before);
    }
    // Nor of one whose call names nobody, or that is not there.
    for n in [3, 9] {
        assert_eq!(stores.serve(FIRST, n, &fallback()).await, Settled::Before);
    }
    stores.take_over(SECOND, 10, 100).await;
    for n in [1, 2] {
        assert_eq!(stores.serve(FIRST, n, &fallback()).await, Settled::Before);
        let settled = stores
            .settle_by(SECOND, "acme", n, answered(b"{}", 4))
            .await;
        assert_eq!(settled, Settled::Now);
        assert_eq!(stores.serve(SECOND, n, &fallback()).await, Settled::Before);
        assert_eq!(stores.serving(n).await, Some(serving("fal/flux-2", 7)));
    }
}

async fn it_is_forgotten_with_its_generation(stores: Stores) {
    stores.dispatch_both().await;
    for n in [1, 2] {
        assert_eq!(stores.settle(n, answered(b"{}", 4)).await, Settled::Now);
    }
    let late = at(100 * 24 * 3600);
    let mut rounds = 0;
    while stores
        .retention
        .expire(late, late, 10)
        .await
        .expect("the store answers")
        > 0
    {
        rounds += 1;
        assert!(rounds < 100, "it comes to an end");
    }
    for n in [1, 2] {
        assert_eq!(stores.serving(n).await, None);
    }
}
