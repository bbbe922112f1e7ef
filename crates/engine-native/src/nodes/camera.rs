//! Where a camera stands around a subject, as a camera and in words.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::class::Class;
use crate::define::{
    float_input, int_input, latest, link, named, named_output, optional, string_input,
};
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Value};

pub(super) const CLASSES: &[Class] = &[(definition, angle)];

const DEGREES_AROUND: (i128, i128) = (0, 360);
const DEGREES_UP: (i128, i128) = (-30, 60);
const ZOOM: (f64, f64) = (0.0, 10.0);

/// Where the middle of the subject is, and how near and how far the camera may be.
const CENTER: [f64; 3] = [0.0, 0.5, 0.0];
const NEAREST: f64 = 3.2;
const FARTHEST: f64 = 6.0;
const FIELD_OF_VIEW: f64 = 35.0;

const VIEWS: [&str; 8] = [
    "front view",
    "front-right quarter view",
    "right side view",
    "back-right quarter view",
    "back view",
    "back-left quarter view",
    "left side view",
    "front-left quarter view",
];

fn definition() -> NodeDefinition {
    let degrees = |name, (min, max): (i128, i128), tooltip: &str| {
        let bounds = json!({"tooltip": tooltip, "default": 0, "min": min as i64, "max": max as i64, "step": 1});
        int_input(name, bounds)
    };
    let zoom = json!({
        "tooltip": "How close the camera is: 0 is a wide shot, 10 a close-up.",
        "default": 5.0, "min": ZOOM.0, "max": ZOOM.1, "step": 0.1,
    });
    let view = json!({
        "widgetType": "CAMERA_ANGLE_VIEW", "default": "", "socketless": true, "multiline": false,
    });
    let mut image = optional(link("image", "IMAGE"));
    let tooltip =
        "Optional reference image shown on the front of the subject cube in the 3D preview.";
    image.options.insert("tooltip".to_owned(), tooltip.into());
    NodeDefinition {
        display_name: named("Camera Angle"),
        description: "Pick a camera angle around a subject with a 3D preview. Outputs a camera_info for 3D nodes and a plain-English shot description for prompts.".to_owned(),
        inputs: vec![
            degrees(
                "horizontal_angle",
                DEGREES_AROUND,
                "Azimuth around the subject in degrees. 0 is the front, 90 the right side, 180 the back.",
            ),
            degrees(
                "vertical_angle",
                DEGREES_UP,
                "Elevation in degrees. Negative looks up from below, positive looks down from above.",
            ),
            float_input("zoom", zoom),
            image,
            optional(string_input("view", view)),
        ],
        outputs: vec![
            named_output("LOAD3D_CAMERA", "camera_info"),
            named_output("STRING", "prompt"),
        ],
        ..latest(
            "CameraAngle",
            "comfy_extras.nodes_camera_angle",
            "3d",
            json!({"search_aliases": ["multi angle", "camera view", "orbit camera", "shot angle", "camera prompt"]}),
        )
    }
}

fn angle(inputs: &mut Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let degrees = |name: &str, (min, max): (i128, i128)| {
        let degrees = inputs.int::<i128>(name)?;
        Ok::<_, NodeError>(degrees.clamp(min, max) as f64)
    };
    let around = degrees("horizontal_angle", DEGREES_AROUND)?;
    let up = degrees("vertical_angle", DEGREES_UP)?;
    // As Python compares, what is no number is far away.
    let zoom = inputs.float("zoom")?.min(ZOOM.1).max(ZOOM.0);
    let distance = FARTHEST - (FARTHEST - NEAREST) * (zoom / ZOOM.1);
    let (yaw, pitch) = (around.to_radians(), up.to_radians());
    let [x, y, z] = CENTER;
    let camera = json!({
        "position": {
            "x": x + distance * pitch.cos() * yaw.sin(),
            "y": y + distance * pitch.sin(),
            "z": z + distance * pitch.cos() * yaw.cos(),
        },
        "target": {"x": x, "y": y, "z": z},
        "zoom": 1.0,
        "cameraType": "perspective",
        "fov": FIELD_OF_VIEW,
    });
    let view = VIEWS[((around % 360.0 + 22.5) / 45.0) as usize % VIEWS.len()];
    let height = match up {
        ..-15.0 => "low-angle shot",
        ..15.0 => "eye-level shot",
        ..45.0 => "elevated shot",
        _ => "high-angle shot",
    };
    let size = match zoom {
        ..2.0 => "wide shot",
        ..6.0 => "medium shot",
        _ => "close-up",
    };
    let prompt = format!("{view} {height} {size}");
    Ok(NodeOutput::of([
        Value::from_json(&camera),
        Value::string(prompt),
    ]))
}
