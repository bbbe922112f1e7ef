//! The keys of a partner: which one a submission gets, and which one a task is asked after with.
//!
//! A partner has one key, or several with weights ([`SecretRef::numbered`] says how the others are found). A submission gets one
//! of those whose breaker lets it go, by chance and weight; a task belongs to the account of its key, so its handle keeps the
//! number of the key. A submission that fails is not tried with another key: its body is gone by then.

mod breaker;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::credential::{self, Credential, CredentialError, Environment};
use crate::definition::{Auth, SecretRef};
use breaker::{Breaker, Permit};

pub use breaker::BreakerState;
pub(crate) use breaker::{Outcome, Pause};

/// The number of the key whose variables have no number.
pub(crate) const FIRST_KEY: u8 = 1;

/// The greatest number that a key may have.
const LAST_KEY: u8 = 9;

/// The greatest weight of a key.
const MOST_WEIGHT: u32 = 1000;

/// The keys of a partner, at least one.
#[derive(Clone, Debug)]
pub(crate) struct PartnerKeys {
    partner: Arc<str>,
    keys: Arc<[Key]>,
}

#[derive(Debug)]
struct Key {
    number: u8,
    weight: u32,
    credential: Credential,
    breaker: Arc<Breaker>,
}

/// The key that a submission goes with.
#[derive(Debug)]
pub(crate) struct ChosenKey {
    pub(crate) number: u8,
    permit: Permit,
}

/// The breakers of all keys. They outlive the catalog that is loaded: what is known of a partner is not forgotten when a file changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breakers(Arc<Mutex<Known>>);

type Known = BTreeMap<(String, u8), Weak<Breaker>>;

/// How a key stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStatus {
    /// The id of the partner.
    pub partner: String,
    /// The number of the key, from 1 on.
    pub key: u8,
    /// The state of its breaker.
    pub breaker: BreakerState,
}

/// Why the keys of a partner cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeysError {
    /// The partner is not in use.
    #[error(transparent)]
    Missing(CredentialError),
    /// A key besides the first, or a weight, is not right.
    #[error("{0}")]
    Wrong(String),
}

impl PartnerKeys {
    /// Reads the keys of a partner.
    pub(crate) fn read(
        partner: &str,
        auth: &Auth,
        environment: Environment<'_>,
        breakers: &Breakers,
    ) -> Result<Self, KeysError> {
        let mut keys = Vec::new();
        for number in FIRST_KEY..=LAST_KEY {
            let credential = match Credential::read(&auth.numbered(number), environment) {
                Ok(credential) => credential,
                Err(error) if number == FIRST_KEY => return Err(KeysError::Missing(error)),
                Err(CredentialError::Missing(missing)) => {
                    no_part(&auth.numbered(number), &missing, environment)?;
                    continue;
                }
                Err(error) => return Err(KeysError::Wrong(error.to_string())),
            };
            keys.push(Key {
                number,
                weight: weight(&auth.numbered(number), environment)?,
                credential,
                breaker: breakers.of(partner, number),
            });
            if auth.secrets().is_empty() {
                break;
            }
        }
        Ok(Self {
            partner: partner.into(),
            keys: keys.into(),
        })
    }

    /// Of a partner that is compiled without a key.
    pub(crate) fn none(partner: &str) -> Self {
        let key = Key {
            number: FIRST_KEY,
            weight: 1,
            credential: Credential::None,
            breaker: Arc::default(),
        };
        Self {
            partner: partner.into(),
            keys: [key].into(),
        }
    }

    /// Chooses the key of a submission. `chance` gives a number from 0 to below 1.
    pub(crate) fn choose(
        &self,
        chance: impl FnOnce() -> f64,
        now: Instant,
    ) -> Result<ChosenKey, Pause> {
        if let [only] = &*self.keys {
            return only.admit(now);
        }
        let looked_at = self.keys.iter().map(|key| (key, key.breaker.pause(now)));
        let (usable, pausing): (Vec<_>, Vec<_>) = looked_at.partition(|(_, pause)| pause.is_none());
        let weights: u32 = usable.iter().map(|(key, _)| key.weight).sum();
        let mut left = chance() * f64::from(weights);
        let by_weight = usable.iter().position(|(key, _)| {
            left -= f64::from(key.weight);
            left < 0.0
        });
        // If another submission took the try of a key meanwhile, the next one.
        let (before, after) = usable.split_at(by_weight.unwrap_or(0));
        let mut in_turn = after.iter().chain(before);
        let chosen = in_turn.find_map(|(key, _)| key.admit(now).ok());
        chosen.ok_or_else(|| {
            let pauses = pausing.into_iter().filter_map(|(_, pause)| pause);
            pauses.min_by_key(|pause| pause.rest).unwrap_or(Pause {
                rest: Duration::ZERO,
                is_refused: false,
            })
        })
    }

    /// Counts what came of a submission; `None` if it was not sent for a reason of our own.
    pub(crate) fn record(&self, chosen: &ChosenKey, outcome: Option<Outcome>, now: Instant) {
        let key = self.numbered(chosen.number);
        let Some(outcome) = outcome else {
            return key.breaker.withdraw(chosen.permit, now);
        };
        let others = self.keys.len() > 1;
        let (partner, number) = (&*self.partner, chosen.number);
        match key.breaker.record(chosen.permit, outcome, others, now) {
            Some(BreakerState::Open) => tracing::warn!(
                partner,
                key = number,
                ?outcome,
                "the key of the partner pauses"
            ),
            Some(BreakerState::Closed | BreakerState::HalfOpen) => {
                tracing::info!(partner, key = number, "the key of the partner works again");
            }
            None => {}
        }
    }

    /// The credential of a key; the first one where there is none of this number any more.
    pub(crate) fn credential(&self, number: u8) -> &Credential {
        &self.numbered(number).credential
    }

    /// Replaces every secret in a text.
    pub(crate) fn mask(&self, text: &str) -> String {
        let secrets = self.keys.iter().flat_map(|key| key.credential.secrets());
        credential::mask(text, secrets.collect())
    }

    /// Whether bytes hold a secret.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        self.keys.iter().any(|key| key.credential.is_in(bytes))
    }

    fn numbered(&self, number: u8) -> &Key {
        let found = self.keys.iter().find(|key| key.number == number);
        found.unwrap_or(&self.keys[0])
    }
}

impl Key {
    fn admit(&self, now: Instant) -> Result<ChosenKey, Pause> {
        Ok(ChosenKey {
            number: self.number,
            permit: self.breaker.admit(now)?,
        })
    }
}

impl Breakers {
    /// The breaker of a key.
    fn of(&self, partner: &str, number: u8) -> Arc<Breaker> {
        let mut known = self.known();
        let kept = known.entry((partner.to_owned(), number)).or_default();
        kept.upgrade().unwrap_or_else(|| {
            let breaker = Arc::default();
            *kept = Arc::downgrade(&breaker);
            breaker
        })
    }

    /// How every key stands that is in use.
    pub(crate) fn states(&self, now: Instant) -> Vec<KeyStatus> {
        let mut known = self.known();
        known.retain(|_, breaker| breaker.strong_count() > 0);
        let states = known.iter().filter_map(|((partner, key), breaker)| {
            Some(KeyStatus {
                partner: partner.clone(),
                key: *key,
                breaker: breaker.upgrade()?.state(now),
            })
        });
        states.collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a part of a key beyond the first that lacks this secret.
fn no_part(
    auth: &Auth,
    missing: &SecretRef,
    environment: Environment<'_>,
) -> Result<(), KeysError> {
    let secrets = auth.secrets();
    let mut set = secrets
        .into_iter()
        .filter(|secret| credential::is_set(secret, environment))
        .map(|secret| secret.to_string());
    let weight = weight_name(auth).filter(|name| environment(name).is_some());
    match set.next().or(weight) {
        Some(part) => Err(KeysError::Wrong(format!(
            "{part} is set and {missing} is not; set both or none"
        ))),
        None => Ok(()),
    }
}

/// The variable with the weight of a key: `_WEIGHT` behind the name of its first secret.
fn weight_name(auth: &Auth) -> Option<String> {
    match auth.secrets().first()? {
        SecretRef::Env(name) => Some(format!("{name}_WEIGHT")),
        SecretRef::File(_) => None,
    }
}

fn weight(auth: &Auth, environment: Environment<'_>) -> Result<u32, KeysError> {
    let named = weight_name(auth).and_then(|name| Some((environment(&name)?, name)));
    let Some((text, name)) = named else {
        return Ok(1);
    };
    let weight = text.trim().parse().ok();
    weight
        .filter(|weight| (1..=MOST_WEIGHT).contains(weight))
        .ok_or_else(|| {
            KeysError::Wrong(format!(
                "{name} is `{text}`; a weight is a whole number from 1 to {MOST_WEIGHT}"
            ))
        })
}

#[cfg(test)]
mod tests;
