//! A model's file.

use std::collections::BTreeMap;

use jiff::civil::Date;
use router_core::{ChargesOnPolicyRejection, ModelForm, PictureEncoding, ReturnKind, Returns};
use serde::{Deserialize, Deserializer, de};

use super::events::StreamKind;
use super::price::Pricing;
use crate::mapping::Mapping;

/// A model, as its TOML file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelFile {
    /// Which of the partner's calls it takes; may be left out where there is one.
    pub call: Option<String>,
    /// What fills gaps in the partner's paths and headers, by name.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Members that the body gets if the caller leaves them out, with their values.
    #[serde(default)]
    pub fill: BTreeMap<String, toml::Value>,
    /// How it answers with a stream, where the body asks for one; without it, answers come as a whole.
    pub stream: Option<StreamKind>,
    /// The file of its input schema, beside this one. Without it the body is an open object.
    pub schema: Option<String>,
    /// Whether a rejection on grounds of policy is charged.
    pub charges_on_policy_rejection: Charges,
    /// What it costs.
    pub price: Pricing,
    /// On which day the partner's documentation was read that this follows, prices included.
    #[serde(default, deserialize_with = "day")]
    pub read_on: Option<Date>,
    /// Where answers name files that are kept for accounts that keep results; what a node takes from there, if this is left out.
    pub assets: Option<Vec<String>>,
    /// How long it is waited for, where that differs from its call.
    #[serde(default)]
    pub timeouts: ModelTimeouts,
    /// What a workflow's node makes of it.
    #[serde(default)]
    pub node: NodeFile,
    /// The other models that can serve its calls, in the order in which they are tried.
    #[serde(default)]
    pub alternate: Vec<AlternateFile>,
}

/// Another model of the catalog that can serve the calls of this one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlternateFile {
    /// Its partner: the first segment of its id.
    pub provider: String,
    /// The second segment of its id.
    pub model: String,
    /// Where it is documented that both are the same model.
    pub source: Option<String>,
    /// On which day that was read.
    #[serde(default, deserialize_with = "day")]
    pub read_on: Option<Date>,
    /// How bodies and answers are said there.
    pub mapping: Mapping,
}

/// A day such as `"2026-11-24"`.
fn day<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Date>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let day = text.parse();
    day.map(Some)
        .map_err(|_| de::Error::custom("`read_on` is a day such as \"2026-11-24\""))
}

/// How long a model is waited for.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelTimeouts {
    /// For the result of a task, in milliseconds after it was accepted.
    pub total_ms: Option<u64>,
}

/// What is in bodies and answers besides plain values.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeFile {
    /// What a node of it gives.
    #[serde(default)]
    pub returns: Kind,
    /// Where in an answer that is.
    #[serde(default)]
    pub from: Vec<String>,
    /// The properties of the body that are pictures.
    #[serde(default)]
    pub pictures: BTreeMap<String, Encoding>,
}

/// A kind of result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Words.
    #[default]
    Text,
    /// Pictures.
    Image,
    /// Videos.
    Video,
    /// Sounds.
    Audio,
}

/// How a body holds a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Encoding {
    /// Its base64.
    Base64,
    /// A `data:` address.
    DataUrl,
}

impl ModelFile {
    /// What people fill in and get, of a partner of this name.
    pub(crate) fn form(&self, partner: &str) -> ModelForm {
        let form = self.node.form(partner);
        let files = match (&self.assets, form.returns.kind) {
            (Some(assets), _) => assets.clone(),
            // Words are no files, and what they name may be any page.
            (None, ReturnKind::Text) => Vec::new(),
            (None, ReturnKind::Image | ReturnKind::Video | ReturnKind::Audio) => {
                form.returns.from.clone()
            }
        };
        ModelForm { files, ..form }
    }
}

impl NodeFile {
    fn form(&self, partner: &str) -> ModelForm {
        let encoding = |encoding: &Encoding| match encoding {
            Encoding::Base64 => PictureEncoding::Base64,
            Encoding::DataUrl => PictureEncoding::DataUrl,
        };
        let pictures = self.pictures.iter();
        ModelForm {
            partner: partner.to_owned(),
            pictures: pictures
                .map(|(name, how)| (name.clone(), encoding(how)))
                .collect(),
            returns: Returns {
                kind: match self.returns {
                    Kind::Text => ReturnKind::Text,
                    Kind::Image => ReturnKind::Image,
                    Kind::Video => ReturnKind::Video,
                    Kind::Audio => ReturnKind::Audio,
                },
                from: self.from.clone(),
            },
            ..ModelForm::default()
        }
    }
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
