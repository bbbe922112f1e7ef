//! The models that can serve each other's calls: what their files say, held against both schemas.

use std::collections::BTreeMap;
use std::sync::Arc;

use router_core::{Alternate, Model, ModelId};
use serde_json::Value;

use super::fault::Fault;
use super::parse::ParsedModel;
use crate::definition::AlternateFile;

/// Every model of a catalog with its schema, and what is said of others that serve it.
#[derive(Default)]
pub(super) struct Pairs {
    schemas: BTreeMap<ModelId, Option<Value>>,
    said: Vec<Said>,
}

/// A model with others that serve it.
struct Said {
    id: ModelId,
    path: String,
    text: String,
    alternates: Vec<AlternateFile>,
}

/// The alternates of a model, for its calls.
///
/// # Errors
/// If one has no name that an id can have.
pub(super) fn of(model: &ParsedModel) -> Result<Vec<Alternate>, String> {
    let alternates = model.file.alternate.iter().map(|file| {
        Ok(Alternate {
            model: id(file)?,
            translation: Arc::new(file.mapping.clone()),
        })
    });
    alternates.collect()
}

fn id(file: &AlternateFile) -> Result<ModelId, String> {
    let id = ModelId::new(&file.provider, &file.model);
    id.map_err(|error| error.to_string())
}

impl Pairs {
    /// Takes a model down.
    pub(super) fn note(&mut self, model: &ParsedModel) {
        let id = model.id.clone();
        let schema = model.schema.as_ref().map(|schema| schema.value.clone());
        self.schemas.insert(id.clone(), schema);
        if !model.file.alternate.is_empty() {
            self.said.push(Said {
                id,
                path: model.path.clone(),
                text: model.text.clone(),
                alternates: model.file.alternate.clone(),
            });
        }
    }

    /// Notes what is wrong, once every model is known; `others` are those of other kinds.
    pub(super) fn check<'m>(
        mut self,
        others: impl Iterator<Item = &'m Model>,
        faults: &mut Vec<Fault>,
    ) {
        let others = others.map(|model| (model.id().clone(), model.input_schema().cloned()));
        self.schemas.extend(others);
        // Where files are wrong not every model is known.
        let all_known = faults.is_empty();
        for said in &self.said {
            let mut served: Vec<&str> = vec![said.id.provider()];
            for alternate in &said.alternates {
                // One that has no id is a mistake that was told.
                let Ok(id) = id(alternate) else {
                    continue;
                };
                let mut wrong = |needle: &str, reason: String| {
                    faults.push(Fault::mentioning(&said.path, &said.text, needle, reason));
                };
                if served.contains(&alternate.provider.as_str()) {
                    let reason = format!(
                        "`{}` serves this model twice; callers choose alternates by it",
                        alternate.provider
                    );
                    wrong("[[alternate]]", reason);
                }
                if alternate.source.is_some() != alternate.read_on.is_some() {
                    let reason = "`source` and `read_on` go together: where, and on which day";
                    wrong("[[alternate]]", reason.to_owned());
                }
                served.push(&alternate.provider);
                let Some(other) = self.schemas.get(&id) else {
                    if all_known {
                        wrong(&alternate.model, format!("there is no model `{id}`"));
                    }
                    continue;
                };
                let own = self.schemas.get(&said.id).and_then(Option::as_ref);
                for (needle, reason) in alternate.mapping.mistakes(own, other.as_ref()) {
                    wrong(&needle, format!("at `{id}`: {reason}"));
                }
            }
        }
    }
}
