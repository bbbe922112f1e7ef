//! Latents of videos along their frames: split into chunks and merged, evened out at the start, measured.

use serde_json::json;
use workflow_core::{NodeDefinition, OutputDefinition};

use super::av::AvLatent;
use super::empty::MAX_RESOLUTION;
use super::{Class, given, latent, one};
use crate::define::{
    dynamic_combo, hidden, int_input, latest, link, list_output, named, named_output,
};
use crate::latent::{Latent, Tensor};
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Slot, Value};

pub(super) const CLASSES: &[Class] = &[
    (start_definition, even_start),
    (chunk_definition, chunk),
    (merge_definition, merge),
    (size_definition, size),
    (freeze_definition, freeze),
];

/// The side that frames lie along.
const FRAMES: usize = 2;

fn told(output: OutputDefinition, tooltip: &str) -> OutputDefinition {
    OutputDefinition {
        tooltip: named(tooltip),
        ..output
    }
}

fn start_definition() -> NodeDefinition {
    let frames = |name, default: usize, tooltip: &str| {
        let bounds = json!({"default": default, "min": 1, "max": MAX_RESOLUTION, "step": 1, "tooltip": tooltip});
        int_input(name, bounds)
    };
    NodeDefinition {
        description: "Normalizes the initial frames of a video latent to match the mean and standard deviation of subsequent reference frames. Helps reduce differences between the starting frames and the rest of the video.".to_owned(),
        inputs: vec![
            latent("latent"),
            frames("start_frame_count", 4, "Number of latent frames to normalize, counted from the start"),
            frames("reference_frame_count", 5, "Number of latent frames after the start frames to use as reference"),
        ],
        outputs: vec![named_output("LATENT", "latent")],
        ..latest(
            "NormalizeVideoLatentStart",
            "comfy_extras.nodes_kandinsky5",
            "model/conditioning",
            json!({}),
        )
    }
}

/// How far the mean of a frame may sink and rise, and its deviation.
const MEAN_REACH: (f64, f64) = (0.3, 0.35);
const DEVIATION_REACH: (f64, f64) = (0.35, 0.5);

/// The first frames of a video with the mean and the deviation of those after them.
fn even_start(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "latent")?;
    let samples = &latent.samples;
    if samples.sides() > FRAMES && samples.side(FRAMES) <= 1 {
        return Ok(one(latent.clone()));
    }
    needs_video(samples)?;
    let total = samples.side(FRAMES);
    let start = inputs.count("start_frame_count")?.min(total);
    let after = inputs.count("reference_frame_count")?.min(total - 1);
    let end = start.saturating_add(after).min(total);
    if start == 0 || start == end {
        return Err(NodeError::value(format!(
            "the latent has {total} frames, so none is left after the first {start} to take the mean of; choose a smaller start_frame_count"
        )));
    }
    let reference = samples.part(FRAMES, start..end, context)?;
    let wanted = Spread::of(reference.data().iter());
    let first = samples.part(FRAMES, 0..start, context)?;
    let (_, frames, inner) = first.around(FRAMES);
    let channels = first.side(1);
    let block = channels * frames * inner;
    // A frame of an item: its samples lie apart, by channel.
    let places = |item: usize, frame: usize| {
        (0..channels).flat_map(move |channel| {
            let from = item * block + (channel * frames + frame) * inner;
            from..from + inner
        })
    };
    context.reserve(first.size_bytes())?;
    let mut made = first.data().to_vec();
    for item in 0..first.side(0) {
        for frame in 0..frames {
            context.check()?;
            let own = Spread::of(places(item, frame).map(|at| &first.data()[at]));
            let reach = |own: f64, (down, up): (f64, f64)| (own - down, own + up);
            let (low, high) = reach(own.mean, MEAN_REACH);
            let mean = wanted.mean.max(low).min(high);
            let (low, high) = reach(own.deviation, DEVIATION_REACH);
            let deviation = wanted.deviation.max(low).min(high);
            for at in places(item, frame) {
                let off = f64::from(first.data()[at]) - own.mean;
                made[at] = (off / (own.deviation + 1e-8) * deviation + mean) as f32;
            }
        }
    }
    let made = Tensor::new(first.shape().to_vec(), made);
    Ok(one(latent.with(samples.replaced(&[0; 5], &made, context)?)))
}

/// Mean and deviation of samples.
struct Spread {
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of<'a>(samples: impl Iterator<Item = &'a f32> + Clone) -> Self {
        let (mut count, mut sum) = (0.0, 0.0);
        for sample in samples.clone() {
            count += 1.0;
            sum += f64::from(*sample);
        }
        let mean = sum / count;
        let squares: f64 = samples
            .map(|sample| (f64::from(*sample) - mean).powi(2))
            .sum();
        Self {
            mean,
            deviation: (squares / (count - 1.0)).sqrt(),
        }
    }
}

fn needs_video(samples: &Tensor) -> Result<(), NodeError> {
    match samples.sides() {
        5 => Ok(()),
        _ => Err(NodeError::value(format!(
            "this works on latents of videos, whose samples have five sides; the shape of this one is {:?}",
            samples.shape()
        ))),
    }
}

/// Channels of the latents that the two classes of chunks take.
const CHANNELS: usize = 16;

/// Pictures that share a frame of the latent, after the first.
const PICTURES: usize = 4;

fn chunk_definition() -> NodeDefinition {
    let per_chunk = json!({
        "tooltip": "Pixel frames per temporal chunk (4n+1: 1, 5, 9, 13, ...).",
        "default": 21, "min": 1, "max": 16384, "step": 4,
    });
    let modes = vec![
        ("auto", vec![]),
        ("manual", vec![int_input("frames_per_chunk", per_chunk)]),
    ];
    let overlap = json!({
        "tooltip": "Latent frames shared between adjacent chunks and crossfaded at merge; 0 = no overlap.",
        "default": 0, "min": 0, "max": 16384,
    });
    let mut video = latent("latent");
    let tooltip = "The VAE-encoded SeedVR2 latent to split.";
    video.options.insert("tooltip".to_owned(), tooltip.into());
    let mode = json!({"tooltip": "manual = use frames_per_chunk exactly; auto = predict the largest chunk that fits free VRAM."});
    NodeDefinition {
        display_name: named("Split SeedVR2 Latent"),
        description: "Split a SeedVR2 video latent into overlapping temporal chunks small enough to sample one at a time within VRAM, wiring latents outputs to both Apply SeedVR2 Conditioning and the sampler latent input before recombining with Merge SeedVR2 Latents.".to_owned(),
        inputs: vec![
            video,
            int_input("temporal_overlap", overlap),
            dynamic_combo("chunking_mode", modes, mode),
        ],
        outputs: vec![
            OutputDefinition {
                name: "latents".to_owned(),
                ..told(list_output("LATENT"), "The temporal chunks in sequence order.")
            },
            told(
                named_output("INT", "temporal_overlap"),
                "The effective latent-frame overlap between adjacent chunks, for Merge SeedVR2 Latents.",
            ),
        ],
        ..latest(
            "SeedVR2TemporalChunk",
            "comfy_extras.nodes_seedvr",
            "model/latent/batch",
            json!({"search_aliases": ["seedvr2", "split", "chunk", "temporal", "video upscale", "rebatch"]}),
        )
    }
}

fn chunk(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "latent")?;
    let samples = &latent.samples;
    needs_video(samples)?;
    if samples.side(1) != CHANNELS {
        return Err(NodeError::value(format!(
            "latents of SeedVR2 have {CHANNELS} channels; the shape of this one is {:?}",
            samples.shape()
        )));
    }
    let overlap: i64 = inputs.int("temporal_overlap")?;
    let overlap = usize::try_from(overlap)
        .map_err(|_| NodeError::value("temporal_overlap must not be below 0"))?;
    let total = samples.side(FRAMES);
    // No sampler runs here, so whatever fits into the job's memory fits as a whole.
    let length = match inputs.text("chunking_mode")? {
        "manual" => {
            let pictures: usize = inputs.int("chunking_mode.frames_per_chunk")?;
            if pictures % PICTURES != 1 {
                return Err(NodeError::value(format!(
                    "frames_per_chunk must be 1, 5, 9, 13 or another multiple of 4 and one more; it is {pictures}"
                )));
            }
            pictures / PICTURES + 1
        }
        _ => total,
    };
    if total <= length {
        return Ok(listed(vec![latent.clone().into()], 0));
    }
    let overlap = overlap.min(length - 1);
    let mut chunks: Vec<Value> = Vec::new();
    for start in (0..total).step_by(length - overlap) {
        let end = (start + length).min(total);
        let chunk = samples.part(FRAMES, start..end, context)?;
        chunks.push(latent.with(chunk).into());
        if end == total {
            break;
        }
    }
    Ok(listed(chunks, overlap))
}

fn listed(chunks: Vec<Value>, overlap: usize) -> NodeOutput {
    NodeOutput {
        slots: vec![Slot::List(chunks), Slot::One(Value::Int(overlap as i128))],
        ..NodeOutput::none()
    }
}

fn merge_definition() -> NodeDefinition {
    let mut chunks = latent("latents");
    let tooltip = "The sampled temporal chunks in sequence order.";
    chunks.options.insert("tooltip".to_owned(), tooltip.into());
    let overlap = json!({
        "tooltip": "The temporal_overlap output of Split SeedVR2 Latent. 0 = plain concatenation.",
        "default": 0, "forceInput": true, "min": 0, "max": 16384,
    });
    NodeDefinition {
        display_name: named("Merge SeedVR2 Latents"),
        description: "Recombine sampled SeedVR2 latent temporal chunks into one latent, crossfading each overlap with a Hann window sized by the temporal_overlap wired from Split SeedVR2 Latent.".to_owned(),
        inputs: vec![chunks, int_input("temporal_overlap", overlap)],
        outputs: vec![told(
            named_output("LATENT", "latent"),
            "The recombined full-length latent.",
        )],
        takes_lists: true,
        ..latest(
            "SeedVR2TemporalMerge",
            "comfy_extras.nodes_seedvr",
            "model/latent/batch",
            json!({"search_aliases": ["seedvr2", "merge", "temporal", "hann", "crossfade"]}),
        )
    }
}

fn merge(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let overlap = match inputs.list("temporal_overlap")?.first() {
        Some(Value::Int(overlap)) if *overlap >= 0 => {
            usize::try_from(*overlap).unwrap_or(usize::MAX)
        }
        _ => {
            return Err(NodeError::value(
                "temporal_overlap must be a number that is not below 0",
            ));
        }
    };
    let values = inputs.list("latents")?;
    let latents = values.iter().map(|value| {
        let Value::Opaque(opaque) = value else {
            return None;
        };
        opaque.get::<Latent>()
    });
    let latents: Option<Vec<&Latent>> = latents.collect();
    let latents = latents.filter(|latents| !latents.is_empty());
    let latents =
        latents.ok_or_else(|| NodeError::value("latents must be the latents of videos"))?;
    let parts: Vec<&Tensor> = latents.iter().map(|latent| &latent.samples).collect();
    let first = parts[0];
    needs_video(first)?;
    let length = first.side(FRAMES);
    let last = parts.len() - 1;
    if parts[..last].iter().any(|part| part.side(FRAMES) != length) {
        return Err(NodeError::value(
            "only the last of the latents may have fewer frames than the first",
        ));
    }
    if !are_alike(&parts) {
        return Err(NodeError::value(
            "the latents differ in more than their frames; use chunks of one latent",
        ));
    }
    let merged = match overlap {
        0 => Tensor::joined(&parts, FRAMES, context)?,
        _ => crossfaded(&parts, length - overlap.min(length - 1), context)?,
    };
    Ok(one(Latent {
        noise_mask: None,
        ..latents[0].with(merged)
    }))
}

/// Chunks laid over each other, one every `step` frames.
fn crossfaded(parts: &[&Tensor], step: usize, context: &NodeContext) -> Result<Tensor, NodeError> {
    let (outer, length, inner) = parts[0].around(FRAMES);
    let last = parts[parts.len() - 1].side(FRAMES);
    let total = (step * (parts.len() - 1) + last).max(length);
    let mut shape = parts[0].shape().to_vec();
    shape[FRAMES] = total;
    let samples = outer * total * inner;
    context.reserve((samples * size_of::<f32>()) as u64)?;
    let mut merged = vec![0.0_f32; samples];
    let mut filled = 0_usize;
    for (place, part) in parts.iter().enumerate() {
        context.check()?;
        let (start, own) = (place * step, part.side(FRAMES));
        let fade = filled.saturating_sub(start).min(own);
        let weights = falling(fade);
        let blocks = merged.chunks_exact_mut(total * inner);
        for (block, part) in blocks.zip(part.data().chunks_exact(own * inner)) {
            let (over, rest) = part.split_at(fade * inner);
            let (fading, after) = block[start * inner..].split_at_mut(fade * inner);
            after[..rest.len()].copy_from_slice(rest);
            let frames = fading.chunks_exact_mut(inner).zip(over.chunks_exact(inner));
            for ((frame, over), weight) in frames.zip(&weights) {
                for (sample, over) in frame.iter_mut().zip(over) {
                    *sample = *sample * weight + over * (1.0 - weight);
                }
            }
        }
        filled = start + own;
    }
    Ok(Tensor::new(shape, merged))
}

/// Whether latents are alike in all but their frames.
fn are_alike(parts: &[&Tensor]) -> bool {
    let (first, rest) = (parts[0], &parts[1..]);
    rest.iter().all(|part| {
        let mut like = part.shape().to_vec();
        like.len() == first.sides() && {
            like[FRAMES] = first.side(FRAMES);
            like == first.shape()
        }
    })
}

/// How much of the earlier chunk is in each frame: all in the first third, half a cosine in the second, nothing in the last.
fn falling(frames: usize) -> Vec<f32> {
    let last = frames.saturating_sub(1).max(1) as f32;
    let weight = |frame: usize| {
        let place = (frame as f32 / last - 1.0 / 3.0) * 3.0;
        0.5 + 0.5 * (std::f32::consts::PI * place.clamp(0.0, 1.0)).cos()
    };
    (0..frames).map(weight).collect()
}

fn size_definition() -> NodeDefinition {
    let mut measured = link("latent", "LATENT");
    let tooltip = "The image or video latent to inspect.";
    measured
        .options
        .insert("tooltip".to_owned(), tooltip.into());
    let output = |name, tooltip| told(named_output("INT", name), tooltip);
    NodeDefinition {
        display_name: named("Get Image/Video Latent Size"),
        description:
            "Returns the width, height, frame count, and batch size of an image or video latent."
                .to_owned(),
        inputs: vec![measured],
        hidden: vec![workflow_core::HiddenInput {
            in_list: true,
            ..hidden("unique_id", "UNIQUE_ID")
        }],
        outputs: vec![
            output("width", "The latent width."),
            output("height", "The latent height."),
            output(
                "frames",
                "The latent frame count. Image latents have one frame.",
            ),
            output("batch_size", "The number of latents in the batch."),
        ],
        ..latest(
            "GetLatentSize",
            "comfy_extras.nodes_images",
            "latent",
            json!({"search_aliases": ["dimensions", "resolution", "latent info", "video latent size"]}),
        )
    }
}

fn size(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    // Of a video and its sound the video is measured.
    let latent = match inputs.opaque::<AvLatent>("latent") {
        Ok(both) => both.video(),
        Err(_) => inputs.opaque("latent")?,
    };
    let (batch, frames, height, width) = match *latent.samples.shape() {
        [batch, _, height, width] => (batch, 1, height, width),
        [batch, _, frames, height, width] => (batch, frames, height, width),
        _ => {
            return Err(NodeError::value(format!(
                "only latents of pictures and videos have a width and a height; the shape of this one is {:?}",
                latent.samples.shape()
            )));
        }
    };
    context.text(&format!(
        "width: {width}, height: {height}\n frames: {frames}, batch size: {batch}"
    ));
    let sizes = [width, height, frames, batch];
    Ok(NodeOutput::of(sizes.map(|size| Value::Int(size as i128))))
}

fn freeze_definition() -> NodeDefinition {
    let mut frozen = latent("latent");
    let tooltip = "Video or audio latent to freeze. Audio is 4D; video is 5D.";
    frozen.options.insert("tooltip".to_owned(), tooltip.into());
    NodeDefinition {
        display_name: named("LTXV Freeze Latent"),
        description: "Set noise_mask to 0 so this latent is kept clean during sampling. Works on video or audio. Typical uses: freeze audio before Concat AV so it only provides cross-attention, or freeze any latent that should not be denoised.".to_owned(),
        inputs: vec![frozen],
        outputs: vec![named_output("LATENT", "latent")],
        ..latest(
            "LTXVFreezeLatent",
            "comfy_extras.nodes_lt_keyframes",
            "model/latent/ltxv",
            json!({"search_aliases": ["noise mask", "freeze audio", "freeze video"]}),
        )
    }
}

/// The same latent with a mask that says to sample nowhere.
fn freeze(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "latent")?;
    let shape = match *latent.samples.shape() {
        [batch, _, frames, _, _] => vec![batch, 1, frames, 1, 1],
        [batch, _, frames, _] => vec![batch, 1, frames, 1],
        _ => {
            return Err(NodeError::value(format!(
                "only latents of sounds with four sides and of videos with five are frozen; the shape of this one is {:?}",
                latent.samples.shape()
            )));
        }
    };
    Ok(one(Latent {
        noise_mask: Some(Tensor::filled(&shape, 0.0, context)?),
        ..latent.clone()
    }))
}
