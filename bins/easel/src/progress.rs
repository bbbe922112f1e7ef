//! What people see while a job runs: a bar on a terminal, plain lines elsewhere.

use client::{Preview, Progress, StatusEvent};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::pictures::{Live, Protocol};
use crate::terminal;
use crate::text::clean;

/// Steps of the whole bar.
const STEPS: u64 = 1000;

/// Shows progress on standard error.
#[derive(Debug)]
pub(crate) enum Display {
    /// For a terminal: the bar, and the newest preview above it.
    Bar { bar: ProgressBar, live: Live },
    /// For a file or a pipe: a line whenever another node or status is seen.
    Lines { last: String },
    /// Nothing.
    Silent,
}

impl Display {
    pub(crate) fn new(quiet: bool, protocol: Option<Protocol>) -> Self {
        if quiet {
            return Self::Silent;
        }
        if !terminal::is_err() {
            return Self::Lines {
                last: String::new(),
            };
        }
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:32} {percent:>3} %  {wide_msg}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("█▌░"));
        }
        Self::Bar {
            bar,
            live: Live::new(protocol),
        }
    }

    /// Shows a status; how the job ended is left to [`Display::finish`].
    pub(crate) fn status(&mut self, status: &StatusEvent) {
        if !status.is_terminal() {
            self.line(&status_words(status));
        }
    }

    pub(crate) fn progress(&mut self, progress: &Progress) {
        let words = words(progress);
        if let Self::Bar { bar, .. } = self {
            bar.set_position((progress.value.clamp(0.0, 1.0) * STEPS as f64) as u64);
        }
        if progress.current_node.is_some() || progress.nodes_done > 0 {
            match self {
                Self::Bar { bar, .. } => bar.set_message(words),
                // Steps within a node would be a line each.
                Self::Lines { .. } => self.line(&without_steps(progress)),
                Self::Silent => {}
            }
        }
    }

    pub(crate) fn preview(&mut self, preview: &Preview) {
        if let Self::Bar { bar, live } = self {
            let drawn = live.draw(preview);
            if let Some(drawn) = drawn {
                bar.suspend(|| terminal::draw(&drawn));
            }
        }
    }

    /// Says something beside the bar.
    pub(crate) fn say(&mut self, words: &str) {
        match self {
            Self::Bar { bar, .. } => bar.suspend(|| terminal::say(&clean(words, true))),
            Self::Lines { .. } => terminal::say(&clean(words, true)),
            Self::Silent => {}
        }
    }

    pub(crate) fn finish(self, words: &str) {
        match self {
            Self::Bar { bar, .. } => {
                bar.finish_and_clear();
                terminal::say(&clean(words, false));
            }
            Self::Lines { .. } => terminal::say(&clean(words, false)),
            Self::Silent => {}
        }
    }

    fn line(&mut self, words: &str) {
        match self {
            Self::Bar { bar, .. } => bar.set_message(clean(words, false)),
            Self::Lines { last } => {
                if last != words {
                    terminal::say(&clean(words, false));
                    words.clone_into(last);
                }
            }
            Self::Silent => {}
        }
    }
}

fn status_words(status: &StatusEvent) -> String {
    match (status.status.as_str(), status.queue_position) {
        ("queued", Some(0)) => "queued, next in line".to_owned(),
        ("queued", Some(position)) => format!("queued, {position} before it"),
        (status, _) => status.to_owned(),
    }
}

/// How far a job is, in words.
pub(crate) fn words(progress: &Progress) -> String {
    let text = without_steps(progress);
    match (progress.step, progress.steps, &progress.current_node) {
        (Some(step), Some(steps), Some(_)) => clean(&format!("{text} {step}/{steps}"), false),
        _ => text,
    }
}

fn without_steps(progress: &Progress) -> String {
    let done = format!(
        "{} of {} nodes done",
        progress.nodes_done, progress.nodes_total
    );
    let text = match (&progress.current_node, &progress.current_node_class) {
        (Some(node), Some(class)) => format!("{done}, node {node} ({class})"),
        (Some(node), None) => format!("{done}, node {node}"),
        (None, _) => done,
    };
    clean(&text, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_the_node_at_work() {
        let mut progress = Progress {
            nodes_total: 4,
            ..Progress::default()
        };
        assert_eq!(words(&progress), "0 of 4 nodes done");
        progress.current_node = Some("5".to_owned());
        progress.current_node_class = Some("ImageBlur\u{7}".to_owned());
        assert_eq!(words(&progress), "0 of 4 nodes done, node 5 (ImageBlur)");
        (progress.step, progress.steps) = (Some(1), Some(2));
        assert_eq!(
            words(&progress),
            "0 of 4 nodes done, node 5 (ImageBlur) 1/2"
        );
    }
}
