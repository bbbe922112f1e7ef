//! `run`, `submit` and `watch`.

use std::path::Path;
use std::time::Duration;

use client::{Client, Job, Submission};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::arguments::{GraphInput, Pair, Run, Shared, Submit, Watch};
use crate::failure::Failure;
use crate::follow::{self, Interrupt};
use crate::graph::GraphFile;
use crate::outputs::Saved;
use crate::pictures::{self, Protocol};
use crate::progress::Display;
use crate::{inputs, outputs, terminal, text};

/// `easel run`.
pub(crate) async fn run(shared: &Shared, client: &Client, run: Run) -> Result<(), Failure> {
    let graph = GraphFile::read(&run.input.graph)?;
    outputs::probe("--out", &run.out)?;
    let job = submitted(shared, client, &run.input, graph).await?;
    let protocol = pictures::protocol(run.shown.images);
    let display = Display::new(shared.quiet, protocol);
    if !shared.quiet {
        terminal::say(&format!("job {}", text::clean(&job.id, false)));
    }
    let ended = follow::to_the_end(client, &job.id, display, Interrupt::Cancels, false).await?;
    finish(shared, client, &ended, Some(&run.out), protocol).await
}

/// `easel submit`.
pub(crate) async fn submit(
    shared: &Shared,
    client: &Client,
    submit: Submit,
) -> Result<(), Failure> {
    let graph = GraphFile::read(&submit.input.graph)?;
    let job = submitted(shared, client, &submit.input, graph).await?;
    if shared.json {
        return terminal::print(&text::json(&json!(job)));
    }
    terminal::print(&format!("{}\n", text::clean(&job.id, false)))
}

/// `easel watch`.
pub(crate) async fn watch(shared: &Shared, client: &Client, watch: Watch) -> Result<(), Failure> {
    if let Some(out) = &watch.out {
        outputs::probe("--out", out)?;
    }
    let protocol = pictures::protocol(watch.shown.images);
    let display = Display::new(shared.quiet, protocol);
    let events = shared.json && watch.out.is_none();
    let ended = follow::to_the_end(client, &watch.job, display, Interrupt::Leaves, events).await?;
    if events {
        return follow::verdict(&ended);
    }
    match &watch.out {
        Some(out) => finish(shared, client, &ended, Some(out), protocol).await,
        None => finish(shared, client, &ended, None, protocol).await,
    }
}

async fn submitted(
    shared: &Shared,
    client: &Client,
    input: &GraphInput,
    graph: GraphFile,
) -> Result<Job, Failure> {
    let quiet = shared.quiet;
    let workflow = inputs::apply(graph, &input.inputs, client, quiet).await?;
    let submission = Submission {
        workflow,
        metadata: labels(&input.labels),
        extra_data: None,
    };
    // A key of its own: what is sent again after a broken connection makes no second job.
    let key = input.idempotency_key.clone();
    let key = key.unwrap_or_else(|| Uuid::new_v4().to_string());
    let mut waiting = |pause: Duration| {
        if !quiet {
            terminal::say(&format!(
                "the server is busy; trying again in {} s",
                pause.as_secs()
            ));
        }
    };
    Ok(client.submit(&submission, &key, &mut waiting).await?)
}

/// Saves and shows what a job made, whatever came of it, and then tells how it ended.
async fn finish(
    shared: &Shared,
    client: &Client,
    job: &Job,
    out: Option<&Path>,
    protocol: Option<Protocol>,
) -> Result<(), Failure> {
    let (saved, whole) = match out {
        Some(out) => outputs::save(client, job, out).await,
        None => (Vec::new(), Ok(())),
    };
    if shared.json {
        let files: Vec<Value> = saved.iter().map(Saved::json).collect();
        terminal::print(&text::json(&json!({"job": job, "files": files})))?;
    } else {
        show(&saved, protocol)?;
    }
    whole?;
    follow::verdict(job)
}

/// Paths, a line each; on a terminal that shows pictures, each picture above its path.
pub(crate) fn show(saved: &[Saved], protocol: Option<Protocol>) -> Result<(), Failure> {
    for saved in saved {
        if let Some(protocol) = protocol.filter(|_| terminal::is_out() && saved.is_image()) {
            let picture = std::fs::read(&saved.path).ok();
            let picture = picture.and_then(|bytes| pictures::shown(&bytes, protocol));
            terminal::print(&picture.unwrap_or_default())?;
        }
        terminal::print(&format!("{}\n", saved.path.display()))?;
    }
    Ok(())
}

fn labels(pairs: &[Pair]) -> Map<String, Value> {
    let labels = pairs.iter();
    labels
        .map(|Pair(key, value)| (key.clone(), Value::String(value.clone())))
        .collect()
}
