//! What a cookie stands for, and for how long.

use accounts::{
    AccountAdmin, AccountChange, AccountId, AccountState, MemoryAccounts, Scope, Scopes, Tier,
};
use secrecy::ExposeSecret;

use super::*;
use crate::{Credentials, Jwt, JwtConfig, JwtKey, issue};

fn at(hours: i64) -> Timestamp {
    let span = SignedDuration::from_hours(hours);
    let start = Timestamp::from_second(1_800_000_000).expect("in range");
    start.checked_add(span).expect("in range")
}

fn request(cookie: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(COOKIE, HeaderValue::from_str(cookie).expect("plain"));
    headers
}

const KEY: &str = "easel_aaaaaaaa_the-key-of-this-test";

const ROOT: CookieScope<'static> = CookieScope {
    path: "",
    secure: false,
};

fn accounts() -> Arc<MemoryAccounts> {
    let accounts = MemoryAccounts::new();
    let principal = |name: &str| Principal::full(name.parse().expect("an id"), Tier::standard());
    accounts.put(principal("local"));
    accounts.put(principal("acme"));
    accounts.put_key(KeyHash::of(KEY), principal("acme"));
    Arc::new(accounts)
}

fn jwt(secret: &str) -> JwtConfig {
    JwtConfig {
        key: JwtKey::Secret(secret.into()),
        issuer: None,
        audience: None,
    }
}

/// An installation that takes keys, the token `t0ken` of `local`, and tokens of `secret`.
fn identity(accounts: &Arc<MemoryAccounts>, secret: &str) -> Identity {
    let credentials = Credentials {
        anonymous: None,
        token: Some(("t0ken".into(), AccountId::local())),
        jwt: Some(Arc::new(Jwt::new(jwt(secret)).expect("a verifier"))),
    };
    Identity::new(accounts.clone(), credentials)
}

const SECRET: &str = "the secret of these tests, for nothing else";

/// Signs in; the cookie as a browser sends it.
async fn begin(sessions: &WebSessions, identity: &Identity, token: &str, text: &str) -> HeaderMap {
    let credential = Credential::new(text).expect("a credential");
    let cookie = sessions.begin(identity, token, credential, ROOT, at(0));
    let cookie = cookie.await.expect("it counts").expect("it is somebody's");
    let cookie = cookie.to_str().expect("plain");
    request(cookie.split(';').next().expect("the token"))
}

async fn seen(
    sessions: &WebSessions,
    identity: &Identity,
    headers: &HeaderMap,
    now: Timestamp,
) -> Option<Principal> {
    match sessions.verify(identity, headers, now).await {
        Ok(principal) => principal,
        Err(IdentityError::Unauthorized) => None,
        Err(error @ IdentityError::Accounts(_)) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_session_stands_for_its_credential_until_it_ends() {
    let accounts = accounts();
    let (sessions, identity) = (
        WebSessions::new(accounts.clone()),
        identity(&accounts, SECRET),
    );
    let scope = CookieScope {
        path: "/x",
        secure: true,
    };
    let credential = Credential::new(KEY).expect("a key");
    let cookie = sessions.begin(&identity, "w0rd", credential, scope, at(0));
    let cookie = cookie.await.expect("it counts").expect("it is acme's");
    let attributes = "Path=/x; Max-Age=604800; HttpOnly; SameSite=Strict; Secure";
    assert_eq!(cookie, format!("easel_session=w0rd; {attributes}"));
    let mine = request("a=b; easel_session=w0rd");
    // Another process over the same store.
    let sessions = WebSessions::new(accounts.clone());
    let principal = seen(&sessions, &identity, &mine, at(167)).await;
    assert_eq!(principal.expect("it counts").account.as_str(), "acme");
    assert_eq!(seen(&sessions, &identity, &mine, at(168)).await, None);

    let gone = sessions.end(&mine, "").await.expect("memory answers");
    assert_eq!(
        gone,
        "easel_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
    );
    assert_eq!(seen(&sessions, &identity, &mine, at(1)).await, None);
}

#[tokio::test]
async fn a_session_ends_with_its_credential() {
    let accounts = accounts();
    let (sessions, identity) = (
        WebSessions::new(accounts.clone()),
        identity(&accounts, SECRET),
    );
    let of_key = begin(&sessions, &identity, "a", KEY).await;
    let of_token = begin(&sessions, &identity, "b", "t0ken").await;
    for headers in [&of_key, &of_token] {
        assert!(seen(&sessions, &identity, headers, at(1)).await.is_some());
    }
    accounts.revoke(&KeyHash::of(KEY));
    assert_eq!(seen(&sessions, &identity, &of_key, at(1)).await, None);
    let other = Identity::token(accounts.clone(), AccountId::local(), &"an0ther".into());
    assert_eq!(seen(&sessions, &other, &of_token, at(1)).await, None);
    assert!(seen(&sessions, &identity, &of_token, at(1)).await.is_some());
    for state in [AccountState::Suspended, AccountState::Active] {
        let changes = vec![AccountChange::State(state)];
        let changed = accounts.change(&AccountId::local(), changes).await;
        changed.expect("it is there");
        assert_eq!(seen(&sessions, &identity, &of_token, at(1)).await, None);
    }
}

#[tokio::test]
async fn a_session_of_a_token_lasts_as_long_and_allows_as_much() {
    let accounts = accounts();
    let (sessions, identity) = (
        WebSessions::new(accounts.clone()),
        identity(&accounts, SECRET),
    );
    let acme: AccountId = "acme".parse().expect("an id");
    let scopes: Scopes = "jobs:read".parse().expect("scopes");
    let two_hours = SignedDuration::from_hours(2);
    let token = issue(&jwt(SECRET), &acme, scopes, at(0), two_hours).expect("a token");
    let mine = begin(&sessions, &identity, "a", token.expose_secret()).await;
    let principal = seen(&sessions, &identity, &mine, at(1)).await;
    let principal = principal.expect("it counts");
    assert_eq!((principal.account, principal.scopes), (acme, scopes));
    assert!(!principal.scopes.allow(Scope::JobsWrite));
    assert_eq!(seen(&sessions, &identity, &mine, at(3)).await, None);

    let rotated = self::identity(&accounts, "another secret, which took its place today");
    assert_eq!(seen(&sessions, &rotated, &mine, at(1)).await, None);
    let none = Identity::none(accounts.clone(), AccountId::local());
    assert_eq!(seen(&sessions, &none, &mine, at(1)).await, None);
}

#[tokio::test]
async fn an_open_installation_begins_sessions_of_known_credentials_alone() {
    let accounts = accounts();
    let sessions = WebSessions::new(accounts.clone());
    let open = Identity::none(accounts.clone(), AccountId::local());
    let begin = async |text: &str| {
        let credential = Credential::new(text).expect("a credential");
        sessions.begin(&open, text, credential, ROOT, at(0)).await
    };
    assert!(begin(KEY).await.expect("it counts").is_some());
    assert!(begin("whatever").await.expect("nobody minds").is_none());
    let forged = begin("easel_bbbbbbbb_forged").await;
    assert!(matches!(forged, Err(IdentityError::Unauthorized)));
}

#[test]
fn an_address_has_ten_failed_attempts_a_minute() {
    let second = |second| Timestamp::from_second(second).expect("in range");
    let address = |last| IpAddr::from([192, 0, 2, last]);
    let sessions = WebSessions::new(accounts());
    for _ in 0..MOST_ATTEMPTS {
        assert!(sessions.failed(address(1), second(0)));
    }
    assert!(!sessions.failed(address(1), second(59)));
    assert!(
        sessions.failed(address(2), second(59)),
        "addresses count apart"
    );
    assert!(sessions.failed(address(1), second(60)));
}

#[tokio::test]
async fn what_is_no_single_known_token_is_no_session() {
    let accounts = accounts();
    let (sessions, identity) = (
        WebSessions::new(accounts.clone()),
        identity(&accounts, SECRET),
    );
    begin(&sessions, &identity, "w0rd", KEY).await;
    for cookie in [
        "easel_session=",
        "easel_session=W0RD",
        "other=w0rd",
        "easel_session=w0rd; easel_session=w0rd",
    ] {
        let found = seen(&sessions, &identity, &request(cookie), at(0)).await;
        assert!(found.is_none(), "{cookie}");
    }
}
