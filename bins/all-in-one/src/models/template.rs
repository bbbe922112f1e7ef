//! A model's graph with its gaps, checked as far as that goes without a body.

use std::sync::Arc;

use asset_store::{AssetId, BlobHash};
use providers::{Fault, File};
use serde_json::{Map, Value, json};
use uuid::Uuid;
use workflow_core::{
    Graph, NodeCatalog, NodeDefinition, ResolvedFile, ResolvedFiles, Socket, validate,
};

use super::definition::{Field, InputRef, Wiring};
use crate::nodes::is_partner_class;

/// A graph that can run once its gaps are filled in.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) wiring: Wiring,
    nodes: Map<String, Value>,
}

impl Template {
    /// Reads a graph for the fields of a model.
    ///
    /// # Errors
    /// With everything that is wrong with the graph or with what the model's file says of it.
    pub(super) fn read(
        wiring: Wiring,
        model: &File,
        graph: &File,
        classes: &NodeCatalog,
    ) -> Result<Self, Vec<Fault>> {
        let Value::Object(nodes) = graph.json().map_err(|fault| vec![fault])? else {
            let reason = "a workflow in API format is an object of nodes";
            return Err(vec![Fault::at_start(&graph.path, reason)]);
        };
        let template = Self::of(wiring, nodes);
        // Whether a class of a model is known by now says nothing about it.
        let mut faults = template.calls_models(graph);
        if faults.is_empty() {
            faults = template.misplaced(model, classes);
            faults.extend(template.invalid(graph, classes, None));
        }
        if faults.is_empty() {
            Ok(template)
        } else {
            Err(faults)
        }
    }

    /// A graph that was checked before.
    pub(super) fn of(wiring: Wiring, nodes: Map<String, Value>) -> Self {
        Self { wiring, nodes }
    }

    /// The graph with these values in place of its gaps.
    pub(super) fn fill<'a>(
        &self,
        values: impl IntoIterator<Item = (&'a InputRef, Value)>,
    ) -> Map<String, Value> {
        let mut nodes = self.nodes.clone();
        for (place, value) in values {
            let node = nodes.get_mut(&place.node).and_then(Value::as_object_mut);
            let inputs = node.map(|node| node.entry("inputs").or_insert_with(|| json!({})));
            if let Some(inputs) = inputs.and_then(Value::as_object_mut) {
                inputs.insert(place.input.clone(), value);
            }
        }
        nodes
    }

    /// The field that fills an input in.
    pub(super) fn field_of(&self, node: &str, input: &str) -> Option<&str> {
        let mut fields = self.wiring.fields.iter();
        let found = fields.find(|(_, field)| {
            let mut into = field.into.iter();
            into.any(|place| place.node == node && place.input == input)
        });
        found.map(|(name, _)| name.as_str())
    }

    /// The field whose picture a node reads.
    pub(super) fn picture_of(&self, node: &str) -> Option<&str> {
        let mut fields = self.wiring.fields.iter();
        let found = fields
            .find(|(_, field)| field.picture && field.into.iter().any(|place| place.node == node));
        found.map(|(name, _)| name.as_str())
    }

    fn class<'a>(&self, node: &str, classes: &'a NodeCatalog) -> Option<&'a Arc<NodeDefinition>> {
        classes.get(self.nodes.get(node)?.get("class_type")?.as_str()?)
    }

    /// Fields that lead nowhere, and an output that is none.
    fn misplaced(&self, model: &File, classes: &NodeCatalog) -> Vec<Fault> {
        let fault = |needle: &str, reason: String| {
            Fault::mentioning(&model.path, &model.text, needle, reason)
        };
        let mut faults = Vec::new();
        for (name, field) in &self.wiring.fields {
            let header = format!("[fields.{name}]");
            if field.into.is_empty() {
                faults.push(fault(&header, format!("the field `{name}` goes nowhere")));
            }
            for place in &field.into {
                if let Err(reason) = self.fits(field, place, classes) {
                    faults.push(fault(&header, reason));
                }
            }
        }
        let output = &self.wiring.output.node;
        match self.class(output, classes) {
            Some(class) if class.output_node => {}
            Some(class) => {
                let reason = format!("node {output} ({}) makes no outputs", class.class);
                faults.push(fault("[output]", reason));
            }
            None => {
                let reason = format!("the graph has no node {output} of a class that runs here");
                faults.push(fault("[output]", reason));
            }
        }
        faults
    }

    fn fits(&self, field: &Field, place: &InputRef, classes: &NodeCatalog) -> Result<(), String> {
        let InputRef { node, input } = place;
        let class = self
            .class(node, classes)
            .ok_or_else(|| format!("the graph has no node {node} of a class that runs here"))?;
        let named = &class.class;
        let sent = self.nodes[node.as_str()]
            .get("inputs")
            .and_then(Value::as_object);
        let expanded = sent.and_then(|sent| class.expanded(sent));
        let definition = expanded
            .as_ref()
            .unwrap_or(class.as_ref())
            .input(input)
            .ok_or_else(|| format!("node {node} ({named}) has no input `{input}`"))?;
        match (&definition.socket, field.picture) {
            (Socket::File { .. }, true) => Ok(()),
            (Socket::File { .. }, false) => Err(format!(
                "input `{input}` of node {node} ({named}) takes a file; say `picture = true`"
            )),
            (_, true) => Err(format!(
                "input `{input}` of node {node} ({named}) takes no picture; a node such as LoadImage does"
            )),
            (Socket::Link(_), false) => Err(format!(
                "input `{input}` of node {node} ({named}) takes a link to another node and no value"
            )),
            (Socket::Autogrow(_), false) => Err(format!(
                "input `{input}` of node {node} ({named}) is a group; name one of its members"
            )),
            (
                Socket::Int
                | Socket::Float
                | Socket::String
                | Socket::Boolean
                | Socket::Combo { .. }
                | Socket::DynamicCombo(_)
                | Socket::Widget(_)
                | Socket::Open(_),
                false,
            ) => Ok(()),
        }
    }

    /// What the validator of submissions finds, with any picture where one goes; `targets` narrows the outputs.
    pub(super) fn invalid(
        &self,
        graph: &File,
        classes: &NodeCatalog,
        targets: Option<&[String]>,
    ) -> Vec<Fault> {
        let any = AssetId(Uuid::nil());
        let pictures = self.wiring.fields.values().filter(|field| field.picture);
        let places = pictures.flat_map(|field| &field.into);
        let filled = self.fill(places.map(|place| (place, reference(any))));
        let parsed = match Graph::from_value(Value::Object(filled)) {
            Ok(parsed) => parsed,
            Err(error) => return vec![Fault::at_start(&graph.path, error.to_string())],
        };
        let file = ResolvedFile {
            asset: any,
            hash: BlobHash::of(b""),
            size_bytes: 0,
            name: "picture.png".to_owned(),
        };
        let files = ResolvedFiles::from([(any.to_string(), file)]);
        let validation = validate(&parsed, classes, &files, targets);
        let mut faults = Vec::new();
        for (node, errors) in &validation.errors {
            for error in &errors.errors {
                let input = error
                    .input
                    .as_deref()
                    .map(|input| format!(", input `{input}`"));
                let reason = format!(
                    "node {node}{}: {}",
                    input.unwrap_or_default(),
                    error.reason()
                );
                faults.push(at_node(graph, node.as_str(), reason));
            }
        }
        if faults.is_empty() && validation.graph.is_none() {
            faults.push(Fault::at_start(
                &graph.path,
                "no node of it makes an output",
            ));
        }
        faults
    }

    /// Nodes that call models of the catalog: a model made of them could come to call itself, so there is none.
    fn calls_models(&self, graph: &File) -> Vec<Fault> {
        let calls = |node: &str| {
            let class = self.nodes.get(node)?.get("class_type")?.as_str()?;
            is_partner_class(class).then(|| class.to_owned())
        };
        let found = self.nodes.keys().filter_map(|node| {
            let reason = format!(
                "node {node} ({}) calls a model; a model that runs here is made without others",
                calls(node)?
            );
            Some(at_node(graph, node, reason))
        });
        found.collect()
    }
}

/// What stands for an asset in a graph.
pub(super) fn reference(asset: AssetId) -> Value {
    json!({"__type": "core/ASSET", "info": {"id": asset.to_string()}})
}

fn at_node(graph: &File, node: &str, reason: String) -> Fault {
    let key = Value::String(node.to_owned()).to_string();
    Fault::mentioning(&graph.path, &graph.text, &format!("{key}:"), reason)
}
