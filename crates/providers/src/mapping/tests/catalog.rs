//! Every mapping of the catalog.

use std::collections::BTreeMap;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use router_core::{ChargesOnPolicyRejection, Model, ModelDefinition, ModelForm};

use super::*;
use crate::builtin::FILES;
use crate::definition::{AlternateFile, ModelFile};

/// Bodies that are tried of each.
const BODIES: u32 = 400;

/// A model of the catalog with one that can serve its calls.
struct Pair {
    name: String,
    own: Value,
    form: Vec<String>,
    alternate: AlternateFile,
    other: Model,
    /// What the other one's answers hold.
    other_form: Vec<String>,
}

fn parsed(path: &str) -> (ModelFile, Value) {
    let files: BTreeMap<&str, &str> = FILES.iter().copied().collect();
    let file: ModelFile = toml::from_str(files[path]).expect(path);
    let folder = path.split('/').next().expect("a folder");
    let schema = file.schema.as_ref().map(|schema| {
        let path = format!("{folder}/{schema}");
        serde_json::from_str(files[path.as_str()]).expect("JSON")
    });
    (file, schema.unwrap_or(Value::Null))
}

fn pairs() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (path, text) in FILES
        .iter()
        .filter(|(_, text)| text.contains("[[alternate]]"))
    {
        let _ = text;
        let (file, own) = parsed(path);
        for alternate in file.alternate {
            let id = format!("{}/{}", alternate.provider, alternate.model);
            let (other_file, other) = parsed(&format!("{id}.toml"));
            let definition = ModelDefinition {
                id: id.parse().expect("an id"),
                charges_on_policy_rejection: ChargesOnPolicyRejection::No,
                form: ModelForm::default(),
                input_schema: Some(other),
                polling: None,
                alternates: Vec::new(),
                provider: std::sync::Arc::new(Nobody),
            };
            pairs.push(Pair {
                name: format!("{path} at {id}"),
                own: own.clone(),
                form: file.node.from.clone(),
                alternate,
                other: Model::new(definition).expect("a schema"),
                other_form: other_file.node.from,
            });
        }
    }
    pairs
}

/// Runs nothing: schemas alone are asked.
struct Nobody;

#[async_trait::async_trait]
impl router_core::Provider for Nobody {
    async fn submit(
        &self,
        _: router_core::Submission,
    ) -> Result<router_core::Submitted, router_core::Failure> {
        unreachable!("nothing is sent")
    }

    async fn collect(
        &self,
        _: &router_core::Handle,
        _: &router_core::Contact,
    ) -> Result<router_core::Collected, router_core::Failure> {
        unreachable!("nothing is sent")
    }

    async fn cancel(&self, _: &router_core::Handle) {}

    fn price(&self, _: &Value) -> router_core::Price {
        router_core::Price::Exact { cents: 0 }
    }
}

fn runner() -> TestRunner {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(BODIES)
    };
    TestRunner::new_with_rng(config, rng)
}

#[test]
fn there_are_a_dozen() {
    let pairs = pairs();
    assert!(pairs.len() >= 12, "{}", pairs.len());
}

#[test]
fn what_is_said_elsewhere_reads_back_but_for_what_is_told_as_dropped() {
    for pair in pairs() {
        let mapping = &pair.alternate.mapping;
        let (mut served, mut runner) = (0, runner());
        let bodies = bodies(&pair.own);
        let tried = runner.run(&bodies, |body| {
            let said = mapping.body(&body);
            if !said.refused.is_empty() {
                return Ok(());
            }
            let mut read = undone(mapping, &said.body);
            let expected = expected(mapping, &body, &said.dropped);
            // What is said in any case may be what the caller would have said.
            for rule in &mapping.body {
                if let Rule::Move { from, .. } = rule
                    && at(&expected, from.segments()).is_none()
                {
                    put(&mut read, from.segments(), Value::Null, false);
                }
            }
            let read = pruned(read).unwrap_or_else(|| json!({}));
            prop_assert_eq!(read, expected, "{}: {}", pair.name, said.body);
            Ok(())
        });
        tried.unwrap_or_else(|error| panic!("{}: {error}", pair.name));
        // Most bodies are taken by the other one, by its own schema; the rest is beyond its bounds, and is refused there.
        let mut runner = self::runner();
        for _ in 0..BODIES {
            let tree = bodies.new_tree(&mut runner).expect("a body");
            let said = mapping.body(&tree.current());
            let violations = pair.other.document().violations(&said.body);
            if said.refused.is_empty() && violations.is_empty() {
                served += 1;
            }
        }
        assert!(
            served > BODIES / 100,
            "{}: only {served} bodies are served",
            pair.name
        );
    }
}

#[test]
fn what_every_body_has_is_enough_elsewhere() {
    for pair in pairs() {
        let required = pair.own["required"].as_array().cloned().unwrap_or_default();
        let mut least = json!({});
        for name in required.iter().filter_map(Value::as_str) {
            least[name] = match name {
                "contents" => json!([{"parts": [{"text": "a cat"}]}]),
                _ => json!("a cat"),
            };
        }
        // A prompt may be left out of some bodies, but not of a call.
        if pair.own["properties"].get("prompt").is_some() {
            least["prompt"] = json!("a cat");
        }
        let said = pair.alternate.mapping.body(&least);
        assert_eq!(
            (&said.dropped[..], &said.refused[..]),
            (&[][..], &[][..]),
            "{}",
            pair.name
        );
        let violations = pair.other.document().violations(&said.body);
        assert!(violations.is_empty(), "{}: {violations:?}", pair.name);
    }
}

#[test]
fn a_result_is_found_where_the_model_has_it() {
    for pair in pairs() {
        let mut found = 0;
        let rules = pair.alternate.mapping.answer.iter();
        let read = rules.filter_map(Rule::from).map(ToString::to_string);
        let pointers: Vec<String> = read.chain(pair.other_form.iter().cloned()).collect();
        for pointer in &pointers {
            for value in [
                "https://cdn.example.org/a.png",
                "data:image/png;base64,iVBORw0KGgo=",
                "iVBORw0KGgo=",
            ] {
                let path: Vec<String> = pointer
                    .split('/')
                    .skip(1)
                    .map(|one| one.replace('*', "0"))
                    .collect();
                let mut answer = Value::Null;
                put(&mut answer, &path, json!(value), true);
                let said = pair.alternate.mapping.answer(Answer {
                    content_type: "application/json".to_owned(),
                    body: answer.to_string().into(),
                });
                let said: Value = serde_json::from_slice(&said.body).expect("JSON");
                let places = pair
                    .form
                    .iter()
                    .map(|from| Pointer::try_from(from.clone()).expect("a pointer"));
                let seen: Vec<Value> = places
                    .flat_map(|at| at.all(&said).into_iter().cloned().collect::<Vec<_>>())
                    .collect();
                found += usize::from(!seen.is_empty());
            }
        }
        assert!(
            found > 0,
            "{}: no result of {:?} is at {:?}",
            pair.name,
            pair.other_form,
            pair.form
        );
    }
}
