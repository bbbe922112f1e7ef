//! What is known of a caller once the credential is verified.

use crate::{AccountId, Scope, Scopes, Tier};

/// An account as one credential may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whose requests these are.
    pub account: AccountId,
    /// What the credential allows.
    pub scopes: Scopes,
    /// What the account may hold at once.
    pub tier: Tier,
    /// Whether the account's subscription is active: workflows and models run only then.
    pub subscribed: bool,
}

impl Standing {
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
        let tier = Tier {
            concurrent_jobs: 1,
            queued_jobs: 1,
            streams: 1,
            upload_bytes: 1,
        };
        let lapsed = Standing {
            account: AccountId::local(),
            scopes: Scopes::all(),
            tier,
            subscribed: false,
        };
        assert!(!lapsed.allows(Scope::JobsWrite) && !lapsed.allows(Scope::RouterRun));
        assert!(lapsed.allows(Scope::JobsRead) && lapsed.allows(Scope::AssetsWrite));
    }
}
