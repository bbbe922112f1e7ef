//! What a key stands for.

use futures_util::future::join_all;

use super::{
    Bucket, Bytes, Claimed, Ending, Outcome, Rule, Stores, account, answer, answered, at, claim,
    id, kept,
};
use crate::{KeyClaim, REPLAY_CAP_BYTES, Refusal};

pub(super) const RULES: [Rule; 10] = [
    |stores| Box::pin(a_free_key_is_fresh_once(stores)),
    |stores| Box::pin(of_claims_at_once_one_is_fresh(stores)),
    |stores| Box::pin(another_request_is_a_conflict(stores)),
    |stores| Box::pin(a_key_is_scoped_to_its_account(stores)),
    |stores| Box::pin(a_dispatched_key_can_be_picked_up(stores)),
    |stores| Box::pin(every_outcome_replays_as_it_was(stores)),
    |stores| Box::pin(a_released_key_runs_afresh(stores)),
    |stores| Box::pin(a_result_over_the_cap_is_not_replayable(stores)),
    |stores| Box::pin(a_key_is_kept_24_hours_from_its_first_call(stores)),
    |stores| Box::pin(a_key_whose_generation_runs_does_not_expire(stores)),
];

async fn a_free_key_is_fresh_once(stores: Stores) {
    assert_eq!(stores.claim(claim(1, 1), 0).await, Claimed::Fresh);
    assert_eq!(stores.claim(claim(1, 2), 1).await, Claimed::InFlight);
    assert_eq!(stores.claim(claim(2, 3), 1).await, Claimed::Fresh);
}

async fn of_claims_at_once_one_is_fresh(stores: Stores) {
    let claims = (1..=32).map(|n| stores.claim(claim(1, n), 0));
    let claimed = join_all(claims).await;
    let fresh = claimed.iter().filter(|one| **one == Claimed::Fresh).count();
    let in_flight = claimed
        .iter()
        .filter(|one| **one == Claimed::InFlight)
        .count();
    assert_eq!((fresh, in_flight), (1, 31));
}

async fn another_request_is_a_conflict(stores: Stores) {
    stores.claim(claim(1, 1), 0).await;
    let other = || KeyClaim {
        fingerprint: accounts::Fingerprint([2; 32]),
        ..claim(1, 2)
    };
    assert_eq!(stores.claim(other(), 1).await, Claimed::Conflict);
    stores.open_account().await;
    stores.dispatch_keyed(1, 1, 0).await;
    assert_eq!(stores.claim(other(), 1).await, Claimed::Conflict);
    stores.settle(1, answered(b"{}", 0)).await;
    assert_eq!(stores.claim(other(), 1).await, Claimed::Conflict);
}

async fn a_key_is_scoped_to_its_account(stores: Stores) {
    stores.claim(claim(1, 1), 0).await;
    let other = KeyClaim {
        account: account("other"),
        ..claim(1, 2)
    };
    assert_eq!(stores.claim(other, 0).await, Claimed::Fresh);
}

async fn a_dispatched_key_can_be_picked_up(stores: Stores) {
    stores.open_account().await;
    stores.claim(claim(1, 1), 0).await;
    stores.dispatch_keyed(1, 1, 5).await;
    assert_eq!(stores.claim(claim(1, 2), 1).await, Claimed::PickUp(id(1)));
    stores.accepted(1, b"handle").await;
    assert_eq!(stores.claim(claim(1, 3), 1).await, Claimed::PickUp(id(1)));
}

async fn every_outcome_replays_as_it_was(stores: Stores) {
    stores.open_account().await;
    let raw = Bytes::from_static(b"\x00{\"b\":1,\"a\" : 1.0}\xff");
    let outcomes = [
        Outcome::Answered(answer(raw.clone())),
        Outcome::Answered(answer(Bytes::new())),
        Outcome::Answered(answer(vec![7; 100_000].into())),
        Outcome::Refused(Refusal::Detail(answer(raw.clone()))),
        Outcome::Refused(Refusal::Content {
            code: "too_dark".to_owned(),
            message: "The picture is too dark.".to_owned(),
        }),
        Outcome::Policy {
            message: "not this".to_owned(),
            detail: None,
        },
        Outcome::Policy {
            message: "not this".to_owned(),
            detail: Some(answer(raw)),
        },
        Outcome::Failed {
            bucket: Bucket::ProviderError,
            message: "it failed".to_owned(),
        },
        Outcome::Failed {
            bucket: Bucket::ProviderTimeout,
            message: "it was late".to_owned(),
        },
        Outcome::Failed {
            bucket: Bucket::InternalError,
            message: "we failed".to_owned(),
        },
    ];
    for (n, outcome) in (1..).zip(outcomes) {
        let key = u8::try_from(n).expect("few");
        stores.claim(claim(key, n), 0).await;
        stores.dispatch_keyed(key, n, 0).await;
        stores.settle(n, kept(outcome.clone(), 0)).await;
        for _ in 0..2 {
            let again = stores.claim(claim(key, 1000 + n), 1).await;
            assert_eq!(again, Claimed::Replay(id(n), outcome.clone()));
        }
    }
}

async fn a_released_key_runs_afresh(stores: Stores) {
    stores.open_account().await;
    // Before its dispatch, and after it.
    for n in [1, 2] {
        stores.claim(claim(1, n), 0).await;
        if n == 2 {
            stores.dispatch_keyed(1, n, 0).await;
        }
        stores
            .settle(n, Ending::Released(Bucket::ServiceUnavailable))
            .await;
        assert_eq!(stores.claim(claim(1, n + 1), 1).await, Claimed::Fresh);
        stores
            .settle(n + 1, Ending::Released(Bucket::InvalidInput))
            .await;
    }
    // What releases too late takes nobody else's key.
    stores.claim(claim(1, 10), 0).await;
    stores
        .settle(1, Ending::Released(Bucket::InvalidInput))
        .await;
    assert_eq!(stores.claim(claim(1, 11), 1).await, Claimed::InFlight);
}

async fn a_result_over_the_cap_is_not_replayable(stores: Stores) {
    stores.open_account().await;
    for (n, bytes) in [(1, REPLAY_CAP_BYTES), (2, REPLAY_CAP_BYTES + 1)] {
        let key = u8::try_from(n).expect("few");
        let outcome = Outcome::Answered(answer(vec![b' '; bytes].into()));
        stores.claim(claim(key, n), 0).await;
        stores.dispatch_keyed(key, n, 0).await;
        stores.settle(n, kept(outcome.clone(), 0)).await;
        let expected = if n == 1 {
            Claimed::Replay(id(n), outcome)
        } else {
            Claimed::NotReplayable(id(n))
        };
        // Not compared by assert_eq: its message would be eight megabytes long.
        assert!(
            stores.claim(claim(key, 9), 1).await == expected,
            "{bytes} bytes"
        );
    }
}

async fn a_key_is_kept_24_hours_from_its_first_call(stores: Stores) {
    stores.open_account().await;
    stores.claim(claim(1, 1), 0).await;
    stores.dispatch_keyed(1, 1, 0).await;
    stores.settle(1, answered(b"{}", 0)).await;
    // A retry that would expire later does not extend it.
    let retry = || KeyClaim {
        expires_at: at(48 * 3600),
        ..claim(1, 2)
    };
    let replayed = stores.claim(retry(), 24 * 3600 - 1).await;
    assert!(matches!(replayed, Claimed::Replay(..)), "{replayed:?}");
    assert_eq!(stores.claim(retry(), 24 * 3600).await, Claimed::Fresh);
    // The new claim is of a new generation.
    stores.dispatch_keyed(1, 2, 0).await;
    let picked_up = stores.claim(claim(1, 3), 24 * 3600 + 1).await;
    assert_eq!(picked_up, Claimed::PickUp(id(2)));
}

async fn a_key_whose_generation_runs_does_not_expire(stores: Stores) {
    stores.open_account().await;
    stores.claim(claim(1, 1), 0).await;
    stores.dispatch_keyed(1, 1, 0).await;
    let late = 30 * 3600;
    assert_eq!(
        stores.claim(claim(1, 2), late).await,
        Claimed::PickUp(id(1))
    );
    let gone = stores.retention.expire(at(late), at(0), 100).await;
    assert_eq!(gone.expect("the store answers"), 0);
    assert_eq!(
        stores.claim(claim(1, 2), late).await,
        Claimed::PickUp(id(1))
    );
}
