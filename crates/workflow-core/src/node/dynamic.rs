//! Inputs that a class declares as one and a graph sends as several: groups that grow, and choices with inputs of their own.
//!
//! A graph spells them with a dot: `values.a`, `resize_type.width`. Each node has its own expansion, made of what was sent, so
//! that everything behind the validator sees plain inputs.

use serde_json::{Map, Value};

use super::{InputDefinition, NodeDefinition, Socket};

/// A group of inputs that grows as links are put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autogrow {
    /// What each of them takes; its name is only the template's.
    pub template: InputDefinition,
    /// What they are called.
    pub names: AutogrowNames,
    /// How many of them a node must have, from the first on, if the template is required.
    pub min: usize,
}

/// The names of a group's inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AutogrowNames {
    /// `prefix0`, `prefix1` and so on.
    Prefix {
        /// What stands before the number.
        prefix: String,
        /// How many there are at most.
        max: usize,
    },
    /// These, in this order.
    Listed(Vec<String>),
}

/// A word of a choice, and the inputs that a node has when it is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicOption {
    /// The word.
    pub key: String,
    /// Its inputs.
    pub inputs: Vec<InputDefinition>,
}

/// Undeclared inputs that reach a node at most.
const MOST_UNDECLARED: usize = 256;

impl AutogrowNames {
    /// The names in order.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        match self {
            Self::Prefix { prefix, max } => (0..*max).map(|at| format!("{prefix}{at}")).collect(),
            Self::Listed(names) => names.clone(),
        }
    }
}

impl NodeDefinition {
    /// The class as one node has it, whose fields are `sent`: every group and choice replaced by the inputs that the node uses
    /// or must have. `None` if the class has no such input, so that nothing is copied for most nodes.
    ///
    /// The result has at most as many inputs as the class declares, the graph sends and the groups ask for.
    #[must_use]
    pub fn expanded(&self, sent: &Map<String, Value>) -> Option<Self> {
        if !self.accepts_all && !self.inputs.iter().any(|input| input.socket.is_dynamic()) {
            return None;
        }
        let mut inputs = Vec::new();
        for input in &self.inputs {
            expand(input, input.name.clone(), sent, &mut inputs);
        }
        if self.accepts_all {
            let undeclared = sent.keys().filter(|name| self.input(name).is_none());
            let undeclared = undeclared.take(MOST_UNDECLARED);
            inputs.extend(undeclared.map(|name| InputDefinition {
                name: name.clone(),
                socket: Socket::Link("*".to_owned()),
                required: false,
                lazy: false,
                options: Map::new(),
            }));
        }
        Some(Self {
            inputs,
            ..self.clone()
        })
    }
}

impl Socket {
    /// Whether a graph sends it as several inputs.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        matches!(self, Self::Autogrow(_) | Self::DynamicCombo(_))
    }
}

/// Adds an input called `name` as a node has it. Recursion goes as deep as definitions nest, not graphs.
fn expand(
    input: &InputDefinition,
    name: String,
    sent: &Map<String, Value>,
    expanded: &mut Vec<InputDefinition>,
) {
    match &input.socket {
        Socket::Autogrow(group) => {
            for (at, member) in group.names.all().iter().enumerate() {
                let name = format!("{name}.{member}");
                let required = group.template.required && at < group.min;
                if required || sent.contains_key(&name) {
                    expanded.push(InputDefinition {
                        name,
                        required,
                        ..group.template.clone()
                    });
                }
            }
        }
        Socket::DynamicCombo(options) => {
            let chosen = sent.get(&name).and_then(Value::as_str);
            let is_chosen = |option: &&DynamicOption| Some(option.key.as_str()) == chosen;
            let own = options.iter().find(is_chosen).map(|option| &option.inputs);
            // What is wrong with the choice itself is told of the choice.
            let choice = InputDefinition {
                name: name.clone(),
                ..input.clone()
            };
            expanded.push(choice);
            for own in own.into_iter().flatten() {
                expand(own, format!("{name}.{}", own.name), sent, expanded);
            }
        }
        Socket::Int
        | Socket::Float
        | Socket::String
        | Socket::Boolean
        | Socket::Combo { .. }
        | Socket::File { .. }
        | Socket::Widget(_)
        | Socket::Link(_)
        | Socket::Open(_) => expanded.push(InputDefinition {
            name,
            ..input.clone()
        }),
    }
}
