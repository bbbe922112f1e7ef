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

/// Why a process cannot log as it is told.
#[cfg(feature = "otlp")]
pub type LogError = crate::otlp::OtlpError;

/// Why a process cannot log as it is told: nothing can be wrong.
#[cfg(not(feature = "otlp"))]
pub type LogError = std::convert::Infallible;

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
pub struct LogControl {
    lines: Levels,
    /// What a collector gets.
    #[cfg(feature = "otlp")]
    exported: Option<Levels>,
}

type Levels = reload::Handle<Targets, Registry>;

impl LogControl {
    /// Logs by these levels from now on. The log of an embedder stays as it is.
    pub fn set(&self, levels: &LogLevels) {
        change(&self.lines, levels.0.clone());
        #[cfg(feature = "otlp")]
        if let Some(exported) = &self.exported {
            change(exported, with_spans(levels));
        }
    }
}

fn change(handle: &Levels, levels: Targets) {
    if handle.reload(levels).is_err() {
        tracing::debug!("the log was set up elsewhere; keeping it");
    }
}

/// What a collector gets: what is logged, and all spans of traces.
#[cfg(feature = "otlp")]
fn with_spans(levels: &LogLevels) -> Targets {
    let levels = levels.0.clone();
    levels.with_target(trace_context::TARGET, LevelFilter::TRACE)
}

/// Starts to log. Only the first call of a process counts; an embedder that set up its own log keeps it.
///
/// # Errors
/// If traces and logs cannot be exported as the environment says.
pub fn start(config: &LogConfig) -> Result<LogControl, LogError> {
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
    let (levels, lines) = reload::Layer::new(config.levels.0.clone());
    let layers = vec![layer.with_filter(levels).boxed()];
    #[cfg(feature = "otlp")]
    let (layers, exported) = match crate::otlp::start()? {
        None => (layers, None),
        Some(layer) => {
            let (levels, exported) = reload::Layer::new(with_spans(&config.levels));
            let mut layers = layers;
            layers.push(layer.with_filter(levels).boxed());
            (layers, Some(exported))
        }
    };
    if Registry::default().with(layers).try_init().is_err() {
        tracing::debug!("the log was set up before; keeping it");
    }
    #[cfg(not(feature = "otlp"))]
    if let Some(variable) = asks_for_export() {
        tracing::warn!(
            variable,
            "this program is built without the feature `otlp` and exports no traces; use the one of a release, or unset the variable"
        );
    }
    Ok(LogControl {
        lines,
        #[cfg(feature = "otlp")]
        exported,
    })
}

/// A variable that names a collector.
#[cfg(not(feature = "otlp"))]
fn asks_for_export() -> Option<&'static str> {
    let variables = [
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    ];
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    variables.into_iter().find(is_set)
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
