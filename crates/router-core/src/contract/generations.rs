//! What is billed once, and what is found unfinished.

use futures_util::future::join_all;

use super::{
    Bucket, Bytes, Duration, Ending, Handle, Outcome, Rule, Settled, Stores, account, answered, at,
    claim, generation, id, kept, record,
};
use crate::{Acceptance, Unfinished, UsageQuery};

pub(super) const RULES: [Rule; 7] = [
    |stores| Box::pin(a_generation_is_settled_and_billed_once(stores)),
    |stores| Box::pin(of_settlements_at_once_one_counts(stores)),
    |stores| Box::pin(a_generation_is_settled_for_its_own_account_alone(stores)),
    |stores| Box::pin(a_charge_ends_the_hold_whatever_it_is(stores)),
    |stores| Box::pin(nothing_is_billed_for_what_never_ran(stores)),
    |stores| Box::pin(what_is_unknown_is_not_settled(stores)),
    |stores| Box::pin(the_unfinished_are_those_that_were_dispatched_and_not_settled(stores)),
];

async fn a_generation_is_settled_and_billed_once(stores: Stores) {
    stores.open_account().await;
    stores.claim(claim(1, 1), 0).await;
    stores.dispatch_keyed(1, 1, 7).await;
    stores.hold(1, 7).await;
    assert_eq!(stores.settle(1, answered(b"{}", 5)).await, Settled::Now);
    assert_eq!(
        stores.settle(1, answered(b"{\"other\":1}", 9)).await,
        Settled::Before
    );
    let released = Ending::Released(Bucket::ProviderError);
    assert_eq!(stores.settle(1, released).await, Settled::Before);
    let credits = stores.credits().await;
    assert_eq!((credits.balance_cents, credits.held_cents), (-5, 0));
    let entries = stores.accounts.entries(&account("acme"), None, 10).await;
    assert_eq!(entries.expect("the store answers").len(), 1);
    let replayed = stores.claim(claim(1, 2), 1).await;
    let first = Outcome::Answered(super::answer(Bytes::from_static(b"{}")));
    assert_eq!(replayed, super::Claimed::Replay(id(1), first));
}

async fn of_settlements_at_once_one_counts(stores: Stores) {
    stores.open_account().await;
    stores.dispatch(1, 7).await;
    let settled = join_all((0..16).map(|_| stores.settle(1, answered(b"{}", 3)))).await;
    let counted = settled.iter().filter(|one| **one == Settled::Now).count();
    assert_eq!(counted, 1);
    assert_eq!(stores.credits().await.balance_cents, -3);
}

async fn a_generation_is_settled_for_its_own_account_alone(stores: Stores) {
    stores.open_account().await;
    stores.claim(claim(1, 1), 0).await;
    stores.dispatch_keyed(1, 1, 7).await;
    for ending in [answered(b"{}", 5), Ending::Released(Bucket::ProviderError)] {
        let settled = stores.settle_of("else", 1, ending).await;
        assert_eq!(settled, Settled::Before);
    }
    assert_eq!(stores.credits().await.balance_cents, 0);
    let retried = stores.claim(claim(1, 2), 1).await;
    assert_eq!(retried, super::Claimed::PickUp(id(1)));
    assert_eq!(stores.settle(1, answered(b"{}", 5)).await, Settled::Now);
    assert_eq!(stores.credits().await.balance_cents, -5);
}

async fn a_charge_ends_the_hold_whatever_it_is(stores: Stores) {
    stores.open_account().await;
    for (n, charge) in [(1, 0), (2, 7), (3, 70)] {
        stores.dispatch(n, 7).await;
        stores.hold(n, 7).await;
        assert_eq!(stores.credits().await.held_cents, 7);
        stores.settle(n, answered(b"{}", charge)).await;
        assert_eq!(stores.credits().await.held_cents, 0, "charged {charge}");
    }
    assert_eq!(stores.credits().await.balance_cents, -77);
    let entries = stores.accounts.entries(&account("acme"), None, 10).await;
    assert_eq!(
        entries.expect("the store answers").len(),
        2,
        "nothing is no entry"
    );
}

async fn nothing_is_billed_for_what_never_ran(stores: Stores) {
    stores.open_account().await;
    stores.dispatch(1, 7).await;
    stores.record(record(1, 0));
    let released = Ending::Released(Bucket::ServiceUnavailable);
    assert_eq!(stores.settle(1, released).await, Settled::Now);
    assert_eq!(stores.credits().await.balance_cents, 0);
    let page = stores.usage.page(&UsageQuery::default(), None, 10).await;
    let page = page.expect("the store answers");
    let told = page[0].generation.as_ref().expect("it was dispatched");
    assert_eq!(told.bucket, Some(Bucket::ServiceUnavailable));
    assert_eq!(told.charge_cents, Some(0));
}

async fn what_is_unknown_is_not_settled(stores: Stores) {
    stores.open_account().await;
    assert_eq!(stores.settle(1, answered(b"{}", 5)).await, Settled::Before);
    assert_eq!(stores.credits().await.balance_cents, 0);
}

async fn the_unfinished_are_those_that_were_dispatched_and_not_settled(stores: Stores) {
    stores.open_account().await;
    stores.claim(claim(1, 1), 0).await;
    for n in [5, 4, 3, 2] {
        stores
            .dispatch(n, 10 + u64::try_from(n).expect("few"))
            .await;
    }
    stores.accepted(4, b"\x00handle\xff").await;
    stores.accepted(5, b"done").await;
    stores.settle(5, answered(b"{}", 0)).await;
    let failed = Outcome::Failed {
        bucket: Bucket::ProviderError,
        message: String::new(),
    };
    stores.settle(2, kept(failed, 0)).await;
    let unfinished = stores.usage.unfinished().await.expect("the store answers");
    let handle = Handle(Bytes::from_static(b"\x00handle\xff"));
    let expected = [
        Unfinished {
            generation: generation(3, 13),
            accepted: None,
        },
        Unfinished {
            generation: generation(4, 14),
            accepted: Some(Acceptance {
                handle,
                poll_after: Duration::from_millis(1500),
                at: at(50),
            }),
        },
    ];
    assert_eq!(unfinished, expected);
}
