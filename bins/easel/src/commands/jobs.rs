//! `jobs`, `logs`, `cancel`, `outputs` and `workflow`.

use std::path::Path;

use client::{Client, Job, JobFilter};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::run::show;
use crate::arguments::{Jobs, Pair, Shared};
use crate::failure::{Failure, Kind};
use crate::outputs::Saved;
use crate::{outputs, progress, terminal, text};

/// Jobs of a page at most, by the contract.
const PAGE: usize = 100;

/// `easel jobs`.
pub(crate) async fn jobs(shared: &Shared, client: &Client, asked: Jobs) -> Result<(), Failure> {
    if let Some(id) = &asked.job {
        return one(shared, client, id).await;
    }
    let wanted = asked.limit as usize;
    let labels = asked
        .labels
        .into_iter()
        .map(|Pair(key, value)| (key, value));
    let mut filter = JobFilter {
        statuses: asked.statuses,
        labels: labels.collect(),
        limit: wanted.min(PAGE),
        cursor: None,
    };
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        let page = client.jobs(&filter).await?;
        jobs.extend(page.jobs);
        filter.cursor = page.next_cursor.filter(|_| jobs.len() < wanted);
        if filter.cursor.is_none() {
            break;
        }
    }
    jobs.truncate(wanted);
    if shared.json {
        return terminal::print(&text::json(&json!(jobs)));
    }
    if jobs.is_empty() && !shared.quiet {
        terminal::say("there are no such jobs; `easel run GRAPH` makes one");
    }
    let now = Timestamp::now();
    let rows: Vec<Vec<String>> = jobs.iter().map(|job| row(job, now)).collect();
    terminal::print(&text::table(
        &["ID", "STATUS", "DONE", "CREATED", "LABELS"],
        &rows,
    ))
}

fn row(job: &Job, now: Timestamp) -> Vec<String> {
    let done = job
        .progress
        .as_ref()
        .map(|progress| format!("{} of {}", progress.nodes_done, progress.nodes_total));
    let created = match terminal::is_out() {
        true => text::ago(job.created_at.as_deref(), now),
        false => job.created_at.clone().unwrap_or_default(),
    };
    vec![
        job.id.clone(),
        job.status.clone(),
        done.unwrap_or_else(|| "-".to_owned()),
        created,
        labels(job),
    ]
}

fn labels(job: &Job) -> String {
    let labels = job.metadata.iter();
    let labels = labels.map(|(key, value)| format!("{key}={}", text::plain(value)));
    labels.collect::<Vec<_>>().join(" ")
}

async fn one(shared: &Shared, client: &Client, id: &str) -> Result<(), Failure> {
    let job = client.job(id).await?;
    if shared.json {
        return terminal::print(&text::json(&json!(job)));
    }
    let mut pairs = vec![
        ("id", job.id.clone()),
        ("created", job.created_at.clone().unwrap_or_default()),
    ];
    if let Some(position) = job.queue_position {
        pairs.push(("before it", position.to_string()));
    }
    if let Some(progress) = &job.progress {
        pairs.push(("progress", progress::words(progress)));
    }
    if !job.metadata.is_empty() {
        pairs.push(("labels", labels(&job)));
    }
    if let Some(error) = &job.error {
        pairs.push(("error", format!("{}: {}", error.code, error.message)));
    }
    for output in &job.outputs {
        let size = text::size(output.size_bytes);
        pairs.push((
            "output",
            format!("{}  {size}  asset {}", output.name, output.id),
        ));
    }
    let status = format!("{:<9} {}\n", "status", text::colored(&job.status));
    terminal::print(&(status + &text::pairs(&pairs)))
}

/// `easel logs`.
pub(crate) async fn logs(shared: &Shared, client: &Client, id: &str) -> Result<(), Failure> {
    let log = client.logs(id).await?;
    if shared.json {
        let nothing = json!({"text": "", "truncated": false, "complete": false});
        let log = log.map_or(nothing, |log| json!(log));
        return terminal::print(&text::json(&log));
    }
    let Some(log) = log.filter(|log| !log.text.is_empty()) else {
        if !shared.quiet {
            terminal::say(&format!(
                "job {} wrote nothing so far",
                text::clean(id, false)
            ));
        }
        return Ok(());
    };
    if log.truncated && !shared.quiet {
        terminal::say("the beginning is missing: the job wrote more than the server keeps");
    }
    let shown = match terminal::is_out() {
        true => text::clean(&log.text, true),
        false => log.text,
    };
    terminal::print(&shown)?;
    if shown.ends_with('\n') {
        Ok(())
    } else {
        terminal::print("\n")
    }
}

/// `easel cancel`: asks for every job, then reports the first failure.
pub(crate) async fn cancel(
    shared: &Shared,
    client: &Client,
    ids: &[String],
) -> Result<(), Failure> {
    let mut canceled = Vec::new();
    let mut failed: Option<Failure> = None;
    for id in ids {
        match client.cancel(id).await {
            Ok(job) => {
                if !shared.json {
                    let id = text::clean(&job.id, false);
                    terminal::print(&format!("{id}\t{}\n", text::colored(&job.status)))?;
                }
                canceled.push(job);
            }
            Err(error) => {
                let mut failure = Failure::from(error);
                failure.message = format!("{id}: {}", failure.message);
                failed.get_or_insert(failure);
            }
        }
    }
    if shared.json {
        terminal::print(&text::json(&json!(canceled)))?;
    }
    failed.map_or(Ok(()), Err)
}

/// `easel outputs`.
pub(crate) async fn outputs(
    shared: &Shared,
    client: &Client,
    id: &str,
    out: &Path,
) -> Result<(), Failure> {
    outputs::probe("--out", out)?;
    let job = client.job(id).await?;
    if job.outputs.is_empty() && !shared.json {
        return Err(Failure::new(
            Kind::NotFound,
            format!("job {} has no outputs; it is {}", job.id, job.status),
        ));
    }
    let (saved, whole) = outputs::save(client, &job, out).await;
    if shared.json {
        let files: Vec<Value> = saved.iter().map(Saved::json).collect();
        terminal::print(&text::json(&json!(files)))?;
    } else {
        show(&saved, None)?;
    }
    whole
}

/// `easel workflow`: always JSON.
pub(crate) async fn workflow(client: &Client, id: &str) -> Result<(), Failure> {
    let workflow = client.workflow(id).await?;
    terminal::print(&text::json(&workflow))
}
