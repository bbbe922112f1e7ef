//! Partners whose files another kind reads.

use router_core::{ChargesOnPolicyRejection, Model, ModelDefinition, ModelForm, ModelId};

use super::super::{Builtin, Kind, KindFolder, KindPartner};
use super::*;

/// A kind whose partners have a model for every file, as long as the file is empty.
struct Empty;

impl Kind for Empty {
    fn name(&self) -> &'static str {
        "empty"
    }

    fn builtin(&self) -> Builtin {
        &[("own/partner.toml", "kind = \"empty\""), ("own/a.toml", "")]
    }

    fn read(&self, folder: KindFolder<'_>) -> Result<KindPartner, Vec<Fault>> {
        let mut models = Vec::new();
        for (name, file) in folder.models() {
            if !file.text.is_empty() {
                return Err(vec![Fault::mentioning(
                    &file.path,
                    &file.text,
                    "x",
                    "not empty",
                )]);
            }
            let id = ModelId::new(folder.id, name).expect("the names are plain");
            let acme = load(&acme(&[]).source(), &settings(&[], &[]), &one_key("secret"));
            let definition = ModelDefinition {
                id,
                charges_on_policy_rejection: ChargesOnPolicyRejection::No,
                form: ModelForm::default(),
                input_schema: None,
                polling: None,
                alternates: Vec::new(),
                provider: Arc::clone(acme.expect("it is right").models[0].model.provider()),
            };
            models.push(Arc::new(Model::new(definition).expect("an open object")));
        }
        Ok(KindPartner {
            name: folder.id.to_owned(),
            models,
        })
    }
}

#[test]
fn a_partner_of_another_kind_brings_its_own_models() {
    let kinds = || settings(&[], &[]).with_kind(Arc::new(Empty));
    let folder = acme(&[
        ("mine/partner.toml", "kind = \"empty\""),
        ("mine/b.toml", ""),
    ]);
    let source = Source {
        builtin: true,
        ..folder.source()
    };
    let loaded = load(&source, &kinds(), &|_| None).expect("it is right");
    assert_eq!(ids(&loaded), ["mine/b", "own/a"], "without any credential");
    let loaded = load(&folder.source(), &kinds(), &|_| None).expect("it is right");
    assert_eq!(ids(&loaded), ["mine/b"], "nothing that is compiled in");
}

#[test]
fn a_partner_of_another_kind_is_judged_with_the_rest() {
    let folder = acme(&[
        ("mine/partner.toml", "kind = \"empty\""),
        ("mine/b.toml", "\nx"),
        ("acme/cat.json", "{"),
    ]);
    let kinds = settings(&[], &[]).with_kind(Arc::new(Empty));
    let faults = check(&folder.source(), &kinds).expect_err("two files are wrong");
    let lines: Vec<_> = faults.iter().map(|fault| fault.line).collect();
    assert_eq!((faults.len(), lines), (2, vec![1, 2]));
    assert!(faults[1].file.ends_with("mine/b.toml"), "{}", faults[1]);

    let unknown = Folder::new(&[("mine/partner.toml", "name = \"x\"\nkind = \"empty\"")]);
    assert_eq!(
        unknown.faults(),
        ["mine/partner.toml:2: this program runs no partners of the kind `empty`"]
    );
}
