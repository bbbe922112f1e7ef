//! See `entries.rs`.

#![no_main]

#[path = "../entries.rs"]
#[allow(dead_code, reason = "each target calls one of them")]
mod entries;

use std::sync::LazyLock;

use workflow_core::NodeCatalog;

static CATALOG: LazyLock<NodeCatalog> = LazyLock::new(|| {
    let nodes = engine_native::nodes::all();
    NodeCatalog::new(nodes.iter().map(|node| node.definition()))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entries::graph(bytes, &CATALOG));
