//! Who is let in by each kind of credential.

use std::time::Duration;

use accounts::{
    AccountAdmin, AccountChange, AccountState, CreditLedger, Credits, LedgerEntry, LedgerRef,
    MemoryAccounts, Reservation, Scope, Scopes, Tier,
};
use async_trait::async_trait;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use jiff::SignedDuration;

use super::*;
use crate::forged::forgeries;
use crate::{JwtConfig, JwtKey, issue};

const SECRET: &str = "a secret of more than 32 bytes, for tests alone";

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

fn principal(name: &str) -> Principal {
    Principal::full(name.parse().expect("a name"), Tier::standard())
}

fn local_and(others: &[&str]) -> Arc<MemoryAccounts> {
    let accounts = MemoryAccounts::new();
    for name in ["local"].iter().chain(others) {
        accounts.put(principal(name));
    }
    Arc::new(accounts)
}

fn bearing(value: &str) -> HeaderMap {
    let value = HeaderValue::from_str(value).expect("a header value");
    HeaderMap::from_iter([(AUTHORIZATION, value)])
}

fn open(accounts: Arc<dyn Accounts>) -> Identity {
    Identity::none(accounts, AccountId::local())
}

fn with_token() -> Credentials {
    Credentials {
        token: Some(("right".into(), AccountId::local())),
        ..Credentials::default()
    }
}

fn jwt_config() -> JwtConfig {
    JwtConfig {
        key: JwtKey::Secret(SECRET.into()),
        issuer: None,
        audience: None,
    }
}

fn with_jwt() -> Credentials {
    let jwt = Jwt::new(jwt_config()).expect("a verifier");
    Credentials {
        jwt: Some(Arc::new(jwt)),
        ..Credentials::default()
    }
}

fn token_of(account: &str, scopes: Scopes) -> String {
    let account = account.parse().expect("a name");
    let token = issue(
        &jwt_config(),
        &account,
        scopes,
        now(),
        SignedDuration::from_hours(1),
    );
    token.expect("a token").expose_secret().to_owned()
}

async fn account_of(identity: &Identity, headers: &HeaderMap) -> Option<String> {
    match identity.verify(headers, now()).await {
        Ok(principal) => Some(principal.account.to_string()),
        Err(IdentityError::Unauthorized) => None,
        Err(error @ IdentityError::Accounts(_)) => panic!("{error}"),
    }
}

#[tokio::test]
async fn without_credentials_everyone_is_the_account() {
    let identity = open(local_and(&[]));
    for headers in [
        HeaderMap::new(),
        bearing("Bearer whatever"),
        bearing("Basic x"),
    ] {
        assert_eq!(
            account_of(&identity, &headers).await.as_deref(),
            Some("local")
        );
    }
}

#[tokio::test]
async fn an_open_installation_still_knows_keys_and_refuses_those_that_count_no_more() {
    let accounts = local_and(&["acme"]);
    accounts.put_key(KeyHash::of("easel_k"), principal("acme"));
    let identity = open(accounts.clone());
    let headers = bearing("Bearer easel_k");
    assert_eq!(
        account_of(&identity, &headers).await.as_deref(),
        Some("acme")
    );
    accounts.revoke(&KeyHash::of("easel_k"));
    assert_eq!(account_of(&identity, &headers).await, None);
}

#[tokio::test]
async fn nobody_is_anonymous_where_a_name_is_asked_for() {
    let credentials = Credentials {
        anonymous: Some(AccountId::local()),
        ..with_token()
    };
    let identity = Identity::new(local_and(&[]), credentials);
    for headers in [HeaderMap::new(), bearing("Bearer wrong")] {
        let refused = identity.verify_named(&headers, now()).await;
        assert!(matches!(refused, Err(IdentityError::Unauthorized)));
    }
    let named = identity.verify_named(&bearing("Bearer right"), now()).await;
    assert_eq!(named.expect("let in"), principal("local"));
}

#[tokio::test]
async fn only_the_very_token_is_let_in() {
    let identity = Identity::new(local_and(&[]), with_token());
    assert_eq!(
        account_of(&identity, &bearing("bearer right"))
            .await
            .as_deref(),
        Some("local")
    );
    let wrong = ["Bearer wrong", "Bearer Right", "Bearer righ", "Basic right"];
    for headers in wrong.map(bearing).into_iter().chain([HeaderMap::new()]) {
        assert_eq!(account_of(&identity, &headers).await, None, "{headers:?}");
    }
}

#[tokio::test]
async fn replaced_credentials_count_for_every_clone_and_end_sessions() {
    let identity = Identity::new(local_and(&["acme"]), with_token());
    let clone = identity.clone();
    let right = Credential::new("right").expect("a credential");
    let session = |identity: &Identity, credential| {
        let identity = identity.clone();
        async move {
            let lasts = SignedDuration::from_hours(1);
            let begun = identity.session_for(credential, lasts, now()).await;
            begun.expect("it counts").expect("it names somebody")
        }
    };
    let of_token = session(&identity, right).await;

    clone.replace(Credentials {
        token: Some(("fresh".into(), AccountId::local())),
        ..with_jwt()
    });
    assert_eq!(account_of(&identity, &bearing("Bearer right")).await, None);
    let fresh = account_of(&identity, &bearing("Bearer fresh")).await;
    assert_eq!(fresh.as_deref(), Some("local"));
    let over = identity.verify_session(&of_token, now()).await;
    assert!(matches!(over, Err(IdentityError::Unauthorized)));

    // The same for JSON Web Tokens, of which one was verified and remembered.
    let token = token_of("acme", Scopes::all());
    let bearer = bearing(&format!("Bearer {token}"));
    let found = account_of(&identity, &bearer).await;
    assert_eq!(found.as_deref(), Some("acme"));
    let credential = Credential::new(&token).expect("a credential");
    let of_jwt = session(&identity, credential).await;
    let kept = identity.verify_session(&of_jwt, now()).await;
    assert_eq!(kept.expect("it counts").account.as_str(), "acme");
    identity.replace(with_token());
    assert_eq!(account_of(&clone, &bearer).await, None);
    let over = clone.verify_session(&of_jwt, now()).await;
    assert!(matches!(over, Err(IdentityError::Unauthorized)));
}

#[tokio::test]
async fn a_key_is_taken_from_either_header_and_x_api_key_wins() {
    let accounts = local_and(&["acme", "other"]);
    accounts.put_key(KeyHash::of("easel_a"), principal("acme"));
    accounts.put_key(KeyHash::of("easel_o"), principal("other"));
    let identity = Identity::new(accounts, Credentials::default());
    let mut headers = bearing("Bearer easel_a");
    assert_eq!(
        account_of(&identity, &headers).await.as_deref(),
        Some("acme")
    );
    let key = HeaderName::from_static("x-api-key");
    headers.insert(key.clone(), HeaderValue::from_static("easel_o"));
    assert_eq!(
        account_of(&identity, &headers).await.as_deref(),
        Some("other")
    );
    headers.insert(key, HeaderValue::from_static("easel_x"));
    assert_eq!(account_of(&identity, &headers).await, None);
}

#[tokio::test]
async fn no_forged_key_is_taken() {
    let accounts = local_and(&["acme"]);
    let good = "easel_k7_Zx1yVw0UtS9rQp8OnM7lKj6IhG5fEd4C";
    accounts.put_key(KeyHash::of(good), principal("acme"));
    let identity = Identity::new(accounts, Credentials::default());
    let bearer = |key: &str| bearing(&format!("Bearer {key}"));
    assert!(account_of(&identity, &bearer(good)).await.is_some());
    for (n, forged) in forgeries(good).enumerate() {
        let taken = account_of(&identity, &bearer(&forged)).await;
        assert_eq!(taken, None, "{n}: {forged}");
    }
}

#[tokio::test]
async fn a_token_allows_what_it_names_and_its_account_may() {
    let accounts = local_and(&[]);
    let limited = [Scope::RouterRun, Scope::JobsRead].into_iter().collect();
    accounts.put(Principal {
        scopes: limited,
        ..principal("acme")
    });
    let identity = Identity::new(accounts, with_jwt());
    let scopes = [Scope::RouterRun, Scope::JobsWrite].into_iter().collect();
    let headers = bearing(&format!("Bearer {}", token_of("acme", scopes)));
    let caller = identity.verify(&headers, now()).await.expect("let in");
    assert_eq!(caller.account.as_str(), "acme");
    assert_eq!(caller.scopes, [Scope::RouterRun].into_iter().collect());
}

#[tokio::test]
async fn an_account_that_goes_takes_its_remembered_token_along() {
    let accounts = local_and(&["acme"]);
    let identity = Identity::new(accounts.clone(), with_jwt());
    let headers = bearing(&format!("Bearer {}", token_of("acme", Scopes::all())));
    assert!(account_of(&identity, &headers).await.is_some());
    let suspended = vec![AccountChange::State(AccountState::Suspended)];
    let acme = "acme".parse().expect("a name");
    let changed = accounts.change(&acme, suspended).await;
    changed.expect("the account is there");
    assert_eq!(account_of(&identity, &headers).await, None);
}

#[tokio::test]
async fn an_account_that_is_not_there_is_nobody() {
    let identity = open(Arc::new(MemoryAccounts::new()));
    assert_eq!(account_of(&identity, &HeaderMap::new()).await, None);
    let identity = Identity::new(Arc::new(MemoryAccounts::new()), with_jwt());
    let headers = bearing(&format!("Bearer {}", token_of("acme", Scopes::all())));
    assert_eq!(account_of(&identity, &headers).await, None);
}

/// A store that answers nothing.
struct Down;

fn down<T>() -> Result<T, AccountsError> {
    Err(AccountsError("down".into()))
}

#[async_trait]
impl Accounts for Down {
    async fn by_key(&self, _: &KeyHash, _: Timestamp) -> Result<Option<Principal>, AccountsError> {
        down()
    }
    async fn by_id(&self, _: &AccountId) -> Result<Option<Principal>, AccountsError> {
        down()
    }
}

#[async_trait]
impl CreditLedger for Down {
    async fn credits(&self, _: &AccountId, _: Timestamp) -> Result<Credits, AccountsError> {
        down()
    }
    async fn reserve(
        &self,
        _: accounts::Payer<'_>,
        _: LedgerRef,
        _: u32,
        _: Duration,
        _: Timestamp,
    ) -> Result<Reservation, AccountsError> {
        down()
    }
    async fn renew(
        &self,
        _: &[(&AccountId, LedgerRef)],
        _: Duration,
        _: Timestamp,
    ) -> Result<Vec<usize>, AccountsError> {
        down()
    }
    async fn settle(
        &self,
        _: &AccountId,
        _: LedgerRef,
        _: u32,
        _: Timestamp,
    ) -> Result<LedgerEntry, AccountsError> {
        down()
    }
    async fn release(&self, _: &AccountId, _: LedgerRef) -> Result<(), AccountsError> {
        down()
    }
    async fn entries(
        &self,
        _: &AccountId,
        _: Option<u64>,
        _: usize,
    ) -> Result<Vec<LedgerEntry>, AccountsError> {
        down()
    }
}

#[tokio::test]
async fn a_store_that_fails_is_no_refusal() {
    let identity = open(Arc::new(Down));
    for headers in [HeaderMap::new(), bearing("Bearer easel_k")] {
        let failed = identity.verify(&headers, now()).await;
        assert!(matches!(failed, Err(IdentityError::Accounts(_))));
    }
}

#[test]
fn no_secret_is_printed() {
    let identity = Identity::new(local_and(&[]), with_token());
    assert!(!format!("{identity:?}").contains("right"));
    let identity = Identity::new(local_and(&[]), with_jwt());
    assert!(!format!("{identity:?}").contains("for tests"));
}
