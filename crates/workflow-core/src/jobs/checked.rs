//! What a submission is found to be: read, validated against the engine that will run it, and planned.

use std::collections::BTreeSet;
use std::sync::Arc;

use accounts::Fingerprint;
use indexmap::IndexMap;

use super::submit::fingerprint;
use super::{JobsError, Submission};
use crate::references::{Reference, references};
use crate::{
    Engines, Graph, GraphError, MAX_TEXT_BYTES, NamedEngine, NodeCatalog, NodeErrors, NodeId, Plan,
    Requirements, ResolvedFiles, ValidGraph, Validation, validate,
};

/// After how many seconds to try again what may need an engine that was never seen: workers start in seconds.
const UNSEEN_RETRY_S: u64 = 5;

/// A graph, read.
pub(super) struct Read {
    pub(super) graph: Graph,
    pub(super) fingerprint: Fingerprint,
    pub(super) references: Vec<Reference>,
}

impl Read {
    pub(super) fn of(submission: &Submission, catalog: &NodeCatalog) -> Result<Self, JobsError> {
        let text = &submission.workflow[..];
        json_text::check(text).map_err(GraphError::TooLarge)?;
        let may_be_long = text.len() > MAX_TEXT_BYTES;
        let has_long = may_be_long && json_text::measure(text).longest_text > MAX_TEXT_BYTES;
        let value = json_text::read(text).map_err(|_| GraphError::NotAnObject)?;
        let fingerprint = fingerprint(&value, &submission.metadata);
        let graph = Graph::from_value(value)?;
        graph.check_ids()?;
        if has_long {
            let found = Validation::of_long_texts(&graph);
            let found = found.ok_or(GraphError::TextTooLong)?;
            return Err(JobsError::Invalid(Box::new(found)));
        }
        Ok(Self {
            references: references(&graph, catalog),
            graph,
            fingerprint,
        })
    }
}

/// What is kept of a graph that can run.
pub(super) struct Checked {
    /// The engine that will run it.
    pub(super) engine: NamedEngine,
    /// The graph, where that engine wants to see it before it is taken in.
    pub(super) to_judge: Option<(Arc<ValidGraph>, Arc<Plan>)>,
    /// What it needs, but for its secret.
    pub(super) needs: Requirements,
    /// The outputs to run, unless all of them do.
    pub(super) targets: Option<Vec<String>>,
    pub(super) nodes_total: u32,
    /// The text of what goes into pictures besides the graph.
    pub(super) extra_pnginfo: String,
    /// What is wrong with the outputs that do not run.
    pub(super) errors: IndexMap<NodeId, NodeErrors>,
}

impl Checked {
    pub(super) fn of(
        graph: &Graph,
        engines: &Engines,
        files: &ResolvedFiles,
        submission: &Submission,
        calls_partners: bool,
    ) -> Result<Self, JobsError> {
        let targets = submission.targets.as_deref();
        let classes = graph
            .nodes()
            .values()
            .filter_map(|node| node.class_type.as_deref());
        let engine = engines
            .choose(&classes)
            .cloned()
            .ok_or(JobsError::Stopped)?;
        let mut known = engine.engine.nodes();
        if classes.clone().any(|class| known.get(class).is_none()) {
            if engines.any_unseen() {
                return Err(JobsError::NotReady {
                    retry_after_s: UNSEEN_RETRY_S,
                });
            }
            // What is missing may be at drained workers of another engine.
            known = known.with_drained_of(&engines.nodes());
        }
        let mut validation = validate(graph, &known, files, targets);
        let runs_in_part = submission.partial && validation.graph.is_some();
        if !validation.errors.is_empty() && !runs_in_part {
            return Err(JobsError::Invalid(Box::new(validation)));
        }
        let valid = validation.graph.take().ok_or(JobsError::NoOutputs)?;
        if !calls_partners && submission.secret.is_none() {
            let nodes = valid.nodes.values().map(|node| &node.definition);
            let (mut classes, mut providers) = (BTreeSet::new(), BTreeSet::new());
            for definition in nodes.filter(|definition| definition.calls_partners()) {
                classes.insert(definition.class.clone());
                providers.extend(
                    definition
                        .partner
                        .iter()
                        .map(|partner| partner.provider.clone()),
                );
            }
            if !classes.is_empty() {
                return Err(JobsError::PartnersForbidden { classes, providers });
            }
        }
        let nodes = valid.nodes.values();
        let classes = nodes.map(|node| node.definition.class.clone()).collect();
        // What was valid now is what runs, whatever another validation might say later.
        let outputs = || valid.outputs.iter().map(ToString::to_string).collect();
        let targets = (submission.partial || submission.targets.is_some()).then(outputs);
        let needs = Requirements {
            classes,
            files: engine.engine.model_files(&valid),
            ..Requirements::of_engine(engine.name.clone())
        };
        let (plan, judges) = (Plan::of(&valid), engine.engine.workers().is_some());
        Ok(Self {
            targets,
            nodes_total: plan.nodes_total(),
            to_judge: judges.then(|| (Arc::new(valid), Arc::new(plan))),
            engine,
            needs,
            extra_pnginfo: match submission.extra_pnginfo.is_empty() {
                true => String::new(),
                false => serde_json::to_string(&submission.extra_pnginfo)
                    .expect("a map of values has a spelling"),
            },
            errors: validation.errors,
        })
    }
}
