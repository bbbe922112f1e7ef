//! See `entries/graph.rs`.

#![no_main]

#[path = "../entries/graph.rs"]
mod graph;

use std::sync::LazyLock;

use workflow_core::NodeCatalog;

static CATALOG: LazyLock<NodeCatalog> = LazyLock::new(|| {
    let nodes = engine_native::nodes::all();
    NodeCatalog::new(nodes.iter().map(|node| node.definition()))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| graph::graph(bytes, &CATALOG));
