//! Who is signed in on a web page: a cookie stands for the credential that was shown once.
//!
//! The cookie is a random word and nothing else. What it stands for lives in this process' memory, is looked at anew for
//! every request, and ends with the session, with its time, or with the process: then the page asks again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accounts::KeyHash;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};

/// The cookie's name.
const NAME: &str = "easel_session";

/// How long a session lasts (7 days), however it is used.
const LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Most sessions at once; a new one then takes the place of the one that ends first.
const MOST: usize = 10_000;

/// The sessions of one process. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    open: Arc<Mutex<HashMap<KeyHash, Session>>>,
    attempts: Arc<Mutex<HashMap<IpAddr, Attempts>>>,
}

/// The failed attempts of one address in its current minute.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    began_at: Timestamp,
    count: u32,
}

/// Failed attempts of one address within a minute.
const MOST_ATTEMPTS: u32 = 10;

/// Addresses whose failed attempts are remembered; while all of them are busy, those of others count as too many.
const MOST_ADDRESSES: usize = 10_000;

/// What one cookie stands for.
#[derive(Clone, Debug)]
pub struct Session {
    credential: SecretString,
    ends_at: Timestamp,
}

impl Session {
    /// The credential that was shown when the session began.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.credential.expose_secret()
    }
}

impl Sessions {
    /// Begins a session and answers its cookie. `word` is random and known to nobody; `secure` says that the page came over
    /// TLS; `path` is where the page stands.
    #[must_use]
    pub fn begin(
        &self,
        word: &str,
        credential: SecretString,
        path: &str,
        secure: bool,
        now: Timestamp,
    ) -> HeaderValue {
        let ends_at = now.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX);
        let session = Session {
            credential,
            ends_at,
        };
        let mut open = self.open();
        open.retain(|_, session| session.ends_at > now);
        if open.len() >= MOST {
            let first = open.iter().min_by_key(|(_, session)| session.ends_at);
            if let Some(first) = first.map(|(word, _)| *word) {
                open.remove(&first);
            }
        }
        // Only the hash is kept, so looking one up compares nothing that could be guessed letter by letter.
        open.insert(KeyHash::of(word), session);
        cookie(word, path, secure, LIFETIME.as_secs())
    }

    /// The session of a request, if it has one that is not over.
    #[must_use]
    pub fn of_request(&self, headers: &HeaderMap, now: Timestamp) -> Option<Session> {
        let word = word(headers)?;
        let session = self.open().get(&KeyHash::of(word)).cloned();
        session.filter(|session| session.ends_at > now)
    }

    /// Ends the session of a request; answers the cookie that takes the old one away.
    #[must_use]
    pub fn end(&self, headers: &HeaderMap, path: &str) -> HeaderValue {
        if let Some(word) = word(headers) {
            self.open().remove(&KeyHash::of(word));
        }
        cookie("", path, false, 0)
    }

    /// Counts an attempt to sign in that failed; whether the address has made no more of them than it may.
    ///
    /// Only failures are counted, and a right key is never refused for them: behind one address there are many people, and
    /// one of them who tries wrong keys must not lock the others out. Keys are too long to be guessed at any rate.
    #[must_use]
    pub fn failed(&self, address: IpAddr, now: Timestamp) -> bool {
        const MINUTE: SignedDuration = SignedDuration::from_mins(1);
        let is_over = |attempts: &Attempts| now.duration_since(attempts.began_at) >= MINUTE;
        let fresh = Attempts {
            began_at: now,
            count: 0,
        };
        // Every change is one number: a panic elsewhere cannot have left the map half-changed.
        let mut all = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_ADDRESSES {
            all.retain(|_, attempts| !is_over(attempts));
        }
        let address = address.to_canonical();
        if all.len() >= MOST_ADDRESSES && !all.contains_key(&address) {
            return false;
        }
        let attempts = all.entry(address).or_insert(fresh);
        if is_over(attempts) {
            *attempts = fresh;
        }
        attempts.count = attempts.count.saturating_add(1);
        attempts.count <= MOST_ATTEMPTS
    }

    fn open(&self) -> MutexGuard<'_, HashMap<KeyHash, Session>> {
        // Every change is one insert or remove: a panic elsewhere cannot have left the map half-changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No script may read it, and no page of another site may send it.
fn cookie(word: &str, path: &str, secure: bool, seconds: i64) -> HeaderValue {
    let path = if path.is_empty() { "/" } else { path };
    let secure = if secure { "; Secure" } else { "" };
    let text =
        format!("{NAME}={word}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).expect("paths and random words are plain")
}

/// The cookie of a request; two of them are none.
fn word(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(COOKIE).iter();
    let mut found = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, word)| *name == NAME && !word.is_empty());
    let (_, word) = found.next()?;
    found.next().is_none().then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64) -> Timestamp {
        let span = SignedDuration::from_hours(hours);
        Timestamp::UNIX_EPOCH.checked_add(span).expect("in range")
    }

    fn request(cookie: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_str(cookie).expect("plain"));
        headers
    }

    #[test]
    fn a_session_stands_for_its_credential_until_it_ends() {
        let sessions = Sessions::default();
        let cookie = sessions.begin("w0rd", "k3y".into(), "/x", true, at(0));
        let attributes = "Path=/x; Max-Age=604800; HttpOnly; SameSite=Strict; Secure";
        assert_eq!(cookie, format!("easel_session=w0rd; {attributes}"));
        let mine = request("a=b; easel_session=w0rd");
        let shown = |now| {
            sessions
                .of_request(&mine, now)
                .map(|it| it.expose().to_owned())
        };
        assert_eq!(shown(at(167)).as_deref(), Some("k3y"));
        assert_eq!(shown(at(168)), None);
        assert!(!format!("{sessions:?}").contains("k3y"));

        let gone = sessions.end(&mine, "");
        assert_eq!(
            gone,
            "easel_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
        );
        assert_eq!(shown(at(1)), None);
    }

    #[test]
    fn an_address_has_ten_failed_attempts_a_minute() {
        let second = |second| Timestamp::from_second(second).expect("in range");
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let sessions = Sessions::default();
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

    #[test]
    fn what_is_no_single_known_word_is_no_session() {
        let sessions = Sessions::default();
        let _ = sessions.begin("w0rd", "k3y".into(), "", false, at(0));
        for cookie in [
            "easel_session=",
            "easel_session=W0RD",
            "other=w0rd",
            "easel_session=w0rd; easel_session=w0rd",
        ] {
            assert!(
                sessions.of_request(&request(cookie), at(0)).is_none(),
                "{cookie}"
            );
        }
    }

    #[test]
    fn sessions_are_bounded_and_the_oldest_goes() {
        let sessions = Sessions::default();
        for n in 0..=MOST {
            let second = Timestamp::from_second(n as i64).expect("in range");
            let _ = sessions.begin(&n.to_string(), "k".into(), "", false, second);
        }
        assert_eq!(sessions.open().len(), MOST);
        assert!(
            sessions
                .of_request(&request("easel_session=0"), at(3))
                .is_none()
        );
        assert!(
            sessions
                .of_request(&request("easel_session=1"), at(3))
                .is_some()
        );
    }
}
