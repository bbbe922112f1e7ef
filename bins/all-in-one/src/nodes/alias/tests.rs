//! ComfyUI's own classes: each fills in a body that its model takes.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine_native::Value as NodeValue;
use engine_native::define::classic;
use engine_native::images::{Frame, Image};
use engine_native::{Inputs, NodeContext};
use workflow_core::NodeDefinition;

use super::super::fields::body;
use super::super::price::tests::models;
use super::*;

/// What a new node of the class puts into a body, with a prompt and a picture wherever it takes them.
fn filled(alias: &'static Alias) -> Value {
    let definition = NodeDefinition {
        inputs: alias.definitions(),
        ..classic(&alias.class, "tests", "tests")
    };
    let values = alias.inputs.iter().map(|input| {
        let name = input.name.as_str();
        let preset = input.options.get("default").or(input.choices.first());
        let value = match (input.kind, preset) {
            (AliasKind::Image, _) => {
                let frame = Arc::new(Frame::filled(2, 2, 3, 0.5));
                Image::new(vec![frame]).expect("a picture").into()
            }
            (AliasKind::String, Some(Value::String(text))) if text.is_empty() => {
                NodeValue::string("a cat")
            }
            (AliasKind::Combo, Some(choice)) => NodeValue::string(label(choice)),
            (_, Some(preset)) => NodeValue::from_json(preset),
            (_, None) => panic!("{name} has no default"),
        };
        (name, value)
    });
    let mut inputs = Inputs::new(definition, values);
    let body = body(&alias.form(), &mut inputs, &NodeContext::detached());
    body.expect("it is one").into()
}

#[test]
fn what_a_class_fills_in_is_a_body_of_its_model() {
    let models = models();
    let mut names = BTreeSet::new();
    for alias in all() {
        let class = &alias.class;
        assert!(names.insert(class), "{class} is there twice");
        let id = alias.model().expect("an id");
        let model = models.iter().find(|model| *model.id() == id);
        let model = model.unwrap_or_else(|| panic!("{class}: there is no {id}"));
        let body = filled(alias);
        assert_eq!(model.document().violations(&body), [], "{class}: {body}");
        for to in alias.inputs.iter().filter_map(|input| input.to.as_deref()) {
            // A member that the schema does not name takes anything.
            let mut odd = body.clone();
            *odd.pointer_mut(to).expect("it is filled in") = Value::Array(vec![Value::Null]);
            let violations = model.document().violations(&odd);
            assert!(!violations.is_empty(), "{class}: nothing is known of {to}");
        }
    }
    assert!(!names.is_empty());
}

#[test]
fn renamed_inputs_and_places_in_lists_are_found() {
    let alias = named("RunwayTextToImageNode").expect("it is known");
    let body = filled(alias);
    assert_eq!(body["promptText"], "a cat");
    let uri = body["referenceImages"][0]["uri"].as_str();
    assert!(uri.is_some_and(|uri| uri.starts_with("data:image/png;base64,")));
    assert_eq!(
        filled(named("RunwayImageToVideoNodeGen4").expect("known"))["duration"],
        5
    );
}
