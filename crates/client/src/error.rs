//! Why a request failed, by what the caller can do about it.

use std::path::PathBuf;

use hyper_kit::FetchError;

use crate::refusal::Refusal;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection came about; nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The connection broke, or the answer took too long. The request may have been acted on.
    #[error("{0}")]
    Interrupted(String),
    /// The server refused the request.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The answer is none of the contract: the address may be of something else.
    #[error("{0}")]
    Unexpected(String),
    /// The server is of the contract, and does not offer this part of it.
    #[error("{0}")]
    NotOffered(String),
    /// A file of the caller cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The bytes that came are not those that the server announced.
    #[error("the bytes of {0} arrived damaged; try again")]
    Damaged(String),
    /// A setting of the client cannot be used.
    #[error("{0}")]
    Setting(String),
}

impl ClientError {
    /// Whether the server refused the request with this status.
    #[must_use]
    pub fn is_status(&self, status: u16) -> bool {
        self.refusal()
            .is_some_and(|refusal| refusal.status == status)
    }

    /// The refusal of the server, if it is one.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Unreachable(_)
            | Self::Interrupted(_)
            | Self::Unexpected(_)
            | Self::NotOffered(_)
            | Self::File { .. }
            | Self::Damaged(_)
            | Self::Setting(_) => None,
        }
    }

    /// Whether the same request may succeed a moment later without any change: the server is away or overloaded.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Interrupted(_) => true,
            Self::Refused(refusal) => {
                matches!(refusal.status, 502..=504)
                    || (refusal.status == 429 && refusal.retry_after.is_some())
            }
            Self::Unexpected(_)
            | Self::NotOffered(_)
            | Self::File { .. }
            | Self::Damaged(_)
            | Self::Setting(_) => false,
        }
    }
}

impl From<FetchError> for ClientError {
    fn from(error: FetchError) -> Self {
        if error.is_unsent() {
            Self::Unreachable(error.to_string())
        } else {
            Self::Interrupted(error.to_string())
        }
    }
}
