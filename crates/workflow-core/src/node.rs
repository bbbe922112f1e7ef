//! Definitions of node classes: what a class takes, gives and is called.
//!
//! One definition serves the validator, the engine and what clients are told of a class, so it keeps the options of an input
//! as the ordered map that clients see and reads bounds and defaults out of it.

mod dynamic;

use std::collections::HashSet;
use std::sync::Arc;

pub use dynamic::{Autogrow, AutogrowNames, DynamicOption};
use indexmap::IndexMap;
use serde_json::{Map, Number, Value};

/// A node class.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeDefinition {
    /// The name a graph uses: `class_type`.
    pub class: String,
    /// The name people see, where the class has one.
    pub display_name: Option<String>,
    /// What the class does, for people.
    pub description: String,
    /// The module the class is known by among clients.
    pub python_module: String,
    /// Where menus list it, parts separated by `/`.
    pub category: String,
    /// Inputs, required ones first, in the order clients show them.
    pub inputs: Vec<InputDefinition>,
    /// Inputs that the server fills in.
    pub hidden: Vec<HiddenInput>,
    /// Outputs by slot.
    pub outputs: Vec<OutputDefinition>,
    /// Whether it is a reason to run a graph.
    pub output_node: bool,
    /// Whether the node takes whole lists and is called once.
    pub takes_lists: bool,
    /// Whether each node of the class is a result of its own, even with equal inputs.
    pub not_idempotent: bool,
    /// Whether inputs that it does not declare reach the node, too.
    pub accepts_all: bool,
    /// Whether a required input that a graph lacks takes its default: for classes that got inputs after graphs were made.
    pub fills_defaults: bool,
    /// Whose models its nodes call, where they do: such nodes cost credits, and wait without computing anything.
    pub partner: Option<Partner>,
    /// Further keys of the public definition, such as `experimental`, as clients see them. A key that the fields above would
    /// make stands in place of what they make.
    pub extra: Map<String, Value>,
    /// The definition that clients are shown instead, where the class is one that they know in an older form. Graphs may use
    /// all that the class has.
    pub shown: Option<Arc<NodeDefinition>>,
}

/// A partner whose models a class calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partner {
    /// The partner's name, as in the ids of its models.
    pub provider: String,
}

/// One input of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputDefinition {
    /// The field of the graph.
    pub name: String,
    /// What may be put in.
    pub socket: Socket,
    /// Whether a node without it is invalid.
    pub required: bool,
    /// Whether the node asks for it only when it needs it.
    pub lazy: bool,
    /// Bounds, default, tooltip and the like, in the order and spelling that clients see.
    pub options: Map<String, Value>,
}

/// What may be put into an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Socket {
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// Text.
    String,
    /// A truth value.
    Boolean,
    /// One of the listed words; `listed` tells the older spelling of the definition, in which the list stands for the type.
    Combo {
        /// The words.
        choices: Vec<String>,
        /// `[[choices], {...}]` rather than `["COMBO", {"options": [choices]}]`.
        listed: bool,
    },
    /// The name of one of the account's files, or a reference to an asset.
    File {
        /// Which files.
        source: FileSource,
        /// As in [`Socket::Combo`].
        listed: bool,
    },
    /// A group of inputs that grows: `values.a`, `values.b`.
    Autogrow(Box<Autogrow>),
    /// One of several words, each with inputs of its own: `resize_type`, `resize_type.width`.
    DynamicCombo(Vec<DynamicOption>),
    /// What a widget of its own writes, such as a colour or a box, or a link to an output of this type. The node says what is
    /// wrong with a constant.
    Widget(String),
    /// Only a link to an output of this type; `*` takes any, and `A,B` takes either.
    Link(String),
    /// A link to an output of this type, or any constant: the engine judges constants itself, because its definition does not
    /// tell all that it takes.
    Open(String),
}

/// The type of sockets and outputs that take what is linked elsewhere in the node; `template` among their options tells which
/// belong together and which types they may have.
pub const MATCH_TYPE: &str = "COMFY_MATCHTYPE_V3";

/// The word for no file, where a file may be left out.
pub const NO_FILE: &str = "none";

/// Which files of an account an input names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSource {
    /// Uploads.
    Input,
    /// Outputs of earlier jobs.
    Output,
    /// A sound that the page records and uploads when it sends the graph: there is nothing to choose from.
    Recording,
    /// A picture of the camera, which the page takes and uploads when it sends the graph: there is nothing to choose from.
    Capture,
    /// A picture that somebody draws in the page, which uploads it when it sends the graph; an empty text where nothing is drawn.
    Drawing,
    /// An upload, or [`NO_FILE`].
    Optional,
}

/// An input that the server fills in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenInput {
    /// The name the class gives it.
    pub name: String,
    /// What it is filled with, such as `PROMPT` or `UNIQUE_ID`.
    pub token: String,
    /// Whether clients see the token as a list of one.
    pub in_list: bool,
}

/// One output slot of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputDefinition {
    /// The type that links carry from here.
    pub io_type: String,
    /// The name people see.
    pub name: String,
    /// Whether the slot gives a list, whose items are then mapped over.
    pub is_list: bool,
    /// What people are told of the slot.
    pub tooltip: Option<String>,
}

/// The classes that can run, by name, in the order clients see them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct NodeCatalog {
    classes: Arc<IndexMap<String, Arc<NodeDefinition>>>,
    /// Classes that workers have that take no jobs now.
    drained: Arc<HashSet<String>>,
}

impl NodeDefinition {
    /// The input of a name.
    #[must_use]
    pub fn input(&self, name: &str) -> Option<&InputDefinition> {
        self.inputs.iter().find(|input| input.name == name)
    }

    /// Whether its nodes call models of partners.
    #[must_use]
    pub fn calls_partners(&self) -> bool {
        self.partner.is_some()
    }
}

impl InputDefinition {
    /// The smallest value allowed, where there is one.
    #[must_use]
    pub fn min(&self) -> Option<&Number> {
        self.options.get("min").and_then(Value::as_number)
    }

    /// The types that a link into it may carry, as `A,B`; `*` is any.
    #[must_use]
    pub fn link_types(&self) -> &str {
        match self.socket.io_type() {
            MATCH_TYPE => {
                let template = self.options.get("template");
                let types = template.and_then(|template| template.get("allowed_types"));
                types.and_then(Value::as_str).unwrap_or("*")
            }
            io_type => io_type,
        }
    }

    /// The largest value allowed, where there is one.
    #[must_use]
    pub fn max(&self) -> Option<&Number> {
        self.options.get("max").and_then(Value::as_number)
    }
}

impl Socket {
    /// The type that a link into this socket must carry.
    #[must_use]
    pub fn io_type(&self) -> &str {
        match self {
            Self::Int => "INT",
            Self::Float => "FLOAT",
            Self::String => "STRING",
            Self::Boolean => "BOOLEAN",
            Self::File {
                source: FileSource::Recording,
                ..
            } => "AUDIO_RECORD",
            Self::File {
                source: FileSource::Capture,
                ..
            } => "WEBCAM",
            Self::File {
                source: FileSource::Drawing,
                ..
            } => "STRING",
            Self::Combo { .. } | Self::File { .. } => "COMBO",
            Self::Autogrow(_) => "COMFY_AUTOGROW_V3",
            Self::DynamicCombo(_) => "COMFY_DYNAMICCOMBO_V3",
            Self::Widget(io_type) | Self::Link(io_type) | Self::Open(io_type) => io_type,
        }
    }

    /// The keys under which an object in this socket names files: those of the scene that ComfyUI's widget for models in three
    /// dimensions writes. An empty text there names none.
    pub(crate) fn file_keys(&self) -> &'static [&'static str] {
        match self {
            Self::Open(io_type) if io_type.starts_with("LOAD_3D") => {
                &["image", "mask", "normal", "recording"]
            }
            Self::Open(_)
            | Self::Int
            | Self::Float
            | Self::String
            | Self::Boolean
            | Self::Combo { .. }
            | Self::File { .. }
            | Self::Autogrow(_)
            | Self::DynamicCombo(_)
            | Self::Widget(_)
            | Self::Link(_) => &[],
        }
    }
}

impl NodeCatalog {
    /// A catalog of these classes; of two with one name the later stands.
    #[must_use]
    pub fn new(definitions: impl IntoIterator<Item = NodeDefinition>) -> Self {
        Self::of(definitions.into_iter().map(Arc::new))
    }

    /// The same for definitions that others hold, too.
    #[must_use]
    pub fn of(definitions: impl IntoIterator<Item = Arc<NodeDefinition>>) -> Self {
        let entry = |definition: Arc<NodeDefinition>| (definition.class.clone(), definition);
        Self {
            classes: Arc::new(definitions.into_iter().map(entry).collect()),
            drained: Arc::default(),
        }
    }

    /// The same classes, and these ones that only workers have that an operator drained: nothing can run them now.
    #[must_use]
    pub fn with_drained(self, classes: impl IntoIterator<Item = String>) -> Self {
        Self {
            drained: Arc::new(classes.into_iter().collect()),
            ..self
        }
    }

    /// The same classes, and those that another catalog knows to be drained.
    pub(crate) fn with_drained_of(self, other: &Self) -> Self {
        Self {
            drained: Arc::clone(&other.drained),
            ..self
        }
    }

    /// Whether nothing can run a class because the workers that have it are drained.
    #[must_use]
    pub fn is_drained(&self, class: &str) -> bool {
        self.drained.contains(class) && !self.classes.contains_key(class)
    }

    /// A class by name.
    #[must_use]
    pub fn get(&self, class: &str) -> Option<&Arc<NodeDefinition>> {
        self.classes.get(class)
    }

    /// All classes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<NodeDefinition>> {
        self.classes.values()
    }

    /// The classes of several catalogs; of two with one name the first stands.
    pub(crate) fn merged(catalogs: &[Self]) -> Self {
        let mut classes = IndexMap::new();
        for (class, definition) in catalogs.iter().flat_map(|catalog| catalog.classes.iter()) {
            let entry = classes.entry(class.clone());
            entry.or_insert_with(|| Arc::clone(definition));
        }
        let drained = catalogs.iter().flat_map(|catalog| catalog.drained.iter());
        Self {
            drained: Arc::new(drained.cloned().collect()),
            classes: Arc::new(classes),
        }
    }

    /// Whether it is a clone of another one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.classes, &other.classes)
    }

    /// How many classes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether nothing can run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }
}
