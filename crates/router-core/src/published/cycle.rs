//! Whether models that call models come back to where they began.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::ModelId;

/// The shortest way from `model` back to itself, if it calls `calls` and others call what `of` tells; it begins and ends with the
/// model.
pub(super) fn through<'a>(
    model: &'a ModelId,
    calls: &'a BTreeSet<ModelId>,
    of: impl Fn(&ModelId) -> Option<&'a BTreeSet<ModelId>>,
) -> Option<Vec<ModelId>> {
    let mut came_from: BTreeMap<&ModelId, &ModelId> = BTreeMap::new();
    let mut waiting = VecDeque::from([(model, calls)]);
    while let Some((caller, calls)) = waiting.pop_front() {
        for called in calls {
            if called == model {
                return Some(way(model, caller, &came_from));
            }
            if !came_from.contains_key(called) {
                came_from.insert(called, caller);
                waiting.extend(of(called).map(|calls| (called, calls)));
            }
        }
    }
    None
}

fn way(model: &ModelId, last: &ModelId, came_from: &BTreeMap<&ModelId, &ModelId>) -> Vec<ModelId> {
    let mut way = vec![model.clone()];
    let mut at = last;
    while at != model {
        way.push(at.clone());
        at = came_from[at];
    }
    way.push(model.clone());
    way.reverse();
    way
}
