//! The fuzz targets without a fuzzer: the same entries, fed with committed files that are changed, always in the same way.

#![expect(clippy::unwrap_used, reason = "a test that cannot get on is to stop")]

#[path = "../../../tests/fuzz/entries/changed.rs"]
mod changed;
#[path = "../../../tests/fuzz/entries/graph.rs"]
mod entries;

use changed::{feed, seeds};
use workflow_core::NodeCatalog;

#[test]
fn any_graph_is_answered() {
    let nodes = engine_native::nodes::all();
    let catalog = NodeCatalog::new(nodes.iter().map(|node| node.definition()));
    let seeds = seeds("../../tests/fuzz/corpus/graph");
    feed(&seeds, 400, |bytes| entries::graph(bytes, &catalog));
}
