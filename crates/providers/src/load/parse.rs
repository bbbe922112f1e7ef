//! From texts to partners and models, with every mistake noted.

use std::collections::BTreeMap;

use router_core::ModelId;
use serde_json::Value;

use super::fault::Fault;
use super::files::File;
use crate::definition::{Call, ModelFile, PartnerFile, Pointer, check_total};
use crate::fill::Fill;

/// The file of a partner in its folder; any other TOML file there is a model.
pub(super) const PARTNER_FILE: &str = "partner.toml";

/// A partner.
pub(super) struct ParsedPartner {
    pub(super) id: String,
    pub(super) path: String,
    pub(super) text: String,
    pub(super) file: PartnerFile,
}

/// A model whose call exists and whose schema is JSON.
pub(super) struct ParsedModel {
    pub(super) id: ModelId,
    pub(super) path: String,
    pub(super) text: String,
    pub(super) file: ModelFile,
    /// The name of its call.
    pub(super) call: String,
    pub(super) schema: Option<ParsedSchema>,
    /// What its body gets.
    pub(super) fill: Fill,
}

pub(super) struct ParsedSchema {
    pub(super) path: String,
    pub(super) value: Value,
}

/// What can be understood of a partner, its models aside.
pub(super) fn partner(
    id: &str,
    files: &BTreeMap<String, File>,
    faults: &mut Vec<Fault>,
) -> Option<ParsedPartner> {
    let Some(file) = files.get(PARTNER_FILE) else {
        // A folder of nothing that a catalog knows is no partner.
        let first = files.values().next()?;
        let reason = format!("there is no {PARTNER_FILE} beside it");
        faults.push(Fault::at_start(&first.path, reason));
        return None;
    };
    let parsed: PartnerFile = noted(file.toml(), faults)?;
    if parsed.call.is_empty() {
        faults.push(Fault::at_start(&file.path, "there is no `call`"));
    }
    Some(ParsedPartner {
        id: id.to_owned(),
        path: file.path.clone(),
        text: file.text.clone(),
        file: parsed,
    })
}

/// The ids of a partner's models, each with its file.
pub(super) fn ids<'f>(
    partner: &ParsedPartner,
    files: &'f BTreeMap<String, File>,
    faults: &mut Vec<Fault>,
) -> Vec<(ModelId, &'f File)> {
    let mut ids = Vec::new();
    let models = files.iter().filter(|(name, _)| *name != PARTNER_FILE);
    for (name, file) in models {
        let Some(stem) = name.strip_suffix(".toml") else {
            continue;
        };
        match ModelId::new(&partner.id, stem) {
            Ok(id) => ids.push((id, file)),
            Err(error) => faults.push(Fault::at_start(&file.path, error.to_string())),
        }
    }
    ids
}

/// Everything that can be understood of a model.
pub(super) fn model(
    id: &ModelId,
    file: &File,
    partner: &PartnerFile,
    files: &BTreeMap<String, File>,
    faults: &mut Vec<Fault>,
) -> Option<ParsedModel> {
    let parsed: ModelFile = noted(file.toml(), faults)?;
    let mentioning =
        |needle: &str, reason: String| Fault::mentioning(&file.path, &file.text, needle, reason);
    let (call_name, call) = match chosen_call(&parsed, partner) {
        Ok(found) => found,
        Err(reason) => {
            faults.push(mentioning("call", reason));
            return None;
        }
    };
    if let Some(total_ms) = parsed.timeouts.total_ms {
        let checked = match call.polled {
            Some(_) => check_total(total_ms),
            None => Err(format!(
                "`total_ms` is for calls of style `poll`, and `{call_name}` is none"
            )),
        };
        if let Err(reason) = checked {
            faults.push(mentioning("total_ms", reason));
        }
    }
    if parsed.stream.is_some() && call.events.is_none() {
        let reason = format!("the call `{call_name}` has no `events` to stream");
        faults.push(mentioning("stream", reason));
    }
    let open = call.open_names();
    for missing in open
        .iter()
        .filter(|name| !parsed.values.contains_key(**name))
    {
        let reason = format!("the call `{call_name}` needs `{missing}` among `values`");
        faults.push(mentioning("[values]", reason));
    }
    for unused in parsed
        .values
        .keys()
        .filter(|name| !open.contains(name.as_str()))
    {
        let reason = format!("the call `{call_name}` has no gap `{{{unused}}}`");
        faults.push(mentioning(unused, reason));
    }
    let schema = match &parsed.schema {
        None => None,
        Some(schema_name) => {
            let Some(schema) = files.get(schema_name) else {
                let reason = format!("there is no {schema_name} beside it");
                faults.push(mentioning(schema_name, reason));
                return None;
            };
            Some(parse_schema(schema, faults)?)
        }
    };
    let fill = match Fill::new(&parsed.fill) {
        Ok(fill) => fill,
        Err(reason) => {
            faults.push(mentioning("[fill]", reason));
            return None;
        }
    };
    for from in parsed
        .node
        .from
        .iter()
        .chain(parsed.assets.iter().flatten())
    {
        if let Err(reason) = Pointer::try_from(from.clone()) {
            faults.push(mentioning(from, reason));
        }
    }
    let properties = schema.as_ref().map(|schema| &schema.value["properties"]);
    let is_property = |name: &str| properties.is_some_and(|known| known.get(name).is_some());
    for unknown in parsed
        .node
        .pictures
        .keys()
        .filter(|name| !is_property(name))
    {
        let reason = format!("the schema has no property `{unknown}` to hold a picture");
        faults.push(mentioning(unknown, reason));
    }
    Some(ParsedModel {
        id: id.clone(),
        path: file.path.clone(),
        text: file.text.clone(),
        call: call_name.to_owned(),
        file: parsed,
        schema,
        fill,
    })
}

/// The call that a model names, or the only one.
fn chosen_call<'a>(
    model: &ModelFile,
    partner: &'a PartnerFile,
) -> Result<(&'a str, &'a Call), String> {
    let mut calls = partner
        .call
        .iter()
        .map(|(name, call)| (name.as_str(), call));
    match &model.call {
        Some(wanted) => calls
            .find(|(name, _)| name == wanted)
            .ok_or_else(|| format!("the partner has no call `{wanted}`")),
        None => match (calls.next(), calls.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err("the partner has no call".to_owned()),
            (Some(_), Some(_)) => {
                Err("the partner has several calls: say which by `call`".to_owned())
            }
        },
    }
}

fn parse_schema(file: &File, faults: &mut Vec<Fault>) -> Option<ParsedSchema> {
    Some(ParsedSchema {
        path: file.path.clone(),
        value: noted(file.json(), faults)?,
    })
}

fn noted<T>(read: Result<T, Fault>, faults: &mut Vec<Fault>) -> Option<T> {
    read.map_err(|fault| faults.push(fault)).ok()
}
