//! Conversations of workers, told in the events of the service.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use serde_json::json;

use super::*;
use crate::frames::{read_binary, read_text};

/// One letter and the node for every piece of news, for tables that can be read.
fn spelled(news: &[News]) -> String {
    let mut text = String::new();
    for news in news {
        let _ = match news {
            News::Node(NodeEvent::Cached(nodes)) => {
                let nodes: Vec<&str> = nodes.iter().map(NodeId::as_str).collect();
                write!(text, "cached[{}] ", nodes.join(","))
            }
            News::Node(NodeEvent::Started { node, class }) => write!(text, "+{node}:{class} "),
            News::Node(NodeEvent::Step { node, step, steps }) => {
                write!(text, "{node}:{step}/{steps} ")
            }
            News::Node(NodeEvent::Finished { node }) => write!(text, "-{node} "),
            News::Node(other) => write!(text, "{other:?} "),
            News::Shown(node, ui) => {
                let keys: Vec<&String> = ui.as_object().into_iter().flat_map(Map::keys).collect();
                write!(text, "{node}={keys:?} ")
            }
            News::Preview(preview) => write!(text, "{}~{} ", preview.node_id, preview.content_type),
            News::Frame(node, _) => write!(text, "{node}#png "),
            News::Line(node, line) => write!(text, "{node}>{line:?} "),
            News::MayBeOver => write!(text, ". "),
        };
    }
    text.trim_end().to_owned()
}

fn graph(classes: &[(&str, &str)]) -> Map<String, Value> {
    let nodes = classes
        .iter()
        .map(|(id, class)| ((*id).to_owned(), json!({"class_type": class})));
    nodes.collect()
}

fn text(kind: &str, data: &Value) -> Said {
    let message = json!({"type": kind, "data": data}).to_string();
    read_text(&message).expect("a message").said
}

/// Every conversation that was recorded, and what a run of ours tells of it.
const RECORDED: [(&str, &str); 9] = [
    (
        "simple",
        "cached[] +1:LoadImage -1 +2:ImageInvert -2 +3:SaveImage 3=[\"images\"] -3 . .",
    ),
    ("cached_rerun", "cached[1,2,3] 3=[\"images\"] -3 . ."),
    (
        "error",
        "cached[] +1:LoadImage -1 +4:PreviewImage 4=[\"images\"] -4 +2:ImageBlur . .",
    ),
    (
        "interrupted",
        "cached[] +1:EmptyImage -1 +2:ImageBlur -2 +3:ImageBlur . .",
    ),
    (
        "lists",
        "cached[] +1:LoadImage -1 +2:RebatchImages -2 +3:ImageInvert -3 +4:SaveImage 4=[\"images\"] -4 . .",
    ),
    (
        "no_feature_flags",
        "cached[] +1:LoadImage -1 +2:ImageInvert -2 +3:SaveImage 3=[\"images\"] -3 . .",
    ),
    (
        "progress_text",
        "cached[] +1:LoadImage -1 +2:GetImageSize 2>\"width: 150, height: 160\\n batch size: 1\" -2 +3:PreviewAny 3=[\"text\"] -3 . .",
    ),
    (
        "binary_no_flags",
        "cached[] +1:LoadImage -1 +2:SaveImageWebsocket 2:0/4 2#png 2:1/4 2#png 2:2/4 2#png 2:3/4 2#png -2 . .",
    ),
    (
        "binary_save_image_websocket",
        "cached[] +1:LoadImage -1 +2:SaveImageWebsocket 2:0/4 2#png 2:1/4 2#png 2:2/4 2#png 2:3/4 2#png -2 . .",
    ),
];

/// The bytes of a recorded binary message: its head is recorded, and the picture need not be one.
fn recorded_bytes(message: &Value) -> Vec<u8> {
    let hex = message["head_hex"].as_str().expect("hexadecimal digits");
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    let head: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    match head[3] {
        3 => {
            let text = message["text"].as_str().expect("a text");
            [&head[..4], text.as_bytes()].concat()
        }
        4 => {
            let about = br#"{"node_id": "2", "display_node_id": "2", "image_type": "image/png"}"#;
            let length = (about.len() as u32).to_be_bytes();
            [&head[..4], &length, about, b"png"].concat()
        }
        _ => head,
    }
}

#[test]
fn every_recorded_conversation_is_told_in_our_words() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/goldens/ws");
    if !folder.is_dir() {
        // A closed standard error is no reason to fail a test.
        let _ =
            std::io::stderr().write_all(b"skipped: the recorded cases are not beside this clone\n");
        return;
    }
    for (case, expected) in RECORDED {
        let recorded = std::fs::read_to_string(folder.join(format!("{case}.jsonl")));
        let recorded = recorded.expect("a recording");
        let mut lines = recorded
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let head = lines.next().expect("a head");
        let mut translator = Translator::new(head["workflow"].as_object().expect("a graph"));
        let mut news = Vec::new();
        for message in lines.filter(|message| message["who"] == "self") {
            let heard = match message["kind"].as_str() {
                Some("text") => read_text(&message["msg"].to_string()),
                Some("binary") => read_binary(recorded_bytes(&message).into()),
                _ => None,
            };
            if let Some(heard) = heard {
                assert!(
                    heard.prompt.is_none() || heard.prompt.as_deref() == head["prompt_id"].as_str()
                );
                news.extend(translator.hear(heard.said));
            }
        }
        assert_eq!(spelled(&news), expected, "{case}");
    }
}

#[test]
fn an_expansion_counts_inside_its_parent() {
    let mut translator = Translator::new(&graph(&[("5", "Loop"), ("6", "SaveImage")]));
    let child = json!({"node": "5.0.0.1", "display_node": "5"});
    let mut news = translator.hear(text(
        "executing",
        &json!({"node": "5", "display_node": "5"}),
    ));
    news.extend(translator.hear(text("executing", &child)));
    let states = json!({"nodes": {
        "5.0.0.1": {"value": 3, "max": 9, "state": "finished", "display_node_id": "5"},
        "5": {"value": 0, "max": 1, "state": "running", "display_node_id": "5"}
    }});
    news.extend(translator.hear(text("progress_state", &states)));
    let step = json!({"node": "5.0.0.1", "display_node": "5", "value": 2, "max": 9});
    news.extend(translator.hear(text("progress", &step)));
    assert_eq!(spelled(&news), "cached[] +5:Loop 5:2/9");
}

#[test]
fn sampling_tells_a_step_once_whichever_message_has_it() {
    let mut translator = Translator::new(&graph(&[("3", "KSampler")]));
    let state = json!({"nodes": {"3": {"value": 1, "max": 20, "state": "running", "display_node_id": "3"}}});
    let step = json!({"node": "3", "value": 1, "max": 20});
    let mut news = translator.hear(text("progress_state", &state));
    news.extend(translator.hear(text("progress", &step)));
    let jpeg = Bytes::from_static(b"\0\0\0\x01\0\0\0\x01jpeg");
    news.extend(translator.hear(read_binary(jpeg).expect("a picture").said));
    assert_eq!(spelled(&news), "cached[] +3:KSampler 3:1/20 3~image/jpeg");
}

#[test]
fn what_is_not_of_the_graph_is_passed_over() {
    let mut translator = Translator::new(&graph(&[("1", "X")]));
    let strange = [
        text("executing", &json!({"node": "99"})),
        text("executed", &json!({"node": "99", "output": {"images": []}})),
        text("executed", &json!({"node": "1", "output": null})),
        text("progress", &json!({"node": "99", "value": 1, "max": 2})),
    ];
    let news: Vec<News> = strange
        .into_iter()
        .flat_map(|said| translator.hear(said))
        .collect();
    assert_eq!(spelled(&news), "");
}

#[test]
fn what_was_not_heard_is_told_at_the_end() {
    let mut translator = Translator::new(&graph(&[("1", "X"), ("2", "Y")]));
    let mut news = translator.hear(text("executing", &json!({"node": "1"})));
    news.extend(translator.complete(&["1".into(), "2".into()]));
    assert_eq!(spelled(&news), "cached[] +1:X -1 -2");
}
