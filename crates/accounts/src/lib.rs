//! Who may do what: accounts, scopes, tiers, credits, hashed keys, and the ports of the store that keeps them.
//!
//! The lowest room of the house: it has limits of jobs, files and calls as numbers, and knows no job, asset or model. Family A says *workspace* on its wire for what is an
//! account everywhere in the code. Start at [`Principal`], which is what a verified credential turns into, then at
//! [`Accounts`], which answers it, and [`CreditLedger`], which is billed.
//!
#![doc = include_str!("../README.md")]

mod account;
mod api_key;
mod budget;
mod credit;
mod entitlement;
mod id;
mod idempotency;
mod index;
mod key;
mod label;
mod memory;
mod port;
mod principal;
mod scope;
mod session;
mod tier;
mod windows;

pub mod contract;

pub use account::{Account, AccountChange, AccountState, DisplayName, InvalidDisplayName};
pub use api_key::{ApiKey, InvalidKeyId, KeyId, MintedKey};
pub use budget::{
    BudgetLeft, BudgetScope, BudgetWindow, Budgets, InvalidBudgetScope, InvalidBudgets,
    InvalidScopedBudgets, OverBudget, Payer, ScopedBudgetView, ScopedBudgets, Spend,
};
pub use credit::{
    CreditBalance, Credits, LedgerEntry, LedgerRef, Reservation, SpendRules, lapses_at,
};
pub use entitlement::{Entitlements, InvalidEntitlements, ModelPattern};
pub use id::{AccountId, InvalidAccountId};
pub use idempotency::{Fingerprint, IdempotencyKey, InvalidIdempotencyKey};
pub use index::AccountIndex;
pub use key::KeyHash;
pub use label::{InvalidLabels, Label, Labels};
pub use memory::MemoryAccounts;
pub use port::{
    AccountAdmin, AccountQuery, AccountView, Accounts, AccountsError, AdminError, CreditLedger,
    Granted, ensure_local,
};
pub use principal::Principal;
pub use scope::{InvalidScope, Scope, Scopes};
pub use session::{Session, SessionSource, Sessions};
pub use tier::{InvalidRateWindow, Limits, RateWindow, RouterLimits, Tier};
pub use windows::{UsedUp, WindowCount, WindowCounts, Windows};
