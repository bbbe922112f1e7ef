//! Classes that differ in a line each: a definition and a function instead of a type of its own.

use std::sync::Arc;

use workflow_core::NodeDefinition;

use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};

/// A definition and a function, as the families list them.
pub(super) type Class = (
    fn() -> NodeDefinition,
    fn(&mut Inputs, &NodeContext) -> Result<NodeOutput, NodeError>,
);

/// The classes of these families, in their order.
pub(super) fn classes(families: &[&[Class]]) -> Vec<Arc<dyn Node>> {
    let functions = families.iter().copied().flatten();
    let class = |&(definition, run): &Class| -> Arc<dyn Node> {
        Arc::new(FunctionClass { definition, run })
    };
    functions.map(class).collect()
}

/// A class: what it takes and gives, and how.
struct FunctionClass {
    definition: fn() -> NodeDefinition,
    run: fn(&mut Inputs, &NodeContext) -> Result<NodeOutput, NodeError>,
}

impl Node for FunctionClass {
    fn definition(&self) -> NodeDefinition {
        (self.definition)()
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        (self.run)(&mut inputs, context)
    }
}
