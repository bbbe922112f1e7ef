//! The name of an account.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Most characters an account id may have.
const MAX_LENGTH: usize = 64;

/// The account that an installation without accounts works for.
const LOCAL: &str = "local";

/// Identifies an account: 1 to 64 of `a-z 0-9 . _ -`, starting with a letter or digit. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountId(Arc<str>);

/// The text is no account id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an account id has 1 to 64 characters of a-z, 0-9, '.', '_' and '-' and starts with a letter or digit"
)]
pub struct InvalidAccountId;

impl AccountId {
    /// The one account of an installation that keeps no accounts.
    #[must_use]
    pub fn local() -> Self {
        Self(LOCAL.into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AccountId {
    type Err = InvalidAccountId;

    fn from_str(text: &str) -> Result<Self, InvalidAccountId> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let starts_well = text.bytes().next().is_some_and(plain);
        let rest_is_well = text
            .bytes()
            .all(|byte| plain(byte) || b"._-".contains(&byte));
        if starts_well && rest_is_well && text.len() <= MAX_LENGTH {
            Ok(Self(text.into()))
        } else {
            Err(InvalidAccountId)
        }
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_id_is_lower_case_and_short() {
        for good in ["local", "a", "team-7", "0.x_y", &"a".repeat(64)] {
            assert_eq!(
                good.parse::<AccountId>()
                    .map(|id| id.to_string())
                    .as_deref(),
                Ok(good)
            );
        }
        for bad in ["", "-a", ".a", "A", "a b", "a/b", "ä", &"a".repeat(65)] {
            assert_eq!(bad.parse::<AccountId>(), Err(InvalidAccountId), "{bad:?}");
        }
    }
}
