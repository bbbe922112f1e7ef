//! What a worker's history and queue say of a prompt. Pure.
//!
//! The history is the truth about an end: what the socket says may be early, late or missing.

use serde_json::{Map, Value};
use workflow_core::OutputKind;

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    /// All of it ran.
    Succeeded,
    /// A node failed.
    Failed(Failure),
    /// It was stopped, before this node where one is named.
    Interrupted(Option<String>),
}

/// What a worker says of a node that failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Failure {
    pub(crate) node: Option<String>,
    pub(crate) class: Option<String>,
    pub(crate) message: String,
    pub(crate) exception: Option<String>,
    pub(crate) inputs: Map<String, Value>,
}

/// A prompt that is over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) ending: Ending,
    /// What nodes showed, by node, with the node that clients are shown.
    pub(crate) outputs: Vec<(String, String, Value)>,
}

/// Where a prompt stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InQueue {
    Running,
    Pending,
    Absent,
}

/// The prompts that a worker has, as it lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) running: Vec<String>,
    pub(crate) pending: Vec<String>,
}

/// A file that a node made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileRef {
    /// What the node shows it under, such as `images`.
    pub(crate) key: String,
    pub(crate) filename: String,
    pub(crate) subfolder: String,
    /// `output`, `temp` or `input`.
    pub(crate) folder: String,
}

/// Most files that one node may show.
const MOST_FILES: usize = 10_000;

/// Reads an answer to `/queue`; `None` if it is none.
pub(crate) fn read_queue(answer: &Value) -> Option<Queue> {
    let ids = |key: &str| -> Option<Vec<String>> {
        let items = answer.get(key)?.as_array()?.iter();
        let ids = items.filter_map(|item| item.get(1)?.as_str().map(str::to_owned));
        Some(ids.collect())
    };
    Some(Queue {
        running: ids("queue_running")?,
        pending: ids("queue_pending")?,
    })
}

impl Queue {
    /// Where a prompt stands.
    pub(crate) fn place(&self, prompt: &str) -> InQueue {
        let has = |ids: &[String]| ids.iter().any(|id| id == prompt);
        match (has(&self.running), has(&self.pending)) {
            (true, _) => InQueue::Running,
            (false, true) => InQueue::Pending,
            (false, false) => InQueue::Absent,
        }
    }
}

/// Reads an answer to `/history/{prompt}`: `None` if it does not have the prompt.
pub(crate) fn read_entry(answer: &Value, prompt: &str) -> Option<Entry> {
    let entry = answer.get(prompt)?.as_object()?;
    let meta = entry.get("meta");
    let outputs = entry.get("outputs").and_then(Value::as_object);
    let outputs = outputs.into_iter().flatten().map(|(node, ui)| {
        let shown = meta.and_then(|meta| meta.get(node)?.get("display_node")?.as_str());
        let shown = shown.unwrap_or(node).to_owned();
        (node.clone(), shown, ui.clone())
    });
    Some(Entry {
        ending: ending(entry.get("status")),
        outputs: outputs.collect(),
    })
}

/// A version that keeps no status only keeps prompts that ran to their end.
fn ending(status: Option<&Value>) -> Ending {
    let Some(status) = status.and_then(Value::as_object) else {
        return Ending::Succeeded;
    };
    let messages = status.get("messages").and_then(Value::as_array);
    let last = |kind: &str| {
        let messages = messages.into_iter().flatten().rev();
        let mut of_kind = messages
            .filter(|message| message.get(0).and_then(Value::as_str) == Some(kind))
            .filter_map(|message| message.get(1)?.as_object());
        of_kind.next()
    };
    if let Some(data) = last("execution_interrupted") {
        return Ending::Interrupted(text(data, "node_id"));
    }
    let is_success = status.get("status_str").and_then(Value::as_str) == Some("success");
    match last("execution_error") {
        // A blocked branch is an error message of a prompt that succeeds and says so in the end. One that stops for a cycle of nodes
        // that a node made has the status of a success, too, and does not.
        Some(_) if is_success && last("execution_success").is_some() => Ending::Succeeded,
        Some(data) => Ending::Failed(Failure {
            node: text(data, "node_id"),
            class: text(data, "node_type"),
            message: text(data, "exception_message").unwrap_or_default(),
            exception: text(data, "exception_type"),
            inputs: data
                .get("current_inputs")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
        }),
        None if is_success => Ending::Succeeded,
        None => Ending::Failed(Failure {
            message: "the worker says that the run failed, without a reason".to_owned(),
            ..Failure::default()
        }),
    }
}

fn text(data: &Map<String, Value>, key: &str) -> Option<String> {
    data.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// The files that a node shows: every list of references to files, whatever its name.
pub(crate) fn files(ui: &Value) -> Vec<FileRef> {
    let lists = ui.as_object().into_iter().flatten();
    let files = lists.flat_map(|(key, list)| {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(move |item| {
            let item = item.as_object()?;
            Some(FileRef {
                key: key.clone(),
                filename: text(item, "filename")?,
                subfolder: text(item, "subfolder").unwrap_or_default(),
                folder: text(item, "type").unwrap_or_else(|| "output".to_owned()),
            })
        })
    });
    files.take(MOST_FILES).collect()
}

/// Classes whose texts name the file of a model in three dimensions that they wrote, with its folder. The texts of other classes may
/// come from the caller, who could name a file of another account.
const SHOW_MODELS: [(&str, &str); 7] = [
    ("Preview3D", "output"),
    ("Preview3DAdvanced", "temp"),
    ("PreviewGaussianSplat", "temp"),
    ("PreviewPointCloud", "temp"),
    ("Save3DAdvanced", "output"),
    ("SaveGaussianSplat", "output"),
    ("SavePointCloud", "output"),
];

/// The class that shows a name that it was given as well: only one that it made up is that of its own file.
const SHOWS_NAMES: &str = "Preview3D";

/// The files that a node of this class shows by their names alone: a model in three dimensions, and the picture behind it.
pub(crate) fn model(class: &str, ui: &Value) -> Vec<FileRef> {
    let Some((_, folder)) = SHOW_MODELS.iter().find(|(known, _)| *known == class) else {
        return Vec::new();
    };
    let key = "result";
    let shown = |at: usize| ui.get(key)?.get(at)?.as_str();
    let file = |path: &str, folder: &str| {
        let (subfolder, filename) = path.rsplit_once('/').unwrap_or(("", path));
        FileRef {
            key: key.to_owned(),
            filename: filename.to_owned(),
            subfolder: subfolder.to_owned(),
            folder: folder.to_owned(),
        }
    };
    let is_own = |path: &&str| class != SHOWS_NAMES || is_made_up(path, "preview3d_");
    let model = shown(0).filter(is_own).map(|path| file(path, folder));
    // Its path begins with the folder.
    let behind = shown(2).and_then(|path| path.strip_prefix("temp/"));
    let behind = behind.filter(|path| is_made_up(path, "bg_"));
    let behind = behind.map(|path| file(path, "temp"));
    model.into_iter().chain(behind).collect()
}

/// Longest ending of a name that a worker makes up: `gltf`, `splat` and the like.
const MOST_ENDING: usize = 8;

/// Whether nobody can have guessed a name: a prefix, 32 digits and an ending, and no folder.
fn is_made_up(name: &str, prefix: &str) -> bool {
    let rest = name.strip_prefix(prefix);
    let Some((digits, ending)) = rest.and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    digits.len() == 32
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && (1..=MOST_ENDING).contains(&ending.len())
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The texts that a node shows.
pub(crate) fn texts(ui: &Value) -> Vec<String> {
    let list = ui.get("text").and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// What a file is, by its first bytes; by its name where those say nothing.
pub(crate) fn content_type(first: &[u8], name: &str) -> &'static str {
    let is = |at: usize, magic: &[u8]| first.get(at..at + magic.len()) == Some(magic);
    let by_content = match () {
        () if is(0, b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        () if is(0, b"\xff\xd8\xff") => Some("image/jpeg"),
        () if is(0, b"GIF8") => Some("image/gif"),
        () if is(0, b"RIFF") && is(8, b"WEBP") => Some("image/webp"),
        () if is(0, b"RIFF") && is(8, b"WAVE") => Some("audio/wav"),
        () if is(4, b"ftypavif") => Some("image/avif"),
        () if is(4, b"ftypM4A") => Some("audio/mp4"),
        () if is(4, b"ftypqt") => Some("video/quicktime"),
        () if is(4, b"ftyp") => Some("video/mp4"),
        () if is(0, b"\x1a\x45\xdf\xa3") => match ending(name).as_str() {
            "mkv" => Some("video/x-matroska"),
            _ => Some("video/webm"),
        },
        () if is(0, b"fLaC") => Some("audio/flac"),
        () if is(0, b"OggS") => Some("audio/ogg"),
        () if is(0, b"ID3") || is(0, b"\xff\xfb") || is(0, b"\xff\xf3") => Some("audio/mpeg"),
        () if is(0, b"glTF") => Some("model/gltf-binary"),
        () if is(0, b"II*\0") || is(0, b"MM\0*") => Some("image/tiff"),
        () => None,
    };
    fn ending(name: &str) -> String {
        let ending = name.rsplit_once('.').map(|(_, ending)| ending);
        ending.unwrap_or_default().to_ascii_lowercase()
    }
    by_content.unwrap_or_else(|| match ending(name).as_str() {
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        "json" => "application/json",
        "gltf" => "model/gltf+json",
        "obj" => "model/obj",
        "stl" => "model/stl",
        _ => "application/octet-stream",
    })
}

/// The kind of an output.
pub(crate) fn kind(content_type: &str, file: &FileRef) -> OutputKind {
    let is_latent = file.key == "latents" || file.filename.ends_with(".latent");
    match content_type.split('/').next() {
        Some("image") => OutputKind::Image,
        Some("video") => OutputKind::Video,
        Some("audio") => OutputKind::Audio,
        Some("text") => OutputKind::Text,
        _ if is_latent => OutputKind::Latent,
        _ => OutputKind::File,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_says_how_its_prompt_ended() {
        let entry = |status: Value| {
            let answer = json!({"p": {"outputs": {}, "status": status}});
            read_entry(&answer, "p").expect("an entry").ending
        };
        assert_eq!(entry(Value::Null), Ending::Succeeded);
        let success = json!({"status_str": "success", "messages": [["execution_success", {}]]});
        assert_eq!(entry(success), Ending::Succeeded);
        let stopped = json!({"status_str": "error", "messages": [["execution_interrupted", {"node_id": "3"}]]});
        assert_eq!(entry(stopped), Ending::Interrupted(Some("3".to_owned())));
        let failed = json!({"status_str": "error", "messages": [["execution_error", {
            "node_id": "2", "node_type": "X", "exception_message": "no\n", "exception_type": "ValueError",
            "current_inputs": {"a": [1]}
        }]]});
        let Ending::Failed(failure) = entry(failed) else {
            panic!("it failed");
        };
        assert_eq!(failure.node.as_deref(), Some("2"));
        assert_eq!(failure.inputs["a"], json!([1]));
        let told = json!(["execution_error", {"node_id": "2", "exception_message": "Dependency cycle detected"}]);
        let blocked =
            json!({"status_str": "success", "messages": [told, ["execution_success", {}]]});
        assert_eq!(entry(blocked), Ending::Succeeded);
        let cycle = json!({"status_str": "success", "messages": [told]});
        assert!(matches!(entry(cycle), Ending::Failed(_)));
        assert_eq!(read_entry(&json!({}), "p"), None);
    }

    #[test]
    fn files_are_found_under_any_key() {
        let ui = json!({
            "images": [{"filename": "a.png", "subfolder": "x", "type": "temp"}],
            "animated": [true],
            "gifs": [{"filename": "b.mp4", "subfolder": "", "type": "output", "format": "video/h264"}],
            "unheard_of": [{"filename": "c.latent"}, "text", 7],
            "text": ["t"]
        });
        let found = files(&ui);
        let names: Vec<&str> = found.iter().map(|file| file.filename.as_str()).collect();
        assert_eq!(names, ["a.png", "b.mp4", "c.latent"]);
        assert_eq!(texts(&ui), ["t"]);
        assert_eq!(
            kind("application/octet-stream", &found[2]),
            OutputKind::Latent
        );
        assert_eq!(
            kind(content_type(b"\0\0\0 ftypisom", "b.mp4"), &found[1]),
            OutputKind::Video
        );
        assert_eq!(
            content_type(b"\x89PNG\r\n\x1a\nrest", "liar.mp4"),
            "image/png"
        );
    }

    #[test]
    fn a_model_is_a_file_of_the_node_that_wrote_it_and_of_no_other() {
        let shown = |class: &str, name: &str| {
            let ui = json!({"result": [name, {"position": {"x": 1}}, null]});
            let files = model(class, &ui).into_iter();
            let mut files = files.map(|file| (file.folder, file.subfolder, file.filename));
            let first = files.next();
            assert_eq!(files.next(), None);
            first
        };
        let file = |folder: &str, subfolder: &str, name: &str| {
            Some((folder.to_owned(), subfolder.to_owned(), name.to_owned()))
        };
        let made_up = "preview3d_c92a9615718f484d9656d2373e6cefb0.glb";
        assert_eq!(shown("Preview3D", made_up), file("output", "", made_up));
        assert_eq!(
            shown("Preview3DAdvanced", "p.glb"),
            file("temp", "", "p.glb")
        );
        let saved = shown("Save3DAdvanced", "3d/s_00001.glb");
        assert_eq!(saved, file("output", "3d", "s_00001.glb"));
        // A caller could write the name of another account's file.
        for name in [
            "3d/s_00001.glb",
            "preview3d_1.glb",
            "",
            "x/preview3d_c92a9615718f484d9656d2373e6cefb0.glb",
            "preview3d_c92a9615718f484d9656d2373e6cefb0./../3d/s_00001.glb",
            "preview3d_c92a9615718f484d9656d2373e6cefb0.\\..\\s_00001.glb",
            "preview3d_c92a9615718f484d9656d2373e6cefb0",
            "preview3d_c92a9615718f484d9656d2373e6cefb0.",
            "preview3d_c92a9615718f484d9656d2373e6cefb0.glb.glb",
            "preview3d_c92a9615718f484d9656d2373e6cefb0.glbglbglb",
        ] {
            assert_eq!(shown("Preview3D", name), None, "{name}");
        }
        assert_eq!(shown("ShowText", made_up), None);
        assert_eq!(model("Preview3D", &json!({"result": [null]})), []);
        let behind = |path: &str| {
            let files = model(
                "Preview3D",
                &json!({"result": ["3d/s_00001.glb", null, path]}),
            );
            let files = files.into_iter();
            let files = files.map(|file| (file.folder, file.subfolder, file.filename));
            files.collect::<Vec<_>>()
        };
        let picture = "bg_c92a9615718f484d9656d2373e6cefb0.png";
        assert_eq!(
            behind(&format!("temp/{picture}")),
            Vec::from_iter(file("temp", "", picture))
        );
        for path in [
            picture,
            "temp/bg_1.png",
            "temp/x/bg_c92a9615718f484d9656d2373e6cefb0.png",
            "output/bg_c92a9615718f484d9656d2373e6cefb0.png",
            "temp/bg_c92a9615718f484d9656d2373e6cefb0./../x.png",
        ] {
            assert_eq!(behind(path), [], "{path}");
        }
    }

    #[test]
    fn a_queue_tells_where_a_prompt_stands() {
        let answer =
            json!({"queue_running": [[1, "a", {}, {}, []]], "queue_pending": [[2, "b", {}]]});
        let queue = read_queue(&answer).expect("a queue");
        assert_eq!(queue.place("a"), InQueue::Running);
        assert_eq!(queue.place("b"), InQueue::Pending);
        assert_eq!(queue.place("c"), InQueue::Absent);
        assert_eq!(read_queue(&json!({"queue_running": []})), None);
    }
}
