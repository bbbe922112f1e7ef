//! The tables of `docs/PARTNERS.md` about the shipped catalog: made from the catalog, the sheets and the list of public
//! models, and compared with the document. `EASEL_WRITE_TABLES=1` writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use it::partners::sheets;
use providers::Expected;
use router_core::ModelId;

use super::Bench;

const BEGIN: &str = "<!-- tables: made by tests/providers/tables.rs -->\n";
const END: &str = "<!-- end of tables -->\n";

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/PARTNERS.md")
}

/// The models of the public list, each with its kind.
fn public_models() -> Vec<(String, char)> {
    let list = fixture("public-models.txt");
    let mut models = Vec::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let Some((provider, rest)) = line.split_once(':') else {
            continue;
        };
        let mut kind = '?';
        for word in rest.split_whitespace() {
            match word {
                "|" => {}
                "v" | "i" | "a" | "3" | "t" => kind = word.chars().next().unwrap(),
                name => models.push((format!("{provider}/{name}"), kind)),
            }
        }
    }
    models
}

/// The reasons why models of the list are not in the catalog.
fn reasons() -> BTreeMap<String, String> {
    let list = fixture("public-models-missing.txt");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let reasons = lines.map(|line| {
        let (id, reason) = line.split_once(": ").expect("a model and a reason");
        (id.to_owned(), reason.to_owned())
    });
    reasons.collect()
}

fn tables(bench: &Bench) -> String {
    let ids: Vec<&ModelId> = bench
        .loaded
        .models
        .iter()
        .map(|model| model.model.id())
        .collect();
    let mut text = String::new();
    let partners = bench.loaded.partners.len();
    let _ = writeln!(
        text,
        "The catalog has {partners} partners and {} models. No call was made with a real key: every model was tried against a \
         simulated partner.\n\n- **sheet**: the partner is simulated from a sheet of requests and answers that its \
         documentation shows (`tests/fixtures/partners`).\n- **own**: the partner is simulated by code of its own \
         (`tests/harness/partners/styles`).\n- **Answers**: how many answers follow from the rules, states and statuses of the \
         partner's files. Each came from the simulated partner and was told to the caller as the files say.\n- **Moderated**: how \
         many of its models have an answer among them that means `content_policy_violation`. For the others no such answer was \
         found in public documentation.\n\n| Partner | Folder | Models | Simulated | Answers | Moderated | Documentation |\n\
         |---|---|---|---|---|---|---|",
        ids.len()
    );
    for partner in &bench.loaded.partners {
        let of_partner = |id: &str| {
            id.split_once('/')
                .is_some_and(|(first, _)| first == partner.id)
        };
        let mut ways = BTreeSet::new();
        let mut pages = BTreeSet::new();
        for sheet in sheets() {
            for call in &sheet.calls {
                if call.examples.iter().any(|example| of_partner(&example.id)) {
                    ways.insert(if call.submit.is_some() {
                        "sheet"
                    } else {
                        "own"
                    });
                    pages.insert(sheet.documentation.as_str());
                }
            }
        }
        let ways: Vec<&str> = ways.into_iter().collect();
        let pages: Vec<&str> = pages.into_iter().collect();
        let (name, id, models) = (&partner.name, &partner.id, partner.models);
        let (ways, pages) = (ways.join(", "), pages.join(" "));
        let (answers, moderated) = answers(bench, id);
        let _ = writeln!(
            text,
            "| {name} | `{id}` | {models} | {ways} | {answers} | {moderated} | {pages} |"
        );
    }
    let public = public_models();
    let has = |id: &str| ids.iter().any(|known| known.as_str() == id);
    let _ = writeln!(
        text,
        "\nOf the models that the documentation of the public router lists (`tests/fixtures/public-models.txt`):\n\n\
         | Kind | Listed | In the catalog |\n|---|---|---|"
    );
    for (kind, name) in [
        ('v', "video"),
        ('i', "image"),
        ('a', "audio"),
        ('3', "3D"),
        ('t', "text"),
    ] {
        let of_kind: Vec<_> = public.iter().filter(|(_, known)| *known == kind).collect();
        let covered = of_kind.iter().filter(|(id, _)| has(id)).count();
        let _ = writeln!(text, "| {name} | {} | {covered} |", of_kind.len());
    }
    let _ = writeln!(text, "\nThese are missing:\n");
    let reasons = reasons();
    for (id, _) in public.iter().filter(|(id, _)| !has(id)) {
        let reason = reasons
            .get(id)
            .unwrap_or_else(|| panic!("{id} is missing, and nobody says why"));
        let _ = writeln!(text, "- `{id}`: {reason}.");
    }
    text + &unknowns()
}

/// What the files of the catalog leave unknown.
fn unknowns() -> String {
    let (mut after, mut never, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    let mut refusals = 0;
    for (id, file) in definitions() {
        let mut alternates = file.split("[[alternate]]");
        let own = alternates.next().unwrap();
        let (_, price) = own.split_once("[price]").expect(&id);
        let price = price.split("\n[").next().unwrap();
        if stated(price, "kind") == Some("unknown") {
            let told = price.contains("\nsettle = ");
            if told { &mut after } else { &mut never }.push(format!("`{id}`"));
        }
        let charged = stated(own, "charges_on_policy_rejection");
        refusals += usize::from(charged == Some("unknown"));
        for other in alternates.filter(|other| stated(other, "read_on").is_none()) {
            let provider = stated(other, "provider").expect(&id);
            let model = stated(other, "model").expect(&id);
            pairs.push(format!("`{id}` at `{provider}/{model}`"));
        }
    }
    format!(
        "\nWhat the files leave unknown, since no page that was read says it. Nothing of it is guessed:\n\n\
         - The price before a call, which the partner tells with its answer ({}): {}.\n\
         - The price before and after a call ({}): {}.\n\
         - Whether a refusal on grounds of policy is charged: {refusals} models. It costs the caller nothing.\n\
         - Whether a mapping is what its provider publishes ({}): {}.\n",
        after.len(),
        after.join(", "),
        never.len(),
        never.join(", "),
        pairs.len(),
        pairs.join(", ")
    )
}

/// The text that stands behind the name of a line.
fn stated<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    file.lines().find_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix(" = \"")?;
        value.split('"').next()
    })
}

/// The files of the models of the shipped catalog, by their ids.
fn definitions() -> BTreeMap<String, String> {
    let catalog = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/providers/catalog");
    let mut files = BTreeMap::new();
    for partner in fs::read_dir(catalog).unwrap() {
        let partner = partner.unwrap();
        for file in fs::read_dir(partner.path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if name != "partner" && path.extension().is_some_and(|kind| kind == "toml") {
                let text = fs::read_to_string(&path).unwrap();
                let id = format!("{}/{name}", partner.file_name().to_str().unwrap());
                files.insert(id, text);
            }
        }
    }
    files
}

/// How many answers follow from the files of a partner, and how many of its models have one that means moderation.
fn answers(bench: &Bench, partner: &str) -> (usize, usize) {
    let models = bench.loaded.models.iter();
    let of_partner = models.filter(|model| model.model.id().provider() == partner);
    let cases = of_partner.map(|model| model.runner.as_ref().expect(partner).cases().cases);
    cases.fold((0, 0), |(answers, moderated), cases| {
        let mut told = cases.iter().map(|case| case.expected);
        let is_moderated = told.any(|expected| expected == Expected::Policy);
        (answers + cases.len(), moderated + usize::from(is_moderated))
    })
}

#[tokio::test]
async fn the_tables_of_the_document_are_those_of_the_catalog() {
    let bench = Bench::start().await;
    let made = tables(&bench);
    let path = document();
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the tables begin somewhere");
    let (written, after) = rest.split_once(END).expect("the tables end somewhere");
    if std::env::var_os("EASEL_WRITE_TABLES").is_some() {
        fs::write(&path, [before, BEGIN, &made, END, after].concat()).unwrap();
        return;
    }
    assert_eq!(written, made, "run this test with EASEL_WRITE_TABLES=1");
}

#[tokio::test]
async fn the_catalog_is_as_large_as_it_is_said_to_be() {
    let bench = Bench::start().await;
    assert!(bench.loaded.partners.len() >= 40);
    let public = public_models();
    let has = |id: &str| {
        let mut models = bench.loaded.models.iter();
        models.any(|model| model.model.id().as_str() == id)
    };
    let media = public.iter().filter(|(id, kind)| *kind != 't' && has(id));
    assert!(media.count() >= 150);
    for id in reasons().keys() {
        assert!(!has(id), "{id} is there after all");
        assert!(
            public.iter().any(|(known, _)| known == id),
            "{id} is not listed"
        );
    }
}
