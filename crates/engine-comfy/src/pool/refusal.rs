//! The refusal of a graph that no worker can run: in a sentence, and for each node.

use serde_json::{Map, Value, json};
use workflow_core::{Refusal, Ticket};

use crate::definitions::{Lack, in_words};

/// The refusal of a graph that no worker can run, with what the worker lacks that lacks the least.
pub(super) fn lacking_refusal(ticket: &Ticket, worker: &str, lacks: &[Lack]) -> Refusal {
    let mut node_errors = Map::new();
    for (id, node) in &ticket.graph.nodes {
        let class = &node.definition.class;
        let of_node = lacks.iter().filter_map(|lack| match lack {
            Lack::Class(lacking) if lacking == class => Some(json!({
                "type": "missing_node_type",
                "message": format!("no worker that has the rest of the graph has the class {class}"),
                "details": class,
                "extra_info": {"node_id": id.as_str(), "class_type": class},
            })),
            Lack::File(file) => {
                let input = file.folder.strip_prefix(class)?.strip_prefix('/')?;
                let names = node.inputs.get(input)? == &constant(&file.name);
                names.then(|| {
                    json!({
                        "type": "value_not_in_list",
                        "message": "Value not in list",
                        "details": format!("{input}: '{}' is at no worker that has the rest of the graph", file.name),
                        "extra_info": {"input_name": input, "received_value": file.name},
                    })
                })
            }
            Lack::Class(_) => None,
        });
        let errors: Vec<Value> = of_node.collect();
        if !errors.is_empty() {
            let entry = json!({"errors": errors, "dependent_outputs": [], "class_type": class});
            node_errors.insert(id.as_str().to_owned(), entry);
        }
    }
    Refusal {
        message: format!(
            "no worker can run this workflow; {worker} lacks the least: {}. Install the missing parts, or change the workflow",
            in_words(lacks)
        ),
        node_errors,
    }
}

fn constant(text: &str) -> workflow_core::NodeInput {
    workflow_core::NodeInput::Constant(text.into())
}
