//! The classes of a simulated ComfyUI.

use serde_json::{Value, json};

/// `/object_info`.
pub(super) fn definitions(checkpoints: &[&str], without: &[&str]) -> Value {
    let class = |required: Value, output: &[&str], output_node: bool| {
        let names: Vec<&str> = required
            .as_object()
            .into_iter()
            .flat_map(|inputs| inputs.keys().map(String::as_str))
            .collect();
        json!({
            "input": {"required": required, "hidden": {"prompt": "PROMPT"}},
            "input_order": {"required": names, "hidden": ["prompt"]},
            "output": output,
            "output_is_list": output.iter().map(|_| false).collect::<Vec<_>>(),
            "output_name": output,
            "display_name": null,
            "description": "",
            "python_module": "nodes",
            "category": "simulated",
            "output_node": output_node
        })
    };
    let prefix = json!(["STRING", {"default": "ComfyUI"}]);
    let mut all = json!({
        "CheckpointLoaderSimple": class(json!({"ckpt_name": [checkpoints]}), &["MODEL", "CLIP", "VAE"], false),
        "EmptyImage": class(json!({
            "width": ["INT", {"default": 512, "min": 1, "max": 16384}],
            "height": ["INT", {"default": 512, "min": 1, "max": 16384}],
            "batch_size": ["INT", {"default": 1, "min": 1, "max": 4096}],
            "color": ["INT", {"default": 0, "min": 0, "max": 0xff_ffff}]
        }), &["IMAGE"], false),
        "LoadImage": class(json!({"image": [["of-somebody.png"], {"image_upload": true}]}), &["IMAGE", "MASK"], false),
        "Painter": class(json!({"mask": ["STRING", {"widgetType": "PAINTER", "image_upload": true, "default": ""}]}), &["IMAGE", "MASK"], false),
        "Load3D": class(json!({"model_file": ["COMBO", {"multiselect": false, "options": ["none", "3d/of-somebody.glb"], "file_upload": true}], "image": ["LOAD_3D", {}]}), &["IMAGE"], false),
        "ImageInvert": class(json!({"image": ["IMAGE"]}), &["IMAGE"], false),
        "Sampler": class(json!({
            "model": ["MODEL"],
            "seed": ["INT", {"default": 0, "min": 0, "max": 1}],
            "steps": ["INT", {"default": 20, "min": 1, "max": 10000}]
        }), &["LATENT"], false),
        "Decode": class(json!({"samples": ["LATENT"]}), &["IMAGE"], false),
        "Wait": class(json!({"image": ["IMAGE"], "steps": ["INT", {"default": 1}]}), &["IMAGE"], false),
        "Fails": class(json!({"image": ["IMAGE"], "exception": ["STRING", {}]}), &["IMAGE"], false),
        "SaveImage": class(json!({"images": ["IMAGE"], "filename_prefix": prefix}), &[], true),
        "SaveClip": class(json!({"images": ["IMAGE"], "filename_prefix": prefix}), &[], true),
        "SaveMesh": class(json!({"images": ["IMAGE"], "filename_prefix": prefix}), &[], true),
        "SaveSound": class(json!({"images": ["IMAGE"], "filename_prefix": prefix}), &[], true),
        "SaveLatent": class(json!({"samples": ["LATENT"], "filename_prefix": prefix}), &[], true),
        "Save3DAdvanced": class(json!({"images": ["IMAGE"], "filename_prefix": prefix}), &[], true),
        "Preview3D": class(json!({"model_file": ["STRING", {"default": ""}]}), &[], true),
        "SaveLarge": class(json!({"images": ["IMAGE"], "filename_prefix": prefix}), &[], true),
        "PreviewImage": class(json!({"images": ["IMAGE"]}), &[], true),
        "PreviewAny": class(json!({"source": ["*", {}]}), &[], true),
        "SaveImageWebsocket": class(json!({"images": ["IMAGE"]}), &[], true)
    });
    all["Preview3D"]["input"]["optional"] = json!({"bg_image": ["IMAGE", {"advanced": true}]});
    if let Some(classes) = all.as_object_mut() {
        classes.retain(|name, _| !without.contains(&name.as_str()));
    }
    all
}
