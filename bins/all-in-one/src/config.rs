//! What the program is told: everything that the servers of workflows and of partner models are.

use accounts::Tier;
use installation::OpenOptions;
use router_server::{ROUTER_KEYS, RouterSettings};
use server_kit::config::{ConfigError, Key, Settings};

/// Everything that is configured, resolved.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server, and what jobs and files may take.
    pub workflows: workflow_server::Config,
    /// What calls may take, and where partners are.
    pub router: RouterSettings,
}

/// All keys of the program.
pub const KEYS: &[&[Key]] = &[
    workflow_server::KEYS[0],
    workflow_server::KEYS[1],
    workflow_server::KEYS[2],
    ROUTER_KEYS,
];

impl Config {
    /// The configuration of a server that a program embeds: `values` by the names of [`KEYS`], spelled as in a file.
    /// Everything else is as by default.
    ///
    /// # Errors
    /// If a name is no key, or a value is not allowed.
    pub fn of(values: &[(&str, &str)]) -> Result<Self, ConfigError> {
        Self::read(&mut Settings::of(KEYS, values)?)
    }

    /// Reads all [`KEYS`].
    ///
    /// # Errors
    /// If a value is not allowed.
    pub fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let mut workflows = workflow_server::Config::read(settings)?;
        let router = RouterSettings::read(settings)?;
        workflows.server.in_force = settings.in_force();
        Ok(Self { workflows, router })
    }

    /// What an account gets that is given nothing else.
    #[must_use]
    pub fn tier(&self) -> Tier {
        Tier {
            router: self.router.limits.clone(),
            ..self.workflows.workflows.tier()
        }
    }

    /// How the installation is opened.
    pub(crate) fn opening(&self) -> OpenOptions {
        OpenOptions {
            tier: self.tier(),
            reserve: self.workflows.workflows.reserve(),
            fresh: self.workflows.server.fresh,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_server_of_workflows_is_one_of_the_program() {
        assert_eq!(KEYS[..3], *workflow_server::KEYS);
    }
}
