//! A model's file.

use std::collections::BTreeMap;

use router_core::ChargesOnPolicyRejection;
use serde::Deserialize;

use super::price::Pricing;

/// A model, as its TOML file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelFile {
    /// Which of the partner's calls it takes; may be left out where there is one.
    pub call: Option<String>,
    /// What fills gaps in the partner's paths and headers, by name.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// The file of its input schema, beside this one. Without it the body is an open object.
    pub schema: Option<String>,
    /// Whether a rejection on grounds of policy is charged.
    pub charges_on_policy_rejection: Charges,
    /// What it costs.
    pub price: Pricing,
}

/// Whether a rejection on grounds of policy is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Charges {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// The partner does not say. It is then not charged.
    Unknown,
}

impl From<Charges> for ChargesOnPolicyRejection {
    fn from(charges: Charges) -> Self {
        match charges {
            Charges::Yes => Self::Yes,
            Charges::No => Self::No,
            Charges::Unknown => Self::Unknown,
        }
    }
}
