//! Who is let in by each kind of identity.

use accounts::{MemoryAccounts, Scopes, Tier};
use async_trait::async_trait;
use http::HeaderValue;
use http::header::AUTHORIZATION;

use super::*;

fn standing() -> Standing {
    Standing {
        account: AccountId::local(),
        scopes: Scopes::all(),
        tier: Tier {
            concurrent_jobs: 1,
            queued_jobs: 1,
            streams: 1,
            upload_bytes: 1,
        },
        subscribed: true,
    }
}

fn one_account() -> Arc<MemoryAccounts> {
    let accounts = MemoryAccounts::new();
    accounts.put(standing());
    Arc::new(accounts)
}

fn bearing(value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))])
}

fn with_token() -> Identity {
    Identity::token(one_account(), AccountId::local(), &"right".into())
}

#[tokio::test]
async fn without_credentials_everyone_is_the_account() {
    let identity = Identity::none(one_account(), AccountId::local());
    for headers in [HeaderMap::new(), bearing("Bearer whatever")] {
        let caller = identity.verify(&headers).await;
        assert_eq!(caller.expect("let in"), standing());
    }
}

#[tokio::test]
async fn only_the_very_token_is_let_in() {
    let identity = with_token();
    let caller = identity.verify(&bearing("bearer right")).await;
    assert_eq!(caller.expect("let in"), standing());
    let wrong = ["Bearer wrong", "Bearer Right", "Bearer righ", "Basic right"];
    for headers in wrong.map(bearing).into_iter().chain([HeaderMap::new()]) {
        let refused = identity.verify(&headers).await;
        assert!(
            matches!(refused, Err(IdentityError::Unauthorized)),
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn an_account_that_is_not_there_is_nobody() {
    let identity = Identity::none(Arc::new(MemoryAccounts::new()), AccountId::local());
    let refused = identity.verify(&HeaderMap::new()).await;
    assert!(matches!(refused, Err(IdentityError::Unauthorized)));
}

#[tokio::test]
async fn a_store_that_fails_is_no_refusal() {
    struct Down;
    #[async_trait]
    impl Accounts for Down {
        async fn by_key(&self, _: &KeyHash) -> Result<Option<Standing>, AccountsError> {
            Err(AccountsError("down".into()))
        }
        async fn by_id(&self, _: &AccountId) -> Result<Option<Standing>, AccountsError> {
            Err(AccountsError("down".into()))
        }
    }
    let identity = Identity::none(Arc::new(Down), AccountId::local());
    let failed = identity.verify(&HeaderMap::new()).await;
    assert!(matches!(failed, Err(IdentityError::Accounts(_))));
}

#[test]
fn no_token_is_printed() {
    assert!(!format!("{:?}", with_token()).contains("right"));
}
