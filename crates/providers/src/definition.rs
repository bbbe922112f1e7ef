//! What partners and models are, as their files say it.
//!
//! The leaves check themselves while a file is parsed, so that a mistake is told with its line; what concerns several
//! keys is checked where they come together.

mod auth;
mod call;
mod events;
mod formula;
mod host;
mod model;
mod partner;
mod pointer;
mod price;
mod rule;
mod state;
mod template;

pub(crate) use auth::{Auth, SecretRef};
pub(crate) use call::{Ask, Call, Form, PollIntervals, Polled, Send, Target, check_total};
pub(crate) use events::Events;
pub use host::BaseUrl;
pub(crate) use host::HostPattern;
pub(crate) use model::{AlternateFile, Charges, ModelFile};
pub(crate) use partner::{Header, PartnerFile, Texts};
pub use pointer::Pointer;
pub(crate) use price::{Pricing, SettleOn};
pub use rule::Step;
pub(crate) use rule::{Kind, Rule, RuleExample, RuleMeaning, Said, deciding, first_match};
pub(crate) use state::{State, StateExample};
pub(crate) use template::{Escaping, Template};
