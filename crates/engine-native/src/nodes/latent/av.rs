//! The latents of a video and of its sound as one value, which models of both take, and apart again.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::{Class, given, gives_latent, latent};
use crate::define::{latest, named, named_output};
use crate::latent::{Latent, Tensor};
use crate::value::Opaque;
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Value};

pub(super) const CLASSES: &[Class] =
    &[(concat_definition, concat), (separate_definition, separate)];

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
    let size = both.video.size_bytes() + both.sound.size_bytes();
    Ok(Value::from(Opaque::new("LATENT", both, size)).into())
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
