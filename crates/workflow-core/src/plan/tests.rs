//! Orders of small graphs, of the deepest one, and of any.

use std::sync::Arc;

use indexmap::IndexMap;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;
use crate::{MAX_NODES, NodeDefinition, ValidNode};

/// A graph of `(node, what it reads, in order)`, with these outputs.
fn graph(nodes: &[(&str, &[&str])], outputs: &[&str]) -> ValidGraph {
    let nodes = nodes.iter().map(|(id, sources)| {
        let sources: Vec<NodeId> = sources.iter().map(|source| NodeId::from(*source)).collect();
        (NodeId::from(*id), sources)
    });
    of_sources(
        nodes.collect(),
        outputs.iter().map(|output| NodeId::from(*output)).collect(),
    )
}

fn of_sources(nodes: Vec<(NodeId, Vec<NodeId>)>, outputs: Vec<NodeId>) -> ValidGraph {
    let definition = Arc::new(NodeDefinition {
        class: "Node".to_owned(),
        display_name: None,
        description: String::new(),
        python_module: String::new(),
        category: String::new(),
        inputs: Vec::new(),
        hidden: Vec::new(),
        outputs: Vec::new(),
        output_node: false,
        takes_lists: false,
        not_idempotent: false,
        accepts_all: false,
        fills_defaults: false,
        partner: None,
        extra: Map::new(),
        shown: None,
    });
    let node = |sources: Vec<NodeId>| {
        let links = sources
            .into_iter()
            .enumerate()
            .map(|(at, node)| (at.to_string(), NodeInput::Link { node, slot: 0 }));
        let constant = ("constant".to_owned(), NodeInput::Constant(Value::from("a")));
        ValidNode {
            definition: definition.clone(),
            inputs: std::iter::once(constant).chain(links).collect(),
        }
    };
    ValidGraph {
        nodes: nodes
            .into_iter()
            .map(|(id, sources)| (id, node(sources)))
            .collect::<IndexMap<_, _>>(),
        outputs,
        prompt: Arc::new(Map::new()),
    }
}

fn order(nodes: &[(&str, &[&str])], outputs: &[&str]) -> Vec<String> {
    let plan = Plan::of(&graph(nodes, outputs));
    plan.order.iter().map(NodeId::to_string).collect()
}

#[test]
fn a_line_runs_from_its_source() {
    assert_eq!(
        order(&[("save", &["b"]), ("a", &[]), ("b", &["a"])], &["save"]),
        ["a", "b", "save"]
    );
}

#[test]
fn a_diamond_is_run_once_first_input_first() {
    let diamond: &[(&str, &[&str])] = &[
        ("top", &[]),
        ("left", &["top"]),
        ("right", &["top"]),
        ("save", &["right", "left"]),
    ];
    assert_eq!(order(diamond, &["save"]), ["top", "right", "left", "save"]);
}

#[test]
fn outputs_go_one_after_another_and_share_what_they_need() {
    let nodes: &[(&str, &[&str])] = &[("1", &[]), ("2", &["1"]), ("3", &[]), ("4", &["3", "1"])];
    assert_eq!(order(nodes, &["4", "2"]), ["3", "1", "4", "2"]);
    assert_eq!(order(nodes, &["2", "4"]), ["1", "2", "3", "4"]);
}

#[test]
fn an_output_may_feed_another_one() {
    let nodes: &[(&str, &[&str])] = &[("1", &[]), ("2", &["1", "1"]), ("3", &["2"])];
    assert_eq!(order(nodes, &["2", "3"]), ["1", "2", "3"]);
    assert_eq!(order(nodes, &["3", "2"]), ["1", "2", "3"]);
}

#[test]
fn what_no_output_needs_is_not_counted() {
    let plan = Plan::of(&graph(&[("1", &[]), ("2", &["1"]), ("3", &["2"])], &["2"]));
    assert_eq!(plan.nodes_total(), 2);
    assert_eq!(Plan::of(&graph(&[], &[])).nodes_total(), 0);
}

#[test]
fn a_chain_may_be_as_deep_as_a_graph_is_large() {
    let id = |index: usize| NodeId::from(index.to_string().as_str());
    let nodes = (0..MAX_NODES).map(|index| {
        (
            id(index),
            (index + 1 < MAX_NODES)
                .then(|| id(index + 1))
                .into_iter()
                .collect(),
        )
    });
    let plan = Plan::of(&of_sources(nodes.collect(), vec![id(0)]));
    assert_eq!(plan.nodes_total() as usize, MAX_NODES);
    assert!(
        plan.order
            .iter()
            .rev()
            .enumerate()
            .all(|(index, node)| *node == id(index))
    );
}

proptest! {
    #[test]
    fn sources_come_first_each_once_and_always_alike(
        reads in vec(vec(any::<prop::sample::Index>(), 0..4), 1..40),
        outputs in vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let id = |index: usize| NodeId::from(index.to_string().as_str());
        // A node reads only earlier ones, so there is no cycle.
        let nodes: Vec<(NodeId, Vec<NodeId>)> = reads.iter().enumerate().map(|(at, reads)| {
            let sources = reads.iter().filter(|_| at > 0).map(|read| id(read.index(at.max(1))));
            (id(at), sources.collect())
        }).collect();
        let outputs: Vec<NodeId> = outputs.iter().map(|output| id(output.index(nodes.len()))).collect();
        let graph = of_sources(nodes.clone(), outputs.clone());
        let plan = Plan::of(&graph);
        prop_assert_eq!(&plan, &Plan::of(&graph.clone()));
        prop_assert!(outputs.iter().all(|output| plan.order.contains(output)));
        let sources: IndexMap<NodeId, Vec<NodeId>> = nodes.into_iter().collect();
        for (at, node) in plan.order.iter().enumerate() {
            prop_assert!(sources[node].iter().all(|source| plan.order[..at].contains(source)));
            prop_assert!(!plan.order[..at].contains(node));
            let is_read = plan.order[at..].iter().any(|reader| sources[reader].contains(node));
            prop_assert!(is_read || outputs.contains(node), "{} is needed by nobody", node);
        }
    }
}
