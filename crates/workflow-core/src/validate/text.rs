//! What errors are called, and what people are told of them.
//!
//! `error_type`, `message` and `details` are the words that clients of the older dialect know by heart; `reason` is one clause
//! that says what to do.

use std::borrow::Cow;

use serde_json::Value;

use super::{ValidationError, ValidationErrorKind, needs_comfyui_worker};
use crate::{InputDefinition, MAX_TEXT_BYTES, NodeId, Socket, python_repr, python_str};

/// Most choices that are listed.
const MOST_CHOICES: usize = 20;

/// Most characters of a value that a reason quotes.
const MOST_QUOTED: usize = 80;

impl ValidationErrorKind {
    /// The error's name in the older dialect.
    #[must_use]
    pub fn error_type(&self) -> &'static str {
        match self {
            Self::MissingNodeType { .. } => "missing_node_type",
            Self::DependencyCycle { .. } => "dependency_cycle",
            Self::RequiredInputMissing => "required_input_missing",
            Self::BadLinkedInput => "bad_linked_input",
            Self::UnknownLink { read_by: None, .. } => "exception_during_validation",
            Self::UnknownLink {
                read_by: Some(_), ..
            } => "exception_during_inner_validation",
            Self::ReturnTypeMismatch { .. } => "return_type_mismatch",
            Self::InvalidInputType { .. } => "invalid_input_type",
            Self::ValueSmallerThanMin => "value_smaller_than_min",
            Self::ValueBiggerThanMax => "value_bigger_than_max",
            Self::ValueNotInList => "value_not_in_list",
            Self::TextTooLong { .. } | Self::InvalidFile { .. } => "custom_validation_failed",
        }
    }
}

impl ValidationError {
    /// What the older dialect says of the error.
    #[must_use]
    pub fn message(&self) -> String {
        match &self.kind {
            ValidationErrorKind::MissingNodeType {
                node,
                class: None,
                title,
                ..
            } => {
                let title = title.clone().unwrap_or_else(|| format!("ID #{node}"));
                format!(
                    "Node '{title}' has no class_type. The workflow may be corrupted or a custom node is missing."
                )
            }
            ValidationErrorKind::MissingNodeType {
                class: Some(class),
                title,
                is_drained,
                ..
            } => {
                let title = title.as_ref().unwrap_or(class);
                if *is_drained {
                    return format!(
                        "Node '{title}' needs a ComfyUI worker that takes jobs; those that have it are drained."
                    );
                }
                if needs_comfyui_worker(class) {
                    return format!(
                        "Node '{title}' needs a ComfyUI worker, which this server does not have."
                    );
                }
                format!("Node '{title}' not found. The custom node may not be installed.")
            }
            ValidationErrorKind::DependencyCycle { .. } => "Dependency cycle detected".to_owned(),
            ValidationErrorKind::RequiredInputMissing => "Required input is missing".to_owned(),
            ValidationErrorKind::BadLinkedInput => {
                "Bad linked input, must be a length-2 list of [node_id, slot_index]".to_owned()
            }
            ValidationErrorKind::UnknownLink { read_by: None, .. } => {
                "Exception when validating node".to_owned()
            }
            ValidationErrorKind::UnknownLink {
                read_by: Some(_), ..
            } => "Exception when validating inner node".to_owned(),
            ValidationErrorKind::ReturnTypeMismatch { .. } => {
                "Return type mismatch between linked nodes".to_owned()
            }
            ValidationErrorKind::InvalidInputType { .. } => {
                format!(
                    "Failed to convert an input value to a {} value",
                    self.io_type()
                )
            }
            ValidationErrorKind::ValueSmallerThanMin => {
                format!(
                    "Value {} smaller than min of {}",
                    self.received_text(),
                    self.bound(InputDefinition::min)
                )
            }
            ValidationErrorKind::ValueBiggerThanMax => {
                format!(
                    "Value {} bigger than max of {}",
                    self.received_text(),
                    self.bound(InputDefinition::max)
                )
            }
            ValidationErrorKind::ValueNotInList => "Value not in list".to_owned(),
            ValidationErrorKind::TextTooLong { .. } | ValidationErrorKind::InvalidFile { .. } => {
                "Custom validation failed for node".to_owned()
            }
        }
    }

    /// What the older dialect says besides.
    #[must_use]
    pub fn details(&self) -> String {
        let input = self.input.as_deref().unwrap_or_default();
        match &self.kind {
            ValidationErrorKind::MissingNodeType { node, .. } => format!("Node ID '#{node}'"),
            ValidationErrorKind::DependencyCycle { cycle, complete } => {
                cycle_text(cycle, *complete)
            }
            ValidationErrorKind::RequiredInputMissing
            | ValidationErrorKind::BadLinkedInput
            | ValidationErrorKind::ValueSmallerThanMin
            | ValidationErrorKind::ValueBiggerThanMax => input.to_owned(),
            ValidationErrorKind::UnknownLink {
                node,
                node_exists: false,
                ..
            } => python_repr(&Value::String(node.clone())),
            ValidationErrorKind::UnknownLink {
                node_exists: true, ..
            } => "tuple index out of range".to_owned(),
            ValidationErrorKind::ReturnTypeMismatch { received_type, .. } => {
                format!(
                    "{input}, received_type({received_type}) mismatch input_type({})",
                    self.input_type()
                )
            }
            ValidationErrorKind::InvalidInputType { exception } => {
                format!("{input}, {}, {exception}", self.received_text())
            }
            ValidationErrorKind::ValueNotInList => {
                let choices = self.choices();
                let listed = if choices.len() > MOST_CHOICES {
                    format!("(list of length {})", choices.len())
                } else {
                    list_text(&choices)
                };
                format!("{input}: '{}' not in {listed}", self.received_text())
            }
            ValidationErrorKind::TextTooLong { .. } => format!("{input} - {}", self.reason()),
            ValidationErrorKind::InvalidFile { name } => {
                format!("{input} - Invalid {} file: {name}", self.file_kind())
            }
        }
    }

    /// What is wrong and what to do, in one clause without the name of the input.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.kind {
            ValidationErrorKind::MissingNodeType { class: None, .. } => {
                "the node has no class_type; name the class of the node".to_owned()
            }
            ValidationErrorKind::MissingNodeType { class: Some(class), is_drained: true, .. } => {
                format!(
                    "the ComfyUI workers that have '{}' are drained and take no jobs; submit it again once one of them is \
                     resumed, or use the classes that `nodes list` and /api/object_info show",
                    short(class)
                )
            }
            ValidationErrorKind::MissingNodeType { class: Some(class), .. } if needs_comfyui_worker(class) => {
                format!(
                    "'{}' is a class of ComfyUI that needs a ComfyUI worker, which this server does not have yet; \
                     use the classes that `nodes list` and /api/object_info show",
                    short(class)
                )
            }
            ValidationErrorKind::MissingNodeType { class: Some(class), .. } => {
                format!(
                    "the node class '{}' is not available here; check its spelling or use one that `nodes list` and \
                     /api/object_info show",
                    short(class)
                )
            }
            ValidationErrorKind::DependencyCycle { cycle, complete } => {
                format!("the node waits for its own result; break the cycle {}", cycle_text(cycle, *complete))
            }
            ValidationErrorKind::RequiredInputMissing => "required input is missing".to_owned(),
            ValidationErrorKind::BadLinkedInput => {
                "a link must be [node id, slot], with the id as a text and the slot as a whole number from 0".to_owned()
            }
            ValidationErrorKind::UnknownLink { node, node_exists: false, .. } => {
                format!("links to node '{}', which is not in the workflow", short(node))
            }
            ValidationErrorKind::UnknownLink { node, node_exists: true, .. } => {
                let slot = self.received.as_ref().and_then(|link| link.get(1)).map(python_str);
                format!("links to slot {} of node '{}', which has no such output", slot.unwrap_or_default(), short(node))
            }
            ValidationErrorKind::ReturnTypeMismatch { received_type, linked_node, slot } => {
                format!("takes {}, but slot {slot} of node '{}' gives {received_type}", self.io_type(), short(linked_node.as_str()))
            }
            ValidationErrorKind::InvalidInputType { .. } => self.wanted(),
            ValidationErrorKind::ValueSmallerThanMin => {
                format!("{} is smaller than the smallest value allowed, {}", self.quoted(), self.bound(InputDefinition::min))
            }
            ValidationErrorKind::ValueBiggerThanMax => {
                format!("{} is bigger than the largest value allowed, {}", self.quoted(), self.bound(InputDefinition::max))
            }
            ValidationErrorKind::ValueNotInList => {
                let quoted = self.quoted();
                match &*self.choices() {
                    [] => format!("'{quoted}' cannot be chosen, since there are no choices"),
                    choices if choices.len() > MOST_CHOICES => {
                        format!("'{quoted}' is not among the choices (list of length {})", choices.len())
                    }
                    choices => format!("'{quoted}' is not one of {}", choices.join(", ")),
                }
            }
            ValidationErrorKind::TextTooLong { bytes } => {
                format!("the text has {bytes} bytes and may have {MAX_TEXT_BYTES}; shorten it, or upload it as a file")
            }
            ValidationErrorKind::InvalidFile { name } => {
                format!("there is no file '{}' in this account; upload it first", short(name))
            }
        }
    }

    fn socket(&self) -> Option<&Socket> {
        self.definition
            .as_ref()
            .map(|definition| &definition.socket)
    }

    fn io_type(&self) -> &str {
        self.socket().map_or("", Socket::io_type)
    }

    /// The type as older definitions spell it: there, a list of choices is the type.
    fn input_type(&self) -> String {
        match self.socket() {
            Some(Socket::Combo {
                choices,
                listed: true,
            }) => list_text(choices),
            Some(
                Socket::Int
                | Socket::Float
                | Socket::String
                | Socket::Boolean
                | Socket::Combo { listed: false, .. }
                | Socket::File { .. }
                | Socket::Autogrow(_)
                | Socket::DynamicCombo(_)
                | Socket::Widget(_)
                | Socket::Link(_)
                | Socket::Open(_),
            )
            | None => self.io_type().to_owned(),
        }
    }

    fn choices(&self) -> Cow<'_, [String]> {
        match self.socket() {
            Some(Socket::Combo { choices, .. }) => choices.into(),
            Some(Socket::DynamicCombo(options)) => {
                options.iter().map(|option| option.key.clone()).collect()
            }
            Some(
                Socket::Int
                | Socket::Float
                | Socket::String
                | Socket::Boolean
                | Socket::File { .. }
                | Socket::Autogrow(_)
                | Socket::Widget(_)
                | Socket::Link(_)
                | Socket::Open(_),
            )
            | None => Cow::Borrowed(&[]),
        }
    }

    fn bound(&self, which: fn(&InputDefinition) -> Option<&serde_json::Number>) -> String {
        let bound = self.definition.as_deref().and_then(which);
        bound
            .map(|bound| python_str(&Value::Number(bound.clone())))
            .unwrap_or_default()
    }

    fn received_text(&self) -> String {
        self.received.as_ref().map(python_str).unwrap_or_default()
    }

    fn quoted(&self) -> String {
        short(&self.received_text())
    }

    fn wanted(&self) -> String {
        let quoted = self.received.as_ref().map(python_repr).unwrap_or_default();
        let quoted = short(&quoted);
        match self.socket() {
            Some(Socket::Int) => format!("{quoted} is not a whole number of at most 64 bits"),
            Some(Socket::Float) => format!("{quoted} is not a number"),
            Some(Socket::Link(_)) => {
                let types = self
                    .definition
                    .as_ref()
                    .map_or("", |input| input.link_types());
                format!("takes a link to an output of type {types}, not a value")
            }
            Some(
                Socket::String
                | Socket::Boolean
                | Socket::Combo { .. }
                | Socket::File { .. }
                | Socket::Autogrow(_)
                | Socket::DynamicCombo(_)
                | Socket::Widget(_)
                | Socket::Open(_),
            )
            | None => {
                format!("{quoted} is not a value of type {}", self.io_type())
            }
        }
    }

    /// What the input calls its files: definitions mark what may be uploaded to it.
    fn file_kind(&self) -> &'static str {
        let marks = [("video_upload", "video"), ("audio_upload", "audio")];
        let options = self
            .definition
            .as_ref()
            .map(|definition| &definition.options);
        let mark = marks
            .iter()
            .find(|(mark, _)| options.is_some_and(|options| options.contains_key(*mark)));
        mark.map_or("image", |(_, kind)| kind)
    }
}

fn list_text(choices: &[String]) -> String {
    python_repr(&choices.iter().map(String::as_str).collect::<Value>())
}

fn cycle_text(cycle: &[(NodeId, String)], complete: bool) -> String {
    let mut parts: Vec<String> = cycle
        .iter()
        .map(|(id, class)| format!("{} ({})", short(id.as_str()), short(class)))
        .collect();
    parts.extend(if complete {
        parts.first().cloned()
    } else {
        Some("...".to_owned())
    });
    parts.join(" -> ")
}

/// A text that is quoted in a sentence, cut where it would drown it.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(MOST_QUOTED) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
