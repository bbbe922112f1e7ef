//! The model files of workers, by the folders of ComfyUI: what the page's model library shows, and what it looks for before it says
//! that a workflow lacks models.
//!
//! Definitions name files and not folders, so each folder is known by a class that chooses from it.

use http::Response;
use hyper_kit::Body;
use serde_json::{Value, json};
use v1_compat::node_info;
use workflow_core::NodeCatalog;

use super::reply;

/// A folder, and the class and input that choose from it.
const FOLDERS: [(&str, &str, &str); 15] = [
    ("audio_encoders", "AudioEncoderLoader", "audio_encoder_name"),
    ("checkpoints", "CheckpointLoaderSimple", "ckpt_name"),
    ("clip_vision", "CLIPVisionLoader", "clip_name"),
    ("controlnet", "ControlNetLoader", "control_net_name"),
    ("diffusion_models", "UNETLoader", "unet_name"),
    ("gligen", "GLIGENLoader", "gligen_name"),
    ("hypernetworks", "HypernetworkLoader", "hypernetwork_name"),
    (
        "latent_upscale_models",
        "LatentUpscaleModelLoader",
        "model_name",
    ),
    ("loras", "LoraLoader", "lora_name"),
    ("model_patches", "ModelPatchLoader", "name"),
    ("photomaker", "PhotoMakerLoader", "photomaker_model_name"),
    ("style_models", "StyleModelLoader", "style_model_name"),
    ("text_encoders", "CLIPLoader", "clip_name"),
    ("upscale_models", "UpscaleModelLoader", "model_name"),
    ("vae", "VAELoader", "vae_name"),
];

/// How an answer is written: ComfyUI has two spellings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Below `/models`: names.
    Names,
    /// Below `/experiment/models`: objects.
    Objects,
}

/// GET /models and /experiment/models: the folders whose class is here.
pub(super) fn folders(nodes: &NodeCatalog, spelling: Spelling) -> Response<Body> {
    let known = FOLDERS
        .iter()
        .filter(|(_, class, _)| nodes.get(class).is_some());
    let folders = known.map(|(folder, _, _)| match spelling {
        Spelling::Names => json!(folder),
        // Where they are at the workers is nobody's business.
        Spelling::Objects => json!({"name": folder, "folders": []}),
    });
    reply::ok(&folders.collect())
}

/// GET /models/{folder} and /experiment/models/{folder}: the files in it.
pub(super) fn files(nodes: &NodeCatalog, folder: &str, spelling: Spelling) -> Response<Body> {
    let files = names(nodes, folder).into_iter().map(|name| match spelling {
        Spelling::Names => json!(name),
        Spelling::Objects => json!({"name": name, "pathIndex": 0}),
    });
    reply::ok(&files.collect())
}

fn names(nodes: &NodeCatalog, folder: &str) -> Vec<String> {
    let of_folder = FOLDERS.iter().find(|(name, _, _)| *name == folder);
    let chosen = of_folder.and_then(|(_, class, input)| Some((nodes.get(class)?, input)));
    let Some((class, input)) = chosen else {
        return Vec::new();
    };
    let info = node_info(class, &|_| Vec::new());
    let spec = &info["input"]["required"][input];
    let choices = spec[0].as_array().or_else(|| spec[1]["options"].as_array());
    let names = choices.into_iter().flatten().filter_map(Value::as_str);
    // Words such as `pixel_space` are no files.
    names
        .filter(|name| name.contains('.'))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_differ_and_stand_in_order() {
        assert!(FOLDERS.is_sorted_by(|one, other| one.0 < other.0));
    }
}
