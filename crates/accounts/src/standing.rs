//! What is known of a caller once the credential is verified.

use crate::{AccountId, KeyId, Scope, Scopes, Tier};

/// An account as one credential may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whose requests these are.
    pub account: AccountId,
    /// The API key that they came with; `None` for every other credential.
    pub key: Option<KeyId>,
    /// What the credential allows.
    pub scopes: Scopes,
    /// What the account may hold at once, and which models it may call.
    pub tier: Tier,
    /// Whether the account's subscription is active: workflows and models run only then.
    pub subscribed: bool,
    /// Whether the model router is enabled for the account.
    pub router: bool,
    /// Whether billing is on for the account: only then does an empty balance refuse anything.
    pub billed: bool,
}

impl Standing {
    /// An account that may do everything within `tier`, free of charge.
    #[must_use]
    pub fn full(account: AccountId, tier: Tier) -> Self {
        Self {
            account,
            key: None,
            scopes: Scopes::all(),
            tier,
            subscribed: true,
            router: true,
            billed: false,
        }
    }

    /// Whether the credential allows `scope`; reading needs no subscription, running does.
    #[must_use]
    pub fn allows(&self, scope: Scope) -> bool {
        let needs_subscription = matches!(scope, Scope::JobsWrite | Scope::RouterRun);
        self.scopes.allow(scope) && (self.subscribed || !needs_subscription)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_needs_an_active_subscription_and_reading_does_not() {
        let lapsed = Standing {
            subscribed: false,
            ..Standing::full(AccountId::local(), Tier::standard())
        };
        assert!(!lapsed.allows(Scope::JobsWrite) && !lapsed.allows(Scope::RouterRun));
        assert!(lapsed.allows(Scope::JobsRead) && lapsed.allows(Scope::AssetsWrite));
    }
}
