//! The labels of calls: kept with what they name, and counted in totals.

use accounts::{Label, Labels};

use super::queue::call;
use super::usage::{export, page};
use super::{Bucket, CallRecord, Rule, Stores, account, answered, at, generation, model, record};
use crate::{Generation, ModelTotal, UsageQuery};

pub(super) const RULES: [Rule; 4] = [
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
        label: label.map(str::to_owned),
        calls,
        succeeded: calls,
        generations,
        charge_cents: 4 * generations,
    };
    let totals = async |label| {
        let totals = stores.usage.totals(&UsageQuery::default(), label).await;
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
