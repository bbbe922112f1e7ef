//! Lists in another order, drawn by a seed.

use serde_json::{Value as Json, json};
use workflow_core::{InputDefinition, NodeDefinition, OutputDefinition};

use super::pictures::{frames, of_list, singles};
use super::{Class, MODULE, list, seed_input, whole};
use crate::define::{latest, link, named, named_output, string_input};
use crate::numpy_random::NumpyRandom;
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Slot, Value};

pub(super) const CLASSES: &[Class] = &[
    (
        || {
            of_list(
                "ShuffleDataset",
                "Shuffle Images List",
                aliases(),
                vec![seed_input()],
            )
        },
        |inputs, context| {
            let seed = whole(inputs, "seed")?;
            let images = singles(frames(inputs, context)?)?;
            let order = order(seed, images.len(), context)?;
            Ok(list(in_order(&order, &images)?))
        },
    ),
    (
        || {
            let name = "Shuffle Pairs of Image-Text";
            let captions = json!({"forceInput": true, "multiline": false});
            let lists = [
                (link("images", "IMAGE"), "IMAGE"),
                (string_input("texts", captions), "STRING"),
            ];
            shuffling("ShuffleImageTextDataset", name, "image/batch", &lists)
        },
        |inputs, context| shuffled(inputs, &["images", "texts"], context),
    ),
    (
        || {
            let lists = [(link("videos", "VIDEO"), "VIDEO")];
            shuffling(
                "ShuffleVideoDataset",
                "Shuffle Videos List",
                "video/batch",
                &lists,
            )
        },
        |inputs, context| shuffled(inputs, &["videos"], context),
    ),
    (
        || {
            let lists = [
                (link("videos", "VIDEO"), "VIDEO"),
                (string_input("texts", json!({"multiline": false})), "STRING"),
            ];
            let name = "Shuffle Pairs of Video-Text";
            shuffling("ShuffleVideoTextDataset", name, "video/batch", &lists)
        },
        |inputs, context| shuffled(inputs, &["videos", "texts"], context),
    ),
];

fn aliases() -> Json {
    json!({"search_aliases": ["shuffle", "randomize", "mix"]})
}

/// A class of lists, each with its type, that gives them in another order.
fn shuffling(
    class: &str,
    name: &str,
    category: &str,
    lists: &[(InputDefinition, &str)],
) -> NodeDefinition {
    let mut definition = latest(class, MODULE, category, aliases());
    let experimental = ("experimental".to_owned(), Json::Bool(true));
    definition.extra.extend([experimental]);
    let mut inputs: Vec<_> = lists.iter().map(|(input, _)| input.clone()).collect();
    inputs.push(seed_input());
    let outputs = lists.iter().map(|(input, io_type)| OutputDefinition {
        is_list: true,
        ..named_output(io_type, &input.name)
    });
    NodeDefinition {
        display_name: named(name),
        inputs,
        outputs: outputs.collect(),
        takes_lists: true,
        ..definition
    }
}

/// The lists, all in the order that is drawn for the first.
fn shuffled(
    inputs: &mut Inputs,
    names: &[&str],
    context: &NodeContext,
) -> Result<NodeOutput, NodeError> {
    let seed = whole(inputs, "seed")?;
    let mut lists = Vec::new();
    for name in names {
        lists.push(inputs.list(name)?);
    }
    let order = order(seed, lists[0].len(), context)?;
    let slots = lists
        .iter()
        .map(|list| Ok(Slot::List(in_order(&order, list)?)));
    Ok(NodeOutput {
        slots: slots.collect::<Result<_, NodeError>>()?,
        ..NodeOutput::none()
    })
}

fn order(seed: i128, count: usize, context: &NodeContext) -> Result<Vec<usize>, NodeError> {
    let count = u32::try_from(count)
        .map_err(|_| NodeError::value("the list is too long; shuffle a shorter one"))?;
    NumpyRandom::new(seed).permutation(count, context)
}

fn in_order(order: &[usize], list: &[Value]) -> Result<Vec<Value>, NodeError> {
    let item = |at: &usize| {
        list.get(*at).cloned().ok_or_else(|| {
            let message = format!(
                "there are {} pairs, but only {} texts; link a text for each",
                order.len(),
                list.len()
            );
            NodeError::new("IndexError", message)
        })
    };
    order.iter().map(item).collect()
}
