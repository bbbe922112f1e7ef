//! Prices of the shipped catalog, and a folder that changes while it is served.

use std::sync::Arc;

use providers::{Watch, load};
use router_core::{Catalog, LiveCatalog, ModelId, Price};
use serde_json::{Value, json};

use super::{Bench, environment, folder_of_acme, settings};

#[tokio::test]
async fn shipped_prices_follow_the_body() {
    let bench = Bench::start().await;
    let price = |model: &str, body: Value| bench.provider(model).price(&body);
    let exact = |cents| Price::Exact { cents };
    assert_eq!(price("bfl/flux-pro-1.1", json!({})), exact(4));
    assert_eq!(price("fal/flux-dev", json!({})), exact(3));
    let four = json!({"num_images": 4, "image_size": "square_hd"});
    assert_eq!(price("fal/flux-dev", four), exact(20));
    assert_eq!(
        price("runway/gen4_turbo", json!({"duration": 5})),
        exact(25)
    );
    let pro = json!({"mode": "pro", "duration": "10"});
    assert_eq!(price("kling/text2video", pro), exact(98));
    let high = json!({"quality": "high", "size": "1024x1024", "n": 2});
    assert_eq!(price("openai/gpt-image-1", high), exact(34));
    let hd = json!({"quality": "hd", "size": "1792x1024"});
    assert_eq!(price("openai/dall-e-3", hd), exact(12));
    let veo = json!({"parameters": {"durationSeconds": 4}});
    assert_eq!(price("google/veo-3.0-generate-001", veo), exact(160));
    let odd = json!({"image_size": {"width": 4000, "height": 4000}});
    assert_eq!(
        price("fal/flux-dev", odd),
        Price::Unknown { hold_cents: 20 }
    );
    for model in &bench.loaded.models {
        let provider = model.model.provider();
        for body in [
            json!(null),
            json!([]),
            json!({}),
            json!({"n": -1, "num_images": 1e308}),
        ] {
            let held = provider.price(&body).hold_cents();
            assert!(held <= 1_000_000_000, "{:?}: {held}", model.model);
        }
    }
}

#[tokio::test]
async fn a_reload_with_a_mistake_takes_no_served_model_away() {
    let partner = "name = \"A\"\nbase_url = \"https://a.test\"\n[auth]\nkind = \"none\"\n\
                   [call.x]\nstyle = \"sync\"\nsubmit = { path = \"/x\" }\n";
    let (folder, source, model) = folder_of_acme(partner);
    let acme = folder.path().join("acme");
    let bench = Bench::start().await;
    let settings = settings(&bench.partners, &bench.clock);
    let read = || {
        let loaded = load(&source, &settings, &environment)?;
        let models = loaded.models.iter().map(|model| Arc::clone(&model.model));
        Ok::<_, Vec<providers::Fault>>(Catalog::new(models.collect()).unwrap())
    };
    let now = jiff::Timestamp::now();
    let live = LiveCatalog::new(read().unwrap());
    let mut watch = Watch::new(folder.path().to_owned());
    let one: ModelId = "acme/one".parse().unwrap();
    let two: ModelId = "acme/two".parse().unwrap();

    std::fs::write(acme.join("two.toml"), "price =").unwrap();
    assert!(watch.has_changed());
    let faults = read().unwrap_err();
    assert_eq!((faults.len(), faults[0].line), (1, 1));
    assert!(live.find(&one, now).is_some());

    std::fs::write(acme.join("two.toml"), model).unwrap();
    assert!(watch.has_changed());
    live.replace(read().unwrap(), now);
    assert!(live.find(&one, now).is_some() && live.find(&two, now).is_some());
}
