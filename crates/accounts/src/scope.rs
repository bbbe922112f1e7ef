//! What a credential may be used for.

/// One thing a credential may allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Read jobs, their workflows, logs, outputs and streams.
    JobsRead,
    /// Submit and cancel jobs.
    JobsWrite,
    /// Read assets and their content.
    AssetsRead,
    /// Upload and delete assets.
    AssetsWrite,
    /// Call partner models.
    RouterRun,
    /// Operate the installation.
    Admin,
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scope {
    /// Every scope there is.
    pub const ALL: [Self; 6] = [
        Self::JobsRead,
        Self::JobsWrite,
        Self::AssetsRead,
        Self::AssetsWrite,
        Self::RouterRun,
        Self::Admin,
    ];

    /// The scope's name, as keys and tokens spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::JobsRead => "jobs:read",
            Self::JobsWrite => "jobs:write",
            Self::AssetsRead => "assets:read",
            Self::AssetsWrite => "assets:write",
            Self::RouterRun => "router:run",
            Self::Admin => "admin",
        }
    }
}

impl Scopes {
    /// No scope.
    pub const NONE: Self = Self(0);

    /// Every scope.
    #[must_use]
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Whether `scope` is among them.
    #[must_use]
    pub fn allow(self, scope: Scope) -> bool {
        self.0 & bit(scope) != 0
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | bit(scope)))
    }
}

fn bit(scope: Scope) -> u8 {
    1 << (scope as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_allows_exactly_its_scopes() {
        for scope in Scope::ALL {
            let only: Scopes = [scope].into_iter().collect();
            assert!(Scopes::all().allow(scope) && !Scopes::NONE.allow(scope));
            assert_eq!(
                Scope::ALL
                    .into_iter()
                    .filter(|other| only.allow(*other))
                    .count(),
                1,
                "{}",
                scope.name()
            );
        }
    }
}
