//! A partner's file.

use std::collections::BTreeMap;

use http::HeaderName;
use http::header::AUTHORIZATION;
use serde::Deserialize;

use super::auth::Auth;
use super::call::Call;
use super::host::{BaseUrl, HostPattern};
use super::pointer::Pointer;
use super::rule::Rule;
use super::template::Template;

/// A partner, as its `partner.toml` says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartnerFile {
    /// What people call it.
    pub name: String,
    /// Where its paths begin.
    pub base_url: BaseUrl,
    /// Where its credential may go beside the hosts of its base addresses.
    #[serde(default)]
    pub allowed_hosts: Vec<HostPattern>,
    /// Its credential.
    pub auth: Auth,
    /// Headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<Header, Template>,
    /// What answers mean that are no result.
    #[serde(default)]
    pub errors: Vec<Rule>,
    /// Where its errors tell their code and text.
    #[serde(default)]
    pub texts: Texts,
    /// The ways of calling it, by name.
    pub call: BTreeMap<String, Call>,
}

/// The name of a header that a catalog may set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Header(String);

/// The name of a header that carries a credential.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct CredentialHeader(pub(crate) HeaderName);

/// Where errors tell their code and text; the first place that has one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Texts {
    /// A code for programs.
    #[serde(default)]
    pub code: Vec<Pointer>,
    /// A text for people.
    #[serde(default)]
    pub message: Vec<Pointer>,
}

/// Headers that belong to the transport.
const NOT_A_CATALOGS: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "accept-encoding",
];

impl Header {
    /// As HTTP knows it.
    #[must_use]
    pub(crate) fn name(&self) -> HeaderName {
        HeaderName::from_bytes(self.0.as_bytes()).expect("it was checked when it was made")
    }
}

impl TryFrom<String> for Header {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let name = HeaderName::from_bytes(text.as_bytes())
            .map_err(|_| format!("`{text}` is no name of a header"))?;
        if NOT_A_CATALOGS.contains(&name.as_str()) || name == AUTHORIZATION {
            return Err(format!("a catalog does not set the header `{text}`"));
        }
        Ok(Self(name.as_str().to_owned()))
    }
}

impl TryFrom<String> for CredentialHeader {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match HeaderName::from_bytes(text.as_bytes()) {
            Ok(name) if !NOT_A_CATALOGS.contains(&name.as_str()) => Ok(Self(name)),
            Ok(_) | Err(_) => Err(format!("`{text}` is no header that can carry a credential")),
        }
    }
}
