//! Jobs as entries: of the job list, of both histories, of the queue.

use serde_json::{Map, Value, json};
use workflow_core::{Job, JobBody, JobOutput, JobStatus, OutputKind, RunReport};

use crate::frames::{cached_data, error_data, interrupted_data, moment_data};
use crate::origin::{Kept, number};
use crate::projector::millis;
use crate::{JobWord, Parts, prompt_id};

/// Most characters of a text that stands in an entry itself.
const MOST_TEXT: usize = 1024;

/// Everything that an entry is made from.
#[derive(Clone, Copy, Debug)]
pub struct JobRecord<'a> {
    /// The job.
    pub job: &'a Job,
    /// What lies beside it.
    pub body: &'a JobBody,
    /// What its run told, once it ended.
    pub report: Option<&'a RunReport>,
}

/// What can be shown of a job at a glance.
struct Preview {
    score: u8,
    value: Value,
}

impl JobRecord<'_> {
    fn origin(&self) -> Kept {
        Kept::of(&self.body.origin)
    }

    /// What each node showed, by node; of a job whose run left no report, its files.
    fn outputs(&self) -> Map<String, Value> {
        let mut outputs = Map::new();
        for output in &self.job.outputs {
            let node = outputs.entry(output.node_id.to_string());
            let node = node.or_insert_with(|| json!({}));
            if let Some(key) = group(output.kind) {
                let list = node.as_object_mut().expect("made as an object above");
                let list = list.entry(key).or_insert_with(|| json!([]));
                list.as_array_mut()
                    .expect("made as a list above")
                    .push(file(output));
            }
        }
        outputs.retain(|_, shown| shown.as_object().is_some_and(|shown| !shown.is_empty()));
        for (node, ui) in self.report.iter().flat_map(|report| &report.shown) {
            outputs.insert(node.to_string(), ui.clone());
        }
        outputs
    }

    fn targets(&self) -> &[String] {
        self.body.targets.as_deref().unwrap_or_default()
    }

    /// Where each output comes from: no node stands for another one here.
    fn meta(&self, outputs: &Map<String, Value>) -> Map<String, Value> {
        let one = |node: &String| {
            let meta = json!({
                "node_id": node,
                "display_node": node,
                "parent_node": null,
                "real_node_id": node,
            });
            (node.clone(), meta)
        };
        outputs.keys().map(one).collect()
    }

    /// `status` of the history.
    fn status(&self) -> Value {
        let job = self.job;
        let empty = RunReport::default();
        let report = self.report.unwrap_or(&empty);
        let id = prompt_id(job);
        let mut messages = Vec::new();
        if let Some(started) = job.started_at {
            let started = millis(started);
            messages.push(json!(["execution_start", moment_data(id, started)]));
            let cached = report.cached.as_deref().unwrap_or_default();
            let cached = cached_data(id, cached, started);
            messages.push(json!(["execution_cached", cached]));
        }
        if let Some(ended) = job.completed_at {
            let ended = millis(ended);
            messages.push(match (job.status, error_data(job, report, ended)) {
                (JobStatus::Succeeded, _) => {
                    json!(["execution_success", moment_data(id, ended)])
                }
                (_, Some(error)) => json!(["execution_error", error]),
                (_, None) => {
                    json!(["execution_interrupted", interrupted_data(id, report, ended)])
                }
            });
        }
        let well = job.status == JobStatus::Succeeded;
        json!({
            "status_str": if well { "success" } else { "error" },
            "completed": well,
            "messages": messages,
        })
    }
}

impl JobRecord<'_> {
    /// What came of a run, behind what was submitted: the end of an entry.
    fn results(&self, parts: &mut Parts) {
        let outputs = self.outputs();
        parts.text(",\"meta\":");
        parts.value(&self.meta(&outputs).into());
        parts.text(",\"outputs\":");
        parts.value(&outputs.into());
        parts.text(",\"status\":");
        parts.value(&self.status());
        parts.text("}");
    }
}

/// An entry of `GET /history`.
#[must_use]
pub fn history_entry(record: &JobRecord<'_>) -> Parts {
    let origin = record.origin();
    let (number, id) = (number(origin.number), prompt_id(record.job));
    let mut parts = Parts::default();
    parts.text(format!("{{\"prompt\":[{number},\"{id}\","));
    parts.graph(&record.body.workflow);
    parts.text(",");
    parts.text(origin.extra_data());
    parts.text(format!(",{}]", json!(record.targets())));
    record.results(&mut parts);
    parts
}

/// An entry of the list of `GET /history_v2`.
#[must_use]
pub fn history_v2_item(record: &JobRecord<'_>) -> Parts {
    let origin = record.origin();
    let (number, id) = (number(origin.number), prompt_id(record.job));
    let (created, workflow) = (millis(record.job.created_at), json!(origin.workflow_id));
    let mut parts = Parts::default();
    parts.text(format!(
        "{{\"prompt_id\":\"{id}\",\"create_time\":{created},\"workflow_id\":{workflow},\
         \"prompt\":{{\"priority\":{number},\"prompt_id\":\"{id}\",\"extra_data\":"
    ));
    parts.text(origin.extra_data());
    parts.text("}");
    record.results(&mut parts);
    parts
}

/// The entry of `GET /history_v2/{id}`.
#[must_use]
pub fn history_v2_entry(record: &JobRecord<'_>) -> Parts {
    let origin = record.origin();
    let (number, id) = (number(origin.number), prompt_id(record.job));
    let mut parts = Parts::default();
    parts.text(format!(
        "{{\"prompt\":{{\"priority\":{number},\"prompt_id\":\"{id}\",\"prompt\":"
    ));
    parts.graph(&record.body.workflow);
    parts.text(",\"extra_data\":");
    parts.text(origin.extra_data());
    let targets = json!(record.targets());
    parts.text(format!(",\"outputs_to_execute\":{targets}}}"));
    record.results(&mut parts);
    parts
}

/// An item of `GET /queue`: at `place`, counted from 1.
#[must_use]
pub fn queue_item(record: &JobRecord<'_>, place: usize) -> Parts {
    let id = prompt_id(record.job);
    let (targets, created) = (json!(record.targets()), millis(record.job.created_at));
    let mut parts = Parts::default();
    parts.text(format!("[{place},\"{id}\","));
    parts.graph(&record.body.workflow);
    parts.text(format!(",{targets},{{\"create_time\":{created}}}]"));
    parts
}

/// An entry of `GET /jobs`. Keys without a value are left out.
#[must_use]
pub fn job_entry(record: &JobRecord<'_>) -> Map<String, Value> {
    let (job, origin, outputs) = (record.job, record.origin(), record.outputs());
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            entry.insert(name.to_owned(), value);
        }
    };
    put("id", prompt_id(job).to_string().into());
    put("status", JobWord::of(job.status).name().into());
    put("priority", number(origin.number));
    put("create_time", millis(job.created_at).into());
    put("execution_start_time", job.started_at.map(millis).into());
    if job.started_at.is_some() {
        put("execution_end_time", job.completed_at.map(millis).into());
    }
    let empty = RunReport::default();
    let report = record.report.unwrap_or(&empty);
    let ended = job.completed_at.map(millis).unwrap_or_default();
    put("execution_error", error_data(job, report, ended).into());
    let shown = previews(job, &outputs);
    put("outputs_count", count(&outputs).into());
    put("previewable_outputs_count", shown.len().into());
    let best = shown.into_iter().reduce(|best, next| {
        // Of equals the first.
        if next.score < best.score { next } else { best }
    });
    put("preview_output", best.map(|best| best.value).into());
    put("workflow_id", origin.workflow_id.into());
    entry
}

/// Where a job waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queued {
    /// Its place in the queue, where that is known.
    pub position: Option<u64>,
    /// How many jobs of its account run.
    pub running: usize,
}

/// The answer of `GET /jobs/{id}`; `queued` tells of a job that waits.
#[must_use]
pub fn job_detail(record: &JobRecord<'_>, queued: Queued) -> Parts {
    let (job, origin, outputs) = (record.job, record.origin(), record.outputs());
    let mut before = job_entry(record);
    before.insert("update_time".to_owned(), millis(job.updated_at).into());
    let mut behind = Map::new();
    let mut put = |name: &str, value: Value| behind.insert(name.to_owned(), value);
    put("execution_meta", record.meta(&outputs).into());
    put("outputs", outputs.into());
    if job.status.is_terminal() {
        // There is no word for what is not over.
        put("execution_status", record.status());
    }
    if job.status == JobStatus::Queued {
        let room = usize::try_from(record.body.placement.account_room).unwrap_or(usize::MAX);
        // Its own account holds it, or all of them together do.
        let is_held = queued.running >= room;
        let reason = if is_held {
            "concurrency_limit"
        } else {
            "capacity"
        };
        put("queue_position", queued.position.into());
        put("queue_reason", reason.into());
    }
    let mut parts = Parts::default();
    let mut text = Value::Object(before).to_string();
    // Without the brace that closes it.
    text.pop();
    parts.text(text);
    parts.text(",\"workflow\":{\"prompt\":");
    parts.graph(&record.body.workflow);
    parts.text(",\"extra_data\":");
    parts.text(origin.extra_data());
    parts.text("},");
    parts.text(Value::Object(behind).to_string().split_off(1));
    parts
}

/// The list that a kind of file stands in. Texts are shown by their node, and in no list.
fn group(kind: OutputKind) -> Option<&'static str> {
    match kind {
        OutputKind::Image => Some("images"),
        OutputKind::Video => Some("video"),
        OutputKind::Audio => Some("audio"),
        OutputKind::Latent => Some("latents"),
        OutputKind::File => Some("files"),
        OutputKind::Text => None,
    }
}

fn file(output: &JobOutput) -> Value {
    let path = output.path.as_str();
    let (subfolder, filename) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = if output.temp { "temp" } else { "output" };
    json!({"filename": filename, "subfolder": subfolder, "type": folder})
}

/// How many things the nodes showed.
fn count(outputs: &Map<String, Value>) -> usize {
    let lists = outputs.values().filter_map(Value::as_object);
    let lists = lists.flat_map(Map::iter);
    // `animated` says something of the pictures beside it and is none.
    let lists = lists.filter(|(name, _)| *name != "animated");
    lists
        .filter_map(|(_, list)| list.as_array())
        .map(Vec::len)
        .sum()
}

/// Whether a file is a model in three dimensions that clients can show.
fn is_model(output: &JobOutput) -> bool {
    let ending = output.path.as_str().rsplit('.').next();
    let ending = ending.unwrap_or_default().to_ascii_lowercase();
    ["obj", "fbx", "gltf", "glb"].contains(&ending.as_str())
}

/// What people can look at, best first: results before what was only looked at, pictures before texts.
fn previews(job: &Job, outputs: &Map<String, Value>) -> Vec<Preview> {
    let mut found = Vec::new();
    for output in &job.outputs {
        let (media, visual) = match output.kind {
            OutputKind::Image => ("images", true),
            OutputKind::Video => ("video", true),
            OutputKind::Audio => ("audio", true),
            OutputKind::Text => ("text", false),
            OutputKind::File if is_model(output) => ("3d", true),
            OutputKind::File | OutputKind::Latent => continue,
        };
        if !visual && output.temp {
            // The raw text says it, below.
            continue;
        }
        let mut value = file(output);
        value["nodeId"] = output.node_id.to_string().into();
        value["mediaType"] = media.into();
        let score = match (visual, output.temp) {
            (true, false) => 0,
            (true, true) => 1,
            (false, _) => 2,
        };
        found.push(Preview { score, value });
    }
    for (node, shown) in outputs {
        let texts = shown.get("text").and_then(Value::as_array);
        for text in texts.into_iter().flatten().filter_map(Value::as_str) {
            let content: String = text.chars().take(MOST_TEXT).collect();
            let mut value = json!({
                "filename": "",
                "subfolder": "",
                "type": "temp",
                "nodeId": node,
                "mediaType": "text",
                "content": content,
            });
            if content.len() < text.len() {
                value["truncated"] = true.into();
            }
            found.push(Preview { score: 3, value });
        }
    }
    found
}

#[cfg(test)]
mod tests;
