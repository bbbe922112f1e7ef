//! Graphs that nobody would write.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::Plan;

/// Any JSON.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        Just(json!("https://a/b.png")),
        Just(json!("cat.png [input]")),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let key = prop_oneof![
            "[a-z]{0,3}",
            Just("__value__".to_owned()),
            Just("__type".to_owned()),
            Just("info".to_owned())
        ];
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((key, inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Mostly links between a few nodes, so that they tangle.
fn input_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => (0..7_u8, 0..3_u8).prop_map(|(node, slot)| json!([node.to_string(), slot])),
        1 => Just(json!({"__type": "core/ASSET", "info": {"id": "id-1"}})),
        3 => json_value(),
    ]
}

fn node() -> impl Strategy<Value = Value> {
    let class = prop::sample::select(vec![
        "Make", "Load", "Change", "Join", "Values", "Words", "Save", "Gone",
    ]);
    let input = prop::sample::select(vec![
        "image", "images", "a", "b", "mask", "amount", "size", "prefix", "any", "either", "text",
        "int", "odd",
    ]);
    prop_oneof![
        9 => (class, vec((input, input_value()), 0..6)).prop_map(|(class, inputs)| {
            let inputs: Map<String, Value> = inputs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            json!({"class_type": class, "inputs": inputs})
        }),
        1 => json_value(),
    ]
}

/// Nodes on a cycle, found the slow way: by following every link from every node.
fn on_cycles(sent: &Graph) -> Vec<String> {
    let catalog = catalog();
    let sources = |id: &str| -> Vec<String> {
        let node = &sent.nodes()[id];
        let class = node
            .class_type
            .as_ref()
            .and_then(|class| catalog.get(class));
        // What a class that nobody knows reads is every input that looks like a link.
        let read = node.inputs.iter().filter(|(name, _)| {
            class.is_none_or(|class| class.inputs.iter().any(|input| input.name == **name))
        });
        read.filter_map(|(_, value)| match value.as_array()?.as_slice() {
            [Value::String(source), slot] if slot.is_u64() => Some(source.clone()),
            _ => None,
        })
        .filter(|source| sent.nodes().contains_key(source.as_str()))
        .collect()
    };
    let is_on_cycle = |id: &NodeId| {
        let mut open = sources(id.as_str());
        let mut seen = std::collections::HashSet::new();
        while let Some(next) = open.pop() {
            if seen.insert(next.clone()) {
                open.extend(sources(&next));
            }
        }
        seen.contains(id.as_str())
    };
    sent.nodes()
        .keys()
        .filter(|id| is_on_cycle(id))
        .map(NodeId::to_string)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_graph_is_too_wild(nodes in vec(node(), 1..7)) {
        let nodes: Map<String, Value> = nodes.into_iter().enumerate().map(|(id, node)| (id.to_string(), node)).collect();
        let sent = graph(Value::Object(nodes));
        let mut files = files_named(&["cat.png"]);
        files.insert("id-1".to_owned(), file("dog.png"));
        let validation = validate(&sent, &catalog(), &files, None);

        let outputs = sent.nodes().values().filter(|node| matches!(node.class_type.as_deref(), Some("Save" | "Values"))).count();
        let valid_outputs = validation.graph.as_ref().map_or(0, |valid| valid.outputs.len());
        prop_assert_eq!(valid_outputs + validation.invalid_outputs.len(), outputs);

        for output in &validation.invalid_outputs {
            let is_explained = validation.errors.values().any(|node| node.dependent_outputs.contains(output));
            prop_assert!(is_explained, "nothing says why {output} cannot run");
        }
        for error in validation.errors.values().flat_map(|node| &node.errors) {
            prop_assert!(!error.message().is_empty() && !error.reason().is_empty());
            let _ = error.details();
        }
        let cycles = on_cycles(&sent);
        for (id, found) in &validation.errors {
            let is_told = found.errors.iter().any(|error| matches!(error.kind, ValidationErrorKind::DependencyCycle { .. }));
            let is_needed = !found.dependent_outputs.is_empty();
            prop_assert_eq!(is_told, is_needed && cycles.contains(&id.to_string()), "{}", id);
        }

        if let Some(valid) = &validation.graph {
            let order = Plan::of(valid).order;
            prop_assert_eq!(order.len(), valid.nodes.len(), "nothing is left over");
            for (at, id) in order.iter().enumerate() {
                prop_assert!(!validation.errors.contains_key(id));
                let node = &valid.nodes[id];
                for input in &node.definition.inputs {
                    prop_assert!(!input.required || node.inputs.contains_key(&input.name));
                }
                for input in node.inputs.values() {
                    if let NodeInput::Link { node: source, slot } = input {
                        prop_assert!(order[..at].contains(source), "sources come first");
                        prop_assert!(*slot < valid.nodes[source].definition.outputs.len());
                    }
                }
            }
        }
    }
}
