//! The texts that a client gets of a worker's failures: no path, no trace, no secret.

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use workflow_core::{JobError, JobErrorCode, NodeId, Refusal};

use super::{NotHere, engine_error};
use crate::client::WorkerError;
use crate::client::upload::UploadError;
use crate::history::Failure;
use crate::worker::Worker;

/// Most characters of a message.
const MOST_MESSAGE: usize = 4_000;

/// Most bytes of what a failed node had got.
const MOST_INPUTS: usize = 64 << 10;

/// What an upload that failed means for its job.
pub(super) fn of_upload(worker: &Worker, error: &UploadError) -> NotHere {
    match error {
        UploadError::Unreadable => {
            engine_error("an input file could not be read from the store; upload it again").into()
        }
        UploadError::TooLarge => {
            tracing::warn!(worker = worker.name, %error, "a file was not staged");
            engine_error("an input file is larger than the worker takes; use a smaller one").into()
        }
        UploadError::Worker(WorkerError::Unsent(_)) => NotHere::Away,
        UploadError::Worker(error) => {
            worker.failed(&error.to_string());
            NotHere::Elsewhere
        }
    }
}

/// What a worker says of a graph that it does not take, or not all of.
pub(super) fn of_refusal(answer: &Value) -> JobError {
    let error = answer.get("error");
    let text = |key: &str| {
        let text = error
            .and_then(|error| error.get(key))
            .and_then(Value::as_str);
        text.unwrap_or_default().trim().to_owned()
    };
    let (message, details) = (text("message"), text("details"));
    let said = joined(&message, &details).unwrap_or_else(|| "some outputs cannot run".to_owned());
    let mut node_errors = answer
        .get("node_errors")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    for errors in node_errors.values_mut() {
        let errors = errors.get_mut("errors").and_then(Value::as_array_mut);
        for error in errors.into_iter().flatten() {
            if let Some(Value::Object(extra)) = error.get_mut("extra_info") {
                extra.remove("traceback");
            }
            for key in ["message", "details"] {
                if let Some(Value::String(text)) = error.get_mut(key) {
                    *text = readable(text, None);
                }
            }
        }
    }
    let first = first_error(&node_errors);
    let at_node = first
        .as_ref()
        .map_or_else(String::new, |(node, class, why)| {
            format!(" (node {node}, {class}: {why})")
        });
    let message = format!(
        "the worker refuses the workflow: {}{at_node}; change it and submit it again",
        readable(&said, None)
    );
    let (node_id, class_type) = first.map(|(node, class, _)| (node, class)).unzip();
    JobError {
        node_id,
        class_type,
        ..Refusal {
            message,
            node_errors,
        }
        .into()
    }
}

/// The first node that is refused, its class and why.
fn first_error(node_errors: &Map<String, Value>) -> Option<(NodeId, String, String)> {
    let mut nodes = node_errors.iter();
    nodes.find_map(|(node, errors)| {
        let class = errors.get("class_type")?.as_str()?;
        let error = errors.get("errors")?.get(0)?;
        let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let why = joined(text("message"), text("details"))?;
        Some((NodeId::from(node.as_str()), class.to_owned(), why))
    })
}

/// A message and its details in one line; `None` without either.
fn joined(message: &str, details: &str) -> Option<String> {
    match (message.is_empty(), details.is_empty()) {
        (true, true) => None,
        (false, true) => Some(message.to_owned()),
        (true, false) => Some(details.to_owned()),
        (false, false) => Some(format!("{message}: {details}")),
    }
}

/// The failure of a node.
pub(super) fn of_node(
    failure: &Failure,
    node: Option<NodeId>,
    secret: Option<&SecretString>,
) -> JobError {
    let exception = failure.exception.as_deref().unwrap_or_default();
    let is_memory = exception.contains("OutOfMemory") || exception == "MemoryError";
    let code = match (is_memory, &node) {
        (true, _) => JobErrorCode::OutOfMemory,
        (false, Some(_)) => JobErrorCode::NodeExecutionError,
        (false, None) => JobErrorCode::EngineError,
    };
    JobError {
        node_id: node,
        class_type: failure.class.clone(),
        exception_type: failure.exception.clone(),
        ..JobError::new(code, readable(failure.message.trim_end(), secret))
    }
}

/// What a failed node had got, unless it is too much.
pub(super) fn bounded_inputs(inputs: Map<String, Value>) -> Map<String, Value> {
    let bytes: usize = inputs.values().map(|value| value.to_string().len()).sum();
    match bytes <= MOST_INPUTS {
        true => inputs,
        false => Map::new(),
    }
}

/// A message without paths of the worker and without the secret of the submission.
fn readable(text: &str, secret: Option<&SecretString>) -> String {
    let mut text: String = text.chars().take(MOST_MESSAGE).collect();
    if let Some(secret) = secret {
        text = text.replace(secret.expose_secret(), "[REDACTED]");
    }
    let is_end = |c: char| c.is_whitespace() || "'\"`,;()[]{}<>".contains(c);
    let mut readable = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let end = rest.find(is_end).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        readable.push_str(without_folders(word));
        let mut after = after.chars();
        readable.extend(after.next());
        rest = after.as_str();
    }
    readable
}

/// The last part of an absolute path; any other word as it is.
fn without_folders(word: &str) -> &str {
    let is_drive = word.as_bytes().get(1..3) == Some(b":\\");
    let is_path = is_drive || (word.starts_with('/') && word.matches('/').count() > 1);
    if !is_path {
        return word;
    }
    let last = word.rsplit(['/', '\\']).find(|part| !part.is_empty());
    last.unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_lead_to_no_path_and_no_secret() {
        let secret = SecretString::from("sk-very-secret");
        let text = "No such file: '/home/me/ComfyUI/models/a.ckpt' (key sk-very-secret) at 1/2, C:\\x\\y.bin";
        assert_eq!(
            readable(text, Some(&secret)),
            "No such file: 'a.ckpt' (key [REDACTED]) at 1/2, y.bin"
        );
    }

    #[test]
    fn a_refusal_keeps_the_words_of_the_worker_and_not_its_trace() {
        let answer = json!({
            "error": {"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed validation", "details": "x"},
            "node_errors": {"1": {"class_type": "A", "dependent_outputs": ["1"], "errors": [
                {"type": "custom_validation_failed", "message": "m", "details": "/a/b/c.py",
                 "extra_info": {"traceback": ["/a/b"], "input_name": "x"}}
            ]}}
        });
        let refusal = of_refusal(&answer);
        assert!(
            refusal
                .message
                .contains("Prompt outputs failed validation: x")
        );
        assert!(
            refusal.message.contains("node 1, A: m: c.py"),
            "{}",
            refusal.message
        );
        assert_eq!(refusal.node_id, Some("1".into()));
        assert_eq!(
            refusal.node_errors["1"]["errors"][0],
            json!({"type": "custom_validation_failed", "message": "m", "details": "c.py",
                   "extra_info": {"input_name": "x"}})
        );
    }

    #[test]
    fn memory_is_told_apart() {
        let failure = Failure {
            exception: Some("torch.OutOfMemoryError".to_owned()),
            message: "CUDA out of memory\n".to_owned(),
            ..Failure::default()
        };
        let error = of_node(&failure, Some("3".into()), None);
        assert_eq!(error.code, JobErrorCode::OutOfMemory);
        assert_eq!(error.message, "CUDA out of memory");
    }
}
