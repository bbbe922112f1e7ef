//! The log: one line per event on standard error, as text for people or as JSON for programs.
//!
//! What is logged is decided where it is logged; nothing here sees a body, a key or a signed address. Standard output
//! stays free for what a command was asked for.

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::config::Value;

/// How a process logs.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// The form of a line.
    pub format: LogFormat,
    /// What is logged.
    pub levels: LogLevels,
}

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// Levels by module, such as `info,store_local=debug`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLevels(Targets, String);

/// Changes what is logged while a process logs.
#[derive(Clone, Debug)]
pub struct LogControl(reload::Handle<Targets, Registry>);

impl LogControl {
    /// Logs by these levels from now on. The log of an embedder stays as it is.
    pub fn set(&self, levels: &LogLevels) {
        if self.0.reload(levels.0.clone()).is_err() {
            tracing::debug!("the log was set up elsewhere; keeping it");
        }
    }
}

/// Starts to log. Only the first call of a process counts; an embedder that set up its own log keeps it.
pub fn start(config: &LogConfig) -> LogControl {
    let layer = match config.format {
        LogFormat::Text => fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .boxed(),
        LogFormat::Json => fmt::layer()
            .with_writer(std::io::stderr)
            .json()
            .flatten_event(true)
            .boxed(),
    };
    let layer: Box<dyn Layer<Registry> + Send + Sync> = layer;
    let (levels, control) = reload::Layer::new(config.levels.0.clone());
    let subscriber = Registry::default().with(layer.with_filter(levels));
    if subscriber.try_init().is_err() {
        tracing::debug!("the log was set up before; keeping it");
    }
    LogControl(control)
}

impl Value for LogFormat {
    const ALLOWED: &'static str = "text, json or auto";

    fn read(text: &str) -> Option<Self> {
        match text {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            "auto" if std::io::stderr().is_terminal() => Some(Self::Text),
            "auto" => Some(Self::Json),
            _ => None,
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Text => "\"text\"".to_owned(),
            Self::Json => "\"json\"".to_owned(),
        }
    }
}

impl Value for LogLevels {
    const ALLOWED: &'static str =
        "off, error, warn, info, debug or trace, also by module, such as info,store_local=debug";

    fn read(text: &str) -> Option<Self> {
        // The parser takes any word for a module; a lone one was meant as a level.
        let is_level = |part: &str| {
            part.contains('=') || (!part.is_empty() && part.parse::<LevelFilter>().is_ok())
        };
        let well = text.split(',').all(is_level);
        let targets = text.parse().ok().filter(|_| well)?;
        Some(Self(targets, text.to_owned()))
    }

    fn show(&self) -> String {
        toml::Value::String(self.1.clone()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_words_also_by_module() {
        for good in [
            "info",
            "off",
            "warn,store_local=debug",
            "INFO",
            "a::b=trace",
        ] {
            assert!(LogLevels::read(good).is_some(), "{good}");
        }
        for bad in ["", "loud", "info,", "store_local=loud", "store_local"] {
            assert_eq!(LogLevels::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_format_is_shown_as_what_auto_became() {
        assert_eq!(LogFormat::read("json"), Some(LogFormat::Json));
        assert!(
            LogFormat::read("auto")
                .is_some_and(|format| ["\"text\"", "\"json\""].contains(&format.show().as_str()))
        );
        assert_eq!(LogFormat::read("xml"), None);
    }
}
