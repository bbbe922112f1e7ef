//! Files behind web addresses: fetched before the node that names them is called, so that no thread of the engine waits.
//!
//! A client that may submit a graph chooses the address, so the client's policy is all that stands between a stranger and the
//! network that the server is in.

use std::time::Duration;

use bytes::Bytes;
use hyper_kit::client::{Client, FetchError, FetchLimits, MOST_REDIRECTS, Reason};

use crate::NodeError;

/// How an engine fetches files that graphs name by `https` addresses.
#[derive(Clone, Debug)]
pub struct Downloads {
    /// Asks; its policy says which addresses may be asked.
    pub client: Client,
    /// The bounds of one file.
    pub limits: FetchLimits,
}

/// What a picture at most has, and a job that waits for it can bear.
const LIMITS: FetchLimits = FetchLimits {
    max_bytes: 64 << 20,
    total_timeout: Duration::from_secs(60),
    idle_timeout: Duration::from_secs(15),
    redirects: MOST_REDIRECTS,
};

impl Downloads {
    /// Downloads by this client, of at most 64 MiB and a minute each.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            limits: LIMITS,
        }
    }

    /// Fetches a file of at most `max_bytes`.
    ///
    /// # Errors
    /// If it does not come, in words that name no more of the address than its host.
    pub(super) async fn fetch(&self, address: &str, max_bytes: usize) -> Result<Bytes, FetchError> {
        let limits = FetchLimits {
            max_bytes,
            ..self.limits
        };
        let fetched = self.client.fetch(address, limits).await;
        fetched.map(|fetched| fetched.bytes)
    }
}

/// What an engine answers that fetches nothing.
pub(super) fn no_downloads() -> NodeError {
    let message =
        "this server loads no pictures from web addresses; upload the picture and use its name";
    NodeError::new("ImageDownloadError", message)
}

/// What a node answers whose file did not come.
///
/// Names that do not resolve, addresses inside the network and hosts that refuse a connection answer alike: who may submit a
/// graph must not learn which names and hosts there are in the network of the server. The operator's log says which it was.
pub(super) fn failed(error: &FetchError) -> NodeError {
    let message = match error {
        FetchError::Unreachable { host, .. }
        | FetchError::NotAllowed {
            host,
            reason: Reason::NotPublic,
        } => format!(
            "{host} cannot be reached from this server, or is not on the public internet; check the address, or upload the \
             picture and use its name"
        ),
        FetchError::BadUrl(_)
        | FetchError::NotAllowed { .. }
        | FetchError::Tls { .. }
        | FetchError::TooLarge { .. }
        | FetchError::TimedOut
        | FetchError::Status(_)
        | FetchError::Broken { .. } => error.to_string(),
    };
    NodeError::new("ImageDownloadError", message)
}
