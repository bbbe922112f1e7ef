//! What was configured, as text, before it is read as values: one text per key, and where it came from.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use admin_http::wire::SettingBody;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::key::{CONFIG, PREFIX};
use super::nearest::nearest;
use super::value::Value;
use super::{ConfigError, Key, Kind, Preset, file};

/// Variables of `easel`, the command line of users: a shell that has them set may start a server, too.
const OF_THE_COMMAND_LINE: [&str; 3] = ["EASEL_API_KEY", "EASEL_IMAGES", "EASEL_SERVER"];

/// The variables of a process.
pub type Environment = Vec<(OsString, OsString)>;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command line.
    Flag(String),
    /// A variable of the environment.
    Variable(String),
    /// A line of the file.
    File(PathBuf, usize),
    /// Nobody said anything.
    Default,
    /// Nobody said anything, and the command has reasons for this value, which follow.
    Command(&'static str),
    /// The program that embeds the server.
    Host,
}

/// The configured texts of a set of keys. Reading a key as a [`Value`] also notes it for [`Settings::show`].
#[derive(Clone)]
pub struct Settings {
    keys: Vec<Key>,
    texts: BTreeMap<&'static str, (String, Origin)>,
    unknown_variables: Vec<String>,
    shown: Vec<SettingBody>,
}

impl Settings {
    /// Adds the flags of `keys`, and `--config`, to a command and all its subcommands.
    #[must_use]
    pub fn flags(command: Command, keys: &[&[Key]]) -> Command {
        let keys = keys.iter().copied().flatten();
        command
            .args(
                [CONFIG]
                    .iter()
                    .chain(keys)
                    .filter(|key| has_flag(key))
                    .map(Key::arg),
            )
            .next_help_heading(None)
    }

    /// Leaves in the help of a subcommand only the flags of the keys named in `shown`, with other defaults where `presets` has
    /// them. The other flags of `keys` still work.
    #[must_use]
    pub fn narrow(
        command: Command,
        keys: &[&[Key]],
        shown: &[&str],
        presets: &[(&str, &'static str)],
    ) -> Command {
        // A flag that a subcommand has already is not inherited.
        let keys = keys.iter().copied().flatten();
        let flags = keys.filter(|key| has_flag(key)).filter_map(|key| {
            let preset = presets.iter().find(|(name, _)| *name == key.name);
            match (shown.contains(&key.name), preset) {
                (true, None) => None,
                (true, Some((_, preset))) => Some(key.with_preset(preset).arg()),
                (false, _) => Some(key.arg().hide(true)),
            }
        });
        command.args(flags)
    }

    /// Gathers what flags, environment and the named file say of `keys`.
    ///
    /// # Errors
    /// If the file cannot be read, is no TOML or has unknown keys, or a variable is no text.
    pub fn gather(
        keys: &[&[Key]],
        matches: &ArgMatches,
        environment: Environment,
    ) -> Result<Self, ConfigError> {
        let keys: Vec<Key> = keys.iter().copied().flatten().copied().collect();
        let variables = variables(environment)?;
        let given = |key: &Key| {
            if !has_flag(key) {
                return None;
            }
            flag(matches, key).or_else(|| {
                let (name, text) = variables.get_key_value(&key.variable())?;
                Some((text.clone(), Origin::Variable(name.clone())))
            })
        };

        let mut texts = BTreeMap::new();
        if let Some((path, origin)) = given(&CONFIG) {
            let path = PathBuf::from(path);
            let text =
                std::fs::read_to_string(&path).map_err(|source| ConfigError::Unreadable {
                    path: path.clone(),
                    origin,
                    source,
                })?;
            for entry in file::read(&text, &path, &keys)? {
                texts.insert(
                    entry.key.name,
                    (entry.text, Origin::File(path.clone(), entry.line)),
                );
            }
        }
        for key in &keys {
            if let Some(given) = given(key) {
                texts.insert(key.name, given);
            } else if let Preset::Value(text) = key.preset {
                texts
                    .entry(key.name)
                    .or_insert_with(|| (text.to_owned(), Origin::Default));
            }
        }

        let known: BTreeMap<String, Key> = keys
            .iter()
            .chain([&CONFIG])
            .filter(|key| has_flag(key))
            .map(|key| (key.variable(), *key))
            .collect();
        let unknown = variables.into_keys().filter(|name| {
            !known.contains_key(name) && !OF_THE_COMMAND_LINE.contains(&name.as_str())
        });
        let unknown_variables = unknown.map(|name| warning(&name, known.values())).collect();
        Ok(Self {
            keys,
            texts,
            unknown_variables,
            shown: Vec::new(),
        })
    }

    /// Takes the values that a program gives `keys` in its own code, spelled as in a file; a list has commas between its parts.
    /// Neither flags nor environment nor a file are looked at.
    ///
    /// # Errors
    /// If one of the names is no key.
    pub fn of(keys: &[&[Key]], values: &[(&str, &str)]) -> Result<Self, ConfigError> {
        let keys: Vec<Key> = keys.iter().copied().flatten().copied().collect();
        let mut texts = BTreeMap::new();
        for key in &keys {
            if let Preset::Value(text) = key.preset {
                texts.insert(key.name, (text.to_owned(), Origin::Default));
            }
        }
        for (name, value) in values {
            let known = keys.iter().find(|key| key.name == *name);
            let key = known.ok_or_else(|| ConfigError::UnknownName {
                key: (*name).to_owned(),
                nearest: nearest(name, keys.iter().map(|key| key.name)),
            })?;
            texts.insert(key.name, ((*value).to_owned(), Origin::Host));
        }
        Ok(Self {
            keys,
            texts,
            unknown_variables: Vec::new(),
            shown: Vec::new(),
        })
    }

    /// Lets a command settle a key that nobody set.
    pub fn preset(&mut self, name: &'static str, text: &str, reason: &'static str) {
        if self.origin(name) == &Origin::Default {
            self.texts
                .insert(name, (text.to_owned(), Origin::Command(reason)));
        }
    }

    /// The keys that have other texts in `other`, in the order of their names, wherever the texts came from.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let names: BTreeSet<_> = self.texts.keys().chain(other.texts.keys()).collect();
        let text = |of: &Self, name: &str| of.texts.get(name).map(|(text, _)| text.clone());
        let names = names.into_iter().copied();
        names
            .filter(|name| text(self, name) != text(other, name))
            .collect()
    }

    /// These settings with the named ones as they are in `other`. They are yet to be read.
    #[must_use]
    pub fn with(&self, names: &[&'static str], other: &Self) -> Self {
        let mut texts = self.texts.clone();
        for name in names {
            match other.texts.get(name) {
                Some(given) => texts.insert(name, given.clone()),
                None => texts.remove(name),
            };
        }
        Self {
            texts,
            shown: Vec::new(),
            ..self.clone()
        }
    }

    /// Where the value of a key came from.
    #[must_use]
    pub fn origin(&self, name: &str) -> &Origin {
        self.texts
            .get(name)
            .map_or(&Origin::Default, |(_, origin)| origin)
    }

    /// Reads a key that always has a value.
    ///
    /// # Errors
    /// If what was written is not allowed.
    pub fn read<T: Value>(&mut self, name: &'static str) -> Result<T, ConfigError> {
        let value = self.read_optional(name)?;
        Ok(value.expect("a key that always has a value has a preset"))
    }

    /// Reads a key that may have no value.
    ///
    /// # Errors
    /// If what was written is not allowed.
    pub fn read_optional<T: Value>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, ConfigError> {
        let Some((text, origin)) = self.texts.get(name) else {
            self.shown.push(SettingBody {
                name: name.to_owned(),
                value: None,
                origin: Origin::Default.to_string(),
            });
            return Ok(None);
        };
        let value = T::read(text).ok_or_else(|| {
            let key = self.keys.iter().find(|key| key.name == name);
            let key = key.expect("only known keys are read");
            ConfigError::value(key, text, origin.clone(), T::ALLOWED)
        })?;
        self.shown.push(SettingBody {
            name: name.to_owned(),
            value: Some(value.show()),
            origin: origin.to_string(),
        });
        Ok(Some(value))
    }

    /// Sentences about variables that look meant for this program and mean nothing to it.
    #[must_use]
    pub fn unknown_variables(&self) -> &[String] {
        &self.unknown_variables
    }

    /// Everything that was read, as a TOML file with the origin of each value; secrets are masked.
    #[must_use]
    pub fn show(&self) -> String {
        let warnings = self
            .unknown_variables
            .iter()
            .map(|text| format!("# {text}\n"));
        let lines = self.shown.iter().map(|setting| {
            let SettingBody {
                name,
                value,
                origin,
            } = setting;
            match value {
                Some(value) => format!("{name} = {value}  # {origin}\n"),
                None => format!("# {name} is not set\n"),
            }
        });
        warnings.chain(lines).collect()
    }

    /// Everything that was read, with the origin of each value; secrets are masked.
    #[must_use]
    pub fn in_force(&self) -> Arc<[SettingBody]> {
        self.shown.clone().into()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::File(path, line) => write!(f, "{}, line {line}", path.display()),
            Self::Default => f.write_str("default"),
            Self::Command(reason) => write!(f, "default, {reason}"),
            Self::Host => f.write_str("the program"),
        }
    }
}

/// Whether a key has a flag and a variable: tables are in the file alone.
fn has_flag(key: &Key) -> bool {
    key.kind != Kind::Tables
}

fn flag(matches: &ArgMatches, key: &Key) -> Option<(String, Origin)> {
    if matches.value_source(key.name) != Some(ValueSource::CommandLine) {
        return None;
    }
    let texts: Vec<&str> = matches
        .get_many::<String>(key.name)?
        .map(String::as_str)
        .collect();
    Some((texts.join(","), Origin::Flag(key.flag())))
}

/// The variables with our prefix, as text.
fn variables(environment: Environment) -> Result<BTreeMap<String, String>, ConfigError> {
    let ours = environment.into_iter().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        name.starts_with(PREFIX).then_some((name, value))
    });
    ours.map(|(name, value)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => Err(ConfigError::NotText(name)),
    })
    .collect()
}

fn warning<'k>(variable: &str, known: impl Iterator<Item = &'k Key>) -> String {
    let name = variable[PREFIX.len()..].to_ascii_lowercase();
    let known: Vec<&Key> = known.collect();
    let nearest = nearest(&name, known.iter().map(|key| key.name))
        .and_then(|nearest| known.iter().find(|key| key.name == nearest));
    match nearest {
        Some(key) => format!(
            "the variable {variable} means nothing; did you mean {}?",
            key.variable()
        ),
        None => format!("the variable {variable} means nothing to this program"),
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the texts: one of them may be a token.
        f.debug_struct("Settings")
            .field("shown", &self.shown)
            .finish_non_exhaustive()
    }
}
