//! What fills the gaps of a request: paths, headers and small bodies of a definition.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use router_core::{Failure, Ran};

use super::failures::failed;
use super::{MISCONFIGURED, PartnerModel};
use crate::definition::{Escaping, Header, Template};

/// What fills the gaps of a request.
pub(super) struct Gaps<'a> {
    pub(super) model: &'a PartnerModel,
    pub(super) generation: &'a str,
    pub(super) task: Option<&'a str>,
    pub(super) kept: &'a BTreeMap<String, String>,
}

impl Gaps<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        match name {
            "generation" => Some(self.generation),
            "model" => Some(&self.model.model),
            "task" => self.task,
            _ => {
                let kept = self.kept.get(name).map(String::as_str);
                kept.or_else(|| self.model.values.get(name).map(String::as_str))
            }
        }
    }

    /// Fails when a gap has no value, or one that leads out of its place. Nothing was sent then, but for a task that is
    /// under way it is the end all the same.
    pub(super) fn fill(&self, template: &Template, escaping: Escaping) -> Result<String, Failure> {
        template
            .fill(escaping, |name| self.value(name))
            .map_err(|name| {
                let partner = &*self.model.partner;
                tracing::error!(partner, gap = name, "a gap of a request cannot be filled");
                Failure::Failed {
                    ran: if self.task.is_some() {
                        Ran::Perhaps
                    } else {
                        Ran::Nothing
                    },
                    message: MISCONFIGURED.to_owned(),
                }
            })
    }

    /// The headers that a partner wants with every request, and those of this one; of two with one name the latter.
    pub(super) fn headers(
        &self,
        templates: [&BTreeMap<Header, Template>; 2],
    ) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        for (header, template) in templates.into_iter().flatten() {
            let value = self.fill(template, Escaping::Verbatim)?;
            let value = HeaderValue::try_from(value).map_err(|_| failed(MISCONFIGURED))?;
            headers.insert(header.name(), value);
        }
        Ok(headers)
    }
}
