//! Definitions of node classes as `object_info` tells them.

use serde_json::{Map, Value, json};
use workflow_core::{
    Autogrow, AutogrowNames, DynamicOption, FileSource, InputDefinition, NodeDefinition, Socket,
};

/// Endings of files by what they hold.
const IMAGES: [&str; 17] = [
    "apng", "avif", "bmp", "exr", "gif", "heic", "heif", "ico", "jfif", "jpe", "jpeg", "jpg",
    "png", "svg", "tif", "tiff", "webp",
];
const VIDEOS: [&str; 11] = [
    "avi", "m1v", "m4v", "mkv", "mov", "mp4", "mpe", "mpeg", "mpg", "ogv", "webm",
];
const SOUNDS: [&str; 13] = [
    "aac", "aif", "aifc", "aiff", "flac", "m4a", "mp2", "mp3", "oga", "ogg", "opus", "wav", "wma",
];

/// The files that an account can choose from; `None` of a definition that is told without an account.
pub(crate) type Choices<'a> = Option<&'a dyn Fn(FileSource) -> Vec<String>>;

/// The public definition of a class, its file inputs offering what `files` answers.
#[must_use]
pub fn node_info(class: &NodeDefinition, files: &dyn Fn(FileSource) -> Vec<String>) -> Value {
    let class = class.shown.as_deref().unwrap_or(class);
    let section = |required: bool| section(&class.inputs, required, Some(files));
    let hidden = class.hidden.iter().map(|hidden| {
        let token = match hidden.in_list {
            true => json!([hidden.token]),
            false => json!(hidden.token),
        };
        (hidden.name.clone(), token)
    });
    let sections = [
        ("required", section(true)),
        ("optional", section(false)),
        ("hidden", hidden.collect()),
    ];
    let mut input = Map::new();
    let mut order = Map::new();
    for (name, specs) in sections {
        // Clients count on `required`; the others are there when they have something in them.
        if name == "required" || !specs.is_empty() {
            order.insert(name.to_owned(), specs.keys().cloned().collect());
            input.insert(name.to_owned(), Value::Object(specs));
        }
    }
    let outputs = || class.outputs.iter();
    let types: Vec<&str> = outputs().map(|output| output.io_type.as_str()).collect();
    let lists: Vec<bool> = outputs().map(|output| output.is_list).collect();
    let names: Vec<&str> = outputs().map(|output| output.name.as_str()).collect();
    let mut info = Map::new();
    let mut put = |name: &str, value: Value| info.insert(name.to_owned(), value);
    put("input", input.into());
    put("input_order", order.into());
    put("is_input_list", class.takes_lists.into());
    put("output", json!(types));
    put("output_is_list", json!(lists));
    put("output_name", json!(names));
    if outputs().any(|output| output.tooltip.is_some()) {
        let tooltips = outputs().map(|output| output.tooltip.clone().unwrap_or_default());
        put("output_tooltips", tooltips.collect::<Vec<_>>().into());
    }
    put("name", class.class.clone().into());
    put("display_name", class.display_name.clone().into());
    put("description", class.description.clone().into());
    put("python_module", class.python_module.clone().into());
    put("category", class.category.clone().into());
    put("output_node", class.output_node.into());
    info.extend(class.extra.clone());
    offer_files(class, files, &mut info);
    if class.calls_partners() {
        info.insert("api_node".to_owned(), true.into());
    }
    info.into()
}

/// Puts the account's files into the file inputs of a definition that an engine wrote itself.
fn offer_files(
    class: &NodeDefinition,
    files: &dyn Fn(FileSource) -> Vec<String>,
    info: &mut Map<String, Value>,
) {
    if !class.extra.contains_key("input") {
        return;
    }
    let inputs = class.inputs.iter();
    for input in inputs.filter(|input| matches!(input.socket, Socket::File { .. })) {
        let section = if input.required {
            "required"
        } else {
            "optional"
        };
        let spec = info
            .get_mut("input")
            .and_then(|sections| sections.get_mut(section))
            .and_then(|section| section.get_mut(&input.name));
        if let Some(spec) = spec {
            *spec = input_config(input, Some(files), usize::MAX).unwrap_or_default();
        }
    }
}

/// The required or the optional inputs by name.
fn section(inputs: &[InputDefinition], required: bool, files: Choices<'_>) -> Map<String, Value> {
    let inputs = inputs.iter().filter(|input| input.required == required);
    let specs = inputs.map(|input| {
        let spec = input_config(input, files, usize::MAX);
        (input.name.clone(), spec.unwrap_or_default())
    });
    specs.collect()
}

/// Inputs inside of another one: the required ones, and the optional ones where there are any.
fn nested(inputs: &[InputDefinition], files: Choices<'_>) -> Value {
    let mut sections = Map::new();
    sections.insert("required".to_owned(), section(inputs, true, files).into());
    let optional = section(inputs, false, files);
    if !optional.is_empty() {
        sections.insert("optional".to_owned(), optional.into());
    }
    sections.into()
}

/// What clients are told of a group: its template and its names.
fn template(group: &Autogrow, files: Choices<'_>) -> Value {
    let input = nested(std::slice::from_ref(&group.template), files);
    match &group.names {
        AutogrowNames::Prefix { prefix, max } => {
            json!({"input": input, "prefix": prefix, "min": group.min, "max": max})
        }
        AutogrowNames::Listed(names) => json!({"input": input, "names": names, "min": group.min}),
    }
}

/// One input as `[type, options]`; `None` when it has more than `most` choices.
pub(crate) fn input_config(
    input: &InputDefinition,
    files: Choices<'_>,
    most: usize,
) -> Option<Value> {
    let named = |io_type: Value, options: Map<String, Value>| json!([io_type, options]);
    let plain = |io_type: &str| match input.options.is_empty() {
        true => json!([io_type]),
        false => named(io_type.into(), input.options.clone()),
    };
    let with = |name: &str, value: Value| {
        let mut options = input.options.clone();
        options.insert(name.to_owned(), value);
        named(input.socket.io_type().into(), options)
    };
    let combo = |choices: Vec<String>, listed: bool| {
        let too_many = choices.len() > most;
        let mut options = input.options.clone();
        if !listed {
            options.insert("options".to_owned(), choices.clone().into());
        }
        let spec = match (listed, options.is_empty()) {
            (true, true) => json!([choices]),
            (true, false) => named(choices.into(), options),
            (false, _) => named("COMBO".into(), options),
        };
        (!too_many).then_some(spec)
    };
    match &input.socket {
        Socket::Int
        | Socket::Float
        | Socket::String
        | Socket::Boolean
        | Socket::Widget(_)
        | Socket::Link(_)
        | Socket::Open(_) => Some(plain(input.socket.io_type())),
        Socket::Autogrow(group) => Some(with("template", template(group, files))),
        Socket::DynamicCombo(choices) => {
            let choice = |choice: &DynamicOption| json!({"key": choice.key, "inputs": nested(&choice.inputs, files)});
            Some(with("options", choices.iter().map(choice).collect()))
        }
        Socket::Combo { choices, listed } => combo(choices.clone(), *listed),
        Socket::File {
            source: FileSource::Recording | FileSource::Capture | FileSource::Drawing,
            ..
        } => Some(plain(input.socket.io_type())),
        Socket::File { source, listed } => {
            let mut offered = files.map(|files| files(*source)).unwrap_or_default();
            if *source == FileSource::Input {
                offered.retain(|name| takes(&input.options, name));
            }
            combo(offered, *listed)
        }
    }
}

/// Whether the menu of an input offers a file: as in ComfyUI, by the ending of its name and what the input lets people upload. An
/// input that says nothing of that offers everything.
fn takes(options: &Map<String, Value>, name: &str) -> bool {
    let is = |key: &str| options.get(key) == Some(&Value::Bool(true));
    let media: &[&[&str]] = if is("image_upload") {
        &[&IMAGES]
    } else if is("video_upload") {
        &[&VIDEOS]
    } else if is("audio_upload") {
        // The sound of a video is one.
        &[&SOUNDS, &VIDEOS]
    } else {
        return true;
    };
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let ending = ending.to_ascii_lowercase();
    media
        .iter()
        .any(|endings| endings.contains(&ending.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn menus_offer_what_their_input_takes() {
        let offered = |options: Value| -> Vec<&str> {
            let options = options.as_object().cloned().unwrap_or_default();
            let names = ["a.PNG", "b.mp4", "c.flac", "d.txt", "e", ".png"];
            let names = names.into_iter();
            names.filter(|name| takes(&options, name)).collect()
        };
        assert_eq!(offered(json!({"image_upload": true})), ["a.PNG", ".png"]);
        assert_eq!(offered(json!({"video_upload": true})), ["b.mp4"]);
        assert_eq!(offered(json!({"audio_upload": true})), ["b.mp4", "c.flac"]);
        assert_eq!(offered(json!({})).len(), 6);
        assert_eq!(offered(json!({"image_upload": false})).len(), 6);
    }
}
