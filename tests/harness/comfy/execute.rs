//! How a simulated ComfyUI runs prompts: one after the other, node by node, and says what the real one says.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::http::thaw;
use super::routes::FILM;
use super::world::{Frame, Prompt, Shared, Version, World};

/// Runs what is queued, for ever.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        let queued = shared.queued.notified();
        let next = {
            let mut world = shared.world();
            let next = world.pending.pop_front();
            world.running.clone_from(&next);
            // As in the real one, an earlier interrupt is forgotten.
            world.interrupt = false;
            next
        };
        match next {
            Some(prompt) => {
                let mut life = shared.life.subscribe();
                tokio::select! {
                    () = execute(&shared, &prompt) => {}
                    _ = life.changed() => {}
                }
            }
            None => {
                let _ = timeout(Duration::from_millis(50), queued).await;
            }
        }
    }
}

/// How a prompt ends that does not succeed.
enum Stop {
    Failed(Value),
    Interrupted(Value),
}

async fn execute(shared: &Shared, prompt: &Prompt) {
    let now = || json!(1_795_244_250_397_u64);
    let about = |more: Value| {
        let mut about = more;
        about["prompt_id"] = prompt.id.clone().into();
        about
    };
    let ran = {
        let mut world = shared.world();
        let ran = world.begin(prompt);
        let client = prompt.client.as_deref();
        let status = world.status();
        world.say_all("status", &status);
        world.say(
            client,
            "execution_start",
            &about(json!({"timestamp": now()})),
        );
        world.say(
            client,
            "execution_cached",
            &about(json!({"nodes": [], "timestamp": now()})),
        );
        ran
    };
    shared.changed.notify_waiters();
    let mut outputs = Map::new();
    let mut states = Map::new();
    let mut stop = None;
    for id in order(prompt) {
        thaw(shared).await;
        match node(shared, prompt, &id, ran, &mut states).await {
            Ok(Some(ui)) => {
                outputs.insert(id, ui);
            }
            Ok(None) => {}
            Err(stopped) => {
                stop = Some(stopped);
                break;
            }
        }
    }
    let (end, message) = match stop {
        None => (
            "success",
            ("execution_success", about(json!({"timestamp": now()}))),
        ),
        Some(Stop::Failed(data)) => ("error", ("execution_error", about(data))),
        Some(Stop::Interrupted(data)) => ("interrupted", ("execution_interrupted", about(data))),
    };
    let mut world = shared.world();
    let status_str = if end == "success" { "success" } else { "error" };
    let entry = json!({
        "prompt": prompt.item(),
        "outputs": outputs,
        "status": {"status_str": status_str, "completed": end == "success", "messages": [[message.0, message.1]]},
        "meta": {}
    });
    let client = prompt.client.as_deref();
    world.end(ran, end);
    world.say(client, message.0, &message.1);
    world.history.insert(prompt.id.clone(), entry);
    world.running = None;
    let status = world.status();
    world.say_all("status", &status);
    world.say(client, "executing", &about(json!({"node": null})));
    drop(world);
    shared.changed.notify_waiters();
}

/// The nodes that the outputs need, sources first.
fn order(prompt: &Prompt) -> Vec<String> {
    let mut order = Vec::new();
    for output in &prompt.outputs {
        visit(&prompt.graph, output, &mut order);
    }
    order
}

/// The nodes that an output needs, itself included.
pub(super) fn needed(graph: &Map<String, Value>, output: &str) -> Vec<String> {
    let mut order = Vec::new();
    visit(graph, output, &mut order);
    order
}

fn visit(graph: &Map<String, Value>, id: &str, order: &mut Vec<String>) {
    if order.iter().any(|placed| placed == id) {
        return;
    }
    let inputs = graph.get(id).and_then(|node| node["inputs"].as_object());
    for value in inputs.into_iter().flat_map(Map::values) {
        if let Some(source) = value.get(0).and_then(Value::as_str) {
            visit(graph, source, order);
        }
    }
    order.push(id.to_owned());
}

async fn node(
    shared: &Shared,
    prompt: &Prompt,
    id: &str,
    ran: usize,
    states: &mut Map<String, Value>,
) -> Result<Option<Value>, Stop> {
    let node = &prompt.graph[id];
    let class = node["class_type"].as_str().unwrap_or_default().to_owned();
    let inputs = node["inputs"].clone();
    let client = prompt.client.as_deref();
    let state = |states: &mut Map<String, Value>, word: &str, value: u64, max: u64| {
        let state = json!({
            "value": value, "max": max, "state": word, "node_id": id, "prompt_id": prompt.id,
            "display_node_id": id, "parent_node_id": null, "real_node_id": id
        });
        states.insert(id.to_owned(), state);
        let world = shared.world();
        if world.version != Version::TooOld {
            let all = json!({"prompt_id": prompt.id, "nodes": states});
            world.say(client, "progress_state", &all);
        }
    };
    let is_interrupted = || std::mem::replace(&mut shared.world().interrupt, false);
    let interrupted = || {
        Stop::Interrupted(
            json!({"node_id": id, "node_type": class, "executed": [], "timestamp": 1}),
        )
    };
    if is_interrupted() {
        return Err(interrupted());
    }
    state(states, "running", 0, 1);
    let executing = json!({"node": id, "display_node": id, "prompt_id": prompt.id});
    shared.world().say(client, "executing", &executing);
    let steps = inputs["steps"].as_u64().unwrap_or(0);
    match class.as_str() {
        "Sampler" => {
            for step in 1..=steps {
                let pause = shared.world().step;
                sleep(pause).await;
                thaw(shared).await;
                if is_interrupted() {
                    return Err(interrupted());
                }
                state(states, "running", step, steps);
                let world = shared.world();
                let progress =
                    json!({"value": step, "max": steps, "prompt_id": prompt.id, "node": id});
                world.say(client, "progress", &progress);
                world.send(client, preview(prompt, id, world.version));
            }
        }
        // A node that never looks whether it was interrupted.
        "Wait" => {
            for _ in 0..steps {
                let pause = shared.world().step;
                sleep(pause).await;
            }
            let held_until = shared.world().held_until.clone();
            while held_until.as_ref().is_some_and(|file| !file.exists()) {
                sleep(Duration::from_millis(20)).await;
            }
        }
        "CheckpointLoaderSimple" => {
            let name = inputs["ckpt_name"].as_str().map(str::to_owned);
            if let Some(ran) = shared.world().ran.get_mut(ran) {
                ran.checkpoint = name;
            }
        }
        "Fails" => {
            return Err(Stop::Failed(json!({
                "node_id": id, "node_type": class, "executed": [],
                "exception_message": "no such file: /home/somebody/ComfyUI/models/a.bin\n",
                "exception_type": inputs["exception"], "traceback": ["  File \"/home/somebody/x.py\""],
                "current_inputs": {"image": ["Tensor"]}, "current_outputs": [], "timestamp": 1
            })));
        }
        _ => {}
    }
    let ui = make(&mut shared.world(), prompt, &class, &inputs);
    let ui = ui.map_err(|message| {
        Stop::Failed(json!({
            "node_id": id, "node_type": class, "executed": [], "exception_message": message,
            "exception_type": "OSError", "traceback": [], "current_inputs": {}, "timestamp": 1
        }))
    })?;
    if let Some(ui) = &ui {
        let executed =
            json!({"node": id, "display_node": id, "output": ui, "prompt_id": prompt.id});
        shared.world().say(client, "executed", &executed);
    }
    state(states, "finished", 1, 1);
    Ok(ui)
}

/// A preview: with its head, where the version knows it.
fn preview(prompt: &Prompt, node: &str, version: Version) -> Frame {
    let jpeg = include_bytes!("../../fixtures/preview.jpg");
    let mut bytes = Vec::new();
    if version == Version::TooOld {
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 1]);
    } else {
        let about = json!({"node_id": node, "display_node_id": node, "prompt_id": prompt.id, "image_type": "image/jpeg"});
        let about = about.to_string();
        bytes.extend([0, 0, 0, 4]);
        bytes.extend((about.len() as u32).to_be_bytes());
        bytes.extend(about.as_bytes());
    }
    bytes.extend(jpeg);
    Frame::Binary(bytes)
}

/// What an output node makes, and what it shows.
fn make(
    world: &mut World,
    prompt: &Prompt,
    class: &str,
    inputs: &Value,
) -> Result<Option<Value>, String> {
    let (key, magic, ending, folder): (&str, &[u8], &str, &str) = match class {
        "SaveImage" => ("images", b"\x89PNG\r\n\x1a\n", "png", "output"),
        "SaveClip" => ("gifs", FILM, "mp4", "output"),
        "SaveMesh" => ("3d", b"glTF\x02\0\0\0", "glb", "output"),
        "SaveSound" => ("audio", b"fLaC", "flac", "output"),
        "SaveLatent" => ("latents", b"latent", "latent", "output"),
        "SaveLarge" => ("unheard_of", b"large", "bin", "output"),
        "PreviewImage" => ("images", b"\x89PNG\r\n\x1a\n", "png", "temp"),
        "Save3DAdvanced" => ("result", b"glTF\x02\0\0\0", "glb", "output"),
        // It shows what it was given, and the picture behind it.
        "Preview3D" => {
            let mut behind = Value::Null;
            if inputs["bg_image"].is_array() {
                let filename = format!("bg_{}.png", prompt.id.replace('-', ""));
                behind = format!("temp/{filename}").into();
                let place = ("temp".to_owned(), String::new(), filename);
                let bytes = [b"\x89PNG\r\n\x1a\n", prompt.id.as_bytes()].concat();
                world.files.insert(place, bytes);
            }
            return Ok(Some(
                json!({"result": [inputs["model_file"], null, behind]}),
            ));
        }
        "Load3D" => {
            let names = ["image", "mask", "normal", "recording"].map(|key| &inputs["image"][key]);
            let mut names = names.into_iter().filter_map(Value::as_str);
            let missing = names.find(|name| !name.is_empty() && !world.inputs.contains_key(*name));
            return match missing {
                Some(name) => Err(format!("[Errno 2] No such file or directory: '{name}'\n")),
                None => Ok(None),
            };
        }
        "PreviewAny" => return Ok(Some(json!({"text": [inputs["source"].to_string()]}))),
        _ => return Ok(None),
    };
    if world.disk_full {
        return Err("[Errno 28] No space left on device\n".to_owned());
    }
    let prefix = inputs["filename_prefix"]
        .as_str()
        .unwrap_or("ComfyUI_temp_abcde");
    let counter = world.counters.entry(prefix.to_owned()).or_default();
    *counter += 1;
    let (subfolder, name) = prefix.rsplit_once('/').unwrap_or(("", prefix));
    let filename = format!("{name}_{counter:05}_.{ending}");
    let mut bytes = [magic, prompt.id.as_bytes(), inputs.to_string().as_bytes()].concat();
    if class == "SaveLarge" {
        bytes.resize(3 << 20, b'x');
    }
    let place = (folder.to_owned(), subfolder.to_owned(), filename.clone());
    world.files.insert(place, bytes);
    if key == "result" {
        // Models are shown by their names alone.
        return Ok(Some(
            json!({key: [format!("{subfolder}/{filename}"), null, []]}),
        ));
    }
    Ok(Some(
        json!({key: [{"filename": filename, "subfolder": subfolder, "type": folder}]}),
    ))
}
