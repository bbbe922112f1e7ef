//! Which providers a call may be served by, as its query names them, and what its body comes to at each of them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use accounts::Principal;
use jiff::Timestamp;
use serde_json::Value;

use crate::router::Inner;
use crate::serving::{self, Translated, Translation, Unsaid};
use crate::{Model, ModelId, Price, Router, RouterError, Violation, Withheld};

const PROVIDER: &str = "model_provider";
const FALLBACKS: &str = "fallback_provider";
const STRICT: &str = "strict_mode";

/// What a violation is called that only the serving provider has.
const NOT_SERVED: &str = "not_served";

/// The providers of a call in the order in which they are asked. There is none of a call that names none.
#[derive(Clone, Debug)]
pub(super) struct Route {
    candidates: Vec<Candidate>,
    /// Whether a field that a provider does not take keeps it from serving the call.
    is_strict: bool,
}

/// A model that may serve a call.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) model: Arc<Model>,
    /// How the call is said there; `None` of the model that was called.
    pub(super) translation: Option<Arc<dyn Translation>>,
}

/// A candidate that takes the body of a call.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    pub(super) candidate: Candidate,
    /// What the call is expected to cost there at most.
    pub(super) hold_cents: u64,
    /// Whether the body asks for a stream there.
    pub(super) streams: bool,
    /// What is not said there.
    pub(super) dropped: Vec<String>,
}

/// What a query asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish<'a> {
    provider: Option<Cow<'a, str>>,
    fallbacks: Fallbacks<'a>,
    is_strict: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Fallbacks<'a> {
    #[default]
    None,
    /// Every other provider, in the order of the model's file.
    Any,
    Named(Vec<Cow<'a, str>>),
}

impl Router {
    /// Who can serve a model for a caller now, as calls name them: its own provider first.
    #[must_use]
    pub fn serving_providers<'m>(&self, caller: &Principal, model: &'m Model) -> Vec<&'m str> {
        let catalog = self.0.catalog.current();
        let visible = &caller.tier.router.entitlements;
        let serves =
            |id: &ModelId| catalog.get(id).is_some() && visible.allow(id.provider(), id.model());
        let alternates = model.alternates().iter().map(|one| &one.model);
        let others = alternates.filter(|id| serves(id)).map(ModelId::provider);
        std::iter::once(model.id().provider())
            .chain(others)
            .collect()
    }
}

impl Inner {
    /// The providers that a call names by its query; `None` if it is served as every call is.
    ///
    /// # Errors
    /// If the query names a provider that does not serve the model here, or one that the caller may not use.
    pub(super) fn route(
        &self,
        caller: &Principal,
        model: &Arc<Model>,
        query: &str,
        now: Timestamp,
    ) -> Result<Option<Box<Route>>, RouterError> {
        let Some(wish) = Wish::read(query)? else {
            return Ok(None);
        };
        let mut candidates: Vec<Candidate> = Vec::new();
        let first = match &wish.provider {
            Some(name) => self.candidate(caller, model, (PROVIDER, name), now)?,
            None => Candidate::own(model),
        };
        candidates.push(first);
        let is_any = wish.fallbacks == Fallbacks::Any;
        let named: Vec<Cow<'_, str>> = match wish.fallbacks {
            Fallbacks::None => Vec::new(),
            Fallbacks::Named(names) => names,
            Fallbacks::Any => self.offered(model).map(Cow::Borrowed).collect(),
        };
        for name in named {
            match self.candidate(caller, model, (FALLBACKS, &name), now) {
                Ok(candidate) => {
                    let is_known = |known: &Candidate| known.model.id() == candidate.model.id();
                    if !candidates.iter().any(is_known) {
                        candidates.push(candidate);
                    }
                }
                // It is so for a while.
                Err(RouterError::SwitchedOff) => {}
                // Who asks for anybody asks for nobody whom it may not use.
                Err(RouterError::Forbidden(_)) if is_any => {}
                Err(error) => return Err(error),
            }
        }
        let is_own = |only: &Candidate| only.translation.is_none();
        if candidates.len() == 1 && candidates.iter().all(is_own) {
            return Ok(None);
        }
        Ok(Some(Box::new(Route {
            candidates,
            is_strict: wish.is_strict,
        })))
    }

    fn candidate(
        &self,
        caller: &Principal,
        model: &Arc<Model>,
        (parameter, name): (&str, &str),
        now: Timestamp,
    ) -> Result<Candidate, RouterError> {
        if name == model.id().provider() {
            return Ok(Candidate::own(model));
        }
        let mut alternates = model.alternates().iter();
        let named = alternates.find(|one| one.model.provider() == name);
        let Some(alternate) = named.filter(|_| self.offered(model).any(|one| one == name)) else {
            let offered: Vec<&str> = self.offered(model).collect();
            return Err(RouterError::Malformed(format!(
                "`{parameter}` names no provider that serves {} here; it is served by {}",
                model.id(),
                offered.join(", ")
            )));
        };
        let id = &alternate.model;
        let found = self.find(caller, Some(id), (id.provider(), id.model()), now);
        let found = match &found {
            Err(RouterError::Forbidden(_)) => Err(RouterError::Forbidden(
                format!("this workspace is not entitled to {id}, which `{parameter}` names").into(),
            )),
            Ok(_) | Err(_) => found,
        };
        Ok(Candidate {
            model: found?,
            translation: Some(Arc::clone(&alternate.translation)),
        })
    }

    /// The names of the providers that serve a model here: its own, then those of its file that have credentials.
    fn offered<'m>(&self, model: &'m Model) -> impl Iterator<Item = &'m str> + use<'m> {
        let catalog = self.catalog.current();
        let is_offered = move |id: &ModelId| match catalog.withheld(id) {
            Some(Withheld::NoCredentials(_) | Withheld::Withdrawn(_)) => false,
            Some(Withheld::SwitchedOff(_)) => true,
            None => catalog.get(id).is_some(),
        };
        let alternates = model.alternates().iter();
        let offered = alternates.filter(move |one| is_offered(&one.model));
        std::iter::once(model.id().provider()).chain(offered.map(|one| one.model.provider()))
    }
}

impl Route {
    /// What a body that the model itself takes comes to at each provider: the price at the first one, and all that take it.
    ///
    /// # Errors
    /// With what keeps the first provider from serving it.
    pub(super) fn judge(&self, body: &Value) -> (Price, Result<Vec<Leg>, Vec<Violation>>) {
        let mut candidates = self.candidates.iter();
        let Some(first) = candidates.next() else {
            return (Price::Exact { cents: 0 }, Ok(Vec::new()));
        };
        let (price, leg) = first.judge(body, self.is_strict);
        let legs = leg.map(|leg| {
            let others = candidates.filter_map(|one| one.judge(body, self.is_strict).1.ok());
            std::iter::once(leg).chain(others).collect()
        });
        (price, legs)
    }
}

impl Candidate {
    pub(super) fn own(model: &Arc<Model>) -> Self {
        Self {
            model: Arc::clone(model),
            translation: None,
        }
    }

    fn judge(&self, body: &Value, is_strict: bool) -> (Price, Result<Leg, Vec<Violation>>) {
        let provider = self.model.provider();
        let leg = |price: Price, body: &Value, dropped| Leg {
            candidate: self.clone(),
            hold_cents: price.hold_cents(),
            streams: provider.streams(body),
            dropped,
        };
        let Some(translation) = &self.translation else {
            let price = provider.price(body);
            return (price, Ok(leg(price, body, Vec::new())));
        };
        let name = self.model.id().provider();
        let Translated {
            body,
            dropped,
            refused,
        } = translation.body(body);
        let price = provider.price(&body);
        let mut violations: Vec<Violation> = Vec::new();
        let unsaid = |one: &Unsaid| Violation {
            location: one.location.clone(),
            message: format!("{name} {}", one.why),
            kind: NOT_SERVED,
            context: None,
        };
        violations.extend(refused.iter().map(unsaid));
        if is_strict {
            violations.extend(dropped.iter().map(unsaid));
        }
        if violations.is_empty() {
            // What the caller wrote has other names there, so only the message can tell.
            let broken = match self.model.document().violations(&body) {
                // As it would be sent.
                none if none.is_empty() => provider.refuses(body.to_string().as_bytes()),
                some => some,
            };
            violations.extend(broken.into_iter().map(|broken| Violation {
                location: Vec::new(),
                message: format!("{name} does not take this body: {}", broken.message),
                kind: NOT_SERVED,
                context: None,
            }));
        }
        match violations.is_empty() {
            true => (price, Ok(leg(price, &body, serving::told(&dropped, name)))),
            false => (price, Err(violations)),
        }
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Candidate({})", self.model.id())
    }
}

// === impl Wish ===

impl<'a> Wish<'a> {
    /// Reads what a query asks for; `None` if it asks for nothing.
    fn read(query: &'a str) -> Result<Option<Self>, RouterError> {
        if query.is_empty() {
            return Ok(None);
        }
        let mut wish = Self::default();
        let mut seen = [false; 3];
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name);
            let names = [PROVIDER, FALLBACKS, STRICT];
            let Some(place) = names.iter().position(|known| *known == name) else {
                continue;
            };
            if std::mem::replace(&mut seen[place], true) {
                return Err(malformed(format!("`{name}` is given more than once")));
            }
            let value = decoded(value);
            match names[place] {
                PROVIDER if value.is_empty() => {
                    return Err(malformed(format!("`{PROVIDER}` names no provider")));
                }
                PROVIDER => wish.provider = Some(value),
                FALLBACKS => wish.fallbacks = Fallbacks::read(value)?,
                _ => wish.is_strict = flag(&value)?,
            }
        }
        let is_plain = wish.provider.is_none() && wish.fallbacks == Fallbacks::None;
        Ok((!is_plain).then_some(wish))
    }
}

impl<'a> Fallbacks<'a> {
    fn read(value: Cow<'a, str>) -> Result<Self, RouterError> {
        match &*value {
            "false" => return Ok(Self::None),
            "true" => return Ok(Self::Any),
            _ => {}
        }
        let names: Vec<Cow<'a, str>> = match value {
            Cow::Borrowed(text) => text.split(',').map(|one| one.trim().into()).collect(),
            Cow::Owned(text) => {
                let names = text.split(',');
                names.map(|one| one.trim().to_owned().into()).collect()
            }
        };
        if names.iter().any(|name| name.is_empty()) {
            return Err(malformed(format!(
                "`{FALLBACKS}` is `true`, `false`, or names of providers with commas between them"
            )));
        }
        Ok(Self::Named(names))
    }
}

fn flag(value: &str) -> Result<bool, RouterError> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(malformed(format!("`{STRICT}` is `true` or `false`"))),
    }
}

fn malformed(reason: String) -> RouterError {
    RouterError::Malformed(reason)
}

/// A name or a value of a query without its escapes. What is escaped wrongly stays as it is, and is no name then.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |byte: u8| char::from(byte).to_digit(16);
        rest = match (first, after) {
            (b'%', [high, low, behind @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'%'));
                    behind
                }
                _ => {
                    bytes.push(b'%');
                    after
                }
            },
            (b'+', _) => {
                bytes.push(b' ');
                after
            }
            (byte, _) => {
                bytes.push(*byte);
                after
            }
        };
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Option<Wish<'_>> {
        Wish::read(query).expect(query)
    }

    fn named<'a>(names: &[&'a str]) -> Fallbacks<'a> {
        Fallbacks::Named(names.iter().map(|name| Cow::Borrowed(*name)).collect())
    }

    #[test]
    fn a_query_that_names_no_provider_asks_for_nothing() {
        for query in [
            "",
            "x=1",
            "strict_mode=true",
            "fallback_provider=false&strict_mode=false",
            "model_providers=fal",
        ] {
            assert_eq!(read(query), None, "{query}");
        }
    }

    #[test]
    fn providers_are_read_with_and_without_escapes() {
        let wish = read("a=%2&model_provider=fal&strict_mode=true").expect("a wish");
        assert_eq!(wish.provider.as_deref(), Some("fal"));
        assert!(wish.is_strict && wish.fallbacks == Fallbacks::None);
        let expected = named(&["fal", "together"]);
        for query in [
            "fallback_provider=fal,together",
            "fallback_provider=fal%2Ctogether",
            "fallback%5fprovider=fal,+together",
        ] {
            let wish = read(query).expect("a wish");
            assert_eq!((wish.provider, wish.fallbacks), (None, expected.clone()));
        }
        assert_eq!(
            read("fallback_provider=true").expect("a wish").fallbacks,
            Fallbacks::Any
        );
    }

    #[test]
    fn what_cannot_be_understood_says_what_can() {
        for (query, told) in [
            ("model_provider=", "`model_provider` names no provider"),
            (
                "model_provider=a&model_provider=a",
                "`model_provider` is given more than once",
            ),
            ("strict_mode=1", "`strict_mode` is `true` or `false`"),
            (
                "fallback_provider=fal,,x",
                "`fallback_provider` is `true`, `false`, or names of providers with commas between them",
            ),
        ] {
            let refused = Wish::read(query).expect_err(query);
            assert_eq!(refused.to_string(), told);
        }
    }
}
