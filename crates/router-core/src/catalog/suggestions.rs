//! "Did you mean": ids that are few typing errors away, found without looking at the whole catalog.

use accounts::Entitlements;

use super::{Catalog, is_visible};
use crate::ModelId;

/// Most suggestions (model_not_found).
const MOST: usize = 3;

/// How many neighbours on each side of where the text would stand are looked at, in each of the two orders. Bounds the work
/// that an unknown id makes, however large the catalog is.
const NEIGHBOURS: usize = 128;

/// Longest text that is compared: as long as an id may be.
const LONGEST: usize = 193;

/// The closest ids to `text`, closest first, equally close ones in their order.
pub(super) fn of(catalog: &Catalog, text: &str, visible: &Entitlements) -> Vec<ModelId> {
    let text = text.to_ascii_lowercase();
    let by_id = around(&catalog.ordered, |id| id.as_str() < text.as_str());
    let name = name_in(&text);
    let by_name = around(&catalog.by_name, |id| id.model() < name);
    let visible = by_id.chain(by_name).filter(|id| is_visible(id, visible));
    nearest(visible, &text)
}

/// The ids closest to `text`, at most three, closest first, equally close ones in their order. It compares `text` with each
/// of `ids`. What is nearer to nothing than to `text` is not among them.
pub fn nearest<'a>(ids: impl Iterator<Item = &'a ModelId>, text: &str) -> Vec<ModelId> {
    let text = text.get(..text.len().min(LONGEST)).unwrap_or_default();
    let name = name_in(text);
    let mut found: Vec<(usize, &ModelId)> = ids
        .map(|id| (distance(id, text, name), id))
        .filter(|(distance, id)| *distance * 2 <= id.as_str().len().max(text.len()))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
        .into_iter()
        .take(MOST)
        .map(|(_, id)| id.clone())
        .collect()
}

/// What stands behind the provider, if one is named.
fn name_in(text: &str) -> &str {
    text.split_once('/').map_or(text, |(_, name)| name)
}

/// The ids around the place where `is_before` ends.
fn around(
    models: &[std::sync::Arc<crate::Model>],
    is_before: impl Fn(&ModelId) -> bool,
) -> impl Iterator<Item = &ModelId> {
    let place = models.partition_point(|model| is_before(model.id()));
    let first = place.saturating_sub(NEIGHBOURS);
    let last = place.saturating_add(NEIGHBOURS).min(models.len());
    models[first..last].iter().map(|model| model.id())
}

/// How far an id is from a text; the very model of another provider is near, whatever the provider is called.
fn distance(id: &ModelId, text: &str, name: &str) -> usize {
    let whole = edits(id.as_str(), text);
    if id.model() == name {
        whole.min(2)
    } else {
        whole
    }
}

/// The least number of inserted, removed or replaced bytes that make one text of the other.
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, left) in one.bytes().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (index, right) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(diagonal + 1).min(row[index] + 1);
        }
    }
    row[other.len()]
}
