//! What a worker says on its socket, read. Pure: a text or bytes in, at most one [`Heard`] out.

use bytes::Bytes;
use serde_json::{Map, Value};

/// A message that concerns a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Heard {
    /// The prompt it is about; `None` where the message does not say, which then is the one that runs.
    pub(crate) prompt: Option<String>,
    /// What it says.
    pub(crate) said: Said,
}

/// A node as messages name it: one of an expansion is shown as the node that it came of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRef {
    /// Its own id.
    pub(crate) id: String,
    /// The id that clients are shown.
    pub(crate) shown: String,
}

/// How far a node is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeState {
    pub(crate) node: NodeRef,
    pub(crate) value: f64,
    pub(crate) max: f64,
    pub(crate) is_running: bool,
    pub(crate) is_finished: bool,
}

/// What is said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    /// The prompt begins.
    Began,
    /// These nodes need no work.
    Cached(Vec<String>),
    /// A node begins.
    Executing(NodeRef),
    /// How far all nodes are that began.
    States(Vec<NodeState>),
    /// A node did a step.
    Step(NodeRef, f64, f64),
    /// A node has something to show.
    Executed(NodeRef, Value),
    /// A picture of a node; of the node at work where it does not say.
    Picture(Option<NodeRef>, &'static str, Bytes),
    /// A line of a node.
    Line(String, String),
    /// The prompt seems to be over. How it ended is in the history.
    Ended,
}

/// Longest text that is read, in bytes. A node of 50,000 in `progress_state` takes 200 bytes.
pub(crate) const MOST_TEXT_BYTES: usize = 16 << 20;

/// Reads a text; `None` of one that concerns no run, or that cannot be read.
pub(crate) fn read_text(text: &str) -> Option<Heard> {
    if text.len() > MOST_TEXT_BYTES {
        return None;
    }
    let message: Value = serde_json::from_str(text).ok()?;
    let data = message.get("data")?.as_object()?;
    let said = match message.get("type")?.as_str()? {
        "execution_start" => Said::Began,
        "execution_cached" => {
            let nodes = data.get("nodes")?.as_array()?.iter();
            Said::Cached(nodes.filter_map(text_of).collect())
        }
        "executing" => match data.get("node") {
            Some(Value::Null) | None => Said::Ended,
            Some(_) => Said::Executing(node_ref(data, "node", "display_node")?),
        },
        "progress_state" => {
            let nodes = data.get("nodes")?.as_object()?.iter();
            Said::States(
                nodes
                    .filter_map(|(id, state)| node_state(id, state))
                    .collect(),
            )
        }
        "progress" => Said::Step(
            node_ref(data, "node", "display_node")?,
            data.get("value")?.as_f64()?,
            data.get("max")?.as_f64()?,
        ),
        "executed" => Said::Executed(
            node_ref(data, "node", "display_node")?,
            data.get("output").cloned().unwrap_or_default(),
        ),
        "execution_success" | "execution_error" | "execution_interrupted" => Said::Ended,
        _ => return None,
    };
    Some(Heard {
        prompt: data.get("prompt_id").and_then(text_of),
        said,
    })
}

/// Reads bytes; `None` of what is no picture and no line.
pub(crate) fn read_binary(mut bytes: Bytes) -> Option<Heard> {
    match take_number(&mut bytes)? {
        1 => {
            let content_type = match take_number(&mut bytes)? {
                1 => "image/jpeg",
                2 => "image/png",
                _ => return None,
            };
            Some(Heard {
                prompt: None,
                said: Said::Picture(None, content_type, bytes),
            })
        }
        3 => {
            let node = take_counted(&mut bytes)?;
            let node = std::str::from_utf8(&node).ok()?.to_owned();
            let line = String::from_utf8_lossy(&bytes).into_owned();
            Some(Heard {
                prompt: None,
                said: Said::Line(node, line),
            })
        }
        4 => {
            let about: Value = serde_json::from_slice(&take_counted(&mut bytes)?).ok()?;
            let about = about.as_object()?;
            let content_type = match about.get("image_type")?.as_str()? {
                "image/jpeg" => "image/jpeg",
                "image/png" => "image/png",
                "image/webp" => "image/webp",
                _ => return None,
            };
            Some(Heard {
                prompt: about.get("prompt_id").and_then(text_of),
                said: Said::Picture(
                    node_ref(about, "node_id", "display_node_id"),
                    content_type,
                    bytes,
                ),
            })
        }
        _ => None,
    }
}

fn take_number(bytes: &mut Bytes) -> Option<u32> {
    let number = bytes.get(..4)?.try_into().ok()?;
    let _ = bytes.split_to(4);
    Some(u32::from_be_bytes(number))
}

fn take_counted(bytes: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(take_number(bytes)?).ok()?;
    (length <= bytes.len()).then(|| bytes.split_to(length))
}

fn node_ref(data: &Map<String, Value>, id: &str, shown: &str) -> Option<NodeRef> {
    let id = data.get(id).and_then(text_of)?;
    let shown = data.get(shown).and_then(text_of);
    Some(NodeRef {
        shown: shown.unwrap_or_else(|| id.clone()),
        id,
    })
}

fn node_state(id: &str, state: &Value) -> Option<NodeState> {
    let state = state.as_object()?;
    let shown = state.get("display_node_id").and_then(text_of);
    let word = state.get("state")?.as_str()?;
    Some(NodeState {
        node: NodeRef {
            id: id.to_owned(),
            shown: shown.unwrap_or_else(|| id.to_owned()),
        },
        value: state.get("value").and_then(Value::as_f64).unwrap_or(0.0),
        max: state.get("max").and_then(Value::as_f64).unwrap_or(1.0),
        is_running: word == "running",
        is_finished: word == "finished",
    })
}

/// Ids are texts; some nodes write them as numbers.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_end_early_or_lie_about_their_length_say_nothing() {
        for bytes in [
            &b""[..],
            b"\0\0\0",
            b"\0\0\0\x01",
            b"\0\0\0\x01\0\0\0\x09x",
            b"\0\0\0\x03\0\0\0\xff1",
            b"\0\0\0\x03\xff\xff\xff\xff1",
            b"\0\0\0\x04\0\0\0\x02{}",
            b"\0\0\0\x04\0\0\0\x02{x",
            b"\0\0\0\x07abc",
        ] {
            assert_eq!(
                read_binary(Bytes::copy_from_slice(bytes)),
                None,
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn texts_that_are_no_message_say_nothing() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"type":"status","data":{"status":{}}}"#,
            r#"{"type":"progress","data":{"node":"1","value":"x","max":2}}"#,
            r#"{"type":"executed","data":[]}"#,
            r#"{"type":"progress_state","data":{"nodes":[]}}"#,
        ] {
            assert_eq!(read_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_picture_says_whose_it_is_where_the_worker_can() {
        let about = br#"{"node_id": "7.0.1", "display_node_id": "7", "prompt_id": "p", "image_type": "image/png"}"#;
        let mut bytes = 4_u32.to_be_bytes().to_vec();
        bytes.extend((about.len() as u32).to_be_bytes());
        bytes.extend(about);
        bytes.extend(b"png");
        let heard = read_binary(bytes.into()).expect("a picture");
        assert_eq!(heard.prompt.as_deref(), Some("p"));
        let node = NodeRef {
            id: "7.0.1".to_owned(),
            shown: "7".to_owned(),
        };
        let png = Bytes::from_static(b"png");
        assert_eq!(heard.said, Said::Picture(Some(node), "image/png", png));
    }
}
