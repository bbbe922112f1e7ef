//! Follows a job to its end and shows it. The first Ctrl-C cancels a job that this command started, a second one does not
//! wait for that.

use client::{Client, FollowOptions, Job, Update};
use serde_json::{Value, json};

use crate::failure::{Failure, Kind};
use crate::progress::Display;
use crate::terminal;

/// What Ctrl-C means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// The job is canceled.
    Cancels,
    /// The job runs on.
    Leaves,
}

/// Follows a job until it is over; with `events`, each is a line of JSON on standard output.
pub(crate) async fn to_the_end(
    client: &Client,
    id: &str,
    mut display: Display,
    interrupt: Interrupt,
    events: bool,
) -> Result<Job, Failure> {
    let mut follower = client.follow(id, FollowOptions::default());
    let mut is_canceling = false;
    let mut is_away = false;
    loop {
        let update = tokio::select! {
            update = follower.next() => update?,
            signal = tokio::signal::ctrl_c() => {
                // Without signals there is nothing to react to.
                if signal.is_err() {
                    continue;
                }
                if is_canceling || interrupt == Interrupt::Leaves {
                    return Err(left(id, is_canceling));
                }
                is_canceling = true;
                display.say("canceling; press Ctrl-C again to leave at once");
                client.cancel(id).await?;
                continue;
            }
        };
        if events && let Some(update) = &update {
            terminal::print(&format!("{}\n", event(update)))?;
        }
        match update {
            Some(Update::Status(status)) => display.status(&status),
            Some(Update::Progress(progress)) => display.progress(&progress),
            Some(Update::Preview(preview)) => display.preview(&preview),
            Some(Update::Output(_)) => {}
            Some(Update::Away(reason)) => {
                if !is_away {
                    display.say(&format!(
                        "{reason}; the job still runs, and this command continues when the server is back"
                    ));
                }
                is_away = true;
                continue;
            }
            Some(Update::Over(job)) => {
                display.finish(&ending(&job));
                if is_canceling && job.status == "canceled" {
                    let message = format!("job {id} was canceled");
                    return Err(Failure::new(Kind::Interrupted, message));
                }
                return Ok(*job);
            }
            None => {
                return Err(Failure::new(
                    Kind::Server,
                    format!("the server lost job {id}"),
                ));
            }
        }
        is_away = false;
    }
}

/// Whether a job ended well; its error otherwise.
pub(crate) fn verdict(job: &Job) -> Result<(), Failure> {
    let message = match job.status.as_str() {
        "succeeded" => return Ok(()),
        "failed" => match &job.error {
            None => "the job failed".to_owned(),
            Some(error) => match (&error.node_id, &error.class_type) {
                (Some(node), Some(class)) => {
                    format!("node {node} ({class}) failed: {}", error.message)
                }
                (Some(node), None) => format!("node {node} failed: {}", error.message),
                (None, _) => error.message.clone(),
            },
        },
        "canceled" => "the job was canceled".to_owned(),
        "expired" => "the job's time ran out before it finished".to_owned(),
        other => format!("the job ended as {other:?}"),
    };
    Err(Failure::new(Kind::Failed, message)
        .hint(format!("`easel logs {}` has what it wrote", job.id)))
}

fn ending(job: &Job) -> String {
    let counted = job.progress.as_ref().map(|progress| {
        format!(
            ": {} of {} nodes",
            progress.nodes_done, progress.nodes_total
        )
    });
    format!("{}{}", job.status, counted.unwrap_or_default())
}

fn left(id: &str, is_canceling: bool) -> Failure {
    let message = if is_canceling {
        format!("stopped without waiting for job {id} to be canceled")
    } else {
        format!("stopped watching; job {id} still runs")
    };
    Failure::new(Kind::Interrupted, message).hint(format!("`easel watch {id}` watches it again"))
}

/// An update as a line for programs.
fn event(update: &Update) -> Value {
    match update {
        Update::Status(status) => {
            json!({"event": "status", "status": status.status, "queue_position": status.queue_position})
        }
        Update::Progress(progress) => json!({"event": "progress", "progress": progress}),
        Update::Preview(preview) => json!({"event": "preview", "preview": preview}),
        Update::Output(output) => json!({"event": "output", "output": output}),
        Update::Away(reason) => json!({"event": "away", "reason": reason}),
        Update::Over(job) => json!({"event": "over", "job": job}),
    }
}
