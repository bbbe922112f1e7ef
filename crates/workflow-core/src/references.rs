//! The files that a graph names: references to assets anywhere in its inputs, file names in sockets for files, and those within a
//! scene in three dimensions.

use asset_store::{AssetId, FilePath};
use serde_json::Value;

use crate::{AssetReference, Graph, Input, NodeCatalog, NodeId, Socket};

/// Folders that older clients name behind a file.
const ANNOTATIONS: [&str; 3] = [" [input]", " [output]", " [temp]"];

/// A place in a graph that names a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The node, unless it is not known any more.
    pub node: Option<NodeId>,
    /// The input.
    pub field: String,
    /// The id of an asset, or the name of a file, as it is written there.
    pub text: String,
    /// Whether it is a reference to an asset by id.
    pub is_asset: bool,
}

impl Reference {
    /// A record that went away while the submission was being looked at.
    #[must_use]
    pub fn gone(asset: AssetId) -> Self {
        Self {
            node: None,
            field: String::new(),
            text: asset.to_string(),
            is_asset: true,
        }
    }

    /// The path that a file name means, without the folder some clients write behind it.
    #[must_use]
    pub fn path(&self) -> Option<FilePath> {
        let plain = ANNOTATIONS
            .iter()
            .find_map(|annotation| self.text.strip_suffix(annotation));
        plain.unwrap_or(&self.text).parse().ok()
    }
}

/// Every place of a graph that names a file.
#[must_use]
pub(crate) fn references(graph: &Graph, catalog: &NodeCatalog) -> Vec<Reference> {
    let mut found = Vec::new();
    for (id, node) in graph.nodes() {
        let definition = node
            .class_type
            .as_deref()
            .and_then(|class| catalog.get(class));
        for (field, value) in &node.inputs {
            let place = |text: String, is_asset| Reference {
                node: Some(id.clone()),
                field: field.clone(),
                text,
                is_asset,
            };
            for_each_asset(value, &mut |reference| {
                found.push(place(reference.id, true))
            });
            let socket = definition
                .and_then(|definition| definition.input(field))
                .map(|input| &input.socket);
            // An empty text names no file.
            if let (Some(Socket::File { .. }), Value::String(name)) = (socket, value)
                && !name.is_empty()
            {
                found.push(place(name.clone(), false));
            }
            for key in socket.map_or(&[][..], Socket::file_keys) {
                let Input::Constant(scene) = Input::read(value) else {
                    break;
                };
                if let Some(Value::String(name)) = scene.get(key)
                    && !name.is_empty()
                {
                    found.push(place(name.clone(), false));
                }
            }
        }
    }
    found
}

/// Walks a value; the parser bounds its depth, so recursion is safe.
fn for_each_asset(value: &Value, found: &mut impl FnMut(AssetReference)) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        Value::Array(items) => items.iter().for_each(|item| for_each_asset(item, found)),
        Value::Object(fields) => match AssetReference::read(fields) {
            Some(reference) => found(reference),
            None => fields.values().for_each(|item| for_each_asset(item, found)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_found_at_any_depth() {
        let reference = json!({"__type": "core/ASSET", "info": {"id": "7"}});
        let graph = json!({"1": {"class_type": "X", "inputs": {"a": reference, "b": [{"c": [reference]}], "d": "x.png"}}});
        let graph = Graph::from_value(graph).expect("a graph");
        let found = references(&graph, &NodeCatalog::default());
        let fields: Vec<(&str, &str)> = found
            .iter()
            .map(|found| (found.field.as_str(), found.text.as_str()))
            .collect();
        assert_eq!(fields, [("a", "7"), ("b", "7")]);
    }

    #[test]
    fn a_name_may_carry_the_folder_behind_it() {
        let named = |text: &str| Reference {
            node: None,
            field: String::new(),
            text: text.to_owned(),
            is_asset: false,
        };
        assert_eq!(named("a.png [output]").path(), "a.png".parse().ok());
        assert_eq!(named("a.png").path(), "a.png".parse().ok());
        assert_eq!(named("../a.png").path(), None);
    }
}
