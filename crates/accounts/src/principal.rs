//! What is known of a caller once the credential is verified.

use std::sync::Arc;

use crate::{AccountId, KeyId, Scopes, Tier};

/// An account as one credential may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Whose requests these are.
    pub account: AccountId,
    /// The API key that they came with; `None` for every other credential.
    pub key: Option<KeyId>,
    /// What the credential allows.
    pub scopes: Scopes,
    /// What the account may hold at once, and which models it may call.
    pub tier: Arc<Tier>,
    /// Whether the account's subscription is active: new workflows and models are taken in only then. Without it an account
    /// still reads, stops and deletes what is its own.
    pub subscribed: bool,
    /// Whether the model router is enabled for the account.
    pub router: bool,
    /// Whether billing is on for the account: only then does an empty balance refuse anything.
    pub billed: bool,
}

impl Principal {
    /// An account that may do everything within `tier`, free of charge.
    #[must_use]
    pub fn full(account: AccountId, tier: impl Into<Arc<Tier>>) -> Self {
        Self {
            account,
            key: None,
            scopes: Scopes::all(),
            tier: tier.into(),
            subscribed: true,
            router: true,
            billed: false,
        }
    }
}
