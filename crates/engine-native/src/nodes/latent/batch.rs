//! Batches of latents: joined, repeated, taken apart, and what is noted about their items.

use serde_json::json;
use workflow_core::{NodeDefinition, OutputDefinition};

use super::arithmetic::sized;
use super::{Class, given, gives_latent, latent, one};
use crate::define::{
    autogrow, core, int_input, latest, link, list_output, modern_combo, named, optional,
};
use crate::latent::{Latent, Tensor};
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Slot, Value};
use images::Mask;

pub(super) const CLASSES: &[Class] = &[
    (pair_definition, pair),
    (group_definition, group),
    (from_batch_definition, from_batch),
    (repeat_definition, repeat),
    (rebatch_definition, rebatch),
    (seed_definition, seed),
    (mask_definition, set_mask),
    (frames_definition, replace_frames),
];

const MODULE: &str = "comfy_extras.nodes_latent";

fn pair_definition() -> NodeDefinition {
    let inputs = vec![latent("samples1"), latent("samples2")];
    let marks = json!({"deprecated": true});
    gives_latent(latest("LatentBatch", MODULE, "latent/batch", marks), inputs)
}

fn pair(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latents = [given(inputs, "samples1")?, given(inputs, "samples2")?];
    joined(&latents, context)
}

fn group_definition() -> NodeDefinition {
    let definition = NodeDefinition {
        display_name: named("Batch Latents"),
        ..latest(
            "BatchLatentsNode",
            "comfy_extras.nodes_post_processing",
            "latent",
            json!({}),
        )
    };
    let inputs = vec![autogrow("latents", latent("latent"), "latent", 1, 50)];
    gives_latent(definition, inputs)
}

fn group(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let names = inputs.group("latents");
    let latents = names.iter().map(|name| given(inputs, name));
    joined(&latents.collect::<Result<Vec<_>, _>>()?, context)
}

/// All items in the size of the first latent's, with their numbers.
fn joined(latents: &[&Latent], context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let Some(first) = latents.first() else {
        return Err(NodeError::value("link at least one latent"));
    };
    let fitted = latents
        .iter()
        .map(|latent| sized(&first.samples, &latent.samples, context));
    let fitted: Vec<Tensor> = fitted.collect::<Result<_, _>>()?;
    let parts: Vec<&Tensor> = fitted.iter().collect();
    let numbers = latents.iter().flat_map(|latent| latent.numbers());
    Ok(one(Latent {
        batch_index: Some(numbers.collect()),
        ..first.with(Tensor::joined(&parts, 0, context)?)
    }))
}

fn from_batch_definition() -> NodeDefinition {
    let inputs = vec![
        latent("samples"),
        int_input(
            "batch_index",
            json!({"default": 0, "min": -16384, "max": 16384}),
        ),
        int_input("length", json!({"default": 1, "min": 1, "max": 64})),
    ];
    let definition = NodeDefinition {
        display_name: named("Latent From Batch"),
        ..core("LatentFromBatch", "nodes", "latent/batch", json!({}))
    };
    gives_latent(definition, inputs)
}

fn from_batch(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    let count = latent.count();
    let index: i64 = inputs.int("batch_index")?;
    let from_start = match index < 0 {
        true => index.saturating_add(count as i64),
        false => index,
    };
    let start = usize::try_from(from_start).unwrap_or(0).min(count - 1);
    let end = count.min(start.saturating_add(inputs.int::<usize>("length")?));
    let noise_mask = match &latent.noise_mask {
        Some(mask) if mask.side(0) > 1 => {
            let mask = mask.of_count(count.max(mask.side(0)), context)?;
            Some(mask.part(0, start..end, context)?)
        }
        mask => mask.clone(),
    };
    let numbers = match &latent.batch_index {
        Some(numbers) => numbers.get(start..end.min(numbers.len())),
        None => None,
    };
    let counted = || (start..end).map(|number| number as i64).collect();
    Ok(one(Latent {
        batch_index: Some(numbers.map_or_else(counted, <[i64]>::to_vec)),
        noise_mask,
        ..latent.with(latent.samples.part(0, start..end, context)?)
    }))
}

fn repeat_definition() -> NodeDefinition {
    let amount = int_input("amount", json!({"default": 1, "min": 1, "max": 64}));
    let definition = NodeDefinition {
        display_name: named("Repeat Latent Batch"),
        ..core("RepeatLatentBatch", "nodes", "latent/batch", json!({}))
    };
    gives_latent(definition, vec![latent("samples"), amount])
}

fn repeat(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    let amount: usize = inputs.int("amount")?;
    let noise_mask = match &latent.noise_mask {
        Some(mask) if mask.side(0) > 1 => Some(mask.repeated(amount, context)?),
        mask => mask.clone(),
    };
    // Each repetition gets numbers of its own.
    let batch_index = latent.batch_index.as_ref().map(|numbers| {
        let (least, most) = (numbers.iter().min(), numbers.iter().max());
        let span = most.zip(least).map_or(0, |(most, least)| most - least + 1);
        let repetition = |times: i64| numbers.iter().map(move |number| number + times * span);
        (0..amount as i64).flat_map(repetition).collect()
    });
    Ok(one(Latent {
        noise_mask,
        batch_index,
        ..latent.with(latent.samples.repeated(amount, context)?)
    }))
}

fn rebatch_definition() -> NodeDefinition {
    let size = int_input("batch_size", json!({"default": 1, "min": 1, "max": 4096}));
    NodeDefinition {
        display_name: named("Rebatch Latents"),
        inputs: vec![latent("latents"), size],
        outputs: vec![OutputDefinition {
            ..list_output("LATENT")
        }],
        takes_lists: true,
        ..latest(
            "RebatchLatents",
            "comfy_extras.nodes_rebatch",
            "latent/batch",
            json!({}),
        )
    }
}

/// Items that were not given out yet: samples, masks (none where all is to be worked on) and numbers.
struct Waiting {
    samples: Tensor,
    mask: Option<Tensor>,
    numbers: Vec<i64>,
}

fn rebatch(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let size = match inputs.list("batch_size")?.first() {
        Some(Value::Int(size)) => usize::try_from(*size).unwrap_or_default().max(1),
        _ => return Err(NodeError::value("the batch size must be a whole number")),
    };
    let mut given_out = Vec::new();
    let mut waiting: Option<Waiting> = None;
    let mut seen = 0;
    for value in inputs.list("latents")? {
        let latent = if let Value::Opaque(opaque) = &value {
            opaque.get::<Latent>()
        } else {
            None
        };
        let latent =
            latent.ok_or_else(|| NodeError::value("the list holds something that is no latent"))?;
        let next = entry(latent, seen, context)?;
        seen += next.numbers.len() as i64;
        waiting = Some(match waiting {
            None => next,
            Some(before) => {
                let size_of = |waiting: &Waiting| {
                    let shape = waiting.samples.shape();
                    shape[shape.len().saturating_sub(2)..].to_vec()
                };
                match size_of(&before) == size_of(&next) {
                    true => before.and(&next, context)?,
                    false => {
                        given_out.push(before.part(0..size.min(before.count()), context)?);
                        next
                    }
                }
            }
        });
        while let Some(full) = waiting.as_ref().filter(|waiting| waiting.count() > size) {
            // A whole number of batches goes out at once; nothing may stay.
            given_out.push(full.part(0..size, context)?);
            let rest = full.part(size..full.count(), context)?;
            waiting = Some(rest);
        }
    }
    if let Some(rest) = waiting {
        given_out.push(rest.part(0..size.min(rest.count()), context)?);
    }
    let latents = given_out.into_iter().map(|waiting| {
        let is_whole = |mask: &Tensor| mask.data().iter().all(|sample| *sample == 1.0);
        Value::from(Latent {
            noise_mask: waiting.mask.filter(|mask| !is_whole(mask)),
            batch_index: Some(waiting.numbers),
            ..Latent::new(waiting.samples)
        })
    });
    Ok(NodeOutput {
        slots: vec![Slot::List(latents.collect())],
        ..NodeOutput::none()
    })
}

fn entry(latent: &Latent, seen: i64, context: &NodeContext) -> Result<Waiting, NodeError> {
    let count = latent.count();
    let numbers = match &latent.batch_index {
        Some(numbers) if numbers.len() == count => numbers.clone(),
        _ => (0..count).map(|number| seen + number as i64).collect(),
    };
    let mask = latent.noise_mask.as_ref();
    Ok(Waiting {
        samples: latent.samples.clone(),
        mask: mask.map(|mask| mask.of_count(count, context)).transpose()?,
        numbers,
    })
}

impl Waiting {
    fn count(&self) -> usize {
        self.samples.side(0)
    }

    fn and(self, next: &Self, context: &NodeContext) -> Result<Self, NodeError> {
        let mask = match (&self.mask, &next.mask) {
            (None, None) => None,
            _ => {
                let (own, other) = (self.whole_mask(context)?, next.whole_mask(context)?);
                Some(Tensor::joined(&[&own, &other], 0, context)?)
            }
        };
        Ok(Self {
            samples: Tensor::joined(&[&self.samples, &next.samples], 0, context)?,
            mask,
            numbers: [self.numbers, next.numbers.clone()].concat(),
        })
    }

    /// Its mask, or one of ones in pixels of the picture.
    fn whole_mask(&self, context: &NodeContext) -> Result<Tensor, NodeError> {
        let pixels = |side: usize| self.samples.side(side).saturating_mul(8);
        match &self.mask {
            Some(mask) => Ok(mask.clone()),
            None => Tensor::filled(&[self.count(), 1, pixels(2), pixels(3)], 1.0, context),
        }
    }

    fn part(
        &self,
        range: std::ops::Range<usize>,
        context: &NodeContext,
    ) -> Result<Self, NodeError> {
        let mask = self.mask.as_ref();
        let mask = mask.map(|mask| mask.part(0, range.clone(), context));
        Ok(Self {
            mask: mask.transpose()?,
            numbers: self.numbers[range.clone()].to_vec(),
            samples: self.samples.part(0, range, context)?,
        })
    }
}

fn seed_definition() -> NodeDefinition {
    let behavior = modern_combo(
        "seed_behavior",
        &["random", "fixed"],
        json!({"default": "fixed"}),
    );
    let definition = latest(
        "LatentBatchSeedBehavior",
        MODULE,
        "latent/advanced",
        json!({}),
    );
    gives_latent(definition, vec![latent("samples"), behavior])
}

fn seed(inputs: &mut Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    let is_fixed = inputs.choice("seed_behavior", |word| match word {
        "random" => Some(false),
        "fixed" => Some(true),
        _ => None,
    })?;
    let first = latent
        .batch_index
        .as_ref()
        .and_then(|numbers| numbers.first());
    let first = first.copied().unwrap_or(0);
    Ok(one(Latent {
        batch_index: is_fixed.then(|| vec![first; latent.count()]),
        ..latent.clone()
    }))
}

fn mask_definition() -> NodeDefinition {
    let definition = NodeDefinition {
        display_name: named("Set Latent Noise Mask"),
        ..core("SetLatentNoiseMask", "nodes", "latent/inpaint", json!({}))
    };
    gives_latent(definition, vec![latent("samples"), link("mask", "MASK")])
}

fn set_mask(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let mask = samples_of(&inputs.mask("mask")?, context)?;
    let latent = given(inputs, "samples")?;
    Ok(one(Latent {
        noise_mask: Some(mask),
        ..latent.clone()
    }))
}

/// A mask as an array: `[batch, 1, height, width]`.
pub(super) fn samples_of(mask: &Mask, context: &NodeContext) -> Result<Tensor, NodeError> {
    let (height, width, _) = mask.first().shape();
    let shape = vec![mask.frames().len(), 1, height, width];
    context.reserve(shape.iter().product::<usize>() as u64 * 4)?;
    let frames = mask.frames().iter();
    let samples = frames.flat_map(|frame| frame.data().iter().copied());
    Ok(Tensor::new(shape, samples.collect()))
}

fn frames_definition() -> NodeDefinition {
    let told = |mut input: workflow_core::InputDefinition, tooltip: &str| {
        input.options.insert("tooltip".to_owned(), tooltip.into());
        input
    };
    let destination = "The destination latent where frames will be replaced.";
    let source = "The source latent providing frames to insert into the destination latent. If not provided, the destination \
                  latent is returned unchanged.";
    let index = "The starting latent frame index in the destination latent where the source latent frames will be placed. \
                 Negative values count from the end.";
    let inputs = vec![
        told(latent("destination"), destination),
        told(optional(latent("source")), source),
        int_input(
            "index",
            json!({"default": 0, "min": -16384, "max": 16384, "step": 1, "tooltip": index}),
        ),
    ];
    let definition = latest(
        "ReplaceVideoLatentFrames",
        MODULE,
        "latent/batch",
        json!({}),
    );
    gives_latent(definition, inputs)
}

/// Frames that do not fit leave the video as it is.
fn replace_frames(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let destination = given(inputs, "destination")?;
    if !inputs.has("source") {
        return Ok(one(destination.clone()));
    }
    let source = given(inputs, "source")?;
    let (frames, added) = (destination.samples.side(2), source.samples.side(2));
    let index: i64 = inputs.int("index")?;
    let index = if index < 0 {
        index + frames as i64
    } else {
        index
    };
    let Ok(index) = usize::try_from(index) else {
        return Err(NodeError::value(format!(
            "the index lies before the first of {frames} frames; use at least -{frames}"
        )));
    };
    if index + added > frames {
        context.text(
            "the frames of the source do not fit at this index: the destination stays as it is",
        );
        return Ok(one(destination.clone()));
    }
    let mut shape = destination.samples.shape().to_vec();
    shape[2] = added;
    let part = source.samples.expanded(&shape, context)?;
    let mut from = vec![0; shape.len()];
    from[2] = index;
    let samples = destination.samples.replaced(&from, &part, context)?;
    Ok(one(source.with(samples)))
}
