//! One thing that can be configured, and the spellings that follow from its name.

use clap::{Arg, ArgAction};

/// A key of the configuration: `data_dir` in the file, `--data-dir` as a flag, `EASEL_DATA_DIR` as a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name in the file, in snake case.
    pub name: &'static str,
    /// How many values it takes.
    pub kind: Kind,
    /// What holds where nothing is said.
    pub preset: Preset,
    /// What it does, for people; a sentence.
    pub help: &'static str,
    /// Whether its value is never shown.
    pub secret: bool,
}

/// How a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One value; the placeholder that help shows for it.
    Value(&'static str),
    /// `true` or `false`; the bare flag means `true`.
    Switch,
    /// Values separated by commas, an array in the file; the placeholder for one of them.
    List(&'static str),
    /// Tables of the file, and of nothing else: they come as the text of a JSON array.
    Tables,
}

/// What holds where nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// This value, written as a user would.
    Value(&'static str),
    /// None at all.
    Unset,
}

/// What every variable starts with.
pub(super) const PREFIX: &str = "EASEL_";

/// The file that is read, by its key; it cannot name another one itself.
pub(super) const CONFIG: Key = Key {
    name: "config",
    kind: Kind::Value("FILE"),
    preset: Preset::Unset,
    help: "Reads further keys from this TOML file; flags and variables win over it",
    secret: false,
};

impl Key {
    /// The same key with another preset, for a binary whose default is another.
    #[must_use]
    pub const fn with_preset(self, preset: &'static str) -> Self {
        Self {
            preset: Preset::Value(preset),
            ..self
        }
    }

    /// The flag, dashes included.
    #[must_use]
    pub fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// The variable.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_ascii_uppercase())
    }

    /// The flag as clap wants it. Defaults stay out of it, so that a flag that was given can be told from one that was not.
    pub(super) fn arg(&self) -> Arg {
        let mut help = format!("{} [{}", self.help, self.variable());
        if let Preset::Value(value) = self.preset
            && !value.is_empty()
        {
            help.push_str(&format!(", default {value}"));
        }
        help.push(']');
        let arg = Arg::new(self.name)
            .long(self.name.replace('_', "-"))
            .global(true)
            .help_heading("Settings")
            .help(help);
        match self.kind {
            Kind::Value(placeholder) => arg.value_name(placeholder).action(ArgAction::Set),
            Kind::Switch => arg
                .value_name("BOOL")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            // It has no flag ([`Settings::flags`](super::Settings::flags)).
            Kind::Tables => arg.hide(true),
            Kind::List(placeholder) => arg
                .value_name(placeholder)
                .value_delimiter(',')
                .action(ArgAction::Append),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_follows_from_the_name() {
        let key = Key {
            name: "data_dir",
            ..CONFIG
        };
        assert_eq!(
            (key.flag().as_str(), key.variable().as_str()),
            ("--data-dir", "EASEL_DATA_DIR")
        );
    }
}
