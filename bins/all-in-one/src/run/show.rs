//! What people see of a run: a bar on a terminal, plain lines elsewhere, and how it ended.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use server_kit::program::Failure;
use workflow_core::{
    Job, JobError, JobStatus, Progress, Reference, Validation, ValidationErrorKind,
};

/// Steps of the whole bar.
const STEPS: u64 = 1000;

/// Shows progress on standard error.
pub(super) enum Display {
    /// For a terminal.
    Bar(ProgressBar),
    /// For a file or a pipe: one line whenever another node is seen at work, and one at the end.
    Lines { last: String },
}

impl Display {
    pub(super) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines {
                last: String::new(),
            };
        }
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:32} {percent:>3} %  {msg}");
        bar.set_style(
            style
                .expect("the template is well-formed")
                .progress_chars("█▌░"),
        );
        Self::Bar(bar)
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        let text = words(progress);
        match self {
            Self::Bar(bar) => {
                bar.set_position((progress.value * STEPS as f64) as u64);
                bar.set_message(text);
            }
            Self::Lines { last } => {
                // Steps within a node would be a line each.
                let node = progress.current_node.as_ref().map(ToString::to_string);
                let node = node.unwrap_or_default();
                if *last != node {
                    line(&text);
                    *last = node;
                }
            }
        }
    }

    pub(super) fn say(&self, text: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| line(text)),
            Self::Lines { .. } => line(text),
        }
    }

    pub(super) fn finish(self, progress: &Progress) {
        match self {
            Self::Bar(bar) => {
                bar.set_position((progress.value * STEPS as f64) as u64);
                bar.abandon_with_message(format!(
                    "{} of {} nodes",
                    progress.nodes_done, progress.nodes_total
                ));
            }
            // Nodes that were quick have no line of their own.
            Self::Lines { .. } => line(&words(progress)),
        }
    }
}

/// How the job ended: what went wrong, and where.
pub(super) fn verdict(job: &Job) -> Result<(), Failure> {
    let message = match job.status {
        JobStatus::Succeeded => return Ok(()),
        JobStatus::Failed => failure(job.error.as_ref()),
        JobStatus::Canceled => "the job was canceled".to_owned(),
        JobStatus::Expired if job.started_at.is_some() => {
            "the job's time ran out; give it more with --run-limit".to_owned()
        }
        // It never ran, so the time to run is not what it needs more of.
        JobStatus::Expired => failure(job.error.as_ref()),
        JobStatus::Queued | JobStatus::Running | JobStatus::Canceling => {
            "the job did not end".to_owned()
        }
    };
    Err(Failure {
        exit_code: 1,
        message,
    })
}

/// Everything that is wrong with a graph, a line each. `absence` knows more of why some classes are not there.
pub(super) fn validation(
    validation: &Validation,
    absence: impl Fn(&str) -> Option<String>,
) -> String {
    let mut text = String::from("the workflow cannot run");
    for (id, node) in &validation.errors {
        let class_type = node.class_type.as_deref();
        let class = class_type.map_or_else(String::new, |class| format!(" ({class})"));
        for error in &node.errors {
            let input = error.input.as_deref();
            let input = input.map_or_else(String::new, |input| format!(", input `{input}`"));
            let is_missing = matches!(error.kind, ValidationErrorKind::MissingNodeType { .. });
            let absent = class_type.filter(|_| is_missing).and_then(&absence);
            let reason = absent.unwrap_or_else(|| error.reason());
            text.push_str(&format!("\n  node {id}{class}{input}: {reason}"));
        }
    }
    text
}

/// References to assets that are not there, a line each.
pub(super) fn missing(references: &[Reference]) -> String {
    let mut text = String::from(
        "the workflow refers to files that are not there; name one with --input NODE.FIELD=FILE",
    );
    for reference in references {
        if let Some(node) = &reference.node {
            text.push_str(&format!(
                "\n  node {node}, input `{}`: the asset {:?}",
                reference.field, reference.text
            ));
        }
    }
    text
}

fn failure(error: Option<&JobError>) -> String {
    let Some(error) = error else {
        return "the job failed".to_owned();
    };
    match (&error.node_id, &error.class_type) {
        (Some(node), Some(class)) => format!("node {node} ({class}) failed: {}", error.message),
        (Some(node), None) => format!("node {node} failed: {}", error.message),
        (None, _) => error.message.clone(),
    }
}

fn words(progress: &Progress) -> String {
    let done = format!(
        "{} of {} nodes done",
        progress.nodes_done, progress.nodes_total
    );
    let (Some(node), Some(class)) = (&progress.current_node, &progress.current_node_class) else {
        return done;
    };
    match (progress.step, progress.steps) {
        (Some(step), Some(steps)) => format!("{done}, node {node} ({class}) {step}/{steps}"),
        (Some(_) | None, _) => format!("{done}, node {node} ({class})"),
    }
}

fn line(text: &str) {
    // Without a standard error there is nobody to tell.
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use workflow_core::JobErrorCode;

    #[test]
    fn progress_names_the_node_at_work() {
        let mut progress = Progress::start(4);
        assert_eq!(words(&progress), "0 of 4 nodes done");
        progress.current_node = Some("5".into());
        progress.current_node_class = Some("ImageBlur".to_owned());
        assert_eq!(words(&progress), "0 of 4 nodes done, node 5 (ImageBlur)");
        (progress.step, progress.steps) = (Some(1), Some(2));
        assert_eq!(
            words(&progress),
            "0 of 4 nodes done, node 5 (ImageBlur) 1/2"
        );
    }

    #[test]
    fn a_failure_names_node_and_reason() {
        let mut error = JobError::new(JobErrorCode::NodeExecutionError, "the picture is broken");
        assert_eq!(failure(Some(&error)), "the picture is broken");
        error.node_id = Some("1".into());
        error.class_type = Some("LoadImage".to_owned());
        assert_eq!(
            failure(Some(&error)),
            "node 1 (LoadImage) failed: the picture is broken"
        );
    }
}
