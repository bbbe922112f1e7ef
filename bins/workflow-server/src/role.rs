//! What one replica does of the work of its installation.

use server_kit::config::{ConfigError, InstallationPlace, Settings, Value};

/// What one replica does of the work of its installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers requests, runs jobs and sweeps.
    All,
    /// Answers requests. Of jobs it runs those alone that came to it with a key, which no other process has.
    Api,
    /// Runs jobs, and sweeps. Of requests it answers those after its health, its readiness and its metrics.
    Worker,
}

/// What a worker tells a client that came to it.
const NOT_HERE: &str = "this server only runs jobs, and answers /health, /ready and /metrics alone: send requests to a server of the role api or all";

impl Role {
    /// Reads the key `role`.
    ///
    /// # Errors
    /// If it is none, or a replica could not share the work with another one at this place.
    pub(crate) fn of(
        settings: &mut Settings,
        place: &InstallationPlace,
    ) -> Result<Self, ConfigError> {
        let role: Self = settings.read("role")?;
        match place.cloud {
            None if role != Self::All => Err(ConfigError::Alone(role.name())),
            _ => Ok(role),
        }
    }

    /// Why requests are refused, where they are.
    #[must_use]
    pub fn refuses(self) -> Option<&'static str> {
        (self == Self::Worker).then_some(NOT_HERE)
    }

    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Api => "api",
            Self::Worker => "worker",
        }
    }
}

impl Value for Role {
    const ALLOWED: &'static str = "api, worker or all";

    fn read(text: &str) -> Option<Self> {
        let roles = [Self::All, Self::Api, Self::Worker];
        roles.into_iter().find(|role| role.name() == text)
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.name())
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn a_role_needs_what_replicas_share() {
        let refused = Config::of(&[("role", "worker")]).expect_err("nothing is shared");
        let refused = refused.to_string();
        assert!(refused.contains("set `store` and `blobs`"), "{refused}");
        let shared = [
            ("store", "postgres://me@db/easel"),
            ("blobs", "s3://pictures"),
        ];
        for (role, refuses) in [("all", false), ("api", false), ("worker", true)] {
            let config = Config::of(&[&shared[..], &[("role", role)]].concat());
            let config = config.expect("it is a role");
            assert_eq!(config.role.refuses().is_some(), refuses, "{role}");
        }
        let refused = Config::of(&[("role", "both")]).expect_err("it is none");
        assert!(refused.to_string().contains("api, worker or all"));
    }
}
