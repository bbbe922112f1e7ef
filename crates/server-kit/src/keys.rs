//! The file of the keys of tokens, looked at again and again.

use std::time::Duration;

use identity::Identity;
use tokio_util::sync::CancellationToken;

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_secs(5);

/// Reads the keys of JSON Web Tokens again whenever their file changed, until `stop`.
pub async fn keep_fresh(identity: Identity, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let identity = identity.clone();
        let looked = tokio::task::spawn_blocking(move || identity.refresh_keys());
        if looked.await.is_err() {
            tracing::error!("looking at the keys for tokens panicked");
        }
    }
}
