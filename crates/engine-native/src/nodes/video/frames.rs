//! Some of a video's pictures: the first or the last ones, evenly or randomly chosen ones, or those of a range.

use serde_json::{Value as Json, json};
use workflow_core::{InputDefinition, NodeDefinition};

use super::super::class::Class;
use super::edit::cut;
use super::read::{chosen, told};
use super::{Video, video};
use crate::define::{int_input, latest, link, modern_combo, named, named_output};
use crate::numpy_random::NumpyRandom;
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Value};

pub(in crate::nodes) const CLASSES: &[Class] = &[
    (sample_definition, sample),
    (
        || {
            let start = int_input("start_frame", json!({"default": 0, "min": 0, "max": 99999}));
            let aliases = ["crop", "crop video", "temporal crop", "truncate video"];
            let name = "Crop Video (Temporal)";
            cropping("VideoTemporalCrop", name, &aliases, vec![start, length()])
        },
        |inputs, context| {
            let count: u32 = inputs.int("length")?;
            let start: u32 = inputs.int("start_frame")?;
            ranged(inputs, context, |all| {
                let start = start.min(all - 1);
                (start, count.min(all - start))
            })
        },
    ),
    (
        || {
            let aliases = [
                "crop",
                "crop video",
                "temporal crop",
                "truncate video",
                "random crop",
            ];
            let name = "Crop Video (Temporal Random)";
            cropping(
                "VideoRandomTemporalCrop",
                name,
                &aliases,
                vec![length(), seed()],
            )
        },
        |inputs, context| {
            let count: u32 = inputs.int("length")?;
            let mut random = NumpyRandom::new(inputs.int("seed")?);
            ranged(inputs, context, |all| {
                let count = count.min(all);
                (random.up_to(all - count), count)
            })
        },
    ),
];

fn of_video(
    class: &str,
    name: &str,
    category: &str,
    aliases: &[&str],
    more: Vec<InputDefinition>,
) -> NodeDefinition {
    let mut inputs = vec![link("video", "VIDEO")];
    inputs.extend(more);
    NodeDefinition {
        display_name: named(name),
        inputs,
        outputs: vec![named_output("VIDEO", "video")],
        ..latest(
            class,
            "comfy_extras.nodes_dataset",
            category,
            json!({"search_aliases": Json::from(aliases), "experimental": true}),
        )
    }
}

fn cropping(
    class: &str,
    name: &str,
    aliases: &[&str],
    more: Vec<InputDefinition>,
) -> NodeDefinition {
    of_video(class, name, "video/transform", aliases, more)
}

fn length() -> InputDefinition {
    int_input("length", json!({"default": 16, "min": 1, "max": 99999}))
}

fn seed() -> InputDefinition {
    int_input("seed", json!({"default": 0, "min": 0, "max": u64::MAX}))
}

fn sample_definition() -> NodeDefinition {
    let inputs = vec![
        int_input("num_frames", json!({"default": 16, "min": 1, "max": 9999})),
        modern_combo(
            "strategy",
            &["uniform", "head", "tail", "random"],
            json!({"default": "uniform"}),
        ),
        seed(),
    ];
    let aliases = ["sample frames", "extract frames"];
    of_video(
        "VideoFrameSample",
        "Sample Video Frame",
        "video",
        &aliases,
        inputs,
    )
}

/// How pictures are chosen.
#[derive(Clone, Copy)]
enum Strategy {
    Uniform,
    Head,
    Tail,
    Random,
}

fn sample(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let strategy = inputs.choice("strategy", |word| match word {
        "uniform" => Some(Strategy::Uniform),
        "head" => Some(Strategy::Head),
        "tail" => Some(Strategy::Tail),
        "random" => Some(Strategy::Random),
        _ => None,
    })?;
    let count: u32 = inputs.int("num_frames")?;
    let mut random = NumpyRandom::new(inputs.int("seed")?);
    let (video, all, rate) = counted(inputs, context)?;
    let count = count.min(all);
    let places = match strategy {
        Strategy::Head => return part(video, (0, count), rate),
        Strategy::Tail => return part(video, (all - count, count), rate),
        Strategy::Uniform if count == 1 => vec![all as usize / 2],
        Strategy::Uniform => {
            let place = |at: u32| f64::from(at) * f64::from(all - 1) / f64::from(count - 1);
            (0..count)
                .map(|at| place(at).round_ties_even() as usize)
                .collect()
        }
        Strategy::Random => {
            let mut places = random.permutation(all, context)?;
            places.truncate(count as usize);
            places.sort_unstable();
            places
        }
    };
    let images = chosen(video, &places, context)?;
    let video = Video::Parts {
        images,
        sound: None,
        rate,
        is_deep: false,
    };
    Ok(Value::from(video).into())
}

/// The range that `range` tells of the number of all pictures: the first, and how many.
fn ranged(
    inputs: &mut Inputs,
    context: &NodeContext,
    range: impl FnOnce(u32) -> (u32, u32),
) -> Result<NodeOutput, NodeError> {
    let (video, all, rate) = counted(inputs, context)?;
    part(video, range(all), rate)
}

/// A video, how many pictures it has, and how many a second.
fn counted(inputs: &mut Inputs, context: &NodeContext) -> Result<(Video, u32, f64), NodeError> {
    let video = video(inputs)?;
    let (all, rate) = told(&video, context)?;
    let all = u32::try_from(all).ok().filter(|all| *all > 0);
    let all = all.ok_or_else(|| {
        NodeError::value("the video has no pictures, or more than can be counted; choose another")
    })?;
    Ok((video, all, rate))
}

fn part(video: Video, (first, count): (u32, u32), rate: f64) -> Result<NodeOutput, NodeError> {
    let seconds = f64::from(count) / rate;
    let part = cut(video, f64::from(first) / rate, Some(seconds))?;
    Ok(Value::from(part).into())
}
