//! The latents of a video and of its sound as one value, which models of both take, and apart again.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::empty::MAX_RESOLUTION;
use super::{Class, given, gives_latent, latent};
use crate::define::{int_input, latest, named, named_output};
use crate::latent::{Latent, Tensor};
use crate::value::Opaque;
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Value};

pub(super) const CLASSES: &[Class] = &[
    (concat_definition, concat),
    (separate_definition, separate),
    (empty_definition, empty),
];

/// Both latents, as the value of a `LATENT` socket.
#[derive(Debug)]
pub(super) struct AvLatent {
    video: Latent,
    sound: Latent,
}

fn of_both(class: &str, name: &str) -> NodeDefinition {
    NodeDefinition {
        display_name: named(name),
        ..latest(
            class,
            "comfy_extras.nodes_lt",
            "model/latent/ltxv",
            json!({}),
        )
    }
}

fn concat_definition() -> NodeDefinition {
    let definition = of_both("LTXVConcatAVLatent", "Concat AV Latent");
    let inputs = vec![latent("video_latent"), latent("audio_latent")];
    NodeDefinition {
        outputs: vec![named_output("LATENT", "latent")],
        ..gives_latent(definition, inputs)
    }
}

fn concat(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let video = given(inputs, "video_latent")?;
    let sound = given(inputs, "audio_latent")?;
    // Where one of them has a mask, both have: of ones where nothing was said.
    let is_masked = video.noise_mask.is_some() || sound.noise_mask.is_some();
    let mask = |latent: &Latent| match &latent.noise_mask {
        Some(mask) => Ok(Some(mask.clone())),
        None if is_masked => Tensor::filled(latent.samples.shape(), 1.0, context).map(Some),
        None => Ok(None),
    };
    // They have their notes together; the sound's count where both have one.
    let numbers = sound.batch_index.as_ref().or(video.batch_index.as_ref());
    let noted = |latent: &Latent| {
        Ok::<_, NodeError>(Latent {
            samples: latent.samples.clone(),
            noise_mask: mask(latent)?,
            batch_index: numbers.cloned(),
            is_audio: video.is_audio || sound.is_audio,
        })
    };
    let both = AvLatent {
        video: noted(video)?,
        sound: noted(sound)?,
    };
    Ok(both.into())
}

impl AvLatent {
    /// The latent of the video.
    pub(super) fn video(&self) -> &Latent {
        &self.video
    }
}

impl From<AvLatent> for NodeOutput {
    fn from(both: AvLatent) -> Self {
        let size = both.video.size_bytes() + both.sound.size_bytes();
        Value::from(Opaque::new("LATENT", both, size)).into()
    }
}

fn separate_definition() -> NodeDefinition {
    NodeDefinition {
        inputs: vec![latent("av_latent")],
        outputs: vec![
            named_output("LATENT", "video_latent"),
            named_output("LATENT", "audio_latent"),
        ],
        ..of_both("LTXVSeparateAVLatent", "Separate AV Latent")
    }
}

fn separate(inputs: &mut Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let Ok(both) = inputs.opaque::<AvLatent>("av_latent") else {
        return Err(NodeError::value(
            "this latent is of one kind only; link one that LTXVConcatAVLatent made",
        ));
    };
    let values = [&both.video, &both.sound].map(|latent| Value::from(latent.clone()));
    Ok(NodeOutput::of(values))
}

fn empty_definition() -> NodeDefinition {
    let side = |name, default| {
        int_input(
            name,
            json!({"default": default, "min": 32, "max": MAX_RESOLUTION, "step": 32}),
        )
    };
    let length = json!({
        "default": 124, "min": 5, "max": 3600, "step": 17,
        "tooltip": "Frame count at 24 fps, snapped up to the model's 17k+5 grid (124 = ~5s; trained range is ~124-362, longer is untested)",
    });
    let definition = latest(
        "EmptyMiniMaxH3LatentAV",
        "comfy_extras.nodes_minimax_h3",
        "model/latent/minimax",
        json!({}),
    );
    NodeDefinition {
        display_name: named("Empty MiniMax H3 AV Latent"),
        description: "Joint video+audio latent for MiniMax H3. Duration snaps to the model's 17k+5 frame grid at 24 fps."
            .to_owned(),
        ..gives_latent(
            definition,
            vec![side("width", 1344), side("height", 768), int_input("length", length)],
        )
    }
}

fn empty(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let (width, height): (usize, usize) = (inputs.int("width")?, inputs.int("height")?);
    let length: usize = inputs.int("length")?;
    // The model takes 5 frames and 17 more any number of times, which share 5 samples.
    let groups = length.saturating_sub(5).div_ceil(17);
    let frames = groups * 17 + 5;
    let samples = (frames as f64 / 24.0 * 40.0).round_ties_even() as usize;
    let video = [1, 24, groups * 5 + 2, height / 16, width / 16];
    let zeros = |shape: &[usize]| Tensor::filled(shape, 0.0, context).map(Latent::new);
    let both = AvLatent {
        video: zeros(&video)?,
        sound: zeros(&[1, 32, 2, samples])?,
    };
    Ok(both.into())
}
