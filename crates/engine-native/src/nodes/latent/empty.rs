//! Latents of zeros, in the shapes that models work on.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use workflow_core::{InputDefinition, NodeDefinition, OutputDefinition};

use super::super::class::{self, Class};
use super::gives_latent;
use crate::define::{
    classic, float_input, int_input, latest, named, named_output, options, output,
};
use crate::latent::{Latent, Tensor};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Value};

/// A class of empty latents of pictures or videos.
struct EmptyArea {
    class: &'static str,
    module: &'static str,
    category: &'static str,
    display_name: Option<&'static str>,
    channels: usize,
    /// Pixels of a side for each sample.
    scale: usize,
    /// The page's widgets for width and height: the two defaults, the least value and the step, in pixels.
    sides: [usize; 4],
    third: Third,
}

/// The side that latents of videos and of layers have besides.
enum Third {
    /// Pictures have none.
    None,
    /// So many frames share a sample, after the first.
    Frames {
        default: usize,
        min: usize,
        step: usize,
    },
    /// Layers, and the whole picture.
    Layers,
}

/// Pixels of a side at most.
pub(super) const MAX_RESOLUTION: usize = 16384;

const fn video(default: usize, min: usize, step: usize) -> Third {
    Third::Frames { default, min, step }
}

const AREAS: [EmptyArea; 10] = [
    EmptyArea {
        class: "EmptySD3LatentImage",
        module: "comfy_extras.nodes_sd3",
        category: "latent/sd3",
        display_name: None,
        channels: 16,
        scale: 8,
        sides: [1024, 1024, 16, 16],
        third: Third::None,
    },
    EmptyArea {
        class: "EmptyFlux2LatentImage",
        module: "comfy_extras.nodes_flux",
        category: "latent",
        display_name: Some("Empty Flux 2 Latent"),
        channels: 128,
        scale: 16,
        sides: [1024, 1024, 16, 16],
        third: Third::None,
    },
    EmptyArea {
        class: "EmptyHunyuanImageLatent",
        module: "comfy_extras.nodes_hunyuan",
        category: "latent",
        display_name: None,
        channels: 64,
        scale: 32,
        sides: [2048, 2048, 64, 32],
        third: Third::None,
    },
    EmptyArea {
        class: "EmptyChromaRadianceLatentImage",
        module: "comfy_extras.nodes_chroma_radiance",
        category: "latent/chroma_radiance",
        display_name: None,
        channels: 3,
        scale: 1,
        sides: [1024, 1024, 16, 16],
        third: Third::None,
    },
    EmptyArea {
        class: "EmptyQwenImageLayeredLatentImage",
        module: "comfy_extras.nodes_qwen",
        category: "latent/qwen",
        display_name: Some("Empty Qwen Image Layered Latent"),
        channels: 16,
        scale: 8,
        sides: [640, 640, 16, 16],
        third: Third::Layers,
    },
    EmptyArea {
        class: "EmptyHunyuanLatentVideo",
        module: "comfy_extras.nodes_hunyuan",
        category: "latent/video",
        display_name: Some("Empty HunyuanVideo 1.0 Latent"),
        channels: 16,
        scale: 8,
        sides: [848, 480, 16, 16],
        third: video(25, 1, 4),
    },
    EmptyArea {
        class: "EmptyHunyuanVideo15Latent",
        module: "comfy_extras.nodes_hunyuan",
        category: "latent/video",
        display_name: Some("Empty HunyuanVideo 1.5 Latent"),
        channels: 32,
        scale: 16,
        sides: [848, 480, 16, 16],
        third: video(25, 1, 4),
    },
    EmptyArea {
        class: "EmptyLTXVLatentVideo",
        module: "comfy_extras.nodes_lt",
        category: "latent/video/ltxv",
        display_name: None,
        channels: 128,
        scale: 32,
        sides: [768, 512, 64, 32],
        third: video(97, 1, 8),
    },
    EmptyArea {
        class: "EmptyCosmosLatentVideo",
        module: "comfy_extras.nodes_cosmos",
        category: "latent/video",
        display_name: None,
        channels: 16,
        scale: 8,
        sides: [1280, 704, 16, 16],
        third: video(121, 1, 8),
    },
    EmptyArea {
        class: "EmptyMochiLatentVideo",
        module: "comfy_extras.nodes_mochi",
        category: "latent/video",
        display_name: None,
        channels: 12,
        scale: 8,
        sides: [848, 480, 16, 16],
        third: video(25, 7, 6),
    },
];

/// Every class of empty latents.
pub(super) fn classes() -> Vec<Arc<dyn Node>> {
    let mut classes: Vec<Arc<dyn Node>> = vec![Arc::new(EmptyLatentImage)];
    classes.extend(AREAS.map(|class| -> Arc<dyn Node> { Arc::new(class) }));
    classes.extend(class::classes(&[NEWER]));
    classes.push(Arc::new(StableCascade));
    classes.push(Arc::new(EmptyLatentAudio));
    classes.push(Arc::new(EmptyAceStepLatentAudio));
    classes
}

/// Classes whose sides and batches end earlier than those of others.
const NEWER: &[Class] = &[
    (
        || {
            let side = |name, default| bounded(name, default, [16, 8192, 16]);
            let length = bounded("length", 81, [1, 1024, 4]);
            let inputs = vec![
                side("width", 832),
                side("height", 480),
                length,
                batch_of_64(),
            ];
            let category = "model/latent/autoregressive";
            let module = "comfy_extras.nodes_ar_video";
            gives_latent(
                latest("EmptyARVideoLatent", module, category, json!({})),
                inputs,
            )
        },
        |inputs, context| {
            let length: usize = inputs.int("length")?;
            let (width, height): (usize, usize) = (inputs.int("width")?, inputs.int("height")?);
            let frames = length.saturating_sub(1) / 4 + 1;
            let shape = [inputs.int("batch_size")?, 16, frames, height / 8, width / 8];
            zeros(&shape, context)
        },
    ),
    (
        || {
            let side = |name| bounded(name, 2048, [64, 4096, 32]);
            let inputs = vec![side("width"), side("height"), batch_of_64()];
            let module = "comfy_extras.nodes_hidream_o1";
            let class = "EmptyHiDreamO1LatentImage";
            NodeDefinition {
                display_name: named("Empty HiDream-O1 Latent Image"),
                ..gives_latent(
                    latest(class, module, "model/latent/hidream", json!({})),
                    inputs,
                )
            }
        },
        |inputs, context| {
            let (width, height) = (inputs.int("width")?, inputs.int("height")?);
            zeros(&[inputs.int("batch_size")?, 3, height, width], context)
        },
    ),
    (
        || {
            let seconds = json!({"default": 120.0, "min": 1.0, "max": 1000.0, "step": 0.01});
            let class = "EmptyAceStep1.5LatentAudio";
            let module = "comfy_extras.nodes_ace";
            NodeDefinition {
                display_name: named("Empty Ace Step 1.5 Latent Audio"),
                ..newer_audio(class, module, "model/latent/ace", seconds)
            }
        },
        |inputs, context| {
            let length = length((inputs.float("seconds")? * 48000.0 / 1920.0).round_ties_even());
            silence(&[inputs.int("batch_size")?, 64, length], context)
        },
    ),
    (
        || {
            let seconds = json!({"default": 120.0, "min": 0.04, "max": 1000.0, "step": 0.04});
            let class = "EmptyYuE2LatentAudio";
            let module = "comfy_extras.nodes_yue2";
            NodeDefinition {
                display_name: named("Empty YuE2 Latent Audio"),
                ..newer_audio(class, module, "model/latent/yue2", seconds)
            }
        },
        |inputs, context| {
            const FRAMES_PER_SECOND: f64 = 25.0;
            let length = length((inputs.float("seconds")? * FRAMES_PER_SECOND).round_ties_even());
            silence(&[inputs.int("batch_size")?, 64, length.max(1)], context)
        },
    ),
    (
        || {
            // As many seconds as the model's longest sound has frames for.
            let seconds = json!({"default": 120.0, "min": 0.04, "max": 360.0, "step": 0.04});
            let class = "EmptyMiniMaxMusic3LatentAudio";
            let module = "comfy_extras.nodes_minimax_music";
            NodeDefinition {
                display_name: named("Empty MiniMax Music3 Latent Audio"),
                description:
                    "Creates an empty MiniMax Music3 audio latent for the requested duration."
                        .to_owned(),
                ..newer_audio(class, module, "model/latent/minimax music", seconds)
            }
        },
        |inputs, context| {
            let frames = (inputs.float("seconds")? * 25.0).round_ties_even();
            let frames = frames.clamp(1.0, 9000.0);
            let length = length(frames * 44100.0 / 24000.0 * 960.0 / 512.0);
            silence(&[inputs.int("batch_size")?, 128, length.max(1)], context)
        },
    ),
];

fn bounded(name: &str, default: usize, [min, max, step]: [usize; 3]) -> InputDefinition {
    int_input(
        name,
        json!({"default": default, "min": min, "max": max, "step": step}),
    )
}

fn batch_of_64() -> InputDefinition {
    int_input("batch_size", json!({"default": 1, "min": 1, "max": 64}))
}

fn newer_audio(class: &str, module: &str, category: &str, seconds: Json) -> NodeDefinition {
    let inputs = vec![float_input("seconds", seconds), batch_size(json!({}))];
    gives_latent(latest(class, module, category, json!({})), inputs)
}

impl Node for EmptyArea {
    fn definition(&self) -> NodeDefinition {
        let [width, height, min, step] = self.sides;
        let mut inputs = vec![
            side("width", width, min, step),
            side("height", height, min, step),
        ];
        match self.third {
            Third::None => {}
            Third::Frames { default, min, step } => {
                inputs.push(side("length", default, min, step));
            }
            Third::Layers => inputs.push(side("layers", 3, 0, 1)),
        }
        inputs.push(batch_size(json!({})));
        NodeDefinition {
            display_name: self.display_name.map(str::to_owned),
            inputs,
            outputs: vec![output("LATENT")],
            ..latest(self.class, self.module, self.category, json!({}))
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mut shape = vec![inputs.int("batch_size")?, self.channels];
        match self.third {
            Third::None => {}
            Third::Frames { step, .. } => {
                let length: usize = inputs.int("length")?;
                shape.push(length.saturating_sub(1) / step + 1);
            }
            Third::Layers => shape.push(inputs.int::<usize>("layers")?.saturating_add(1)),
        }
        for name in ["height", "width"] {
            shape.push(inputs.int::<usize>(name)? / self.scale);
        }
        zeros(&shape, context)
    }
}

/// An empty latent of the first models, which is part of the recorded server.
struct EmptyLatentImage;

impl Node for EmptyLatentImage {
    fn definition(&self) -> NodeDefinition {
        let told = |name: &str, of: &str| {
            let tooltip = format!("The {of} of the latent images in pixels.");
            int_input(
                name,
                json!({"default": 512, "min": 16, "max": MAX_RESOLUTION, "step": 8, "tooltip": tooltip}),
            )
        };
        NodeDefinition {
            display_name: named("Empty Latent Image"),
            description: "Create a new batch of empty latent images to be denoised via sampling."
                .to_owned(),
            inputs: vec![
                told("width", "width"),
                told("height", "height"),
                batch_size(json!({"tooltip": BATCH_TOOLTIP})),
            ],
            outputs: vec![OutputDefinition {
                tooltip: named("The empty latent image batch."),
                ..output("LATENT")
            }],
            extra: options(json!({"output_tooltips": ["The empty latent image batch."]})),
            ..classic("EmptyLatentImage", "nodes", "latent")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (width, height): (usize, usize) = (inputs.int("width")?, inputs.int("height")?);
        let shape = [inputs.int("batch_size")?, 4, height / 8, width / 8];
        zeros(&shape, context)
    }
}

/// Empty latents of the two stages of one model.
struct StableCascade;

impl Node for StableCascade {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                side("width", 1024, 256, 8),
                side("height", 1024, 256, 8),
                int_input(
                    "compression",
                    json!({"default": 42, "min": 4, "max": 128, "step": 1}),
                ),
                batch_size(json!({})),
            ],
            outputs: vec![
                named_output("LATENT", "stage_c"),
                named_output("LATENT", "stage_b"),
            ],
            ..latest(
                "StableCascade_EmptyLatentImage",
                "comfy_extras.nodes_stable_cascade",
                "latent/stable_cascade",
                json!({}),
            )
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (width, height): (usize, usize) = (inputs.int("width")?, inputs.int("height")?);
        let compression: usize = inputs.int("compression")?;
        let batch = inputs.int("batch_size")?;
        let compression = compression.max(1);
        let stage_c = [batch, 16, height / compression, width / compression];
        let stage_b = [batch, 4, height / 4, width / 4];
        let mut values = Vec::new();
        for shape in [stage_c, stage_b] {
            let samples = Tensor::filled(&shape, 0.0, context)?;
            values.push(Value::from(Latent::new(samples)));
        }
        Ok(NodeOutput::of(values))
    }
}

/// An empty latent of a sound, as one line of channels.
struct EmptyLatentAudio;

impl Node for EmptyLatentAudio {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Empty Latent Audio"),
            ..audio("EmptyLatentAudio", "comfy_extras.nodes_audio", 47.6)
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let pairs = (inputs.float("seconds")? * 44100.0 / 2048.0) / 2.0;
        let length = length(pairs.round_ties_even() * 2.0);
        silence(&[inputs.int("batch_size")?, 64, length], context)
    }
}

/// An empty latent of a sound, as rows of channels.
struct EmptyAceStepLatentAudio;

impl Node for EmptyAceStepLatentAudio {
    fn definition(&self) -> NodeDefinition {
        audio("EmptyAceStepLatentAudio", "comfy_extras.nodes_ace", 120.0)
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let length = length(inputs.float("seconds")? * 44100.0 / 512.0 / 8.0);
        silence(&[inputs.int("batch_size")?, 8, 16, length], context)
    }
}

/// A whole number of samples; what is none becomes 0, which no latent can have.
fn length(samples: f64) -> usize {
    samples as usize
}

fn audio(class: &str, module: &str, seconds: f64) -> NodeDefinition {
    let seconds = json!({"default": seconds, "min": 1.0, "max": 1000.0, "step": 0.1});
    NodeDefinition {
        inputs: vec![
            float_input("seconds", seconds),
            batch_size(json!({"tooltip": BATCH_TOOLTIP})),
        ],
        outputs: vec![output("LATENT")],
        ..latest(class, module, "latent/audio", json!({}))
    }
}

const BATCH_TOOLTIP: &str = "The number of latent images in the batch.";

fn batch_size(more: Json) -> InputDefinition {
    let mut input = int_input("batch_size", json!({"default": 1, "min": 1, "max": 4096}));
    input.options.extend(options(more));
    input
}

fn side(name: &str, default: usize, min: usize, step: usize) -> InputDefinition {
    int_input(
        name,
        json!({"default": default, "min": min, "max": MAX_RESOLUTION, "step": step}),
    )
}

fn zeros(shape: &[usize], context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let samples = Tensor::filled(shape, 0.0, context)?;
    Ok(super::one(Latent::new(samples)))
}

fn silence(shape: &[usize], context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let samples = Tensor::filled(shape, 0.0, context)?;
    Ok(super::one(Latent {
        is_audio: true,
        ..Latent::new(samples)
    }))
}
