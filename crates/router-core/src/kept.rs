//! Results that are kept: the files whose addresses an answer names, fetched before the partner's links end.
//!
//! What is to be fetched is written down with the end of the generation, in one transaction, so that neither is lost without
//! the other. Then the process that has the lease of a result fetches it. If that fails, it tries again after growing pauses, a
//! bounded number of times. The answer itself is never touched. What fetches is above; the rules are here.

mod leases;

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use accounts::AccountId;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::{CallsError, GenerationId, Lease, OwnerId, Settled, read_leniently};

pub use leases::ResultLeases;

/// Most results of one generation that are kept: the first ones.
pub const MOST_RESULTS: usize = 64;

/// Most bytes of an address that is fetched.
pub const MOST_ADDRESS_BYTES: usize = 8 * 1024;

/// The pauses between attempts to fetch a result. After the last one it is given up.
const PAUSES: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(2 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(60 * 60),
];

/// So many attempts are made where the host itself says that there is nothing: some tell of a file a moment before it is there.
const REFUSED_ATTEMPTS: usize = 3;

/// Where the answers of a model name the files of a result: JSON Pointers in which `*` stands for every item of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultPointers(Vec<Vec<String>>);

/// An address of a file. It may be signed, so that nothing shows it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResultAddress(String);

/// A result that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultLink {
    /// Where in the answer the address is: a JSON Pointer.
    pub pointer: String,
    /// The address.
    pub address: ResultAddress,
}

/// One result of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResultId {
    /// The generation.
    pub generation: GenerationId,
    /// Which of its results, from 0.
    pub place: u32,
}

/// A result that is to be fetched now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueResult {
    /// Which one.
    pub id: ResultId,
    /// Whose.
    pub account: AccountId,
    /// Where it is.
    pub address: ResultAddress,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

/// Whose result is fetched next: accounts take turns, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultTurn {
    /// The account that had the turn before. Without one the first account begins.
    pub after: Option<AccountId>,
    /// Accounts that have no turn now.
    pub without: Vec<AccountId>,
}

/// A result and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptResult {
    /// Which one.
    pub id: ResultId,
    /// Whose.
    pub account: AccountId,
    /// Where in the answer its address is.
    pub pointer: String,
    /// How far it is.
    pub state: KeptState,
}

/// How far a result is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptState {
    /// It is fetched, or will be.
    Waiting {
        /// Attempts so far, the one under way included.
        attempts: u32,
        /// Why the last one failed.
        reason: Option<String>,
    },
    /// It is in the store of files.
    Kept(KeptFile),
    /// It was given up.
    Failed {
        /// Why, in words that hold no address.
        reason: String,
    },
}

/// A kept result in the store of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    /// The record over its bytes.
    pub file: Uuid,
    /// The blake3 hash of its bytes.
    pub hash: [u8; 32],
    /// How many bytes.
    pub size_bytes: u64,
    /// Its media type.
    pub content_type: String,
}

/// What came of an attempt to fetch a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeepOutcome {
    /// It is kept.
    Kept(KeptFile),
    /// It is given up.
    Failed {
        /// Why.
        reason: String,
    },
    /// It is tried again.
    Later {
        /// Why this attempt failed.
        reason: String,
        /// When.
        due_at: Timestamp,
    },
    /// The process stops: the attempt does not count, and another process may make it at once.
    GivenBack,
}

/// Why an attempt failed, as far as it decides whether another one is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepFault {
    /// No other attempt can go better: the address is not allowed, or the file is too large.
    Final,
    /// The host said that it does not give the file.
    Refused,
    /// It may go better another time.
    Passing,
}

/// The rows of results that are kept. They are written with the end of their generation ([`Ending::Kept`](crate::Ending::Kept)),
/// and forgotten with what is as old ([`CallRetention`](crate::CallRetention)).
///
/// **Contract.** It holds for any number of processes over one store. Every method is one transaction. A result that waits and
/// is due is handed to one process at a time, under a lease; an attempt is counted when it begins, so that a result which ends
/// the process is not tried for ever. Only its owner says what came of it. Once the lease lapsed the next that asks has it; a
/// store that knows an owner to be gone hands its results out at once. What became of a result is on disk when `note` returns.
/// The address is forgotten with the end of the waiting.
#[async_trait]
pub trait KeptResults: Send + Sync + 'static {
    /// The results of a generation, in the order of the answer; none where nothing is kept.
    async fn of(&self, generation: GenerationId) -> Result<Vec<KeptResult>, CallsError>;

    /// Takes the result that is due longest of the first account behind `turn.after` that has one; behind the last account the
    /// first one follows. It is the owner's from now on. What this costs does not grow with the results of one account.
    async fn take(
        &self,
        lease: Lease,
        turn: &ResultTurn,
        now: Timestamp,
    ) -> Result<Option<DueResult>, CallsError>;

    /// Renews the leases of results. Answers those that the owner does not have any more.
    async fn renew(
        &self,
        results: &[ResultId],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<ResultId>, CallsError>;

    /// Notes what came of an attempt of this owner, whose result it is not any more. By another than the owner it changes nothing.
    async fn note(
        &self,
        of: (ResultId, OwnerId),
        came: KeepOutcome,
        now: Timestamp,
    ) -> Result<Settled, CallsError>;
}

impl ResultPointers {
    /// Reads pointers. What is none names nothing.
    #[must_use]
    pub fn new(pointers: &[String]) -> Self {
        let read = |pointer: &String| {
            let segments = pointer.strip_prefix('/')?.split('/');
            let unescaped = segments.map(|segment| segment.replace("~1", "/").replace("~0", "~"));
            Some(unescaped.collect())
        };
        Self(pointers.iter().filter_map(read).collect())
    }

    /// Whether they name nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The addresses in an answer, each once and at most [`MOST_RESULTS`]; none in what is no JSON. What is no web address, such
    /// as base64 and `data:`, is a result by itself and needs no keeping.
    #[must_use]
    pub fn links(&self, body: &[u8]) -> Vec<ResultLink> {
        if self.is_empty() {
            return Vec::new();
        }
        let Some(document) = read_leniently(body) else {
            return Vec::new();
        };
        let mut named = Vec::new();
        for segments in &self.0 {
            collect(&document, segments, &mut String::new(), &mut named);
        }
        let mut seen = HashSet::new();
        let addresses = named.into_iter().filter_map(|(pointer, text)| {
            let address = ResultAddress::read(text)?;
            Some(ResultLink { pointer, address })
        });
        let once = addresses.filter(|link| seen.insert(link.address.clone()));
        once.take(MOST_RESULTS).collect()
    }
}

/// The texts that a pointer names, with where each of them is.
fn collect<'a>(
    value: &'a Value,
    segments: &[String],
    at: &mut String,
    found: &mut Vec<(String, &'a str)>,
) {
    let Some((segment, rest)) = segments.split_first() else {
        found.extend(value.as_str().map(|text| (at.clone(), text)));
        return;
    };
    let length = at.len();
    let mut below = |value: &'a Value, segment: &str| {
        at.push('/');
        at.push_str(&segment.replace('~', "~0").replace('/', "~1"));
        collect(value, rest, at, found);
        at.truncate(length);
    };
    match value {
        Value::Array(items) if segment == "*" => {
            for (place, item) in items.iter().enumerate() {
                below(item, &place.to_string());
            }
        }
        Value::Array(items) => {
            let place = segment.parse::<usize>().ok();
            if let Some(item) = place.and_then(|place| items.get(place)) {
                below(item, segment);
            }
        }
        Value::Object(members) => {
            if let Some(member) = members.get(segment) {
                below(member, segment);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl ResultAddress {
    /// A web address of bounded length; what else it may be is for the client that asks it.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_web = ["https://", "http://"].iter().any(|scheme| {
            let start = text.get(..scheme.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let fits = text.len() <= MOST_ADDRESS_BYTES && !text.chars().any(char::is_control);
        (is_web && fits).then(|| Self(text.to_owned()))
    }

    /// The address. It may hold a secret: for requests and rows alone.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl KeepFault {
    /// After which pause another attempt follows the `attempt`th, from 1; `None` if it was the last one.
    #[must_use]
    pub fn pause(self, attempt: u32) -> Option<Duration> {
        let made = usize::try_from(attempt).unwrap_or(usize::MAX);
        let most = match self {
            Self::Final => 0,
            Self::Refused => REFUSED_ATTEMPTS,
            Self::Passing => PAUSES.len() + 1,
        };
        let pause = PAUSES.get(made.saturating_sub(1));
        pause.copied().filter(|_| made < most)
    }
}

impl DueResult {
    /// Whether more attempts were begun than are made: each of them ended with its process.
    #[must_use]
    pub fn is_beyond(&self) -> bool {
        usize::try_from(self.attempt).unwrap_or(usize::MAX) > PAUSES.len() + 1
    }
}

impl fmt::Debug for ResultAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResultAddress")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(pointers: &[&str], body: &str) -> Vec<(String, String)> {
        let pointers: Vec<String> = pointers.iter().map(ToString::to_string).collect();
        let links = ResultPointers::new(&pointers).links(body.as_bytes());
        let links = links.into_iter();
        links
            .map(|link| (link.pointer, link.address.expose().to_owned()))
            .collect()
    }

    fn link(pointer: &str, address: &str) -> (String, String) {
        (pointer.to_owned(), address.to_owned())
    }

    #[test]
    fn addresses_are_found_where_the_pointers_lead() {
        let body = r#"{"result": {"sample": "https://a/1", "a/b": "HTTPS://a/2"},
            "images": [{"url": "http://a/3"}, {"url": null}, {"url": "https://a/1"}, {"url": "https://a/4"}]}"#;
        let found = links(&["/result/sample", "/result/a~1b", "/images/*/url"], body);
        let expected = [
            link("/result/sample", "https://a/1"),
            link("/result/a~1b", "HTTPS://a/2"),
            link("/images/0/url", "http://a/3"),
            link("/images/3/url", "https://a/4"),
        ];
        assert_eq!(found, expected, "and each address once");
        assert_eq!(links(&["/images/3/url"], body), expected[3..]);
    }

    #[test]
    fn what_needs_no_keeping_is_left_out() {
        let texts = r#"["data:image/png;base64,AAAA", "iVBORw0KGgo=", "", "ftp://a/1", "https:/a", "https://a/\u0000"]"#;
        assert_eq!(links(&["/*"], texts), []);
        let long = format!("[\"https://a/{}\"]", "x".repeat(MOST_ADDRESS_BYTES));
        assert_eq!(links(&["/*"], &long), []);
        assert_eq!(links(&["/*", "no pointer"], "no JSON"), []);
        assert_eq!(links(&[], "[\"https://a/1\"]"), []);
        let many: Vec<String> = (0..100).map(|n| format!("\"https://a/{n}\"")).collect();
        let many = format!("[{}]", many.join(","));
        assert_eq!(links(&["/*"], &many).len(), MOST_RESULTS);
    }

    #[test]
    fn an_address_is_shown_by_nothing() {
        let pointers = ResultPointers::new(&["/0".to_owned()]);
        let links = pointers.links(br#"["https://a/1?signature=secret"]"#);
        assert_eq!(links.len(), 1);
        assert!(!format!("{links:?}").contains("secret"));
    }

    #[test]
    fn attempts_are_bounded_and_their_pauses_grow() {
        let pauses = |fault: KeepFault| -> Vec<u64> {
            let pauses = (1..100).map_while(|attempt| fault.pause(attempt));
            pauses.map(|pause| pause.as_secs()).collect()
        };
        assert_eq!(pauses(KeepFault::Passing), [1, 5, 30, 120, 600, 3600]);
        assert_eq!(pauses(KeepFault::Refused), [1, 5]);
        assert!(pauses(KeepFault::Final).is_empty());
        let due = |attempt| DueResult {
            id: ResultId {
                generation: GenerationId(Uuid::nil()),
                place: 0,
            },
            account: AccountId::local(),
            address: ResultAddress::read("https://a/1").expect("it is one"),
            attempt,
        };
        assert!(!due(7).is_beyond() && due(8).is_beyond());
    }
}
