//! Notifications, so that replicas need not wait until they look by themselves. Losing one costs that wait alone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio_postgres::AsyncMessage;

use super::Shared;
use crate::DatabaseError;
use crate::statements::execute;

/// One notification at most in this time: each costs a transaction, and a look of every other replica.
const APART: Duration = Duration::from_millis(10);

/// Pauses between attempts to listen: the first and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Tells other replicas that there is something new.
pub(super) async fn ring(shared: Arc<Shared>) {
    loop {
        shared.ring.notified().await;
        if let Err(error) = ring_once(&shared).await {
            tracing::debug!(error = %error, "other replicas were not notified; their next poll finds the changes");
        }
        tokio::time::sleep(APART).await;
    }
}

async fn ring_once(shared: &Shared) -> Result<(), DatabaseError> {
    let connection = shared.database.connection().await?;
    let replica = shared.replica.to_string();
    execute(
        &connection,
        "SELECT pg_notify('easel_job_changes', $1)",
        &[&replica],
    )
    .await?;
    Ok(())
}

/// Listens to the notifications of other replicas, on a connection of its own that it makes again when it breaks.
pub(super) async fn listen(shared: Arc<Shared>) {
    let mut pause = RETRY.0;
    loop {
        let error = listen_once(&shared, &mut pause).await.err();
        tracing::warn!(
            error = error.as_ref().map(tracing::field::display),
            "the connection that listens for changes broke; making another one"
        );
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY.1);
    }
}

async fn listen_once(shared: &Shared, pause: &mut Duration) -> Result<(), DatabaseError> {
    let (client, mut connection) = shared.database.listener().await?;
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    let subscribed = client.batch_execute("LISTEN easel_job_changes");
    let mut subscribed = Box::pin(subscribed);
    let mut is_subscribed = false;
    let own = shared.replica.to_string();
    loop {
        tokio::select! {
            done = &mut subscribed, if !is_subscribed => {
                done?;
                is_subscribed = true;
                *pause = RETRY.0;
                // Whatever was told before nobody listened.
                shared.look.notify_one();
            }
            message = messages.next() => match message {
                Some(Ok(AsyncMessage::Notification(told))) if told.payload() != own => {
                    shared.look.notify_one();
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            },
        }
    }
}
