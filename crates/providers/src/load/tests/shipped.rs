//! The catalog that is compiled in.

use super::*;

#[test]
fn what_is_compiled_in_is_right() {
    let source = Source::with_builtin(None);
    let models = check(&source, &settings(&[], &[])).expect("nothing is wrong");
    assert!(models >= 20, "{models}");
}

#[test]
fn without_credentials_what_is_compiled_in_is_counted_and_no_file_beside_it_goes_unjudged() {
    let source = Source::with_builtin(None);
    let all = load(&source, &settings(&[], &[]), &one_key("key")).expect("nothing is wrong");
    let mut known: Vec<_> = all.models.iter().map(|model| model.model.id()).collect();
    let none = load(&source, &settings(&[], &[]), &|_| None).expect("nothing is wrong");
    let mut lacking: Vec<_> = none.without_credentials.iter().map(|(id, _)| id).collect();
    known.sort();
    lacking.sort();
    assert_eq!(known, lacking);
    let count = |loaded: &Loaded| {
        let partners = loaded.partners.iter();
        let counts = partners.map(|partner| (partner.id.clone(), partner.models));
        counts.collect::<Vec<_>>()
    };
    assert_eq!(count(&all), count(&none));

    let folder = acme(&[("acme/cat.json", "{")]);
    let beside = Source::with_builtin(Some(folder.0.clone()));
    let wrong = load(&beside, &settings(&[], &[]), &|_| None).expect_err("a file is wrong");
    assert_eq!(wrong.len(), 1, "{wrong:?}");
}

#[test]
fn every_shipped_model_has_a_schema() {
    let source = Source::with_builtin(None);
    let loaded = load(&source, &settings(&[], &[]), &one_key("key")).expect("nothing is wrong");
    for model in &loaded.models {
        assert!(model.model.document().is_authored(), "{:?}", model.model);
    }
}
