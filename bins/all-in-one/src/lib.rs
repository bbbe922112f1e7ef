//! Everything in one program: the server of workflows, and the same stack for a single graph from the command line.
//!
//! The one place that will know both workflows and partner models. `serve` is [`workflow_server`]'s; start at [`program`],
//! then at [`run`](mod@run).

pub mod program;
pub mod run;
