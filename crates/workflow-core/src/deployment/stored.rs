//! The stored form of a deployment: a text that only this module reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    Bounds, Definition, Deployment, DeploymentName, EnvironmentValue, NextRevision, Revision,
    RevisionNumber, StoredDeployment, Wanted, WorkerCommand, WorkerCounts, WorkerSource,
};

impl Deployment {
    /// The stored form.
    #[must_use]
    pub fn to_stored(&self) -> StoredDeployment {
        let text = json!({
            "revisions": self.revisions.iter().map(revision).collect::<Vec<_>>(),
            "current": self.current.map(|number| number.0),
            "next": self.next.map(|next| json!([next.number.0, next.since.as_microsecond()])),
            "stopped": self.wanted == Wanted::Stopped,
            "failure": self.failure,
            "bounds": self.bounds.map(bounds),
            "start_ms": self.start_ms,
            "definitions": self.definitions,
            "workers": workers(self.workers),
        });
        StoredDeployment {
            name: self.name.clone(),
            version: self.version,
            text: Arc::from(text.to_string()),
        }
    }

    /// What a stored form says; `None` if a newer version of the program wrote it in a way that this one does not know.
    #[must_use]
    pub fn read(stored: &StoredDeployment) -> Option<Self> {
        let value: Value = serde_json::from_str(&stored.text).ok()?;
        let revisions = value.get("revisions")?.as_array()?.iter();
        let next = value.get("next")?.as_array();
        let next = match next.map(Vec::as_slice) {
            None => None,
            Some([number, since]) => Some(NextRevision {
                number: read_number(number)?,
                since: Timestamp::from_microsecond(since.as_i64()?).ok()?,
            }),
            Some(_) => return None,
        };
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let current = value.get("current")?;
        let wanted = match value.get("stopped")?.as_bool()? {
            true => Wanted::Stopped,
            false => Wanted::Running,
        };
        Some(Self {
            name: stored.name.clone(),
            version: stored.version,
            revisions: revisions.map(read_revision).collect::<Option<_>>()?,
            current: match current.is_null() {
                true => None,
                false => Some(read_number(current)?),
            },
            next,
            wanted,
            failure: text("failure"),
            bounds: value.get("bounds").and_then(read_bounds),
            start_ms: value.get("start_ms").and_then(Value::as_u64),
            definitions: text("definitions"),
            // Versions before this one wrote none.
            workers: value
                .get("workers")
                .and_then(read_workers)
                .unwrap_or_default(),
        })
    }
}

/// The name by which what workers have is compared with what was kept.
#[must_use]
pub fn definitions_name(name: &DeploymentName, text: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("easel definitions of a deployment v1");
    hasher
        .update(name.as_str().as_bytes())
        .update(b"\0")
        .update(text.as_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

fn revision(revision: &Revision) -> Value {
    let definition = &revision.definition;
    let mut fields = json!({
        "number": revision.number.0,
        "created_at": revision.created_at.as_microsecond(),
        "bounds": bounds(definition.bounds),
        "idle_window_s": definition.idle_window_s,
        "scale_after_s": definition.scale_after_s,
        "start_limit_s": definition.start_limit_s,
        "waking_queue": definition.waking_queue,
    });
    match &definition.source {
        WorkerSource::Urls(urls) => fields["urls"] = urls.as_slice().into(),
        WorkerSource::Command(command) => {
            let environment = command.environment.iter();
            let environment = environment.map(|(name, value)| {
                let (kind, text) = match value {
                    EnvironmentValue::Text(text) => ("text", text),
                    EnvironmentValue::Variable(text) => ("env", text),
                    EnvironmentValue::File(text) => ("file", text),
                };
                (name.clone(), json!([kind, text]))
            });
            fields["command"] = command.arguments.as_slice().into();
            fields["environment"] = Value::Object(environment.collect());
            fields["folder"] = command.folder.clone().into();
            fields["models"] = command.models.clone().into();
        }
    }
    fields
}

fn bounds(bounds: Bounds) -> Value {
    json!([bounds.min, bounds.max])
}

fn read_revision(value: &Value) -> Option<Revision> {
    let seconds = |name: &str| u32::try_from(value.get(name)?.as_u64()?).ok();
    let texts = |name: &str| -> Option<Vec<String>> {
        let items = value.get(name)?.as_array()?.iter();
        items.map(|item| Some(item.as_str()?.to_owned())).collect()
    };
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let source = match texts("urls") {
        Some(urls) => WorkerSource::Urls(urls),
        None => WorkerSource::Command(WorkerCommand {
            arguments: texts("command")?,
            environment: read_environment(value.get("environment")?.as_object()?)?,
            folder: text("folder"),
            models: text("models"),
        }),
    };
    Some(Revision {
        number: read_number(value.get("number")?)?,
        definition: Definition {
            source,
            bounds: read_bounds(value.get("bounds")?)?,
            idle_window_s: seconds("idle_window_s")?,
            scale_after_s: seconds("scale_after_s")?,
            start_limit_s: seconds("start_limit_s")?,
            waking_queue: seconds("waking_queue")?,
        },
        created_at: Timestamp::from_microsecond(value.get("created_at")?.as_i64()?).ok()?,
    })
}

fn read_environment(fields: &Map<String, Value>) -> Option<BTreeMap<String, EnvironmentValue>> {
    let read = fields.iter().map(|(name, value)| {
        let text = value.get(1)?.as_str()?.to_owned();
        let value = match value.get(0)?.as_str()? {
            "text" => EnvironmentValue::Text(text),
            "env" => EnvironmentValue::Variable(text),
            "file" => EnvironmentValue::File(text),
            _ => return None,
        };
        Some((name.clone(), value))
    });
    read.collect()
}

fn read_bounds(value: &Value) -> Option<Bounds> {
    let part = |at: usize| u32::try_from(value.get(at)?.as_u64()?).ok();
    Some(Bounds {
        min: part(0)?,
        max: part(1)?,
    })
}

fn workers(workers: WorkerCounts) -> Value {
    json!([workers.starting, workers.ready, workers.draining])
}

fn read_workers(value: &Value) -> Option<WorkerCounts> {
    let part = |at: usize| u32::try_from(value.get(at)?.as_u64()?).ok();
    Some(WorkerCounts {
        starting: part(0)?,
        ready: part(1)?,
        draining: part(2)?,
    })
}

fn read_number(value: &Value) -> Option<RevisionNumber> {
    u32::try_from(value.as_u64()?).ok().map(RevisionNumber)
}
