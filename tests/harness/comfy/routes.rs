//! The routes of a simulated ComfyUI.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::http::{Incoming, Reply};
use super::world::{Prompt, Shared, Version, World};

/// How a film begins.
pub(super) const FILM: &[u8] = b"\0\0\0\x18ftypmp42";

/// Answers a request.
pub(super) fn answer(shared: &Arc<Shared>, request: &Incoming) -> Reply {
    let mut world = shared.world();
    let (method, path) = (request.method.as_str(), request.path.as_str());
    if (method, path) == ("GET", "/prompt") {
        let status = world.status();
        return ok(&json!({"exec_info": status["status"]["exec_info"]}));
    }
    if World::take(&mut world.errors) {
        return Reply::Json(500, "{}".to_owned());
    }
    if World::take(&mut world.garbage) {
        return Reply::Json(200, "<html>not a ComfyUI".to_owned());
    }
    match (method, path) {
        ("GET", "/system_stats") if world.missing_routes => Reply::Empty(404),
        ("GET", "/system_stats") => {
            let version = match world.version {
                Version::Recorded => json!("0.3.64"),
                Version::New => json!("0.8.0"),
                Version::Latest => json!("0.33.0"),
                Version::Old => json!("0.3.45"),
                Version::TooOld => json!("0.3.40"),
            };
            ok(&json!({"system": {"comfyui_version": version}, "devices": []}))
        }
        ("GET", "/object_info") => ok(&world.definitions),
        ("GET", "/queue") => {
            let pending: Vec<Value> = world.pending.iter().map(Prompt::item).collect();
            let running: Vec<Value> = world.running.iter().map(Prompt::item).collect();
            ok(&json!({"queue_running": running, "queue_pending": pending}))
        }
        ("POST", "/queue") => {
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let ids = body["delete"].as_array().cloned().unwrap_or_default();
            world
                .pending
                .retain(|prompt| !ids.contains(&json!(prompt.id)));
            Reply::Empty(200)
        }
        ("POST", "/interrupt") => {
            world.interrupts += 1;
            interrupt(&mut world, &request.body)
        }
        ("POST", "/prompt") => {
            world.traces.extend(request.traceparent.clone());
            submit(shared, &mut world, &request.body)
        }
        ("POST", "/upload/image") => upload(&mut world, &request.body),
        ("GET", "/view") => view(&mut world, &request.query),
        ("POST", _) if world.version == Version::Latest && !world.missing_routes => {
            let id = path.strip_prefix("/jobs/");
            match id.and_then(|id| id.strip_suffix("/cancel")) {
                Some(id) => cancel(&mut world, id),
                None => Reply::Empty(405),
            }
        }
        ("GET", _) => match path.strip_prefix("/history/") {
            Some(id) => {
                let entry = world.history.get(id).cloned();
                let entries = entry.map(|entry| (id.to_owned(), entry));
                ok(&Value::Object(entries.into_iter().collect()))
            }
            None => Reply::Empty(404),
        },
        _ => Reply::Empty(405),
    }
}

fn ok(value: &Value) -> Reply {
    Reply::Json(200, value.to_string())
}

fn interrupt(world: &mut World, body: &[u8]) -> Reply {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let asked = body["prompt_id"].as_str().map(str::to_owned);
    let running = world.running.as_ref().map(|running| running.id.clone());
    if World::take(&mut world.ignored_interrupts) {
        return Reply::Empty(200);
    }
    let reads_id = !matches!(world.version, Version::Old | Version::TooOld);
    if running.is_some() && (!reads_id || asked == running) {
        if asked != running {
            world.wrong_interrupts += 1;
        }
        world.interrupt = true;
    }
    Reply::Empty(200)
}

fn cancel(world: &mut World, id: &str) -> Reply {
    let waiting = world.pending.len();
    world.pending.retain(|prompt| prompt.id != id);
    let is_running = world
        .running
        .as_ref()
        .is_some_and(|running| running.id == id);
    let is_ignored = is_running && World::take(&mut world.ignored_interrupts);
    world.interrupt |= is_running && !is_ignored;
    ok(&json!({"cancelled": is_running || world.pending.len() < waiting}))
}

fn submit(shared: &Arc<Shared>, world: &mut World, body: &[u8]) -> Reply {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return Reply::Empty(500);
    };
    let id = body["prompt_id"].as_str().unwrap_or_default();
    let is_canonical = id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
    if world.version == Version::Latest && !is_canonical {
        let refusal = json!({"error": {"type": "invalid_prompt_id", "message": "", "details": "", "extra_info": {}}, "node_errors": {}});
        return Reply::Json(400, refusal.to_string());
    }
    let graph = body["prompt"].as_object().cloned().unwrap_or_default();
    let (outputs, node_errors) = match validate(world, &graph) {
        Ok(valid) => valid,
        Err(refusal) => return Reply::Json(400, refusal.to_string()),
    };
    world.submissions.push(body.clone());
    world.number += 1.0;
    let number = world.number;
    let id = match world.version {
        Version::TooOld => format!("its-own-{number}"),
        Version::Recorded | Version::New | Version::Latest | Version::Old => {
            body["prompt_id"].as_str().unwrap_or("none").to_owned()
        }
    };
    let prompt = Prompt {
        number,
        id: id.clone(),
        outputs,
        graph,
        extra: body["extra_data"].clone(),
        client: body["client_id"].as_str().map(str::to_owned),
    };
    let (cut, later) = &mut world.cut_submissions;
    if World::take(cut) {
        let (shared, later) = (Arc::clone(shared), *later);
        let mut life = shared.life.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(later) => {
                    shared.world().enqueue(prompt);
                    shared.queued.notify_one();
                }
                _ = life.changed() => {}
            }
        });
        return Reply::Cut;
    }
    world.enqueue(prompt);
    shared.queued.notify_one();
    ok(&json!({"prompt_id": id, "number": number, "node_errors": node_errors}))
}

/// The output nodes of a graph.
pub(super) fn outputs(definitions: &Value, graph: &Map<String, Value>) -> Vec<String> {
    let is_output = |node: &Value| {
        let class = node["class_type"].as_str().unwrap_or_default();
        definitions[class]["output_node"] == true
    };
    let nodes = graph.iter().filter(|(_, node)| is_output(node));
    nodes.map(|(id, _)| id.clone()).collect()
}

/// The outputs that run and what is wrong with the others, or why nothing runs. As in the real one, an output that can run does so
/// whatever is wrong with another.
fn validate(
    world: &World,
    graph: &Map<String, Value>,
) -> Result<(Vec<String>, Map<String, Value>), Value> {
    let error = |kind: &str, message: String, nodes: Value| {
        json!({
            "error": {"type": kind, "message": message, "details": "", "extra_info": {}},
            "node_errors": nodes
        })
    };
    for (id, node) in graph {
        let class = node["class_type"].as_str().unwrap_or_default();
        if world.definitions.get(class).is_none() {
            let kind = match world.version {
                Version::New | Version::Latest => "missing_node_type",
                Version::Recorded | Version::Old | Version::TooOld => "invalid_prompt",
            };
            return Err(error(
                kind,
                format!("Node {id}: {class} does not exist"),
                json!({}),
            ));
        }
    }
    let all = outputs(&world.definitions, graph);
    if all.is_empty() {
        return Err(error(
            "prompt_no_outputs",
            "Prompt has no outputs".to_owned(),
            json!({}),
        ));
    }
    let mut errors = Map::new();
    for (id, node) in graph {
        let class = node["class_type"].as_str().unwrap_or_default();
        let inputs = &node["inputs"];
        let has = |name: &Value| {
            let name = name.as_str().unwrap_or_default();
            world.inputs.contains_key(name)
        };
        let wrong = match class {
            "LoadImage" if !has(&inputs["image"]) => Some((
                "custom_validation_failed",
                format!("image - Invalid image file: {}", inputs["image"]),
            )),
            "Painter" if inputs["mask"] != "" && !has(&inputs["mask"]) => {
                Some(("custom_validation_failed", "mask".to_owned()))
            }
            "Load3D" if inputs["model_file"] != "none" && !has(&inputs["model_file"]) => {
                Some(("custom_validation_failed", "model_file".to_owned()))
            }
            "EmptyImage" if inputs["width"].as_i64().is_some_and(|width| width < 1) => {
                Some(("value_smaller_than_min", "width".to_owned()))
            }
            "CheckpointLoaderSimple" => {
                let choices = &world.definitions[class]["input"]["required"]["ckpt_name"][0];
                let has = choices
                    .as_array()
                    .is_some_and(|all| all.contains(&inputs["ckpt_name"]));
                (!has).then(|| ("value_not_in_list", "ckpt_name".to_owned()))
            }
            _ => None,
        };
        if let Some((kind, details)) = wrong {
            let told = json!({
                "errors": [{"type": kind, "message": kind, "details": details,
                    "extra_info": {"traceback": ["/home/somebody/ComfyUI/execution.py"]}}],
                "dependent_outputs": [], "class_type": class
            });
            errors.insert(id.clone(), told);
        }
    }
    let can_run = |output: &String| {
        let needed = super::execute::needed(graph, output);
        needed.iter().all(|id| !errors.contains_key(id))
    };
    let good: Vec<String> = all.into_iter().filter(can_run).collect();
    if good.is_empty() {
        let message = "Prompt outputs failed validation".to_owned();
        return Err(error(
            "prompt_outputs_failed_validation",
            message,
            Value::Object(errors),
        ));
    }
    Ok((good, errors))
}

fn upload(world: &mut World, body: &[u8]) -> Reply {
    if world.disk_full {
        return Reply::Empty(500);
    }
    // The forms of our client: the file is the last part.
    let find = |from: usize, needle: &[u8]| {
        let at = body[from..]
            .windows(needle.len())
            .position(|part| part == needle);
        at.map(|at| from + at)
    };
    let parsed = || {
        let named = find(0, b"filename=\"")? + b"filename=\"".len();
        let quote = find(named, b"\"")?;
        let name = String::from_utf8_lossy(&body[named..quote]).into_owned();
        let start = find(quote, b"\r\n\r\n")? + 4;
        let line_end = find(0, b"\r\n")?;
        let end = find(start, &[b"\r\n", &body[..line_end]].concat())?;
        Some((name, body[start..end].to_vec()))
    };
    let Some((name, bytes)) = parsed() else {
        return Reply::Empty(400);
    };
    world.uploads += 1;
    world.inputs.insert(name.clone(), bytes);
    ok(&json!({"name": name, "subfolder": "", "type": "input"}))
}

fn view(world: &mut World, query: &str) -> Reply {
    let value = |key: &str| {
        let pair = query
            .split('&')
            .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        unescaped(pair.unwrap_or_default())
    };
    let key = (value("type"), value("subfolder"), value("filename"));
    let Some(mut bytes) = world.files.get(&key).cloned() else {
        return Reply::Empty(404);
    };
    if world.missing_outputs {
        return Reply::Empty(404);
    }
    if World::take(&mut world.other_content) {
        bytes.splice(0..0, FILM.iter().copied());
    }
    match World::take(&mut world.wrong_length) {
        true => Reply::Short(bytes),
        false => Reply::Bytes(bytes),
    }
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
