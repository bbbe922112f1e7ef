//! Links and cycles.

use serde_json::json;

use super::*;

/// The error of `Save.images` when it holds `link`; node 1 makes an image and a mask.
fn linked(link: Value) -> Option<ValidationError> {
    let validation = check(json!({
        "1": {"class_type": "Make", "inputs": {}},
        "2": {"class_type": "Save", "inputs": {"images": link}},
    }));
    validation
        .errors
        .into_values()
        .flat_map(|node| node.errors)
        .next()
}

#[test]
fn a_link_is_a_node_id_and_a_whole_slot() {
    assert_eq!(linked(json!(["1", 0])), None);
    for wrong in [
        json!([]),
        json!(["1"]),
        json!(["1", 0, 0]),
        json!([1, 0]),
        json!(["1", "0"]),
        json!(["1", -1]),
        json!(["1", 0.5]),
        json!([null, null]),
    ] {
        let error = linked(wrong.clone()).unwrap();
        assert_eq!(error.kind, ValidationErrorKind::BadLinkedInput, "{wrong}");
        assert_eq!(error.received, Some(wrong));
    }
}

#[test]
fn a_link_leads_to_a_slot_that_is_there() {
    let reason = |link| linked(link).unwrap().reason();
    assert_eq!(
        reason(json!(["99", 0])),
        "links to node '99', which is not in the workflow"
    );
    assert_eq!(
        reason(json!(["1", 2])),
        "links to slot 2 of node '1', which has no such output"
    );
    assert_eq!(
        reason(json!(["1", u64::MAX])),
        "links to slot 18446744073709551615 of node '1', which has no such output"
    );
    assert_eq!(linked(json!(["99", 0])).unwrap().details(), "'99'");
    assert_eq!(
        linked(json!(["1", 2])).unwrap().details(),
        "tuple index out of range"
    );
}

#[test]
fn a_broken_link_of_an_inner_node_is_told_as_such() {
    let validation = check(json!({
        "1": {"class_type": "Change", "inputs": {"image": ["99", 0]}},
        "2": {"class_type": "Save", "inputs": {"images": ["1", 0]}},
    }));
    assert_eq!(
        told(&validation),
        ["1.image exception_during_inner_validation"]
    );
    let error = sole_error(&validation);
    assert_eq!(error.message(), "Exception when validating inner node");
    let ValidationErrorKind::UnknownLink {
        read_by: Some((node, input)),
        ..
    } = &error.kind
    else {
        panic!("read by the output")
    };
    assert_eq!((node.as_str(), input.as_str()), ("2", "images"));
}

#[test]
fn a_link_carries_a_type_that_its_socket_takes() {
    // Slots of `Words`: STRING, any, COMBO, LATENT or MASK.
    let cases = [
        ("text", 0, true),
        ("text", 1, true),
        ("text", 2, false),
        ("text", 3, false),
        ("int", 0, false),
        ("float", 0, false),
        ("int", 1, true),
        ("old", 0, false),
        ("new", 0, false),
        ("old", 2, true),
        ("new", 2, true),
        ("old", 1, true),
        ("either", 0, false),
        ("either", 3, true),
        ("any", 0, true),
        ("any", 3, true),
    ];
    for (input, slot, fits) in cases {
        let validation = check(json!({
            "1": {"class_type": "Words", "inputs": {}},
            "2": {"class_type": "Values", "inputs": {input: ["1", slot]}},
        }));
        assert_eq!(
            validation.errors.is_empty(),
            fits,
            "{input} from slot {slot}"
        );
        if let Some(valid) = validation.graph {
            assert_eq!(
                valid.nodes["2"].inputs[input],
                NodeInput::Link {
                    node: "1".into(),
                    slot
                }
            );
        }
    }
}

#[test]
fn a_mismatch_names_both_types() {
    let error = linked(json!(["1", 1])).unwrap();
    assert_eq!(
        error.details(),
        "images, received_type(MASK) mismatch input_type(IMAGE)"
    );
    assert_eq!(
        error.reason(),
        "takes IMAGE, but slot 1 of node '1' gives MASK"
    );
    let validation = check(json!({
        "1": {"class_type": "Words", "inputs": {}},
        "2": {"class_type": "Values", "inputs": {"old": ["1", 0]}},
    }));
    assert_eq!(
        sole_error(&validation).details(),
        "old, received_type(STRING) mismatch input_type(['a', 'b'])"
    );
}

#[test]
fn what_reads_an_invalid_node_is_invalid_without_an_error_of_its_own() {
    let validation = check(json!({
        "1": {"class_type": "Make", "inputs": {"size": 0}},
        "2": {"class_type": "Change", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "Save", "inputs": {"images": ["2", 0]}},
    }));
    assert_eq!(told(&validation), ["1.size value_smaller_than_min"]);
    assert_eq!(ids(&validation.invalid_outputs), ["3"]);
}

/// Each node's cycle.
fn cycles(validation: &Validation) -> Vec<String> {
    let errors = validation.errors.iter();
    errors
        .map(|(node, found)| format!("{node}: {}", found.errors[0].details()))
        .collect()
}

#[test]
fn every_node_of_a_cycle_is_told_of_it() {
    let validation = check(json!({
        "1": {"class_type": "Change", "inputs": {"image": ["2", 0]}},
        "2": {"class_type": "Change", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "Save", "inputs": {"images": ["2", 0]}},
    }));
    assert_eq!(
        told(&validation),
        ["1 dependency_cycle", "2 dependency_cycle"]
    );
    let cycle = "2 (Change) -> 1 (Change) -> 2 (Change)";
    assert_eq!(
        cycles(&validation),
        [format!("1: {cycle}"), format!("2: {cycle}")]
    );
    assert_eq!(
        validation.errors["1"].errors[0].message(),
        "Dependency cycle detected"
    );
    assert_eq!(
        validation.errors["1"].errors[0].reason(),
        format!("the node waits for its own result; break the cycle {cycle}")
    );
    assert_eq!(ids(&validation.errors["1"].dependent_outputs), ["3"]);
}

#[test]
fn cycles_that_share_nodes_are_told_to_each_node_on_any_of_them() {
    // 1 reads 2 and 3, both read 4, and 4 reads 1; 5 reads itself; 6 is only behind them.
    let validation = check(json!({
        "1": {"class_type": "Join", "inputs": {"a": ["2", 0], "b": ["3", 0]}},
        "2": {"class_type": "Change", "inputs": {"image": ["4", 0]}},
        "3": {"class_type": "Change", "inputs": {"image": ["4", 0]}},
        "4": {"class_type": "Join", "inputs": {"a": ["1", 0], "b": ["5", 0]}},
        "5": {"class_type": "Join", "inputs": {"a": ["5", 0], "b": ["6", 0]}},
        "6": {"class_type": "Make", "inputs": {}},
        "7": {"class_type": "Save", "inputs": {"images": ["1", 0]}},
    }));
    assert_eq!(
        cycles(&validation),
        [
            "1: 1 (Join) -> 2 (Change) -> 4 (Join) -> 1 (Join)",
            "2: 1 (Join) -> 2 (Change) -> 4 (Join) -> 1 (Join)",
            "3: 1 (Join) -> 3 (Change) -> 4 (Join) -> 1 (Join)",
            "4: 1 (Join) -> 2 (Change) -> 4 (Join) -> 1 (Join)",
            "5: 5 (Join) -> 5 (Join)",
        ]
    );
}

#[test]
fn a_cycle_that_no_output_needs_is_nobodys_concern() {
    let validation = check(json!({
        "1": {"class_type": "Change", "inputs": {"image": ["1", 0]}},
        "2": {"class_type": "Values", "inputs": {}},
    }));
    assert!(validation.errors.is_empty() && validation.graph.is_some());
}
