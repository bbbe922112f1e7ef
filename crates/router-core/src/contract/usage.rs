//! What can be read of calls, and how it is forgotten.

use futures_util::StreamExt;

use super::{
    Bucket, CallRecord, Claimed, RequestId, Rule, Stores, account, answered, at, claim, id, model,
    record,
};
use crate::{
    Breakdown, GenerationUsage, KeyClaim, KeyDigest, ModelTotal, UsageCursor, UsageQuery, UsageRow,
};

pub(super) const RULES: [Rule; 8] = [
    |stores| Box::pin(a_call_reads_back_with_its_generation(stores)),
    |stores| Box::pin(a_call_is_found_by_its_request(stores)),
    |stores| Box::pin(a_call_is_recorded_once(stores)),
    |stores| Box::pin(pages_are_newest_first_and_whole(stores)),
    |stores| Box::pin(a_query_narrows_by_account_and_time(stores)),
    |stores| Box::pin(a_generation_counts_for_the_call_that_began_it(stores)),
    |stores| Box::pin(a_generation_without_its_call_counts_once(stores)),
    |stores| Box::pin(what_is_over_is_forgotten_in_bounded_steps(stores)),
];

pub(super) async fn page(stores: &Stores, query: &UsageQuery) -> Vec<UsageRow> {
    let page = stores.usage.page(query, None, 100).await;
    page.expect("the store answers")
}

pub(super) async fn export(stores: &Stores, query: &UsageQuery) -> Vec<UsageRow> {
    let rows: Vec<_> = stores.usage.export(query.clone()).collect().await;
    rows.into_iter()
        .map(|row| row.expect("the store answers"))
        .collect()
}

async fn a_call_reads_back_with_its_generation(stores: Stores) {
    stores.open_account().await;
    stores.dispatch(1, 9).await;
    stores.accepted(1, b"handle").await;
    stores.record(record(1, 40));
    let running = page(&stores, &UsageQuery::default()).await;
    assert_eq!(
        running[0]
            .generation
            .as_ref()
            .expect("dispatched")
            .charge_cents,
        None
    );
    stores.settle(1, answered(b"{}", 4)).await;
    let refused = CallRecord {
        model: None,
        key: Some(KeyDigest([9; 32])),
        generation: None,
        bucket: Some(Bucket::ClientDisconnected),
        replayed: true,
        delivered: false,
        ..record(2, 41)
    };
    stores.record(refused.clone());
    let expected = [
        UsageRow {
            call: refused,
            generation: None,
            is_recorded: true,
        },
        UsageRow {
            call: record(1, 40),
            generation: Some(GenerationUsage {
                task_id: Some("task".to_owned()),
                dispatched_at: at(1),
                accepted_at: Some(at(50)),
                settled_at: Some(at(60)),
                bucket: None,
                hold_cents: 9,
                charge_cents: Some(4),
                serving: None,
            }),
            is_recorded: true,
        },
    ];
    assert_eq!(page(&stores, &UsageQuery::default()).await, expected);
}

async fn a_call_is_found_by_its_request(stores: Stores) {
    stores.open_account().await;
    stores.dispatch(1, 9).await;
    let find = async |n: u128, from: i64, until: i64| {
        let found = stores.usage.find(RequestId(id(n).0), (at(from), at(until)));
        found.await.expect("the store answers")
    };
    let running = find(1, 0, 0).await.expect("its generation runs");
    assert_eq!((running.is_recorded, running.began()), (false, true));
    let settled = |row: &UsageRow| row.generation.as_ref().and_then(|it| it.settled_at);
    assert_eq!(settled(&running), None);
    stores.settle(1, answered(b"{}", 4)).await;
    let ended = find(1, 0, 0).await.expect("it has ended");
    assert_eq!((ended.is_recorded, settled(&ended)), (false, Some(at(60))));
    stores.record(record(1, 40));
    let replay = CallRecord {
        generation: Some(id(1)),
        replayed: true,
        ..record(2, 41)
    };
    stores.record(replay.clone());
    let found = find(2, 41, 42).await.expect("it is on record");
    assert_eq!((&found.call, found.began()), (&replay, false));
    assert_eq!(settled(&found), Some(at(60)));
    let found = find(1, 0, 50).await.expect("it is on record");
    assert!(found.is_recorded);
    for (n, from, until) in [(2, 0, 41), (2, 42, 50), (3, 0, 50)] {
        assert_eq!(find(n, from, until).await, None, "{n} {from} {until}");
    }
}

async fn a_call_is_recorded_once(stores: Stores) {
    for _ in 0..2 {
        stores.record(record(1, 0));
    }
    assert_eq!(page(&stores, &UsageQuery::default()).await.len(), 1);
}

async fn pages_are_newest_first_and_whole(stores: Stores) {
    // Two of each second: the id decides between them.
    for n in 0..10_u128 {
        let second = i64::try_from(n / 2).expect("few");
        stores.record(record(n, second));
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = stores.usage.page(&UsageQuery::default(), after, 3).await;
        let page = page.expect("the store answers");
        let Some(last) = page.last() else { break };
        after = Some(UsageCursor {
            received_at: last.call.received_at,
            request: last.call.request,
        });
        seen.extend(page.into_iter().map(|row| row.call.request));
    }
    let newest_first: Vec<_> = (0..10).rev().map(|n| RequestId(id(n).0)).collect();
    assert_eq!(seen, newest_first);
    let exported = export(&stores, &UsageQuery::default()).await;
    let mut exported: Vec<_> = exported.into_iter().map(|row| row.call.request).collect();
    exported.reverse();
    assert_eq!(exported, newest_first);
}

async fn a_query_narrows_by_account_and_time(stores: Stores) {
    for n in 0..6_u128 {
        let owner = if n % 2 == 0 { "acme" } else { "other" };
        let second = i64::try_from(n).expect("few");
        stores.record(CallRecord {
            account: account(owner),
            ..record(n, second)
        });
    }
    let query = UsageQuery {
        account: Some(account("acme")),
        from: Some(at(1)),
        until: Some(at(4)),
    };
    let only = [RequestId(id(2).0)];
    let requests =
        |rows: Vec<UsageRow>| -> Vec<_> { rows.into_iter().map(|row| row.call.request).collect() };
    assert_eq!(requests(page(&stores, &query).await), only);
    assert_eq!(requests(export(&stores, &query).await), only);
    let totals = stores
        .usage
        .totals(&query, Breakdown::default())
        .await
        .expect("the store answers");
    assert_eq!(totals.iter().map(|total| total.calls).sum::<u64>(), 1);
}

async fn a_generation_counts_for_the_call_that_began_it(stores: Stores) {
    stores.open_account().await;
    stores.dispatch(1, 9).await;
    stores.settle(1, answered(b"{}", 4)).await;
    stores.record(record(1, 0));
    for n in [2, 3] {
        let replay = CallRecord {
            generation: Some(id(1)),
            replayed: true,
            ..record(n, 1)
        };
        stores.record(replay);
    }
    let refused = CallRecord {
        generation: None,
        bucket: Some(Bucket::RateLimited),
        ..record(4, 2)
    };
    stores.record(refused);
    let query = UsageQuery::default();
    let totals = stores.usage.totals(&query, Breakdown::default()).await;
    let expected = ModelTotal {
        account: account("acme"),
        model: model(),
        api_key: None,
        label: None,
        calls: 4,
        succeeded: 3,
        generations: 1,
        charge_cents: 4,
    };
    assert_eq!(totals.expect("the store answers"), [expected]);
}

/// A crash took the records of the calls that began 1 and 2; 1 was picked up, 3 is on record, 4 runs.
async fn a_generation_without_its_call_counts_once(stores: Stores) {
    stores.open_account().await;
    for n in 1..=4_u128 {
        stores.dispatch(n, 9).await;
    }
    for (n, cents) in [(1, 4), (2, 5), (3, 6)] {
        stores.settle(n, answered(b"{}", cents)).await;
    }
    let picked_up = CallRecord {
        generation: Some(id(1)),
        ..record(9, 7)
    };
    stores.record(picked_up);
    stores.record(record(3, 0));
    let query = UsageQuery::default();
    let totals = stores.usage.totals(&query, Breakdown::default()).await;
    let expected = ModelTotal {
        account: account("acme"),
        model: model(),
        api_key: None,
        label: None,
        calls: 2,
        succeeded: 2,
        generations: 3,
        charge_cents: 15,
    };
    assert_eq!(totals.expect("the store answers"), [expected]);
    let exported = export(&stores, &UsageQuery::default()).await;
    let seen: Vec<_> = exported
        .iter()
        .map(|row| (row.call.request, row.began(), row.is_recorded))
        .collect();
    let request = |n| RequestId(id(n).0);
    let expected = [
        (request(3), true, true),
        (request(9), false, true),
        (request(1), true, false),
        (request(2), true, false),
    ];
    assert_eq!(seen, expected);
    let began = exported.iter().filter(|row| row.began());
    let billed = began.filter_map(|row| row.generation.as_ref()?.charge_cents);
    assert_eq!(billed.sum::<u64>(), 15);
    let (call, credits) = (&exported[2].call, stores.credits().await);
    assert_eq!((call.received_at, call.delivered), (at(0), false));
    assert_eq!(credits.balance_cents, -15);
    for (from, until, count) in [(0, 1, 3), (1, 9, 1), (0, 0, 0)] {
        let query = UsageQuery {
            account: Some(account("acme")),
            from: Some(at(from)),
            until: Some(at(until)),
        };
        assert_eq!(
            export(&stores, &query).await.len(),
            count,
            "{from} to {until}"
        );
    }
}

async fn what_is_over_is_forgotten_in_bounded_steps(stores: Stores) {
    stores.open_account().await;
    for n in 1..=5_u128 {
        let key = u8::try_from(n).expect("few");
        stores.claim(claim(key, n), 0).await;
        stores.dispatch_keyed(key, n, 0).await;
        stores.settle(n, answered(b"{\"result\":1}", 0)).await;
        stores.record(record(n, 0));
    }
    stores.claim(claim(9, 9), 0).await;
    let expire = async |now, keep_from, limit| {
        let gone = stores.retention.expire(at(now), at(keep_from), limit).await;
        gone.expect("the store answers")
    };
    let day = 24 * 3600;
    assert_eq!(expire(day - 1, 0, 100).await, 0, "nothing is over");
    assert_eq!(expire(day, 0, 4).await, 4, "keys, as many as it may");
    assert_eq!(expire(day, 0, 4).await, 2, "the others");
    let again = KeyClaim {
        expires_at: at(2 * day),
        ..claim(1, 10)
    };
    assert_eq!(stores.claim(again, day).await, Claimed::Fresh);
    assert_eq!(
        page(&stores, &UsageQuery::default()).await.len(),
        5,
        "the record stays"
    );
    assert_eq!(
        expire(day, day, 3).await,
        6,
        "three generations and three calls"
    );
    assert_eq!(expire(day, day, 3).await, 4);
    assert_eq!(expire(day, day, 3).await, 0);
    assert_eq!(page(&stores, &UsageQuery::default()).await, []);
}
