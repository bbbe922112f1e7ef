//! What a revision of a deployment says. It never changes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a deployment, as its base address has it: lower-case letters, digits and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeploymentName(Arc<str>);

/// A text that is no name of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a deployment has a name of 1 to 48 lower-case letters, digits and `-`, which begins with a letter or digit; `default` is the \
     server itself"
)]
pub struct InvalidDeploymentName;

impl DeploymentName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DeploymentName {
    type Err = InvalidDeploymentName;

    fn from_str(text: &str) -> Result<Self, InvalidDeploymentName> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_name = (1..=48).contains(&text.len())
            && text.bytes().all(|byte| is_plain(byte) || byte == b'-')
            && text.bytes().next().is_some_and(is_plain)
            && text != "default";
        match is_name {
            true => Ok(Self(text.into())),
            false => Err(InvalidDeploymentName),
        }
    }
}

impl fmt::Display for DeploymentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a revision says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Where its workers come from.
    pub source: WorkerSource,
    /// How many workers it has.
    pub bounds: Bounds,
    /// How long a worker beyond the least number stays without a job, in seconds.
    pub idle_window_s: u32,
    /// How long a job waits before another worker is started for it, in seconds.
    pub scale_after_s: u32,
    /// How long a worker may take until it answers, in seconds.
    pub start_limit_s: u32,
    /// How many jobs may wait while no worker is up; a submission beyond them is refused for now.
    pub waking_queue: u32,
}

/// Where workers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerSource {
    /// They run elsewhere, at these addresses.
    Urls(Vec<String>),
    /// They are started and stopped here.
    Command(WorkerCommand),
}

/// How a worker is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCommand {
    /// The program and its arguments. `{port}`, `{name}` and `{models}` in them are filled in.
    pub arguments: Vec<String>,
    /// Variables besides the few that every worker gets.
    pub environment: BTreeMap<String, EnvironmentValue>,
    /// The folder that it is started in.
    pub folder: Option<String>,
    /// What `{models}` stands for.
    pub models: Option<String>,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvironmentValue {
    /// This text, which is shown to operators.
    Text(String),
    /// The value of this variable of the server.
    Variable(String),
    /// The content of this file, without the line feed at its end.
    File(String),
}

/// How many workers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// At least so many stay up.
    pub min: u32,
    /// At most so many are started.
    pub max: u32,
}

/// Why a definition cannot be used. The text says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidDefinition(pub String);

/// Most workers of a deployment.
const MOST_WORKERS: u32 = 256;

/// Most bytes of a command and its variables.
const MOST_BYTES: usize = 32 * 1024;

/// The longest time that a definition may name, in seconds: 30 days.
const LONGEST_S: u32 = 30 * 24 * 60 * 60;

impl Definition {
    /// A definition with the defaults: none to one worker, 30 s until an idle one stops, 5 s until another one is started, 5
    /// minutes for a start, 100 jobs that may wait for the first worker.
    #[must_use]
    pub fn of(source: WorkerSource) -> Self {
        let bounds = match &source {
            WorkerSource::Urls(urls) => {
                let count = u32::try_from(urls.len()).unwrap_or(u32::MAX);
                Bounds {
                    min: count,
                    max: count,
                }
            }
            WorkerSource::Command(_) => Bounds { min: 0, max: 1 },
        };
        Self {
            source,
            bounds,
            idle_window_s: 30,
            scale_after_s: 5,
            start_limit_s: 300,
            waking_queue: 100,
        }
    }

    /// Whether it can be used.
    ///
    /// # Errors
    /// With the first thing that is wrong.
    pub fn check(&self) -> Result<(), InvalidDefinition> {
        let spans = [
            ("idle_window", self.idle_window_s, 0),
            ("scale_after", self.scale_after_s, 0),
            ("start_limit", self.start_limit_s, 1),
        ];
        for (name, span, least) in spans {
            if !(least..=LONGEST_S).contains(&span) {
                return invalid(&format!("`{name}` is from {least} s to 30 days"));
            }
        }
        if self.waking_queue == 0 {
            return invalid("`waking_queue` is at least 1");
        }
        match &self.source {
            WorkerSource::Urls(urls) => {
                if urls.is_empty() {
                    return invalid("`urls` has at least one address");
                }
                self.bounds.check()?;
                let count = u32::try_from(urls.len()).unwrap_or(u32::MAX);
                let all = Bounds {
                    min: count,
                    max: count,
                };
                if self.bounds != all {
                    return invalid(
                        "`min` and `max` are for a `command`; workers of `urls` are started by others",
                    );
                }
                Ok(())
            }
            WorkerSource::Command(command) => {
                self.bounds.check()?;
                command.check()
            }
        }
    }
}

impl Bounds {
    /// Whether they can be used.
    ///
    /// # Errors
    /// If they cannot.
    pub fn check(self) -> Result<(), InvalidDefinition> {
        if self.max == 0 || self.max > MOST_WORKERS || self.min > self.max {
            return invalid(&format!(
                "`max` is from 1 to {MOST_WORKERS}, and `min` from 0 to `max`"
            ));
        }
        Ok(())
    }
}

impl WorkerCommand {
    fn check(&self) -> Result<(), InvalidDefinition> {
        if self.arguments.first().is_none_or(String::is_empty) {
            return invalid("`command` begins with a program, such as \"python\"");
        }
        if !self.arguments.iter().any(|text| text.contains("{port}")) {
            return invalid(
                "`command` has {port} where the worker's port goes: each worker gets its own",
            );
        }
        let names_models = self.arguments.iter().any(|text| text.contains("{models}"));
        if names_models && self.models.is_none() {
            return invalid(
                "`command` has {models}: set `models` to the folder that it stands for",
            );
        }
        let is_name = |name: &str| {
            let mut bytes = name.bytes();
            bytes
                .next()
                .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if let Some(name) = self.environment.keys().find(|name| !is_name(name)) {
            return invalid(&format!(
                "`environment` has \"{name}\": variables have names of letters, digits and `_`"
            ));
        }
        let values = self.environment.values().map(|value| match value {
            EnvironmentValue::Text(text)
            | EnvironmentValue::Variable(text)
            | EnvironmentValue::File(text) => text,
        });
        let texts = self.arguments.iter().chain(values);
        let texts = texts.chain(self.folder.iter()).chain(self.models.iter());
        let (mut bytes, mut has_nul) = (0, false);
        for text in texts {
            bytes += text.len();
            has_nul |= text.contains('\0');
        }
        if bytes > MOST_BYTES || has_nul {
            return invalid("a command with its variables has at most 32 KiB, and no NUL");
        }
        Ok(())
    }
}

fn invalid<T>(text: &str) -> Result<T, InvalidDefinition> {
    Err(InvalidDefinition(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_part_of_an_address() {
        for name in ["a", "sdxl-1", "0"] {
            assert_eq!(
                name.parse::<DeploymentName>().map(|name| name.to_string()),
                Ok(name.to_owned())
            );
        }
        for name in ["", "-a", "A", "a/b", "a.b", "default", &"a".repeat(49), "ä"] {
            assert_eq!(
                name.parse::<DeploymentName>(),
                Err(InvalidDeploymentName),
                "{name}"
            );
        }
    }

    #[test]
    fn a_definition_that_cannot_work_says_what_to_write() {
        let command = |arguments: &[&str]| {
            Definition::of(WorkerSource::Command(WorkerCommand {
                arguments: arguments.iter().map(ToString::to_string).collect(),
                environment: BTreeMap::new(),
                folder: None,
                models: None,
            }))
        };
        let good = command(&["python", "main.py", "--port", "{port}"]);
        assert_eq!(good.check(), Ok(()));
        let urls = |urls: &[&str]| {
            Definition::of(WorkerSource::Urls(
                urls.iter().map(ToString::to_string).collect(),
            ))
        };
        assert_eq!(urls(&["http://a"]).check(), Ok(()));
        let with = |change: &dyn Fn(&mut Definition)| {
            let mut changed = good.clone();
            change(&mut changed);
            changed
        };
        for (definition, says) in [
            (command(&[]), "begins with a program"),
            (command(&["python"]), "{port}"),
            (command(&["x", "{port}", "{models}"]), "set `models`"),
            (urls(&[]), "at least one"),
            (with(&|it| it.bounds = Bounds { min: 2, max: 1 }), "`min`"),
            (with(&|it| it.bounds.max = 257), "`max`"),
            (with(&|it| it.start_limit_s = 0), "`start_limit`"),
            (with(&|it| it.waking_queue = 0), "`waking_queue`"),
            (command(&["x\0", "{port}"]), "NUL"),
        ] {
            let refused = definition.check().expect_err("it cannot work");
            assert!(refused.0.contains(says), "{refused}");
        }
    }
}
