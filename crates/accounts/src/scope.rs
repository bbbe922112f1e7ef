//! What a credential may be used for.

use std::fmt;
use std::str::FromStr;

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
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Scopes(u8);

/// A name that is no scope's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no scope; the scopes are {ALL}", ALL = Scopes::all())]
pub struct InvalidScope(pub String);

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

    /// What a key gets that is asked for nothing else: to use every API, and not to operate the installation.
    #[must_use]
    pub fn standard() -> Self {
        let all = Scope::ALL.into_iter();
        all.filter(|scope| *scope != Scope::Admin).collect()
    }

    /// The scopes in both sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The scopes, in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        let all = Scope::ALL.into_iter();
        all.filter(move |scope| self.allow(*scope))
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

impl FromStr for Scope {
    type Err = InvalidScope;

    fn from_str(name: &str) -> Result<Self, InvalidScope> {
        let known = Self::ALL.into_iter().find(|scope| scope.name() == name);
        known.ok_or_else(|| InvalidScope(name.to_owned()))
    }
}

/// Names separated by spaces or commas; none of them is no scope.
impl FromStr for Scopes {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let names = text.split([' ', ',']).filter(|name| !name.is_empty());
        names.map(str::parse::<Scope>).collect()
    }
}

/// Names separated by spaces, as a token's `scope` claim has them.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Scope::name).collect();
        f.write_str(&names.join(" "))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scopes({self})")
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

    #[test]
    fn a_set_reads_as_it_is_written() {
        for text in ["", "admin", "jobs:read router:run"] {
            let scopes: Scopes = text.parse().expect("scopes");
            assert_eq!(scopes.to_string(), text);
        }
        assert_eq!(
            "jobs:read, admin"
                .parse::<Scopes>()
                .map(|set| set.iter().count()),
            Ok(2)
        );
        let refused = "jobs:read jobs".parse::<Scopes>().expect_err("no scope");
        assert_eq!(
            refused.to_string(),
            "`jobs` is no scope; the scopes are jobs:read jobs:write assets:read assets:write router:run admin"
        );
        assert!(
            !Scopes::standard().allow(Scope::Admin) && Scopes::standard().allow(Scope::JobsWrite)
        );
        assert_eq!(Scopes::all().and(Scopes::standard()), Scopes::standard());
    }
}
