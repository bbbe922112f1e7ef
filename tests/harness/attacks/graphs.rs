//! The graphs that attacks submit, and how a job is followed.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::interval;

use super::Target;
use super::lane::Lane;
use super::wire::{Reply, ask, connect, owned};
use crate::{Connection, Request};

/// Numbers the graphs, so that no result of one is the other's.
static COUNT: AtomicU32 = AtomicU32::new(1);

/// How often a job is looked at whose events are refused.
const POLL: Duration = Duration::from_secs(1);

/// Nodes of a long job, and the width of its pictures.
const LONG_NODES: u32 = 60;
const LONG_WIDTH: u32 = 2048;

/// A number that no other graph has; colours have 24 bits.
pub(super) fn number() -> u32 {
    COUNT.fetch_add(1, Ordering::Relaxed) % (1 << 24)
}

/// A chain of blurs, which lasts for minutes: none of its nodes lasts for long.
pub(super) fn long() -> Value {
    let size =
        json!({"width": LONG_WIDTH, "height": LONG_WIDTH, "batch_size": 1, "color": number()});
    let mut graph = json!({"0": {"class_type": "EmptyImage", "inputs": size}});
    for node in 1..=LONG_NODES {
        let inputs = json!({"image": [(node - 1).to_string(), 0], "blur_radius": 31, "sigma": 1.0});
        graph[node.to_string()] = json!({"class_type": "ImageBlur", "inputs": inputs});
    }
    graph["save"] = json!({
        "class_type": "SaveImage",
        "inputs": {"images": [LONG_NODES.to_string(), 0], "filename_prefix": "long"},
    });
    graph
}

/// A request that submits a graph to the v2 API.
pub(super) fn submission(graph: &Value) -> Request {
    Request::post_json("/api/v2/jobs", &json!({ "workflow": graph }))
}

/// Submits a graph; answers the id of the job, or the answer that refuses it.
pub(super) async fn submit(target: &Target, graph: &Value) -> io::Result<Result<String, Reply>> {
    let answer = ask(target, submission(graph)).await?;
    if answer.status == 201 {
        let body: Value = serde_json::from_slice(&answer.body)?;
        return Ok(Ok(body["id"].as_str().unwrap_or_default().to_owned()));
    }
    Ok(Err(Reply {
        status: answer.status,
        text: answer.text(),
    }))
}

/// Follows the events of a job to their end, which counts as held once it runs; it may be cancelled as soon as a node of
/// this class runs.
pub(super) async fn follow(
    target: &Target,
    lane: &Lane,
    id: &str,
    cancel_at: Option<&str>,
) -> io::Result<()> {
    let request = owned(target, Request::get(&format!("/api/v2/jobs/{id}/events")));
    let mut connection = Connection::over(connect(target).await?)?;
    connection.write(&request.bytes(target.server)).await?;
    let (status, _) = connection.head().await?;
    if status == 429 {
        // The account has all the streams that it may have.
        return poll(target, lane, id, cancel_at.is_some()).await;
    }
    if status != 200 {
        return Err(io::Error::other(format!(
            "{status} for the events of a job"
        )));
    }
    let (mut hold, mut cancel_at) = (None, cancel_at);
    while let Some(chunk) = connection.chunk().await? {
        let text = String::from_utf8_lossy(&chunk);
        if hold.is_none() && text.contains("\"running\"") {
            hold = Some(lane.hold());
            lane.begun();
        }
        if cancel_at.is_some_and(|class| text.contains(class)) {
            cancel(target, id).await?;
            cancel_at = None;
        }
    }
    Ok(())
}

/// Looks at a job again and again until its end; it may be cancelled as soon as it runs.
async fn poll(target: &Target, lane: &Lane, id: &str, mut cancels: bool) -> io::Result<()> {
    let (mut hold, mut ticks) = (None, interval(POLL));
    loop {
        ticks.tick().await;
        let answer = ask(target, Request::get(&format!("/api/v2/jobs/{id}"))).await?;
        if answer.status != 200 {
            let message = format!("{} for a job: {}", answer.status, answer.text());
            return Err(io::Error::other(message));
        }
        let job: Value = serde_json::from_slice(&answer.body)?;
        match job["status"].as_str() {
            Some("running") => {
                hold.get_or_insert_with(|| lane.hold());
                lane.begun();
                if std::mem::take(&mut cancels) {
                    cancel(target, id).await?;
                }
            }
            Some("succeeded" | "failed" | "canceled") => return Ok(()),
            _ => {}
        }
    }
}

async fn cancel(target: &Target, id: &str) -> io::Result<()> {
    let cancel = Request::new("POST", &format!("/api/v2/jobs/{id}/cancel"));
    ask(target, cancel).await?;
    Ok(())
}

/// Follows a job to its end, however that may be.
pub(super) async fn follow_to_end(target: &Target, id: &str) -> io::Result<()> {
    ask(target, Request::get(&format!("/api/v2/jobs/{id}/events"))).await?;
    Ok(())
}
