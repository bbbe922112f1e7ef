//! Models that others serve too: each at each of the others, through real sockets.

use providers::Pointer;
use serde_json::{Value, json};

use super::*;

/// What is asked of a model.
fn body_of(model: &router_core::Model) -> Value {
    let schema = model.input_schema().unwrap();
    match schema["properties"].get("contents") {
        Some(_) => json!({"contents": [{"role": "user", "parts": [{"text": "a cat"}]}]}),
        None => json!({"prompt": "a cat"}),
    }
}

/// The results in an answer of a model, as its definition says where they are; of pictures inside it, their base64.
fn results(model: &router_core::Model, answer: &Value) -> Vec<String> {
    let pointers = model.form().returns.from.iter();
    let pointers = pointers.map(|from| Pointer::try_from(from.clone()).unwrap());
    pointers
        .flat_map(|pointer| {
            let found = pointer.all(answer).into_iter().filter_map(Value::as_str);
            let bare = |text: &str| match text.split_once(";base64,") {
                Some((_, data)) => data.to_owned(),
                None => text.to_owned(),
            };
            found.map(bare).collect::<Vec<_>>()
        })
        .collect()
}

#[tokio::test]
async fn every_alternate_of_the_catalog_serves_its_model_in_the_models_own_words() {
    let bench = Bench::start().await;
    let mut pairs = 0;
    for loaded in &bench.loaded.models {
        let model = &loaded.model;
        for alternate in model.alternates() {
            let pair = format!("{} at {}", model.id(), alternate.model);
            let body = body_of(model);
            assert!(model.document().violations(&body).is_empty(), "{pair}");
            let said = alternate.translation.body(&body);
            assert_eq!(
                (&said.dropped[..], &said.refused[..]),
                (&[][..], &[][..]),
                "{pair}"
            );
            let id = alternate.model.as_str();
            let done = bench.run(id, &said.body.to_string()).await;
            let done = done.unwrap_or_else(|failure| panic!("{pair}: {failure:?}"));
            let raw: Value = serde_json::from_slice(&done.answer.body).unwrap();
            let results = results(&bench.model(id).model, &raw);
            assert!(!results.is_empty(), "{pair}: {raw}");
            let answer = alternate.translation.answer(done.answer);
            let answer = String::from_utf8(answer.body.to_vec()).unwrap();
            for result in results {
                assert!(
                    answer.contains(&result),
                    "{pair}: {result} is not in {answer}"
                );
            }
            pairs += 1;
        }
    }
    assert!(pairs >= 12, "{pairs}");
}
