//! Generations whose store fails on the way: nothing runs twice, is billed twice or is lost.

use super::*;

/// What every generation of these tests is held under.
pub(super) fn lease() -> Lease {
    Lease {
        owner: OwnerId(Uuid::from_u128(1)),
        lasts: std::time::Duration::from_secs(30),
    }
}

/// A generation under way whose key is claimed.
pub(super) async fn dispatched(store: &Store) -> (SqliteCalls, KeyClaim) {
    let now = Timestamp::from_second(1_790_000_000).expect("in range");
    let acme: AccountId = "acme".parse().expect("a valid name");
    let account = Account::new(acme.clone(), (&acme).into(), now);
    store.accounts().create(account).await.expect("a free id");
    let id = GenerationId(Uuid::from_u128(1));
    let claim = KeyClaim {
        account: acme.clone(),
        key: KeyDigest([1; 32]),
        fingerprint: Fingerprint([1; 32]),
        generation: id,
        expires_at: now + SignedDuration::from_hours(24),
        lasts: lease().lasts,
    };
    let calls = store.calls();
    let claimed = calls.claim(claim.clone(), now).await;
    assert_eq!(claimed.expect("an answer"), Claimed::Fresh);
    let generation = Generation {
        id,
        account: acme,
        model: "bfl/flux-2".parse().expect("a valid id"),
        hold_cents: 5,
        received_at: now,
        dispatched_at: now,
        api_key: None,
        labels: accounts::Labels::NONE,
        serving: None,
    };
    let key = Some(claim.key);
    let dispatched = calls.dispatch(generation, key, lease()).await;
    assert_eq!(dispatched.expect("an answer"), Dispatched::Begun);
    (calls, claim)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_leaves_a_generation_running_until_its_end_is_written_with_its_bill() {
    // One that goes through the log.
    let small = Bytes::from_static(b"{\"result\":1}");
    full_disk_at(&["call-log-write"], small).await;
    // One that shares a file at once.
    let medium = Bytes::from(vec![b' '; 20_000]);
    full_disk_at(&["replay-append", "replay-sync", "database-commit"], medium).await;
    // One that has a file of its own.
    let large = Bytes::from(vec![b' '; 100_000]);
    let points = [
        "blob-create",
        "blob-write",
        "blob-sync",
        "blob-rename",
        "database-commit",
    ];
    full_disk_at(&points, large).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_with_a_key_that_the_log_cannot_sync_goes_through_the_rows() {
    let scenario = FailScenario::setup();
    let (root, store) = store();
    let (calls, claim) = dispatched(&store).await;
    let outcome = Outcome::Answered(Answer {
        content_type: "application/json".to_owned(),
        body: Bytes::from_static(b"{}"),
    });
    let now = Timestamp::from_second(1_790_000_001).expect("in range");
    let of = (claim.generation, lease().owner);
    let settle = async || {
        let ending = Ending::Kept {
            outcome: outcome.clone(),
            charge_cents: 5,
            results: Vec::new(),
        };
        calls.settle(of, &claim.account, ending, None, now).await
    };
    fault("call-log-sync", "return(full)");
    fault("database-commit", "return(full)");
    let refused = settle().await.expect_err("neither is there");
    assert!(matches!(refused, CallsError::Full(_)), "{refused:?}");
    fail::remove("database-commit");
    assert_eq!(settle().await.expect("the rows have it"), Settled::Now);
    assert_eq!(settle().await.expect("an answer"), Settled::Before);
    fail::remove("call-log-sync");
    drop((calls, store));
    let store = Store::open(root.path()).expect("the store again");
    let again = store.calls().claim(claim.clone(), now).await;
    let expected = Claimed::Replay(claim.generation, outcome.clone());
    assert_eq!(again.expect("an answer"), expected);
    let credits = store.accounts().credits(&claim.account, now).await;
    assert_eq!(credits.expect("an answer").balance_cents, -5);
    scenario.teardown();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_the_log_cannot_append_is_there_after_the_next_start() {
    for kind in ["full", "broken"] {
        let scenario = FailScenario::setup();
        let (root, store) = store();
        let (calls, claim) = dispatched(&store).await;
        let outcome = Outcome::Answered(Answer {
            content_type: "application/json".to_owned(),
            body: Bytes::from_static(b"{}"),
        });
        let now = Timestamp::from_second(1_790_000_001).expect("in range");
        let ending = Ending::Kept {
            outcome: outcome.clone(),
            charge_cents: 5,
            results: Vec::new(),
        };
        fault("replay-append", &format!("return({kind})"));
        let of = (claim.generation, lease().owner);
        let settled = calls.settle(of, &claim.account, ending, None, now).await;
        assert_eq!(settled.expect("the log has it"), Settled::Now);
        let behind = calls.claim(claim.clone(), now).await;
        behind.expect_err("the log cannot be brought in");
        assert_eq!(store.healthy().is_ok(), kind == "full");
        fail::remove("replay-append");
        drop((calls, store));
        let store = Store::open(root.path()).expect("the store again");
        let again = store.calls().claim(claim.clone(), now).await;
        let expected = Claimed::Replay(claim.generation, outcome.clone());
        assert_eq!(again.expect("an answer"), expected);
        let credits = store.accounts().credits(&claim.account, now).await;
        assert_eq!(credits.expect("an answer").balance_cents, -5);
        scenario.teardown();
    }
}

/// Ends a generation with this result while the disk is full at each of these points, and then once more.
async fn full_disk_at(points: &[&str], result: Bytes) {
    let scenario = FailScenario::setup();
    let (root, store) = store();
    let (calls, claim) = dispatched(&store).await;
    let outcome = Outcome::Answered(Answer {
        content_type: "application/json".to_owned(),
        body: result,
    });
    let now = Timestamp::from_second(1_790_000_001).expect("in range");
    let settle = async || {
        let ending = Ending::Kept {
            outcome: outcome.clone(),
            charge_cents: 5,
            results: Vec::new(),
        };
        calls
            .settle(
                (claim.generation, lease().owner),
                &claim.account,
                ending,
                None,
                now,
            )
            .await
    };
    for point in points {
        fault(point, "return(full)");
        let refused = settle().await.expect_err(point);
        assert!(
            matches!(refused, CallsError::Full(_)),
            "{point}: {refused:?}"
        );
        fail::remove(point);
        let running = calls.claim(claim.clone(), now).await.expect("an answer");
        assert_eq!(running, Claimed::PickUp(claim.generation), "{point}");
        let credits = store.accounts().credits(&claim.account, now).await;
        assert_eq!(credits.expect("an answer").balance_cents, 0, "{point}");
        assert_eq!(left_in(&root, "tmp"), 0, "{point}");
    }
    assert_eq!(settle().await.expect("there is room again"), Settled::Now);
    let again = calls.claim(claim.clone(), now).await.expect("an answer");
    assert_eq!(again, Claimed::Replay(claim.generation, outcome.clone()));
    let credits = store.accounts().credits(&claim.account, now).await;
    assert_eq!(credits.expect("an answer").balance_cents, -5);
    scenario.teardown();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_row_names_a_result_that_did_not_reach_the_disk() {
    lost_at("replay-sync", Bytes::from(vec![b' '; 20_000])).await;
    // One that has a file of its own, in a folder that a killed process made and did not sync.
    lost_at("replay-folder-sync", Bytes::from(vec![b' '; 100_000])).await;
}

/// Ends a generation with this result while a sync fails at this point.
async fn lost_at(point: &str, result: Bytes) {
    let scenario = FailScenario::setup();
    let (root, store) = store();
    std::fs::create_dir(root.path().join("replays/01")).expect("it is not there");
    let (calls, claim) = dispatched(&store).await;
    let now = Timestamp::from_second(1_790_000_001).expect("in range");
    let ending = Ending::Kept {
        outcome: Outcome::Answered(Answer {
            content_type: "application/json".to_owned(),
            body: result,
        }),
        charge_cents: 5,
        results: Vec::new(),
    };
    let settle = async |calls: &SqliteCalls| {
        let ending = ending.clone();
        let settled = calls.settle(
            (claim.generation, lease().owner),
            &claim.account,
            ending,
            None,
            now,
        );
        settled.await
    };
    fault(point, "return(broken)");
    let lost = settle(&calls).await;
    assert!(
        matches!(lost, Err(CallsError::Unavailable(_))),
        "{point}: {lost:?}"
    );
    fail::remove(point);
    // Whether the disk has it nobody knows, so nothing is written any more.
    store.healthy().expect_err("the disk failed");
    settle(&calls).await.expect_err("the disk failed");
    drop((calls, store));
    let store = Store::open(root.path()).expect("the store opens again");
    let calls = store.calls();
    let unfinished = calls.unfinished().await.expect("an answer");
    assert_eq!(unfinished.len(), 1);
    let taken = calls.take_over(lease(), 1, now).await.expect("an answer");
    assert_eq!(taken, unfinished);
    assert_eq!(settle(&calls).await.expect("an answer"), Settled::Now);
    scenario.teardown();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_keeps_no_generation_without_a_key_from_its_end_and_loses_no_record() {
    let scenario = FailScenario::setup();
    let (_root, store) = store();
    let (calls, claim) = dispatched(&store).await;
    let now = claim.expires_at;
    let generation = Generation {
        id: GenerationId(Uuid::from_u128(2)),
        account: claim.account.clone(),
        model: "bfl/flux-2".parse().expect("a valid id"),
        hold_cents: 5,
        received_at: now,
        dispatched_at: now,
        api_key: None,
        labels: accounts::Labels::NONE,
        serving: None,
    };
    fault("call-log-write", "return(full)");
    let refused = calls.dispatch(generation.clone(), None, lease()).await;
    assert!(matches!(refused, Err(CallsError::Full(_))), "{refused:?}");
    fail::remove("call-log-write");
    let dispatched = calls.dispatch(generation.clone(), None, lease()).await;
    dispatched.expect("there is room again");
    let settle = async || {
        let ending = Ending::Released(Bucket::ServiceUnavailable);
        calls
            .settle(
                (generation.id, lease().owner),
                &claim.account,
                ending,
                None,
                now,
            )
            .await
    };
    fault("call-log-write", "return(full)");
    calls.record(CallRecord {
        request: RequestId(generation.id.0),
        account: claim.account.clone(),
        model: None,
        key: None,
        generation: Some(generation.id),
        api_key: None,
        labels: accounts::Labels::NONE,
        bucket: Some(Bucket::ServiceUnavailable),
        replayed: false,
        received_at: now,
        answered_at: now,
        delivered: true,
    });
    let refused = settle().await.expect_err("the disk is full");
    assert!(matches!(refused, CallsError::Full(_)), "{refused:?}");
    fail::remove("call-log-write");
    assert_eq!(settle().await.expect("there is room again"), Settled::Now);
    assert_eq!(settle().await.expect("an answer"), Settled::Before);
    let page = calls.page(&UsageQuery::default(), None, 10).await;
    let page = page.expect("an answer");
    assert_eq!(page.len(), 1);
    let settled = page[0].generation.as_ref().expect("it was dispatched");
    assert_eq!(settled.settled_at, Some(now));
    scenario.teardown();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_begins_that_did_not_reach_the_disk() {
    for point in ["call-log-write", "call-log-sync"] {
        let scenario = FailScenario::setup();
        let (root, store) = store();
        let (calls, claim) = dispatched(&store).await;
        let generation = |n| Generation {
            id: GenerationId(Uuid::from_u128(n)),
            account: claim.account.clone(),
            model: "bfl/flux-2".parse().expect("a valid id"),
            hold_cents: 5,
            received_at: claim.expires_at,
            dispatched_at: claim.expires_at,
            api_key: None,
            labels: accounts::Labels::NONE,
            serving: None,
        };
        calls
            .dispatch(generation(2), None, lease())
            .await
            .expect("a disk");
        fault(point, "return(broken)");
        let lost = calls.dispatch(generation(3), None, lease()).await;
        assert!(matches!(lost, Err(CallsError::Unavailable(_))), "{lost:?}");
        fail::remove(point);
        // Whether the disk has it nobody knows, so nothing is written any more.
        store.healthy().expect_err("the disk failed");
        let lost = calls.dispatch(generation(4), None, lease()).await;
        assert!(matches!(lost, Err(CallsError::Unavailable(_))), "{lost:?}");
        let ending = Ending::Released(Bucket::ServiceUnavailable);
        let settled = calls.settle(
            (generation(2).id, lease().owner),
            &claim.account,
            ending,
            None,
            claim.expires_at,
        );
        settled.await.expect_err("the disk failed");
        drop((calls, store));
        let store = Store::open(root.path()).expect("the store opens again");
        let unfinished = store.calls().unfinished().await.expect("an answer");
        let ids: Vec<_> = unfinished
            .iter()
            .map(|one| one.generation.id.0.as_u128())
            .collect();
        assert!(
            ids.starts_with(&[1, 2]) && !ids.contains(&4),
            "{point}: {ids:?}"
        );
        scenario.teardown();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_before_the_end_is_written_finds_the_generation_running() {
    let scenario = FailScenario::setup();
    let (root, store) = store();
    let (calls, claim) = dispatched(&store).await;
    let handle = Handle(Bytes::from_static(b"task"));
    let now = Timestamp::from_second(1_790_000_001).expect("in range");
    let second = std::time::Duration::from_secs(1);
    calls
        .accepted(
            (claim.generation, lease().owner),
            &handle,
            second,
            Some("task"),
            now,
        )
        .await
        .expect("an answer");
    fault("call-log-write", "return(broken)");
    let ending = Ending::Released(Bucket::ServiceUnavailable);
    let lost = calls
        .settle(
            (claim.generation, lease().owner),
            &claim.account,
            ending,
            None,
            now,
        )
        .await;
    assert!(matches!(lost, Err(CallsError::Unavailable(_))), "{lost:?}");
    fail::remove("call-log-write");
    drop((calls, store));
    let store = Store::open(root.path()).expect("the store opens again");
    let unfinished = store.calls().unfinished().await.expect("an answer");
    assert_eq!(unfinished.len(), 1);
    let accepted = router_core::Acceptance {
        handle,
        poll_after: second,
        at: now,
    };
    assert_eq!(unfinished[0].accepted, Some(accepted));
    let running = store.calls().claim(claim.clone(), now).await;
    assert_eq!(
        running.expect("an answer"),
        Claimed::PickUp(claim.generation)
    );
    scenario.teardown();
}
