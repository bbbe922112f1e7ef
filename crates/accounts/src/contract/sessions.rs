//! The rules of sign-in sessions, run on two handles over one store: what one handle does counts for the other.

use std::collections::HashMap;
use std::sync::Arc;

use super::{AccountChange, AccountState, at, id};
use crate::{
    Account, AccountAdmin, AccountId, AdminError, ApiKey, KeyHash, KeyId, MintedKey, Scopes,
    Session, SessionSource, Sessions,
};

/// The ports of one handle.
#[derive(Clone)]
pub struct SessionPorts {
    /// Keeps sessions.
    pub sessions: Arc<dyn Sessions>,
    /// Changes accounts and keys.
    pub admin: Arc<dyn AccountAdmin>,
}

/// Runs every rule, each on two handles over one fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn sessions(fresh: impl Fn() -> [SessionPorts; 2]) {
    a_session_is_found_until_it_ends(&fresh()).await;
    an_ended_session_is_found_by_no_handle(&fresh()).await;
    a_token_stands_for_one_session_of_an_account(&fresh()).await;
    a_revoked_key_ends_its_sessions(&fresh()).await;
    a_suspension_ends_sessions_for_good(&fresh()).await;
    sessions_of_an_account_are_bounded(&fresh()).await;
    for seed in 0..4 {
        handles_agree_with_a_model(&fresh(), seed).await;
    }
}

async fn account(store: &SessionPorts, name: &str) -> AccountId {
    let account = Account::new(id(name), (&id(name)).into(), at(0));
    store.admin.create(account).await.expect("the id is free");
    id(name)
}

async fn key(store: &SessionPorts, account: &AccountId, number: u8) -> (KeyId, KeyHash) {
    let minted = MintedKey::new(&[number; MintedKey::RANDOM_BYTES]);
    let key = ApiKey {
        id: minted.id.clone(),
        account: account.clone(),
        name: account.into(),
        scopes: Scopes::standard(),
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
    };
    let added = store.admin.add_key(key, minted.hash()).await;
    added.expect("the key is new");
    (minted.id.clone(), minted.hash())
}

fn of_key(account: &AccountId, credential: KeyHash, ends: i64) -> Session {
    Session {
        account: account.clone(),
        source: SessionSource::Credential(credential),
        began_at: at(0),
        ends_at: at(ends),
    }
}

fn token(number: u64) -> KeyHash {
    KeyHash::of(&format!("token {number}"))
}

async fn begin(store: &SessionPorts, number: u64, session: Session) {
    let begun = store.sessions.begin(token(number), session).await;
    begun.expect("the token is fresh and the account there");
}

async fn find(store: &SessionPorts, number: u64, seconds: i64) -> Option<Session> {
    let found = store.sessions.find(&token(number), at(seconds)).await;
    found.expect("the store answers")
}

async fn end(store: &SessionPorts, number: u64) {
    let ended = store.sessions.end(&token(number)).await;
    ended.expect("the store answers");
}

async fn a_session_is_found_until_it_ends([one, other]: &[SessionPorts; 2]) {
    let acme = account(one, "acme").await;
    let of_key = of_key(&acme, KeyHash::of("a key"), 10);
    let of_jwt = Session {
        source: SessionSource::Jwt {
            scopes: "jobs:read admin".parse().expect("scopes"),
            key: KeyHash::of("a secret"),
        },
        ..of_key.clone()
    };
    begin(one, 1, of_key.clone()).await;
    begin(other, 2, of_jwt.clone()).await;
    for store in [one, other] {
        assert_eq!(find(store, 1, 9).await.as_ref(), Some(&of_key));
        assert_eq!(find(store, 2, 9).await.as_ref(), Some(&of_jwt));
        assert_eq!(find(store, 1, 10).await, None, "its time is over");
        assert_eq!(find(store, 3, 0).await, None, "nobody has this token");
    }
}

async fn an_ended_session_is_found_by_no_handle([one, other]: &[SessionPorts; 2]) {
    let acme = account(one, "acme").await;
    for number in [1, 2] {
        begin(one, number, of_key(&acme, KeyHash::of("a key"), 10)).await;
    }
    end(other, 1).await;
    end(other, 1).await;
    for store in [one, other] {
        assert_eq!(find(store, 1, 0).await, None);
        assert!(find(store, 2, 0).await.is_some(), "the other session stays");
    }
}

async fn a_token_stands_for_one_session_of_an_account([one, other]: &[SessionPorts; 2]) {
    let acme = account(one, "acme").await;
    let first = of_key(&acme, KeyHash::of("a key"), 10);
    begin(one, 1, first.clone()).await;
    let again = of_key(&acme, KeyHash::of("another key"), 20);
    let refused = other.sessions.begin(token(1), again).await;
    assert!(matches!(refused, Err(AdminError::Taken)), "{refused:?}");
    assert_eq!(find(one, 1, 0).await, Some(first));
    let orphan = of_key(&id("nobody"), KeyHash::of("a key"), 10);
    let refused = other.sessions.begin(token(2), orphan).await;
    assert!(matches!(refused, Err(AdminError::NoAccount)), "{refused:?}");
}

async fn a_revoked_key_ends_its_sessions([one, other]: &[SessionPorts; 2]) {
    let acme = account(one, "acme").await;
    let ((revoked, revoked_hash), (_, kept_hash)) =
        (key(one, &acme, 1).await, key(one, &acme, 2).await);
    begin(one, 1, of_key(&acme, revoked_hash, 10)).await;
    begin(other, 2, of_key(&acme, revoked_hash, 10)).await;
    begin(one, 3, of_key(&acme, kept_hash, 10)).await;
    let done = other.admin.revoke_key(&revoked, at(1)).await;
    done.expect("the key is there");
    for store in [one, other] {
        assert_eq!(find(store, 1, 1).await, None);
        assert_eq!(find(store, 2, 1).await, None);
        assert!(find(store, 3, 1).await.is_some(), "of another key");
    }
}

async fn a_suspension_ends_sessions_for_good([one, other]: &[SessionPorts; 2]) {
    let (acme, else_) = (account(one, "acme").await, account(one, "other").await);
    begin(one, 1, of_key(&acme, KeyHash::of("a key"), 10)).await;
    begin(one, 2, of_key(&else_, KeyHash::of("b key"), 10)).await;
    for state in [AccountState::Suspended, AccountState::Active] {
        let changes = vec![AccountChange::State(state)];
        let changed = other.admin.change(&acme, changes).await;
        changed.expect("the account is there");
        for store in [one, other] {
            assert_eq!(find(store, 1, 1).await, None, "{state:?}");
            assert!(find(store, 2, 1).await.is_some(), "of another account");
        }
    }
}

async fn sessions_of_an_account_are_bounded([one, other]: &[SessionPorts; 2]) {
    let (acme, else_) = (account(one, "acme").await, account(one, "other").await);
    let most = Session::MOST_PER_ACCOUNT as u64;
    begin(one, 10_000, of_key(&else_, KeyHash::of("a key"), 5)).await;
    for number in 0..most {
        // The third one ends first.
        let ends = if number == 3 { 50 } else { 100 };
        begin(one, number, of_key(&acme, KeyHash::of("a key"), ends)).await;
    }
    assert!(find(one, 3, 0).await.is_some(), "all of them have room");
    begin(other, most, of_key(&acme, KeyHash::of("a key"), 100)).await;
    assert_eq!(find(one, 3, 0).await, None, "the one that ends first goes");
    for number in [0, 2, 4, most - 1, most, 10_000] {
        assert!(find(one, number, 0).await.is_some(), "{number}");
    }
}

/// Random operations of both handles; after each, both answer as a map does.
async fn handles_agree_with_a_model(handles: &[SessionPorts; 2], seed: u64) {
    let mut dice = super::Dice::new(seed);
    let mut model: HashMap<u64, Session> = HashMap::new();
    let accounts = [
        account(&handles[0], "acme").await,
        account(&handles[1], "other").await,
    ];
    for step in 0..120 {
        let handle = &handles[dice.roll(2)];
        let (number, whose) = (dice.roll(12) as u64, dice.roll(2));
        let now = step / 10;
        match dice.roll(8) {
            0 => {
                for state in [AccountState::Suspended, AccountState::Active] {
                    let changes = vec![AccountChange::State(state)];
                    let changed = handle.admin.change(&accounts[whose], changes).await;
                    changed.expect("the account is there");
                }
                model.retain(|_, session| session.account != accounts[whose]);
            }
            1 | 2 => {
                end(handle, number).await;
                model.remove(&number);
            }
            _ => {
                let session = Session {
                    began_at: at(now),
                    ..of_key(
                        &accounts[whose],
                        KeyHash::of("a key"),
                        now + 1 + dice.roll(5) as i64,
                    )
                };
                model.retain(|_, session| session.counts(at(now)));
                let begun = handle.sessions.begin(token(number), session.clone()).await;
                match begun {
                    Ok(()) => assert!(model.insert(number, session).is_none(), "{seed} {step}"),
                    Err(error) => assert!(
                        matches!(error, AdminError::Taken) && model.contains_key(&number),
                        "{seed} {step}: {error}"
                    ),
                }
            }
        }
        for store in handles {
            for number in 0..12 {
                let expected = model.get(&number).filter(|it| it.counts(at(now)));
                let found = find(store, number, now).await;
                assert_eq!(found.as_ref(), expected, "{seed} {step} {number}");
            }
        }
    }
}
