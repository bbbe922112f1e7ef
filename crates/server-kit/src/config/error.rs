//! What can be wrong with a configuration: which key, which value, where it came from, and what is allowed instead.

use std::path::PathBuf;

use super::{Key, Origin};

/// Why the configuration cannot be used. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration file {} (from {origin}) cannot be read; correct its path", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What named it.
        origin: Origin,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is no TOML.
    #[error("{}, line {line}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser said.
        message: String,
    },
    /// The file has a key that means nothing.
    #[error("{}, line {line}: unknown key `{key}`; {}", path.display(), advice(*nearest))]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// The program gives a value to a key that means nothing.
    #[error("unknown key `{key}`; {}", advice(*nearest))]
    UnknownName {
        /// The key.
        key: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// The file holds something else than a value for a key.
    #[error("{}, line {line}: `{key}` cannot be {found}; write {allowed}", path.display())]
    Type {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: &'static str,
        /// What stands there.
        found: &'static str,
        /// What may.
        allowed: &'static str,
    },
    /// A value is not allowed.
    #[error("`{key}` cannot be {value} (from {origin}); write {allowed}")]
    Value {
        /// The key.
        key: &'static str,
        /// What was written, quoted, unless it is secret.
        value: String,
        /// Where.
        origin: Origin,
        /// What may be.
        allowed: &'static str,
    },
    /// Tokens could be verified in two ways.
    #[error("JSON Web Tokens are verified with {} or with {}; set one of them", super::access::JWT_SECRET.name, super::access::JWT_KEYS.name)]
    TwoKeys,
    /// One key without the other.
    #[error("`{0}` needs `{1}`: set both, or none to keep everything in the data directory")]
    Needs(&'static str, &'static str),
    /// A role that only replicas have, without what they share.
    #[error(
        "`role` cannot be {0} with a data directory, which one process has alone: set `{store}` and `{blobs}` to share an installation, or leave out `role`",
        store = super::place::STORE.name,
        blobs = super::place::BLOBS.name
    )]
    Alone(&'static str),
    /// A variable is no text.
    #[error("the variable {0} holds bytes that are no UTF-8 text; set it again, or unset it")]
    NotText(String),
    /// Everybody in the network could use the server.
    #[error(
        "listening on {listen} (from {origin}) would let everybody who can reach it use this server; \
         set a token ({}), or keep to this machine ({} 127.0.0.1:{}), or allow it on purpose ({})",
        super::access::TOKEN.variable(),
        super::server::LISTEN.flag(),
        listen.port(),
        super::access::INSECURE.flag()
    )]
    Open {
        /// Where it would listen.
        listen: std::net::SocketAddr,
        /// What says so.
        origin: Origin,
    },
}

impl ConfigError {
    /// A refused value; a secret one is not repeated.
    pub(super) fn value(key: &Key, text: &str, origin: Origin, allowed: &'static str) -> Self {
        let value = if key.secret {
            "what it was set to".to_owned()
        } else {
            format!("\"{text}\"")
        };
        Self::Value {
            key: key.name,
            value,
            origin,
            allowed,
        }
    }
}

fn advice(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "`config show` lists the known ones".to_owned(),
    }
}
