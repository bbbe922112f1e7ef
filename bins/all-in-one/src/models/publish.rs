//! From a graph that an operator publishes to a model: its fields, its output and the schema of its body.
//!
//! Fields of the body are what the command names, the inputs of nodes whose title begins with `input:`, and every file that
//! the graph loads. Everything else stays as it is written in the graph.

mod fields;
mod schema;

use std::collections::BTreeSet;
use std::sync::Arc;

use providers::File;
use router_core::{
    ChargesOnPolicyRejection, ModelDefinition, ModelId, published::PublishedVersion,
};
use router_server::ModelMaker;
use serde_json::{Map, Value};
use server_kit::admin::GraphBody;
use workflow_core::{Graph, NodeCatalog, NodeDefinition, Socket};

use super::definition::{Output, OutputForm, PublishedModel, Wiring};
use super::kind::form;
use super::runner::WorkflowModel;
use super::template::Template;
use super::{WorkflowKind, Workflows};
use crate::nodes::model_of;

/// The field of every published model that asks for results in the answer itself.
const INLINE: &str = "inline";

/// Most bytes of a graph as text.
const MOST_GRAPH_BYTES: usize = 1 << 20;

/// The most that a call may cost: ten million dollars.
const MOST_PRICE_CENTS: u64 = 1_000_000_000;

/// Most bytes of a description.
const MOST_DESCRIPTION_BYTES: usize = 4096;

/// A graph to be published, with the classes that run here.
struct Source<'a> {
    nodes: &'a Map<String, Value>,
    classes: &'a NodeCatalog,
}

/// Makes models of graphs.
#[derive(Debug)]
pub(crate) struct GraphModels(Arc<Workflows>);

impl GraphModels {
    /// Models that run as those of `kind` do.
    pub(crate) fn of(kind: &WorkflowKind) -> Self {
        Self(Arc::clone(kind.workflows()))
    }
}

impl ModelMaker for GraphModels {
    fn calls(&self, graph: &Map<String, Value>) -> BTreeSet<ModelId> {
        let classes = graph
            .values()
            .filter_map(|node| node.get("class_type")?.as_str());
        classes.filter_map(model_of).collect()
    }

    fn derive(&self, model: &ModelId, body: &GraphBody) -> Result<Arc<str>, Vec<String>> {
        let derived = derive(model, body, &self.0.jobs.nodes())?;
        let text = serde_json::to_string(&derived).expect("it has keys of text");
        Ok(text.into())
    }

    fn make(&self, id: &ModelId, version: &PublishedVersion) -> Result<ModelDefinition, String> {
        let read: Result<PublishedModel, _> = serde_json::from_str(&version.text);
        let PublishedModel {
            wiring,
            schema,
            graph,
        } = read.map_err(|error| format!("its text cannot be read: {error}"))?;
        let template = Template::of(wiring, graph);
        Ok(ModelDefinition {
            id: id.clone(),
            charges_on_policy_rejection: ChargesOnPolicyRejection::No,
            input_schema: Some(schema),
            form: form(id.provider(), &template),
            polling: None,
            alternates: Vec::new(),
            provider: Arc::new(WorkflowModel::new(template, Arc::clone(&self.0))),
        })
    }
}

/// The model that a graph is to be.
fn derive(
    model: &ModelId,
    body: &GraphBody,
    classes: &NodeCatalog,
) -> Result<PublishedModel, Vec<String>> {
    let one = |message: String| vec![message];
    if body.price_cents > MOST_PRICE_CENTS {
        return Err(one(format!(
            "a call may cost at most {MOST_PRICE_CENTS} cents"
        )));
    }
    let description = body.description.as_deref().unwrap_or_default();
    if description.len() > MOST_DESCRIPTION_BYTES {
        return Err(one(format!(
            "the description has more than {MOST_DESCRIPTION_BYTES} bytes; shorten it"
        )));
    }
    let graph = Value::Object(body.graph.clone());
    let text = graph.to_string();
    if text.len() > MOST_GRAPH_BYTES {
        return Err(one(format!(
            "the graph has more than {MOST_GRAPH_BYTES} bytes; load what is large in it from a file"
        )));
    }
    Graph::from_value(graph).map_err(|error| one(error.to_string()))?;
    let source = Source {
        nodes: &body.graph,
        classes,
    };
    let output = source.output(body.output.as_deref()).map_err(one)?;
    let reached = source.reached_from(&output.node);
    let found = fields::find(&source, &body.inputs, &reached)?;
    let schema = schema::of(model, body.description.as_deref(), &found);
    let fields = found.into_iter().map(|found| (found.name, found.field));
    let wiring = Wiring {
        price_cents: body.price_cents,
        fields: fields.collect(),
        output,
    };
    let template = Template::of(wiring.clone(), body.graph.clone());
    let file = File {
        path: String::new(),
        text,
    };
    let targets = [wiring.output.node.clone()];
    let faults = template.invalid(&file, classes, Some(&targets));
    if !faults.is_empty() {
        return Err(faults.into_iter().map(|fault| fault.reason).collect());
    }
    Ok(PublishedModel {
        wiring,
        schema,
        graph: body.graph.clone(),
    })
}

impl Source<'_> {
    fn class_name(&self, node: &str) -> Option<&str> {
        self.nodes.get(node)?.get("class_type")?.as_str()
    }

    /// The class of a node, as this node has it.
    fn class(&self, node: &str) -> Option<Arc<NodeDefinition>> {
        let class = self.classes.get(self.class_name(node)?)?;
        let expanded = self.inputs(node).and_then(|sent| class.expanded(sent));
        Some(expanded.map_or_else(|| Arc::clone(class), Arc::new))
    }

    fn inputs(&self, node: &str) -> Option<&Map<String, Value>> {
        self.nodes.get(node)?.get("inputs")?.as_object()
    }

    /// What people call a node.
    fn title(&self, node: &str) -> Option<&str> {
        let title = self.nodes.get(node)?.get("_meta")?.get("title")?;
        title.as_str().map(str::trim)
    }

    /// The node of this id, or else the only one with this title.
    fn find(&self, text: &str) -> Option<&str> {
        if let Some((node, _)) = self.nodes.get_key_value(text) {
            return Some(node);
        }
        let nodes = self.nodes.keys();
        let mut titled = nodes.filter(|node| self.title(node) == Some(text));
        match (titled.next(), titled.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }

    /// The nodes for people.
    fn listed<'n>(&self, nodes: impl Iterator<Item = &'n str>) -> String {
        let shown = nodes.map(|node| match self.class_name(node) {
            Some(class) => format!("{node} ({class})"),
            None => node.to_owned(),
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    /// What calls are answered with: the node that is named, or else the only one that makes outputs.
    fn output(&self, named: Option<&str>) -> Result<Output, String> {
        let makes_outputs = |node: &str| {
            let class = self.class(node);
            class.is_some_and(|class| class.output_node)
        };
        let node = match named {
            Some(text) => {
                let node = self.find(text).ok_or_else(|| {
                    format!(
                        "the output \"{text}\" is no node of the graph, which has {}",
                        self.listed(self.nodes.keys().map(String::as_str))
                    )
                })?;
                if !makes_outputs(node) {
                    return Err(format!(
                        "node {} makes no outputs; name one such as SaveImage",
                        self.listed(std::iter::once(node))
                    ));
                }
                node
            }
            None => self.only_output(&makes_outputs)?,
        };
        let class = self.class(node);
        Ok(Output {
            node: node.to_owned(),
            inline: Some(INLINE.to_owned()),
            kind: class.map_or(OutputForm::File, |class| form_of(&class)),
        })
    }

    /// The only node that makes outputs.
    fn only_output(&self, makes_outputs: &dyn Fn(&str) -> bool) -> Result<&str, String> {
        let all = self.nodes.keys().map(String::as_str);
        let all: Vec<&str> = all.filter(|node| makes_outputs(node)).collect();
        match all.as_slice() {
            [] => Err(
                "no node of the graph makes an output that runs here; add one such as SaveImage, and see with `nodes list` which classes there are"
                    .to_owned(),
            ),
            [only] => Ok(only),
            several => Err(format!(
                "several nodes make outputs; name the one that is the result: {}",
                self.listed(several.iter().copied())
            )),
        }
    }

    /// The nodes that a node needs, itself among them, in the order of the graph.
    fn reached_from(&self, node: &str) -> Vec<&str> {
        let mut reached: BTreeSet<&str> = BTreeSet::new();
        let mut waiting = vec![node];
        while let Some(node) = waiting.pop() {
            let Some((node, _)) = self.nodes.get_key_value(node) else {
                continue;
            };
            if !reached.insert(node) {
                continue;
            }
            let inputs = self.inputs(node).into_iter().flat_map(Map::values);
            waiting.extend(inputs.filter_map(|value| value.as_array()?.first()?.as_str()));
        }
        let nodes = self.nodes.keys().map(String::as_str);
        nodes.filter(|node| reached.contains(node)).collect()
    }
}

/// What a node of this class puts out, by what it takes in.
fn form_of(class: &NodeDefinition) -> OutputForm {
    let takes = |wanted: &str| {
        class.inputs.iter().any(|input| match &input.socket {
            Socket::Link(types) | Socket::Open(types) => types.split(',').any(|one| one == wanted),
            Socket::Int
            | Socket::Float
            | Socket::String
            | Socket::Boolean
            | Socket::Combo { .. }
            | Socket::File { .. }
            | Socket::Autogrow(_)
            | Socket::DynamicCombo(_)
            | Socket::Widget(_) => false,
        })
    };
    if takes("VIDEO") {
        OutputForm::Video
    } else if takes("IMAGE") {
        OutputForm::Image
    } else if takes("AUDIO") {
        OutputForm::Audio
    } else {
        OutputForm::File
    }
}

#[cfg(test)]
mod tests;
