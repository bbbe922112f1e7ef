//! What the operator has switched off: `switches.toml` in the folder of a catalog.
//!
//! It changes no other file, so that what is compiled in can be switched too, and it is read again with the folder.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use router_core::ModelId;
use serde::Deserialize;

use super::fault::Fault;
use super::files::File;

/// The name of the file.
pub const SWITCHES_FILE: &str = "switches.toml";

/// What begins the file that a command writes.
const HEADING: &str =
    "# Models that are not offered: `partner/model`, or `partner/*` for all of a partner.\n";

/// One model, or all of a partner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Switch {
    partner: String,
    /// `None` for all models.
    model: Option<String>,
}

/// The models that are switched off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switches {
    #[serde(default)]
    off: BTreeSet<Switch>,
}

/// A text that names neither a model nor a partner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names neither a model, such as bfl/flux-2-pro, nor a partner, such as bfl/*")]
pub struct InvalidSwitch(String);

impl Switches {
    /// Reads the file.
    pub(super) fn read(file: &File) -> Result<Self, Fault> {
        file.toml()
    }

    /// Whether a model is switched off, by itself or with its partner.
    #[must_use]
    pub fn is_off(&self, id: &ModelId) -> bool {
        self.off.iter().any(|switch| switch.names(id))
    }

    /// Switches off, or on; whether that changes anything.
    pub fn set(&mut self, switch: &Switch, on: bool) -> bool {
        match on {
            true => self.off.remove(switch),
            false => self.off.insert(switch.clone()),
        }
    }

    /// The switch of the partner of this one, if it is off.
    #[must_use]
    pub fn partner_of(&self, switch: &Switch) -> Option<&Switch> {
        let whole = |off: &&Switch| off.model.is_none() && off.partner == switch.partner;
        self.off.iter().find(whole).filter(|off| *off != switch)
    }

    /// The file that says so.
    #[must_use]
    pub fn to_text(&self) -> String {
        let lines = self.off.iter().map(|switch| format!("    \"{switch}\",\n"));
        format!("{HEADING}off = [\n{}]\n", lines.collect::<String>())
    }

    /// A switch that names nothing is a mistake of the file: what it was meant for is still offered.
    pub(super) fn check(&self, file: &File, known: &[&ModelId], faults: &mut Vec<Fault>) {
        for switch in &self.off {
            if !known.iter().any(|id| switch.names(id)) {
                let reason = format!("the catalog has nothing that `{switch}` names");
                let name = switch.model.as_deref().unwrap_or(&switch.partner);
                faults.push(Fault::mentioning(&file.path, &file.text, name, reason));
            }
        }
    }
}

impl Switch {
    /// Whether it is for this model.
    #[must_use]
    pub fn names(&self, id: &ModelId) -> bool {
        let of_model = self
            .model
            .as_deref()
            .is_none_or(|model| model == id.model());
        self.partner == id.provider() && of_model
    }
}

impl FromStr for Switch {
    type Err = InvalidSwitch;

    /// `partner/model`, `partner/*`, or `partner` alone.
    fn from_str(text: &str) -> Result<Self, InvalidSwitch> {
        let invalid = || InvalidSwitch(text.to_owned());
        let (partner, model) = match text.split_once('/') {
            None | Some((_, "*")) => (text.strip_suffix("/*").unwrap_or(text), None),
            Some((partner, model)) => (partner, Some(model)),
        };
        ModelId::new(partner, model.unwrap_or("any")).map_err(|_| invalid())?;
        Ok(Self {
            partner: partner.to_owned(),
            model: model.map(str::to_owned),
        })
    }
}

impl TryFrom<String> for Switch {
    type Error = InvalidSwitch;

    fn try_from(text: String) -> Result<Self, InvalidSwitch> {
        text.parse()
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}",
            self.partner,
            self.model.as_deref().unwrap_or("*")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(text: &str) -> Switch {
        text.parse().expect(text)
    }

    #[test]
    fn a_switch_is_for_a_model_or_for_all_of_a_partner() {
        let id: ModelId = "bfl/flux-2".parse().expect("an id");
        for (text, names) in [
            ("bfl/flux-2", true),
            ("bfl/*", true),
            ("bfl", true),
            ("bfl/flux", false),
            ("fal/*", false),
        ] {
            assert_eq!(switch(text).names(&id), names, "{text}");
        }
        for text in ["", "*", "bfl/", "bfl/flux/2", "BFL/*", "bfl/f*", "*/flux-2"] {
            assert!(text.parse::<Switch>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_a_command_writes_is_read_again() {
        let mut switches = Switches::default();
        assert!(switches.set(&switch("bfl/flux-2"), false));
        assert!(!switches.set(&switch("bfl/flux-2"), false), "it is off");
        assert!(switches.set(&switch("fal"), false));
        let file = File {
            path: SWITCHES_FILE.to_owned(),
            text: switches.to_text(),
        };
        assert_eq!(Switches::read(&file), Ok(switches.clone()));
        assert_eq!(
            switches.partner_of(&switch("fal/flux")),
            Some(&switch("fal/*"))
        );
        assert!(switches.set(&switch("fal/*"), true));
        assert!(!switches.set(&switch("fal/*"), true), "it is on");
    }
}
