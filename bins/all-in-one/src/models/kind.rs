//! From the files of a folder to models.

use std::collections::BTreeSet;
use std::sync::Arc;

use providers::{Builtin, Fault, File, Kind, KindFolder, KindPartner};
use router_core::{
    ChargesOnPolicyRejection, Model, ModelDefinition, ModelForm, ModelId, PictureEncoding,
    ReturnKind, Returns,
};
use serde_json::Value;

use super::Workflows;
use super::definition::{ModelFile, OutputForm, PartnerFile, Wiring};
use super::runner::WorkflowModel;
use super::template::Template;

macro_rules! files {
    ($($path:literal,)*) => {
        &[$(($path, include_str!(concat!("../../catalog/", $path)))),*]
    };
}

/// The models that are compiled in. A file of them is a line here; a test compares the lines with the folder.
const BUILTIN: Builtin = files![
    "easel/blend.graph.json",
    "easel/blend.schema.json",
    "easel/blend.toml",
    "easel/partner.toml",
    "easel/postcard.graph.json",
    "easel/postcard.schema.json",
    "easel/postcard.toml",
    "easel/resize.graph.json",
    "easel/resize.schema.json",
    "easel/resize.toml",
];

/// Partners whose models are workflows that run here.
#[derive(Debug)]
pub struct WorkflowKind(Arc<Workflows>);

impl WorkflowKind {
    /// Models that run as jobs of `workflows`.
    #[must_use]
    pub fn new(workflows: Workflows) -> Self {
        Self(Arc::new(workflows))
    }

    pub(super) fn workflows(&self) -> &Arc<Workflows> {
        &self.0
    }

    fn model(
        &self,
        folder: KindFolder<'_>,
        partner: &str,
        name: &str,
        file: &File,
    ) -> Result<Model, Vec<Fault>> {
        let one = |fault| vec![fault];
        let id = ModelId::new(folder.id, name)
            .map_err(|error| vec![Fault::at_start(&file.path, error.to_string())])?;
        let parsed: ModelFile = file.toml().map_err(one)?;
        let beside = |wanted: &str| {
            folder.files.get(wanted).ok_or_else(|| {
                let reason = format!("there is no {wanted} beside it");
                vec![Fault::mentioning(&file.path, &file.text, wanted, reason)]
            })
        };
        let graph = beside(&parsed.graph)?;
        let schema_file = beside(&parsed.schema)?;
        let schema = schema_file.json().map_err(one)?;
        let mut faults = unmatched(&parsed, file, &schema, schema_file);
        let template = match Template::read(parsed.wiring(), file, graph, &self.0.jobs.nodes()) {
            Ok(template) if faults.is_empty() => template,
            Ok(_) => return Err(faults),
            Err(wrong) => {
                faults.extend(wrong);
                return Err(faults);
            }
        };
        let definition = ModelDefinition {
            id,
            charges_on_policy_rejection: ChargesOnPolicyRejection::No,
            input_schema: Some(schema),
            form: form(partner, &template),
            polling: None,
            alternates: Vec::new(),
            provider: Arc::new(WorkflowModel::new(template, Arc::clone(&self.0))),
        };
        Model::new(definition)
            .map_err(|error| vec![Fault::at_start(&schema_file.path, error.to_string())])
    }
}

impl Kind for WorkflowKind {
    fn name(&self) -> &'static str {
        "workflow"
    }

    fn builtin(&self) -> Builtin {
        BUILTIN
    }

    fn read(&self, folder: KindFolder<'_>) -> Result<KindPartner, Vec<Fault>> {
        let partner: PartnerFile = folder.partner().toml().map_err(|fault| vec![fault])?;
        let (mut models, mut faults) = (Vec::new(), Vec::new());
        for (name, file) in folder.models() {
            match self.model(folder, &partner.name, name, file) {
                Ok(model) => models.push(Arc::new(model)),
                Err(wrong) => faults.extend(wrong),
            }
        }
        if faults.is_empty() {
            let name = partner.name;
            Ok(KindPartner { name, models })
        } else {
            Err(faults)
        }
    }
}

/// What people fill in and get: pictures go in and come out as they are, since a link would be one of this very server.
pub(super) fn form(partner: &str, template: &Template) -> ModelForm {
    let Wiring { fields, output, .. } = &template.wiring;
    let pictures = fields.iter().filter(|(_, field)| field.picture);
    let inline = output.inline.iter();
    ModelForm {
        partner: partner.to_owned(),
        pictures: pictures
            .map(|(name, _)| (name.clone(), PictureEncoding::DataUrl))
            .collect(),
        fixed: inline
            .map(|name| (name.clone(), Value::Bool(true)))
            .collect(),
        returns: match (&output.inline, output.kind) {
            (None, _) | (_, OutputForm::File) => Returns::default(),
            (Some(_), OutputForm::Image) => addresses(ReturnKind::Image),
            (Some(_), OutputForm::Video) => addresses(ReturnKind::Video),
            (Some(_), OutputForm::Audio) => addresses(ReturnKind::Audio),
        },
        streams: false,
        // Files of a model that runs here are assets of the account already.
        files: Vec::new(),
    }
}

/// The addresses of the outputs.
fn addresses(kind: ReturnKind) -> Returns {
    Returns {
        kind,
        from: vec!["/outputs/*/url".to_owned()],
    }
}

/// Where fields and schema do not say the same: a field that nobody may send, or one that would change nothing.
fn unmatched(model: &ModelFile, file: &File, schema: &Value, schema_file: &File) -> Vec<Fault> {
    let names = |key: &str| -> BTreeSet<&str> {
        match schema.get(key) {
            Some(Value::Object(fields)) => fields.keys().map(String::as_str).collect(),
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            Some(_) | None => BTreeSet::new(),
        }
    };
    let (described, required) = (names("properties"), names("required"));
    let used = model.fields.keys().chain(&model.output.inline);
    let used: BTreeSet<&str> = used.map(String::as_str).collect();
    let in_model = |name: &str, reason| {
        let needle = match model.fields.contains_key(name) {
            true => format!("[fields.{name}]"),
            false => "inline".to_owned(),
        };
        Fault::mentioning(&file.path, &file.text, &needle, reason)
    };
    let in_schema = |name: &str, reason| {
        let needle = format!("\"{name}\"");
        Fault::mentioning(&schema_file.path, &schema_file.text, &needle, reason)
    };
    let mut faults = Vec::new();
    for name in used.difference(&described) {
        let reason = format!("the schema has no property `{name}`");
        faults.push(in_model(name, reason));
    }
    for name in described.difference(&used) {
        let reason =
            format!("the property `{name}` goes into no node; the model's file has no such field");
        faults.push(in_schema(name, reason));
    }
    let pictures = model.fields.iter().filter(|(_, field)| field.picture);
    for (name, _) in pictures.filter(|(name, _)| described.contains(name.as_str())) {
        if !required.contains(name.as_str()) {
            let reason =
                format!("the picture `{name}` is not among `required`; nothing stands for it");
            faults.push(in_schema(name, reason));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::BUILTIN;

    #[test]
    fn every_file_of_the_folder_is_compiled_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("catalog");
        let mut found = Vec::new();
        for partner in fs::read_dir(&folder).expect("the folder is there") {
            let partner = partner.expect("it can be read").path();
            for file in fs::read_dir(&partner).expect("it holds folders alone") {
                let file = file.expect("it can be read").path();
                let path = file.strip_prefix(&folder).expect("it lies below");
                found.push(path.to_str().expect("names are plain").to_owned());
            }
        }
        found.sort();
        let listed: Vec<&str> = BUILTIN.iter().map(|(path, _)| *path).collect();
        assert_eq!(listed, found, "the list is in the order of paths");
    }
}
