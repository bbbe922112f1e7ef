//! The labels and API keys of calls: kept with what they name, and counted in totals.

use accounts::{KeyId, Label, Labels};

use super::queue::call;
use super::usage::{export, page};
use super::{Bucket, CallRecord, Rule, Stores, account, answered, at, generation, model, record};
use crate::{Breakdown, Generation, ModelTotal, UsageQuery};

pub(super) const RULES: [Rule; 6] = [
    |stores| Box::pin(calls_read_back_with_their_api_key(stores)),
    |stores| Box::pin(totals_are_told_by_api_key(stores)),
    |stores| Box::pin(labels_read_back_with_their_call(stores)),
    |stores| Box::pin(a_generation_keeps_its_labels_without_its_call(stores)),
    |stores| Box::pin(a_queued_request_keeps_its_labels_and_its_api_key(stores)),
    |stores| Box::pin(totals_are_told_by_the_value_of_a_label(stores)),
];

fn labels(texts: &[&str]) -> Labels {
    let labels = texts.iter().map(|text| text.parse::<Label>());
    let labels = labels.map(|label| label.expect("a label"));
    Labels::new(labels.collect()).expect("labels")
}

/// Dispatches a generation with labels, under a key if one is given.
async fn dispatch(stores: &Stores, n: u128, texts: &[&str]) {
    let generation = Generation {
        labels: labels(texts),
        ..generation(n, 9)
    };
    let begun = stores.dispatch_by(super::FIRST, None, generation).await;
    assert_eq!(begun, super::Dispatched::Begun);
}

async fn labels_read_back_with_their_call(stores: Stores) {
    stores.open_account().await;
    dispatch(&stores, 1, &["team=blue", "note=a \"b\" \\ 'c'"]).await;
    let began = CallRecord {
        labels: labels(&["team=blue", "note=a \"b\" \\ 'c'"]),
        ..record(1, 0)
    };
    let again = CallRecord {
        labels: labels(&["team=red"]),
        generation: Some(super::id(1)),
        replayed: true,
        ..record(2, 1)
    };
    let refused = CallRecord {
        labels: labels(&["team=blue"]),
        generation: None,
        bucket: Some(Bucket::RateLimited),
        ..record(3, 2)
    };
    let without = record(4, 3);
    for call in [&began, &again, &refused, &without, &refused] {
        stores.record(call.clone());
    }
    let expected = [without, refused, again, began];
    let read = page(&stores, &UsageQuery::default()).await;
    let read: Vec<CallRecord> = read.into_iter().map(|row| row.call).collect();
    assert_eq!(read, expected);
    let exported = export(&stores, &UsageQuery::default()).await;
    let exported = exported.into_iter().rev().map(|row| row.call);
    assert_eq!(exported.collect::<Vec<_>>(), expected);
}

async fn a_generation_keeps_its_labels_without_its_call(stores: Stores) {
    stores.open_account().await;
    dispatch(&stores, 1, &["team=blue"]).await;
    dispatch(&stores, 2, &[]).await;
    let unfinished = stores.usage.unfinished().await.expect("an answer");
    let kept: Vec<Labels> = unfinished
        .into_iter()
        .map(|one| one.generation.labels)
        .collect();
    assert_eq!(kept, [labels(&["team=blue"]), Labels::NONE]);
    let lapsed = i64::try_from(super::LASTS.as_secs()).expect("few") + 10;
    let taken = stores.take_over(super::SECOND, 1, lapsed).await;
    assert_eq!(taken[0].generation.labels, labels(&["team=blue"]));
    let settled = stores.settle_by(super::SECOND, "acme", 1, answered(b"{}", 4));
    assert_eq!(settled.await, super::Settled::Now);
    let exported = export(&stores, &UsageQuery::default()).await;
    let exported: Vec<(bool, Labels)> = exported
        .into_iter()
        .map(|row| (row.is_recorded, row.call.labels))
        .collect();
    assert_eq!(exported, [(false, labels(&["team=blue"]))]);
}

async fn a_queued_request_keeps_its_labels_and_its_api_key(stores: Stores) {
    stores.open_account().await;
    for (n, texts) in [(1, &["team=blue", "k="][..]), (2, &[])] {
        let mut queued = call("acme", n);
        queued.labels = labels(texts);
        queued.api_key = (n == 1).then(|| "abcd2345".parse().expect("the id of a key"));
        let api_key = queued.api_key.clone();
        let enqueued = stores.enqueue(queued).await;
        assert_eq!(enqueued, crate::Enqueued::Waits);
        let taken = stores.queue.take(super::id(n), at(2)).await;
        let taken = taken.expect("an answer").expect("it waits");
        assert_eq!((taken.labels, taken.api_key), (labels(texts), api_key));
    }
}

async fn totals_are_told_by_the_value_of_a_label(stores: Stores) {
    stores.open_account().await;
    let calls: [(u128, &[&str]); 4] = [
        (1, &["team=blue", "t.e-a_m=x"]),
        (2, &["team=blue"]),
        (3, &["team=\"red\""]),
        (4, &["other=blue"]),
    ];
    for (n, texts) in calls {
        dispatch(&stores, n, texts).await;
        stores.settle(n, answered(b"{}", 4)).await;
        // The record of the third is lost: its generation counts by itself.
        if n != 3 {
            stores.record(CallRecord {
                labels: labels(texts),
                ..record(n, 0)
            });
        }
    }
    // A replay costs nothing, whatever its labels are.
    stores.record(CallRecord {
        labels: labels(&["team=green"]),
        generation: Some(super::id(1)),
        replayed: true,
        ..record(5, 0)
    });
    let total = |label: Option<&str>, calls, generations| ModelTotal {
        account: account("acme"),
        model: model(),
        api_key: None,
        label: label.map(str::to_owned),
        calls,
        succeeded: calls,
        generations,
        charge_cents: 4 * generations,
    };
    let totals = async |label| {
        let by = Breakdown {
            label,
            by_key: false,
        };
        let totals = stores.usage.totals(&UsageQuery::default(), by).await;
        totals.expect("the store answers")
    };
    assert_eq!(
        totals(Some("team")).await,
        [
            total(None, 1, 1),
            total(Some("\"red\""), 0, 1),
            total(Some("blue"), 2, 2),
            total(Some("green"), 1, 0),
        ]
    );
    assert_eq!(
        totals(Some("t.e-a_m")).await,
        [total(None, 3, 3), total(Some("x"), 1, 1)]
    );
    assert_eq!(totals(None).await, [total(None, 4, 4)]);
}

fn api_key(text: &str) -> Option<KeyId> {
    Some(text.parse().expect("an id"))
}

/// Dispatches a generation for a call with an API key.
async fn dispatch_with(stores: &Stores, n: u128, key: Option<KeyId>) {
    let generation = Generation {
        api_key: key,
        ..generation(n, 9)
    };
    let begun = stores.dispatch_by(super::FIRST, None, generation).await;
    assert_eq!(begun, super::Dispatched::Begun);
}

async fn calls_read_back_with_their_api_key(stores: Stores) {
    stores.open_account().await;
    let key = api_key("abcd2345");
    for n in 1..=3 {
        dispatch_with(&stores, n, key.clone().filter(|_| n != 2)).await;
    }
    let unfinished = stores.usage.unfinished().await.expect("an answer");
    let keys: Vec<_> = unfinished
        .iter()
        .map(|one| one.generation.api_key.clone())
        .collect();
    assert_eq!(keys, [key.clone(), None, key.clone()], "those that run");
    for n in 1..=3 {
        stores.settle(n, answered(b"{}", 4)).await;
    }
    // The record of the third is lost: what stands for it has the key of the generation.
    stores.record(CallRecord {
        api_key: key.clone(),
        ..record(1, 0)
    });
    stores.record(record(2, 0));
    let of = |rows: Vec<crate::UsageRow>| -> Vec<_> {
        let calls = rows.into_iter().map(|row| row.call);
        calls.map(|call| (call.request, call.api_key)).collect()
    };
    let request = |n| crate::RequestId(super::id(n).0);
    assert_eq!(
        of(page(&stores, &UsageQuery::default()).await),
        [(request(2), None), (request(1), key.clone())]
    );
    assert_eq!(
        of(export(&stores, &UsageQuery::default()).await),
        [
            (request(1), key.clone()),
            (request(2), None),
            (request(3), key.clone())
        ]
    );
    let found = stores.usage.find(request(3), (at(-9), at(9))).await;
    let found = found.expect("an answer").expect("it is there");
    assert_eq!(found.call.api_key, key);
}

async fn totals_are_told_by_api_key(stores: Stores) {
    stores.open_account().await;
    let (first, second) = (api_key("aaaaaaaa"), api_key("bbbbbbbb"));
    let calls = [
        (1, second.clone(), &["team=blue"][..]),
        (2, first.clone(), &["team=blue"]),
        (3, first.clone(), &[]),
        (4, None, &["team=blue"]),
    ];
    for (n, key, texts) in calls {
        let generation = Generation {
            api_key: key.clone(),
            labels: labels(texts),
            ..generation(n, 9)
        };
        let begun = stores.dispatch_by(super::FIRST, None, generation).await;
        assert_eq!(begun, super::Dispatched::Begun);
        stores.settle(n, answered(b"{}", 4)).await;
        // The record of the third is lost: its generation counts by itself.
        if n != 3 {
            stores.record(CallRecord {
                api_key: key,
                labels: labels(texts),
                ..record(n, 0)
            });
        }
    }
    let total = |key: &Option<KeyId>, label: Option<&str>, calls, generations| ModelTotal {
        account: account("acme"),
        model: model(),
        api_key: key.clone(),
        label: label.map(str::to_owned),
        calls,
        succeeded: calls,
        generations,
        charge_cents: 4 * generations,
    };
    let totals = async |label| {
        let by = Breakdown {
            by_key: true,
            label,
        };
        let totals = stores.usage.totals(&UsageQuery::default(), by).await;
        totals.expect("the store answers")
    };
    assert_eq!(
        totals(None).await,
        [
            total(&None, None, 1, 1),
            total(&first, None, 1, 2),
            total(&second, None, 1, 1),
        ]
    );
    assert_eq!(
        totals(Some("team")).await,
        [
            total(&None, Some("blue"), 1, 1),
            total(&first, None, 0, 1),
            total(&first, Some("blue"), 1, 1),
            total(&second, Some("blue"), 1, 1),
        ]
    );
}
