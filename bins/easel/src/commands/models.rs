//! `models`, `call` and `estimate`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use client::{CallAnswer, CallNews, Client, InputSchema};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::arguments::{Call, ModelInput, Shared};
use crate::failure::{Failure, Kind};
use crate::outputs::Saving;
use crate::pictures::{self, Protocol};
use crate::{fields, media, outputs, terminal, text};

/// The largest file of an answer that is saved.
const LARGEST_FILE: usize = 1 << 30;

/// Files of an answer that are saved at most.
const MOST_FILES: usize = 256;

/// `easel models`.
pub(crate) async fn models(
    shared: &Shared,
    client: &Client,
    model: Option<&str>,
    search: Option<&str>,
) -> Result<(), Failure> {
    if let Some(id) = model {
        return one(shared, client, id).await;
    }
    let mut models = client.models().await?;
    if let Some(search) = search {
        models.retain(|model| model.id.contains(search));
    }
    if shared.json {
        return terminal::print(&text::json(&json!(models)));
    }
    if models.is_empty() && !shared.quiet {
        terminal::say(
            "there are no such models; the server lists only those that this key may call",
        );
    }
    let rows = models.iter().map(|model| {
        let charges =
            &model.more.get("billing").unwrap_or(&Value::Null)["charges_on_policy_rejection"];
        vec![
            model.id.clone(),
            charges.as_str().unwrap_or("unknown").to_owned(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    terminal::print(&text::table(&["ID", "CHARGES WHEN REFUSED"], &rows))
}

async fn one(shared: &Shared, client: &Client, id: &str) -> Result<(), Failure> {
    let model = client.model(id).await?;
    let schema = client.input_schema(id).await?;
    // By the defaults, and nothing where the server gives no estimate of such a body: the fields are what was asked for.
    let least = Bytes::from(schema.least_body().to_string());
    let estimate = client.estimate(id, least).await.ok();
    if shared.json {
        let described =
            json!({"model": model, "input_schema": schema.schema(), "estimate": estimate});
        return terminal::print(&text::json(&described));
    }
    let price = estimate.as_ref().map_or_else(
        || format!("follows from the body: easel estimate {id} FIELD=VALUE..."),
        |estimate| format!("{} with the defaults", priced(estimate)),
    );
    terminal::print(&format!("Price: {}\n", text::clean(&price, false)))?;
    let fields = schema.fields();
    if fields.is_empty() {
        return terminal::print(&format!(
            "{}\nNobody described its fields; see the documentation of its provider.\n",
            text::clean(id, false)
        ));
    }
    let rows = fields.iter().map(|(name, field)| {
        let needed = if schema.is_required(name) {
            "needed"
        } else {
            ""
        };
        vec![
            (*name).to_owned(),
            what(&schema, field),
            needed.to_owned(),
            field["description"].as_str().unwrap_or_default().to_owned(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    terminal::print(&text::table(&["FIELD", "TAKES", "", ""], &rows))
}

/// What a field takes, its choices or bounds and its default included.
fn what(schema: &InputSchema, field: &Value) -> String {
    let mut text = match field["enum"].as_array() {
        Some(choices) => {
            let shown = choices.iter().filter(|choice| !choice.is_null());
            let shown: Vec<String> = shown.map(text::plain).collect();
            shown.join("|")
        }
        None => fields::listed(&schema.types(field)),
    };
    match (&field["minimum"], &field["maximum"]) {
        (Value::Null, Value::Null) => {}
        (low, Value::Null) => text.push_str(&format!(", at least {low}")),
        (Value::Null, high) => text.push_str(&format!(", at most {high}")),
        (low, high) => text.push_str(&format!(", {low} to {high}")),
    }
    if !field["default"].is_null() {
        text.push_str(&format!(", default {}", text::plain(&field["default"])));
    }
    text
}

/// `easel call`.
pub(crate) async fn call(shared: &Shared, client: &Client, call: Call) -> Result<(), Failure> {
    if let Some(folder) = &call.save {
        outputs::probe("--save", folder)?;
    }
    let body = body(client, &call.input).await?;
    let key = call.idempotency_key.clone();
    let key = key.unwrap_or_else(|| Uuid::new_v4().to_string());
    let quiet = shared.quiet;
    let is_shown = !shared.json && call.out.is_none() && call.save.is_none();
    let mut shown = ShownStream::default();
    let mut news = |news: CallNews<'_>| match news {
        CallNews::Waiting(pause) if !quiet => {
            let pause = pause.as_secs();
            terminal::say(&format!("no answer yet; asking again in {pause} s"));
        }
        CallNews::Piece(piece) if is_shown => shown.print(piece),
        CallNews::Waiting(_) | CallNews::Piece(_) => {}
    };
    let patience = Duration::from_secs(call.wait.0);
    let labels = call.labels.iter();
    let labels: Vec<_> = labels
        .map(|label| (label.0.clone(), label.1.clone()))
        .collect();
    let model = &call.input.model;
    let answered = client.call(model, &body, &key, &labels, patience, &mut news);
    let answer = tokio::select! {
        answer = answered => answer.map_err(|error| unknown_outcome(error.into(), &key))?,
        _ = tokio::signal::ctrl_c() => {
            let stopped = Failure::new(Kind::Interrupted, "stopped waiting; the call may run on and be billed");
            return Err(stopped.hint(format!("the same command with --idempotency-key {key} gets its answer")));
        }
    };
    let (saved, saved_all) = match &call.save {
        Some(folder) => save(client, &answer, folder).await,
        None => (Vec::new(), Ok(())),
    };
    let (out, written) = match &call.out {
        Some(out) => match outputs::write(&answer.body, out) {
            Ok(out) => (Some(out), Ok(())),
            Err(failure) => (None, Err(failure)),
        },
        None => (None, Ok(())),
    };
    let whole = match (saved_all, written) {
        (Err(first), Err(second)) => Err(first.and(second)),
        (saved_all, written) => saved_all.and(written),
    };
    let whole = whole.map_err(|failure| {
        failure.hint(format!(
            "the call is paid: the same command with --idempotency-key {key} gets its answer again"
        ))
    });
    if shared.json {
        let output = output_of(&answer);
        let files = saved.iter().chain(&out);
        let files: Vec<String> = files.map(|path| path.display().to_string()).collect();
        terminal::print(&text::json(&json!({
            "model": call.input.model,
            "idempotency_key": key,
            "request_id": answer.request_id,
            "replayed": answer.replayed,
            "content_type": answer.content_type,
            "output": output,
            "files": files,
        })))?;
        return whole;
    }
    if let Some(out) = out {
        terminal::print(&format!("{}\n", out.display()))?;
    } else if shown.has_begun {
        shown.finish()?;
    } else if saved.is_empty() {
        // What could not be saved is not lost for that.
        let printed = print_answer(&answer);
        whole?;
        return printed;
    }
    show(&saved, pictures::protocol(call.shown.images))?;
    whole
}

/// A failure after which the call may still run says how to get its answer.
fn unknown_outcome(failure: Failure, key: &str) -> Failure {
    if failure.kind == Kind::Network {
        let hint = format!(
            "the same command with --idempotency-key {key} gets the answer, and is paid once"
        );
        return failure.hint(hint);
    }
    failure
}

/// `easel estimate`.
pub(crate) async fn estimate(
    shared: &Shared,
    client: &Client,
    input: &ModelInput,
) -> Result<(), Failure> {
    let body = body(client, input).await?;
    let estimate = client.estimate(&input.model, body).await?;
    if shared.json {
        return terminal::print(&text::json(&estimate));
    }
    let price = text::clean(&priced(&estimate), false);
    terminal::print(&format!("{price}\n"))
}

/// The amount of an estimate, and how sure it is.
fn priced(estimate: &Value) -> String {
    let source = estimate["source"].as_str().unwrap_or("unknown");
    let cents = |name: &str| {
        estimate[name]
            .as_f64()
            .map(|cents| format!("{:.2} USD", cents / 100.0))
    };
    let amount = match (
        cents("amount_cents"),
        cents("min_cents"),
        cents("max_cents"),
    ) {
        (Some(amount), _, _) => amount,
        (None, Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "not known".to_owned(),
    };
    format!("{amount} ({source})")
}

async fn body(client: &Client, input: &ModelInput) -> Result<Bytes, Failure> {
    let schema = client.input_schema(&input.model).await?;
    let body = fields::body(&input.model, &input.fields, &schema)?;
    Ok(Bytes::from(Value::Object(body).to_string()))
}

/// The answer as JSON, if it is some; events as their text.
fn output_of(answer: &CallAnswer) -> Value {
    if answer.content_type.starts_with("text/event-stream") {
        return Value::from(String::from_utf8_lossy(&answer.body));
    }
    serde_json::from_slice(&answer.body).unwrap_or_default()
}

/// A stream that is printed as it comes.
#[derive(Default)]
struct ShownStream {
    has_begun: bool,
    /// The beginning of a character whose rest has not come.
    begun: Vec<u8>,
    /// Why it could not be printed.
    failed: Option<Failure>,
}

impl ShownStream {
    fn print(&mut self, piece: &[u8]) {
        self.has_begun = true;
        let printed = if terminal::is_out() {
            self.begun.extend_from_slice(piece);
            let rest = split_character(&mut self.begun);
            let whole = std::mem::replace(&mut self.begun, rest);
            terminal::print(&text::clean(&String::from_utf8_lossy(&whole), true))
        } else {
            terminal::print_bytes(piece)
        };
        if let Err(failure) = printed {
            self.failed.get_or_insert(failure);
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self.failed {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

/// Takes off the beginning of a character at the end of a text, if its rest is missing.
fn split_character(text: &mut Vec<u8>) -> Vec<u8> {
    let Err(error) = std::str::from_utf8(text) else {
        return Vec::new();
    };
    // The last three bytes at most.
    let tail = text.len().saturating_sub(3).max(error.valid_up_to());
    let starts = (tail..text.len()).find(|at| {
        let cut = std::str::from_utf8(&text[*at..]).err();
        cut.is_some_and(|cut| cut.valid_up_to() == 0 && cut.error_len().is_none())
    });
    starts.map_or_else(Vec::new, |at| text.split_off(at))
}

fn print_answer(answer: &CallAnswer) -> Result<(), Failure> {
    let is_json = answer.content_type.contains("json");
    if !terminal::is_out() {
        return terminal::print_bytes(&answer.body);
    }
    match serde_json::from_slice::<Value>(&answer.body) {
        Ok(value) if is_json => terminal::print(&text::json(&value)),
        Ok(_) | Err(_) if answer.content_type.starts_with("text/") || is_json => {
            let shown = text::clean(&String::from_utf8_lossy(&answer.body), true);
            terminal::print(&format!("{shown}\n"))
        }
        Ok(_) | Err(_) => Err(Failure::usage(format!(
            "the answer is {} of {}, which a terminal does not show",
            text::size(answer.body.len() as u64),
            text::clean(&answer.content_type, false)
        ))
        .hint("the call is paid: call again with the same key and --out FILE")),
    }
}

fn show(saved: &[PathBuf], protocol: Option<Protocol>) -> Result<(), Failure> {
    for path in saved {
        if let Some(protocol) = protocol.filter(|_| terminal::is_out()) {
            let picture = std::fs::read(path).ok();
            let picture = picture.and_then(|bytes| pictures::shown(&bytes, protocol));
            terminal::print(&picture.unwrap_or_default())?;
        }
        terminal::print(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

/// Saves the files that an answer is or names: those that are there now, and why others are not.
async fn save(
    client: &Client,
    answer: &CallAnswer,
    folder: &Path,
) -> (Vec<PathBuf>, Result<(), Failure>) {
    let mut saving = Saving::new();
    if !answer.content_type.contains("json") {
        let extension = media::extension(&answer.content_type).unwrap_or("bin");
        let path = folder.join(format!("result.{extension}"));
        saving.note(outputs::write(&answer.body, &path));
        return saving.end();
    }
    let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let mut named = Vec::new();
    texts(&value, &mut named);
    // Its place in the answer names a file, whatever becomes of those before it.
    let mut place = 0;
    for text in named.into_iter().take(MOST_FILES) {
        let file = if let Some((media_type, data)) = data_url(text) {
            place += 1;
            let extension = media::extension(media_type).unwrap_or("bin");
            outputs::write(&data, &folder.join(format!("result-{place}.{extension}")))
        } else if let Some(name) = linked_file(text) {
            place += 1;
            let path = folder.join(outputs::file_name(&name, "result.bin"));
            outputs::linked(client, text, LARGEST_FILE, &path).await
        } else {
            continue;
        };
        saving.note(file);
    }
    saving.end()
}

/// Every text of an answer, in its order.
fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn data_url(text: &str) -> Option<(&str, Vec<u8>)> {
    let (head, data) = text.strip_prefix("data:")?.split_once(',')?;
    let media_type = head.strip_suffix(";base64")?;
    Some((media_type, STANDARD.decode(data).ok()?))
}

/// The name of the file that an address leads to, if it looks like a picture, a video or a sound.
fn linked_file(text: &str) -> Option<String> {
    if !text.starts_with("https://") && !text.starts_with("http://") {
        return None;
    }
    let path = text.split(['?', '#']).next()?;
    let name = path.rsplit('/').next()?;
    media::of(Path::new(name)).map(|_| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_answer_are_found() {
        let answer = json!({"a": ["https://x/y/z.png?sig=1", "https://x/page"], "b": {"c": "data:image/png;base64,AAA="}});
        let mut found = Vec::new();
        texts(&answer, &mut found);
        assert_eq!(found.len(), 3);
        assert_eq!(linked_file(found[0]).as_deref(), Some("z.png"));
        assert_eq!(linked_file(found[1]), None);
        assert_eq!(data_url(found[2]), Some(("image/png", vec![0, 0])));
    }

    #[test]
    fn a_character_is_shown_when_all_of_it_is_there() {
        let split = |bytes: &[u8]| {
            let mut text = bytes.to_vec();
            let rest = split_character(&mut text);
            (text, rest)
        };
        let text = "a\u{e9}\u{1f600}".as_bytes();
        for (came, shown) in [(1, 1), (2, 1), (3, 3), (4, 3), (5, 3), (6, 3), (7, 7)] {
            let (before, after) = (text[..shown].to_vec(), text[shown..came].to_vec());
            assert_eq!(split(&text[..came]), (before, after), "{came}");
        }
        // What is no text at all is not held back.
        let broken = b"a\xff\xffb";
        assert_eq!(split(broken), (broken.to_vec(), Vec::new()));
    }
}
