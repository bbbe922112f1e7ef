//! Graphs that are fuzzed: any bytes at all are answered, within bounds. The fuzzer calls this, and so do the tests of
//! engine-native, with bytes that they change themselves.

use workflow_core::{Graph, NodeCatalog, Plan, ResolvedFiles, validate};

/// A submitted graph: parsed, validated, planned. What is valid has a plan of all of it; what is not has errors.
pub(crate) fn graph(bytes: &[u8], catalog: &NodeCatalog) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(graph) = serde_json::from_str(text)
        .map_err(drop)
        .and_then(|json| Graph::from_value(json).map_err(drop))
    else {
        return;
    };
    let validation = validate(&graph, catalog, &ResolvedFiles::new(), None);
    match validation.graph {
        Some(valid) => {
            let plan = Plan::of(&valid);
            assert!(
                plan.order.len() <= valid.nodes.len(),
                "a node is planned once"
            );
            assert!(!plan.order.is_empty(), "a valid graph has something to run");
        }
        None => assert!(
            validation.invalid_outputs.is_empty() || !validation.errors.is_empty(),
            "a refusal has a reason"
        ),
    }
}
