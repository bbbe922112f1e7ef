//! The route table: (method, pattern) to handler, matched on the path as it was sent.
//!
//! A path is matched raw and its parameters are decoded afterwards, so `%2F` can never make a segment of its own. A
//! parameter that hides a slash or a NUL, or is not UTF-8, is answered as [`Lookup::Malformed`]: it names nothing, and the
//! application says so in the words of that route.

use std::collections::BTreeMap;
use std::ops::Index;

use http::{HeaderValue, Method};
use percent_encoding::percent_decode_str;

/// The routes of one API, below one mount prefix. `H` is what a route leads to: an enum or a function pointer.
#[derive(Debug)]
pub struct Routes<H> {
    prefix: String,
    tree: matchit::Router<Methods<H>>,
}

#[derive(Debug)]
struct Methods<H> {
    handlers: Vec<(Method, H)>,
    allow: HeaderValue,
}

/// What a method and a path lead to.
#[derive(Debug)]
pub enum Lookup<'r, H> {
    /// A route, with its parameters decoded.
    Found {
        /// Where the request goes.
        handler: &'r H,
        /// The decoded parameters.
        params: Params,
    },
    /// A route, but a parameter of it that no resource can have (`%2F`, NUL, bad UTF-8): to be answered as not found.
    Malformed {
        /// The route whose words the answer uses.
        handler: &'r H,
    },
    /// The path exists, under other methods.
    MethodNotAllowed {
        /// The value of `Allow`.
        allow: &'r HeaderValue,
    },
    /// No route has this path.
    NotFound,
}

/// The decoded parameters of a path, by the names of its pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(Vec<(String, String)>);

/// Why a table is no table; a fault of the program, met when it starts.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The mount prefix is neither empty nor a path that starts with a slash and ends without one.
    #[error("the prefix {0:?} must be empty, or start with a slash and end without one")]
    Prefix(String),
    /// A method stands twice at one pattern.
    #[error("{method} {pattern} is registered twice")]
    Twice {
        /// The method.
        method: Method,
        /// The pattern.
        pattern: String,
    },
    /// A pattern cannot be read, or two patterns exclude each other.
    #[error("the pattern {pattern} cannot be registered")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        source: matchit::InsertError,
    },
}

// === impl Routes ===

impl<H> Routes<H> {
    /// Builds the table below `prefix` (empty, or such as `/deployment/x`). A pattern starts with a slash and may hold
    /// `{name}` segments and a last `{*rest}`; one resource uses one spelling of its pattern for all its methods.
    pub fn new<'p>(
        prefix: &str,
        table: impl IntoIterator<Item = (Method, &'p str, H)>,
    ) -> Result<Self, RouteError> {
        if !prefix.is_empty() && (!prefix.starts_with('/') || prefix.ends_with('/')) {
            return Err(RouteError::Prefix(prefix.to_owned()));
        }

        let mut by_pattern: BTreeMap<&str, Vec<(Method, H)>> = BTreeMap::new();
        for (method, pattern, handler) in table {
            let handlers = by_pattern.entry(pattern).or_default();
            if handlers.iter().any(|(known, _)| *known == method) {
                let pattern = pattern.to_owned();
                return Err(RouteError::Twice { method, pattern });
            }
            handlers.push((method, handler));
        }

        let mut tree = matchit::Router::new();
        for (pattern, handlers) in by_pattern {
            tree.insert(pattern, Methods::new(handlers))
                .map_err(|source| RouteError::Pattern {
                    pattern: pattern.to_owned(),
                    source,
                })?;
        }
        let prefix = prefix.to_owned();
        Ok(Self { prefix, tree })
    }

    /// Finds the handler of a method and a raw path (`uri.path()`). HEAD falls to GET unless it has a handler of its own.
    pub fn find(&self, method: &Method, raw_path: &str) -> Lookup<'_, H> {
        let Some(path) = raw_path.strip_prefix(self.prefix.as_str()) else {
            return Lookup::NotFound;
        };
        let Ok(matched) = self.tree.at(path) else {
            return Lookup::NotFound;
        };
        let Some(handler) = matched.value.find(method) else {
            let allow = &matched.value.allow;
            return Lookup::MethodNotAllowed { allow };
        };
        match Params::decode(&matched.params) {
            Some(params) => Lookup::Found { handler, params },
            None => Lookup::Malformed { handler },
        }
    }

    /// The prefix that every path of the table starts with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl<H> Methods<H> {
    fn new(handlers: Vec<(Method, H)>) -> Self {
        let mut names: Vec<&str> = handlers.iter().map(|(method, _)| method.as_str()).collect();
        if names.contains(&"GET") && !names.contains(&"HEAD") {
            names.push("HEAD");
        }
        names.sort_unstable();
        let allow = HeaderValue::from_str(&names.join(", "))
            .expect("a method is a token, and tokens are header values");
        Self { handlers, allow }
    }

    fn find(&self, method: &Method) -> Option<&H> {
        let of = |wanted: &Method| {
            let mut handlers = self.handlers.iter();
            handlers.find_map(|(known, handler)| (known == wanted).then_some(handler))
        };
        of(method).or_else(|| of(&Method::GET).filter(|_| method == Method::HEAD))
    }
}

// === impl Params ===

impl Params {
    /// The parameter of this name, if the pattern has one.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut all = self.0.iter();
        all.find_map(|(known, value)| (known == name).then_some(value.as_str()))
    }

    /// Takes the parameter of this name out; empty if the pattern has none.
    pub fn take(&mut self, name: &str) -> String {
        let found = self.0.iter_mut().find(|(known, _)| known == name);
        found.map_or_else(String::new, |(_, value)| std::mem::take(value))
    }

    fn decode(raw: &matchit::Params<'_, '_>) -> Option<Self> {
        let decoded = raw
            .iter()
            .map(|(name, value)| Some((name.to_owned(), decode_param(value)?)));
        decoded.collect::<Option<_>>().map(Self)
    }
}

impl Index<&str> for Params {
    type Output = str;

    /// The parameter of this name; panics when the route's pattern has none, which is a fault of the program.
    fn index(&self, name: &str) -> &str {
        self.get(name)
            .unwrap_or_else(|| panic!("the pattern of this route has no parameter {name:?}"))
    }
}

fn decode_param(raw: &str) -> Option<String> {
    if memchr::memchr(b'%', raw.as_bytes()).is_none() {
        return (!raw.contains('\0')).then(|| raw.to_owned());
    }
    let hides_slash = raw
        .as_bytes()
        .windows(3)
        .any(|window| window.eq_ignore_ascii_case(b"%2f"));
    if hides_slash {
        return None;
    }
    let decoded = percent_decode_str(raw).decode_utf8().ok()?;
    (!decoded.contains('\0')).then(|| decoded.into_owned())
}

#[cfg(test)]
mod tests;
