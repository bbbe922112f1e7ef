//! Small classes that do what no real one does: fail, panic, wait, count, ask lazily, expand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use engine_native::define::{classic, int_input, lazy, link, list_output, optional, output};
use engine_native::{
    ExpandedInput, ExpandedNode, Expansion, Inputs, Node, NodeContext, NodeError, NodeOutput, Slot,
    Value,
};
use serde_json::json;
use workflow_core::{InputDefinition, NodeDefinition, OutputDefinition};

type Body = dyn Fn(Inputs, &NodeContext) -> Result<NodeOutput, NodeError> + Send + Sync;

/// A class made of a function.
pub(crate) struct Toy {
    pub(crate) definition: NodeDefinition,
    pub(crate) body: Box<Body>,
    pub(crate) lazy: fn(&Inputs) -> Vec<String>,
}

impl Node for Toy {
    fn definition(&self) -> NodeDefinition {
        self.definition.clone()
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        (self.body)(inputs, context)
    }

    fn lazy_inputs(&self, inputs: &Inputs) -> Result<Vec<String>, NodeError> {
        Ok((self.lazy)(inputs))
    }
}

pub(crate) fn toy(
    class: &str,
    inputs: Vec<InputDefinition>,
    outputs: Vec<OutputDefinition>,
    body: impl Fn(Inputs, &NodeContext) -> Result<NodeOutput, NodeError> + Send + Sync + 'static,
) -> Toy {
    let definition = NodeDefinition {
        inputs,
        outputs,
        ..classic(class, "tests", "tests")
    };
    Toy {
        definition,
        body: Box::new(body),
        lazy: |_| Vec::new(),
    }
}

/// `Add`: the sum of two whole numbers; counts its calls.
pub(crate) fn add(calls: &Arc<AtomicUsize>) -> Arc<dyn Node> {
    let calls = Arc::clone(calls);
    let inputs = vec![int_input("a", json!({})), int_input("b", json!({}))];
    Arc::new(toy("Add", inputs, vec![output("INT")], move |inputs, _| {
        calls.fetch_add(1, Ordering::SeqCst);
        Ok(Value::Int(inputs.int::<i128>("a")? + inputs.int::<i128>("b")?).into())
    }))
}

/// `Count`: the list 0, 1, ... of `n` numbers.
pub(crate) fn count() -> Arc<dyn Node> {
    let outputs = vec![list_output("INT")];
    Arc::new(toy(
        "Count",
        vec![int_input("n", json!({}))],
        outputs,
        |inputs, _| {
            let numbers = (0..inputs.int("n")?).map(Value::Int).collect();
            Ok(NodeOutput {
                slots: vec![Slot::List(numbers)],
                ..NodeOutput::none()
            })
        },
    ))
}

/// `Sum`: the sum of a whole list, in one call.
pub(crate) fn sum() -> Arc<dyn Node> {
    let mut sum = toy(
        "Sum",
        vec![int_input("n", json!({}))],
        vec![output("INT")],
        |mut inputs, _| {
            let numbers = inputs.list("n")?.into_iter().map(|value| {
                let Value::Int(number) = value else {
                    panic!("a number, not {value:?}")
                };
                number
            });
            Ok(Value::Int(numbers.sum()).into())
        },
    );
    sum.definition.takes_lists = true;
    Arc::new(sum)
}

/// `Show`: an output node that shows a number.
pub(crate) fn show() -> Arc<dyn Node> {
    let mut show = toy(
        "Show",
        vec![optional(link("value", "*"))],
        vec![],
        |mut inputs, _| {
            let value = inputs.value("value")?;
            let text = if let Value::Int(number) = value {
                number.to_string()
            } else {
                format!("{value:?}")
            };
            let ui = json!({"text": [text]}).as_object().cloned().unwrap();
            Ok(NodeOutput {
                ui,
                ..NodeOutput::none()
            })
        },
    );
    show.definition.output_node = true;
    Arc::new(show)
}

/// `Fail`: fails.
pub(crate) fn fail() -> Arc<dyn Node> {
    Arc::new(toy(
        "Fail",
        vec![optional(link("value", "*"))],
        vec![output("INT")],
        |_, _| Err(NodeError::new("ToyError", "it broke")),
    ))
}

/// `Panic`: panics with an address in its text.
pub(crate) fn panics() -> Arc<dyn Node> {
    Arc::new(toy("Panic", vec![], vec![output("INT")], |_, _| {
        panic!("at 0x7ffe_dead_beef")
    }))
}

/// `Block`: a number, or a blocker for odd ones.
pub(crate) fn block() -> Arc<dyn Node> {
    Arc::new(toy(
        "Block",
        vec![int_input("value", json!({}))],
        vec![output("INT")],
        |inputs, _| {
            let value: i128 = inputs.int("value")?;
            Ok(match value % 2 {
                0 => Value::Int(value),
                _ => Value::Blocker(Some("odd numbers stay outside".into())),
            }
            .into())
        },
    ))
}

/// `Choose`: one of two lazy inputs.
pub(crate) fn choose() -> Arc<dyn Node> {
    Arc::new(choose_toy())
}

pub(crate) fn choose_toy() -> Toy {
    let inputs = vec![
        int_input("which", json!({})),
        lazy(int_input("a", json!({}))),
        lazy(int_input("b", json!({}))),
    ];
    let mut choose = toy("Choose", inputs, vec![output("INT")], |mut inputs, _| {
        let name = if inputs.int::<i64>("which")? == 0 {
            "a"
        } else {
            "b"
        };
        Ok(inputs.value(name)?.into())
    });
    choose.lazy = |inputs| {
        let name = if inputs.int::<i64>("which").unwrap() == 0 {
            "a"
        } else {
            "b"
        };
        if inputs.has(name) {
            vec![]
        } else {
            vec![name.to_owned()]
        }
    };
    choose
}

/// `Double`: `value` twice, by a graph of `Add`; with an output node in it when `show` is 1.
pub(crate) fn double() -> Arc<dyn Node> {
    let inputs = vec![int_input("value", json!({})), int_input("show", json!({}))];
    Arc::new(toy("Double", inputs, vec![output("INT")], |inputs, _| {
        let value = Value::Int(inputs.int("value")?);
        let mut expansion = Expansion::default();
        let sum = ExpandedNode {
            class: "Add".to_owned(),
            inputs: ["a", "b"]
                .map(|name| (name.to_owned(), ExpandedInput::Value(value.clone())))
                .into(),
        };
        expansion.nodes.insert("sum".to_owned(), sum);
        if inputs.int::<i64>("show")? == 1 {
            let link = ExpandedInput::Link {
                node: "sum".to_owned(),
                slot: 0,
            };
            let show = ExpandedNode {
                class: "Show".to_owned(),
                inputs: [("value".to_owned(), link)].into(),
            };
            expansion.nodes.insert("show".to_owned(), show);
        }
        let slot = Slot::Expanded {
            node: "sum".to_owned(),
            slot: 0,
        };
        Ok(NodeOutput {
            slots: vec![slot],
            expansion: Some(expansion),
            ..NodeOutput::none()
        })
    }))
}

/// A door that calls wait at until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn pass(&self) {
        let closed = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(closed, |open| !*open).unwrap());
    }
}
