//! The values that a call gets, taken out by name and type.
//!
//! Pictures are taken, not lent: a node that holds the only reference to a frame may change it in place.

use std::any::Any;
use std::sync::Arc;

use workflow_core::{NodeDefinition, NodeId};

use super::{Awaited, FileInput, NodeError};
use crate::Value;
use images::{Image, Mask};

/// The inputs of one call.
#[derive(Debug)]
pub struct Inputs {
    node: NodeId,
    definition: Arc<NodeDefinition>,
    /// In the order of the definition; `None` where nothing is (or was taken).
    arguments: Vec<Option<Argument>>,
    /// What the node asked for.
    awaited: Option<Awaited>,
    /// Lazy inputs that are linked and were not followed yet, by their place.
    pending: Vec<usize>,
}

/// What one input of a call holds.
#[derive(Clone, Debug)]
pub(crate) enum Argument {
    One(Value),
    All(Vec<Value>),
}

impl Inputs {
    /// Inputs of a node of `definition`, for calling a node outside an engine.
    ///
    /// # Panics
    /// If a name is not in the definition.
    #[must_use]
    pub fn new(
        definition: NodeDefinition,
        values: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Self {
        let mut inputs = Self::from_arguments("node".into(), Arc::new(definition), Vec::new());
        inputs
            .arguments
            .resize(inputs.definition.inputs.len(), None);
        for (name, value) in values {
            let index = inputs.index(name).expect("the definition has the input");
            inputs.arguments[index] = Some(Argument::One(value));
        }
        inputs
    }

    pub(crate) fn from_arguments(
        node: NodeId,
        definition: Arc<NodeDefinition>,
        arguments: Vec<Option<Argument>>,
    ) -> Self {
        Self {
            node,
            definition,
            arguments,
            awaited: None,
            pending: Vec::new(),
        }
    }

    /// The same, with lazy inputs that can still be asked for.
    pub(crate) fn with_pending(self, pending: &[usize]) -> Self {
        Self {
            pending: pending.to_vec(),
            ..self
        }
    }

    pub(crate) fn answer(&mut self, awaited: Awaited) {
        self.awaited = Some(awaited);
    }

    /// Takes what [`super::Node::ask`] waited for.
    ///
    /// # Errors
    /// If it waited for nothing, or for something else.
    pub fn awaited<T: Any>(&mut self) -> Result<T, NodeError> {
        let awaited = self.awaited.take();
        let answer = awaited.and_then(|awaited| awaited.0.downcast().ok());
        answer.map(|answer| *answer).ok_or_else(|| {
            let wanted = std::any::type_name::<T>();
            let message = format!("node {} did not wait for a {wanted}", self.node);
            NodeError::new("TypeError", message)
        })
    }

    /// Whether there is a value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.argument(name).is_some()
    }

    /// Whether there is a lazy link that was not followed yet; only such an input can be asked for.
    #[must_use]
    pub fn is_pending(&self, name: &str) -> bool {
        self.index(name)
            .is_some_and(|index| self.pending.contains(&index))
    }

    /// The names of the inputs of a group that have a value, in order: `group.a`, `group.b`.
    #[must_use]
    pub fn group(&self, group: &str) -> Vec<String> {
        let names = self.definition.inputs.iter().map(|input| &input.name);
        let is_member = |name: &&String| {
            let member = name.strip_prefix(group);
            member.is_some_and(|member| member.starts_with('.')) && self.has(name)
        };
        names.filter(is_member).cloned().collect()
    }

    /// Takes the value of an input; `None` if there is none or it is null.
    #[must_use]
    pub fn maybe(&mut self, name: &str) -> Option<Value> {
        let value = self.has(name).then(|| self.value(name).ok()).flatten()?;
        let is_null = matches!(&value, Value::Json(json) if json.is_null());
        (!is_null).then_some(value)
    }

    /// Takes the value of an input of any type.
    ///
    /// # Errors
    /// If there is none.
    pub fn value(&mut self, name: &str) -> Result<Value, NodeError> {
        match self.take(name)? {
            Argument::One(value) => Ok(value),
            Argument::All(_) => Err(self.wrong(name, "one value", "a list")),
        }
    }

    /// Takes all values of an input of a node that takes lists.
    ///
    /// # Errors
    /// If there is none.
    pub fn list(&mut self, name: &str) -> Result<Vec<Value>, NodeError> {
        match self.take(name)? {
            Argument::One(value) => Ok(vec![value]),
            Argument::All(values) => Ok(values),
        }
    }

    /// Takes a batch of pictures.
    ///
    /// # Errors
    /// If there is none.
    pub fn image(&mut self, name: &str) -> Result<Image, NodeError> {
        let value = self.value(name)?;
        let Value::Image(image) = value else {
            return Err(self.wrong(name, "IMAGE", value.io_type()));
        };
        Ok(image)
    }

    /// Takes a batch of masks.
    ///
    /// # Errors
    /// If there is none.
    pub fn mask(&mut self, name: &str) -> Result<Mask, NodeError> {
        let value = self.value(name)?;
        let Value::Mask(mask) = value else {
            return Err(self.wrong(name, "MASK", value.io_type()));
        };
        Ok(mask)
    }

    /// A whole number that fits the type it is wanted as.
    ///
    /// # Errors
    /// If there is none, or it does not fit.
    pub fn int<T: TryFrom<i128>>(&self, name: &str) -> Result<T, NodeError> {
        let value = self.one(name)?;
        let Value::Int(value) = value else {
            return Err(self.wrong(name, "INT", value.io_type()));
        };
        T::try_from(*value)
            .map_err(|_| NodeError::value(format!("{}: {value} is out of range", self.place(name))))
    }

    /// A whole number of things, of which less than none are none. A link may bring any number, whatever the bounds of its
    /// widget.
    ///
    /// # Errors
    /// If there is none.
    pub fn count(&self, name: &str) -> Result<usize, NodeError> {
        const MOST: i128 = i64::MAX as i128;
        Ok(usize::try_from(self.int::<i128>(name)?.clamp(0, MOST)).unwrap_or(usize::MAX))
    }

    /// A seed of 64 bits: below 0 it is taken by its two's complement, as torch takes it.
    ///
    /// # Errors
    /// If there is none, or it has more bits.
    pub fn seed(&self, name: &str) -> Result<u64, NodeError> {
        let below_zero = self.int::<i64>(name).map(i64::cast_unsigned);
        below_zero.or_else(|_| self.int(name))
    }

    /// A number.
    ///
    /// # Errors
    /// If there is none.
    pub fn float(&self, name: &str) -> Result<f64, NodeError> {
        let value = self.one(name)?;
        if let Value::Int(whole) = value {
            return Ok(*whole as f64);
        }
        let Value::Float(float) = value else {
            return Err(self.wrong(name, "FLOAT", value.io_type()));
        };
        Ok(*float)
    }

    /// A text.
    ///
    /// # Errors
    /// If there is none.
    pub fn text(&self, name: &str) -> Result<&str, NodeError> {
        let value = self.one(name)?;
        let Value::String(text) = value else {
            return Err(self.wrong(name, "STRING", value.io_type()));
        };
        Ok(text)
    }

    /// A truth value.
    ///
    /// # Errors
    /// If there is none.
    pub fn boolean(&self, name: &str) -> Result<bool, NodeError> {
        let value = self.one(name)?;
        let Value::Boolean(truth) = value else {
            return Err(self.wrong(name, "BOOLEAN", value.io_type()));
        };
        Ok(*truth)
    }

    /// The chosen word, as `read` understands it.
    ///
    /// # Errors
    /// If there is none, or `read` does not know it.
    pub fn choice<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, NodeError> {
        let word = self.text(name)?;
        read(word).ok_or_else(|| {
            NodeError::value(format!(
                "{}: {word:?} is not one of the choices",
                self.place(name)
            ))
        })
    }

    /// A file.
    ///
    /// # Errors
    /// If there is none.
    pub fn file(&self, name: &str) -> Result<&FileInput, NodeError> {
        let value = self.one(name)?;
        let Value::File(file) = value else {
            return Err(self.wrong(name, "a file", value.io_type()));
        };
        Ok(file)
    }

    /// A value of an embedder's own type.
    ///
    /// # Errors
    /// If there is none.
    pub fn opaque<T: Any + Send + Sync>(&self, name: &str) -> Result<&T, NodeError> {
        let value = self.one(name)?;
        let content = match value {
            Value::Opaque(opaque) => opaque.get(),
            Value::Image(_)
            | Value::Mask(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::Boolean(_)
            | Value::Json(_)
            | Value::File(_)
            | Value::Blocker(_) => None,
        };
        content.ok_or_else(|| self.wrong(name, std::any::type_name::<T>(), value.io_type()))
    }

    fn one(&self, name: &str) -> Result<&Value, NodeError> {
        match self.argument(name) {
            Some(Argument::One(value)) => Ok(value),
            Some(Argument::All(_)) => Err(self.wrong(name, "one value", "a list")),
            None => Err(self.missing(name)),
        }
    }

    fn take(&mut self, name: &str) -> Result<Argument, NodeError> {
        let index = self.index(name).ok_or_else(|| self.missing(name))?;
        let taken = self.arguments.get_mut(index).and_then(Option::take);
        taken.ok_or_else(|| self.missing(name))
    }

    fn argument(&self, name: &str) -> Option<&Argument> {
        self.arguments.get(self.index(name)?)?.as_ref()
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.definition
            .inputs
            .iter()
            .position(|input| input.name == name)
    }

    fn missing(&self, name: &str) -> NodeError {
        NodeError::new("TypeError", format!("{} has no value", self.place(name)))
    }

    fn wrong(&self, name: &str, wanted: &str, found: &str) -> NodeError {
        let message = format!("{} must be {wanted}, and {found} came", self.place(name));
        NodeError::new("TypeError", message)
    }

    fn place(&self, name: &str) -> String {
        format!(
            "input {name:?} of node {} ({})",
            self.node, self.definition.class
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::define::{classic, int_input, link};

    fn inputs() -> Inputs {
        let definition = NodeDefinition {
            inputs: vec![link("image", "IMAGE"), int_input("size", json!({}))],
            ..classic("Toy", "tests", "tests")
        };
        Inputs::new(definition, [("size", Value::Int(-1))])
    }

    #[test]
    fn errors_name_node_class_and_input() {
        let place = "of node node (Toy)";
        let mut inputs = inputs();
        for error in [
            inputs.image("image").expect_err("nothing is there"),
            inputs.text("size").expect_err("it is no text"),
            inputs.int::<u32>("size").expect_err("it is negative"),
            inputs
                .value("nonsense")
                .expect_err("there is no such input"),
        ] {
            assert!(error.to_string().contains(place), "{error}");
        }
    }

    #[test]
    fn a_linked_number_below_0_is_no_thing_or_a_seed_of_64_bits() {
        let of = |number: i128| {
            let definition = NodeDefinition {
                inputs: vec![int_input("size", json!({"min": 0}))],
                ..classic("Toy", "tests", "tests")
            };
            Inputs::new(definition, [("size", Value::Int(number))])
        };
        assert_eq!(of(-7).seed("size"), Ok(u64::MAX - 6));
        assert_eq!(of(u64::MAX.into()).seed("size"), Ok(u64::MAX));
        assert!(of(1 << 64).seed("size").is_err());
        assert!(of(i128::from(i64::MIN) - 1).seed("size").is_err());
        let counts = [-7, 7, 1 << 70].map(|number| of(number).count("size"));
        assert_eq!(counts, [Ok(0), Ok(7), Ok(i64::MAX as usize)]);
    }

    #[test]
    fn what_was_taken_is_gone() {
        let mut inputs = inputs();
        assert!(inputs.has("size") && inputs.value("size").is_ok());
        assert!(!inputs.has("size") && inputs.value("size").is_err());
    }
}
