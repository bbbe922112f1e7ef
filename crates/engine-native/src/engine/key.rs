//! What decides a node's result, as one hash (execution contract 2.5).
//!
//! A key holds the class, what the node says changes it, and every input: constants as they are, links by the key of what they
//! come from. Ids are left out, so a renumbered graph finds its results, except for classes of which every node is a result of
//! its own. Results of output nodes, and of nodes that see the submission, belong to one account and one submission.

use blake3::Hasher;
use serde_json::Value as Json;
use workflow_core::{NodeDefinition, NodeId, NodeInput, Socket, ValidNode};

use super::cache::Key;
use crate::Changed;

/// What the keys of a run have in common.
pub(super) struct Scope {
    /// Whose run it is.
    pub(super) account: String,
    /// Hash of what pictures carry of the submission.
    pub(super) submission: blake3::Hash,
}

/// The key of a node; `source` answers the keys of the nodes that it reads. `None` if its result is never to be reused.
pub(super) fn of(
    id: &NodeId,
    node: &ValidNode,
    changed: &Changed,
    scope: &Scope,
    source: impl Fn(&NodeId) -> Option<Key>,
) -> Option<Key> {
    let mut hasher = Hasher::new();
    text(&mut hasher, &node.definition.class);
    match changed {
        Changed::Always => return None,
        Changed::Never => text(&mut hasher, ""),
        Changed::Key(key) => text(&mut hasher, &key.to_string()),
    }
    let hidden = |token: &str| {
        node.definition
            .hidden
            .iter()
            .any(|hidden| hidden.token == token)
    };
    if node.definition.not_idempotent || hidden("UNIQUE_ID") {
        text(&mut hasher, id.as_str());
    }
    if belongs_to_account(&node.definition) {
        text(&mut hasher, &scope.account);
    }
    if ["PROMPT", "DYNPROMPT", "EXTRA_PNGINFO"]
        .into_iter()
        .any(hidden)
    {
        hasher.update(scope.submission.as_bytes());
    }
    let mut inputs: Vec<_> = node.inputs.iter().collect();
    inputs.sort_unstable_by_key(|(name, _)| name.as_str());
    for (name, input) in inputs {
        text(&mut hasher, name);
        match input {
            // It equals nothing, itself included.
            NodeInput::Constant(value) if is_nan(&node.definition, name, value) => return None,
            NodeInput::Constant(value) => {
                hasher.update(b"c");
                text(&mut hasher, &value.to_string());
            }
            NodeInput::File(file) => {
                hasher.update(b"f").update(file.hash.as_bytes());
                text(&mut hasher, &file.name);
            }
            NodeInput::Scene { value, files } => {
                hasher.update(b"s");
                text(&mut hasher, &Json::Object(value.clone()).to_string());
                for file in files.values() {
                    hasher.update(file.hash.as_bytes());
                }
            }
            NodeInput::Link { node, slot } => {
                hasher.update(b"l").update(source(node)?.as_bytes());
                hasher.update(&slot.to_le_bytes());
            }
        }
    }
    Some(hasher.finalize())
}

/// Whether a constant is a float that is no number: a validated graph spells it as Python does.
fn is_nan(definition: &NodeDefinition, name: &str, value: &Json) -> bool {
    let is_nan = |text: &str| text.parse().is_ok_and(f64::is_nan);
    value.as_str().is_some_and(is_nan)
        && definition
            .input(name)
            .is_some_and(|input| input.socket == Socket::Float)
}

/// Whether results of the class are kept for their own account only.
fn belongs_to_account(definition: &NodeDefinition) -> bool {
    definition.output_node || !definition.hidden.is_empty()
}

/// Feeds a text so that no two sequences of texts feed the same bytes.
fn text(hasher: &mut Hasher, text: &str) {
    hasher
        .update(&text.len().to_le_bytes())
        .update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value as Json, json};

    use super::*;
    use crate::define::{classic, float_input, hidden, metadata, string_input};

    fn scope(account: &str, submission: &str) -> Scope {
        Scope {
            account: account.to_owned(),
            submission: blake3::hash(submission.as_bytes()),
        }
    }

    fn key(definition: NodeDefinition, id: &str, inputs: &Json, scope: &Scope) -> Option<Key> {
        let inputs = inputs.as_object().expect("an object of inputs");
        let read = |value: &Json| match value.as_array() {
            Some(link) => NodeInput::Link {
                node: link[0].as_str().expect("a node").into(),
                slot: link[1].as_u64().expect("a slot") as usize,
            },
            None => NodeInput::Constant(value.clone()),
        };
        let node = ValidNode {
            definition: Arc::new(definition),
            inputs: inputs
                .iter()
                .map(|(name, value)| (name.clone(), read(value)))
                .collect(),
        };
        let source =
            |id: &NodeId| (id.as_str() != "unstable").then(|| blake3::hash(id.as_str().as_bytes()));
        of(&id.into(), &node, &Changed::Never, scope, source)
    }

    fn pure() -> NodeDefinition {
        classic("Pure", "m", "c")
    }

    #[test]
    fn ids_and_the_order_of_inputs_do_not_matter() {
        let scope = scope("a", "s");
        let one = key(pure(), "1", &json!({"x": 1, "y": ["9", 0]}), &scope);
        let two = key(pure(), "2", &json!({"y": ["9", 0], "x": 1}), &scope);
        assert!(one.is_some());
        assert_eq!(one, two);
    }

    #[test]
    fn classes_constants_links_slots_and_undeclared_inputs_matter() {
        let scope = scope("a", "s");
        let keys = [
            key(pure(), "1", &json!({"x": 1}), &scope),
            key(pure(), "1", &json!({"x": 2}), &scope),
            key(pure(), "1", &json!({"x": "1"}), &scope),
            key(pure(), "1", &json!({"x": 1, "undeclared": 1}), &scope),
            key(pure(), "1", &json!({"x": ["8", 0]}), &scope),
            key(pure(), "1", &json!({"x": ["8", 1]}), &scope),
            key(pure(), "1", &json!({"x": ["9", 0]}), &scope),
            key(classic("Other", "m", "c"), "1", &json!({"x": 1}), &scope),
        ];
        let distinct: std::collections::HashSet<_> = keys.iter().flatten().collect();
        assert_eq!(distinct.len(), keys.len());
    }

    #[test]
    fn nodes_that_are_results_of_their_own_have_their_id_in_the_key() {
        let scope = scope("a", "s");
        let own = NodeDefinition {
            not_idempotent: true,
            ..pure()
        };
        assert_ne!(
            key(own.clone(), "1", &json!({}), &scope),
            key(own, "2", &json!({}), &scope)
        );
        let own = NodeDefinition {
            hidden: vec![hidden("unique_id", "UNIQUE_ID")],
            ..pure()
        };
        assert_ne!(
            key(own.clone(), "1", &json!({}), &scope),
            key(own, "2", &json!({}), &scope)
        );
    }

    #[test]
    fn what_an_output_node_made_stays_in_its_account_and_its_submission() {
        let save = || NodeDefinition {
            output_node: true,
            hidden: metadata(),
            ..pure()
        };
        let base = key(save(), "1", &json!({}), &scope("a", "s"));
        assert_eq!(key(save(), "2", &json!({}), &scope("a", "s")), base);
        assert_ne!(key(save(), "1", &json!({}), &scope("b", "s")), base);
        assert_ne!(key(save(), "1", &json!({}), &scope("a", "t")), base);
    }

    #[test]
    fn a_float_that_is_no_number_makes_a_result_of_its_own() {
        let floating = || NodeDefinition {
            inputs: vec![float_input("x", json!({})), string_input("y", json!({}))],
            ..pure()
        };
        let key = |inputs| key(floating(), "1", &inputs, &scope("a", "s"));
        assert_eq!(key(json!({"x": "nan", "y": "a"})), None);
        assert!(key(json!({"x": "inf", "y": "nan"})).is_some());
    }

    #[test]
    fn what_reads_an_unstable_result_is_unstable() {
        assert_eq!(
            key(
                pure(),
                "1",
                &json!({"x": ["unstable", 0]}),
                &scope("a", "s")
            ),
            None
        );
    }
}
