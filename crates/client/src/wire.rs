//! The objects of the contract, as a client reads them.
//!
//! Only what a client cannot do without is required. Whatever else an object has is kept in `more` and written out again,
//! so newer servers lose nothing on the way through an older client.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A job.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Job {
    /// Its id.
    pub id: String,
    /// One of the words of the contract; unknown ones are taken for not yet over.
    pub status: String,
    /// When it was created, RFC 3339.
    #[serde(default)]
    pub created_at: Option<String>,
    /// How many jobs are before it.
    #[serde(default)]
    pub queue_position: Option<u64>,
    /// How far it is.
    #[serde(default)]
    pub progress: Option<Progress>,
    /// Every output committed so far.
    #[serde(default)]
    pub outputs: Vec<Output>,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<JobError>,
    /// Labels.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Follow-up addresses.
    #[serde(default)]
    pub urls: Map<String, Value>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Progress {
    /// 0 to 1.
    #[serde(default)]
    pub value: f64,
    /// Nodes that are done.
    #[serde(default)]
    pub nodes_done: u64,
    /// All nodes that count.
    #[serde(default)]
    pub nodes_total: u64,
    /// The node at work.
    #[serde(default)]
    pub current_node: Option<String>,
    /// Its class.
    #[serde(default)]
    pub current_node_class: Option<String>,
    /// The step within the node.
    #[serde(default)]
    pub step: Option<u64>,
    /// Steps of the node.
    #[serde(default)]
    pub steps: Option<u64>,
    /// What the node says.
    #[serde(default)]
    pub message: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// An output of a job.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Output {
    /// The node that made it.
    #[serde(default)]
    pub node_id: String,
    /// Its file name.
    pub name: String,
    /// image, video, audio, text, file or latent.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Its media type.
    #[serde(default)]
    pub content_type: String,
    /// Its size in bytes.
    #[serde(default)]
    pub size_bytes: u64,
    /// The asset that it is.
    pub id: String,
    /// `blake3:<64 hex>`; null while the server has not computed it.
    #[serde(default)]
    pub hash: Option<String>,
    /// Everything else, links among it.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Why a job failed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct JobError {
    /// What kind of failure.
    #[serde(default)]
    pub code: String,
    /// What happened, for people.
    #[serde(default)]
    pub message: String,
    /// Where.
    #[serde(default)]
    pub node_id: Option<String>,
    /// The class of the node.
    #[serde(default)]
    pub class_type: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A page of jobs, newest first.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What a job wrote.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct JobLog {
    /// The text.
    pub text: String,
    /// Whether its beginning is missing.
    #[serde(default)]
    pub truncated: bool,
    /// Whether nothing will be added.
    #[serde(default)]
    pub complete: bool,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// An asset.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Asset {
    /// Its id.
    pub id: String,
    /// `blake3:<64 hex>`; null while the server has not computed it.
    #[serde(default)]
    pub hash: Option<String>,
    /// Its size in bytes.
    #[serde(default)]
    pub size_bytes: u64,
    /// Its media type.
    #[serde(default)]
    pub content_type: String,
    /// The name under which graphs find it.
    #[serde(default)]
    pub file_path: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A model of the catalog.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Model {
    /// `provider/model`.
    pub id: String,
    /// The first segment.
    #[serde(default)]
    pub provider: String,
    /// The second segment.
    #[serde(default)]
    pub model: String,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A page of the catalog.
#[derive(Clone, Debug, Deserialize)]
pub struct ModelPage {
    /// The models.
    pub data: Vec<Model>,
    /// Whether another page exists.
    pub has_more: bool,
    /// Where it begins.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// The payload of a `status` event.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct StatusEvent {
    /// The status.
    pub status: String,
    /// How many jobs are before it.
    #[serde(default)]
    pub queue_position: Option<u64>,
    /// With the terminal status, every output.
    #[serde(default)]
    pub outputs: Vec<Output>,
}

/// The payload of a `preview` event.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Preview {
    /// The node at work.
    #[serde(default)]
    pub node_id: String,
    /// Its media type.
    #[serde(default)]
    pub content_type: String,
    /// The picture.
    pub data_base64: String,
}

impl Job {
    /// Whether its status will not change any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        is_terminal(&self.status)
    }

    /// Whether it ended as it should.
    #[must_use]
    pub fn has_succeeded(&self) -> bool {
        self.status == "succeeded"
    }

    pub(crate) fn link(&self, name: &str) -> Option<&str> {
        self.urls.get(name)?.as_str()
    }
}

impl StatusEvent {
    /// Whether the status will not change any more.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        is_terminal(&self.status)
    }
}

/// The contract has exactly four of them; whatever else a newer server says is not the end.
fn is_terminal(status: &str) -> bool {
    matches!(status, "succeeded" | "failed" | "canceled" | "expired")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_of_newer_servers_pass_through() {
        let sent = json!({"id": "j", "status": "pondering", "created_at": null, "queue_position": null,
            "progress": null, "outputs": [], "error": null, "metadata": {"a": "b"}, "urls": {},
            "mood": {"is": "fine"}});
        let job: Job = serde_json::from_value(sent.clone()).expect("a job");
        assert!(!job.is_over());
        assert_eq!(serde_json::to_value(&job).expect("JSON"), sent);
    }
}
