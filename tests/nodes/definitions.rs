//! What clients are told of partner nodes, and how that follows the catalog.

use std::fs;

use super::*;

async fn class(rig: &Rig, class: &str) -> Value {
    rig.get(&format!("/api/object_info/{class}")).await[class].take()
}

#[tokio::test]
async fn every_model_is_a_class_with_inputs_from_its_schema() {
    let rig = Rig::start().await;
    let listed = rig.get("/v1/models?limit=100").await;
    let listed = listed["data"].as_array().unwrap();
    assert!(listed.len() >= 10, "{listed:#?}");
    let all = rig.get("/api/object_info").await;
    for model in listed {
        let class = format!(
            "partner:{}",
            model["id"].as_str().unwrap().replace('/', ":")
        );
        let info = &all[&class];
        assert_eq!(info["api_node"], true, "{class}: {info:#}");
        assert_eq!(info["name"], class.as_str());
        let category = info["category"].as_str().unwrap();
        assert!(category.starts_with("api node/"), "{category}");
        // What every definition has, for every reader.
        for (key, is_right) in [
            ("input", info["input"].is_object()),
            ("input_order", info["input_order"].is_object()),
            ("output", info["output"].is_array()),
            ("output_is_list", info["output_is_list"].is_array()),
            ("output_name", info["output_name"].is_array()),
            ("display_name", info["display_name"].is_string()),
            ("description", info["description"].is_string()),
            ("python_module", info["python_module"].is_string()),
            ("output_node", info["output_node"] == false),
            ("price_badge", info["price_badge"]["expr"].is_string()),
        ] {
            assert!(is_right, "{class}: {key}: {info:#}");
        }
        for section in ["required", "optional"] {
            let names = info["input_order"][section]
                .as_array()
                .cloned()
                .unwrap_or_default();
            for name in names {
                let input = &info["input"][section][name.as_str().unwrap()];
                assert!(
                    input[0].is_string() || input[0].is_array(),
                    "{class} {name}: {input}"
                );
            }
        }
    }

    let info = &all[EDIT];
    assert_eq!(info["output"], json!(["IMAGE", "MASK"]));
    assert_eq!(info["category"], "api node/image/Black Forest Labs");
    assert_eq!(info["input_order"]["required"], json!(["prompt"]));
    let optional = &info["input"]["optional"];
    assert_eq!(optional["input_image"][0], "IMAGE");
    assert_eq!(optional["safety_tolerance"][0], "INT");
    let bounds = &optional["safety_tolerance"][1];
    assert_eq!(
        (&bounds["min"], &bounds["max"], &bounds["default"]),
        (&json!(0), &json!(6), &json!(2))
    );
    assert_eq!(
        optional["output_format"][1]["options"],
        json!(["jpeg", "png"])
    );
    assert!(
        optional.get("webhook_url").is_none(),
        "the schema forbids it"
    );
    assert_eq!(
        info["input"]["hidden"]["api_key_comfy_org"],
        json!(["API_KEY_COMFY_ORG"])
    );
    assert_eq!(all[SOUND]["output"], json!(["AUDIO"]));
    assert_eq!(all["SaveAudio"]["output_node"], true);
    assert_eq!(all["SaveVideo"]["output_node"], true);
}

#[tokio::test]
async fn a_catalog_that_changes_brings_and_takes_classes() {
    let rig = Rig::start().await;
    let added = "partner:bfl:second";
    assert!(class(&rig, added).await.is_null());
    let folder = rig.folder.path().join("catalog/bfl");
    let shipped = it::root().join("crates/providers/catalog/bfl");
    let file = fs::read_to_string(shipped.join("flux-kontext-pro.toml")).unwrap();
    fs::write(folder.join("second.toml"), file).unwrap();
    // The folder is looked at every two seconds; a server that asks is answered at once.
    while class(&rig, added).await.is_null() {
        tokio::task::yield_now().await;
    }
    rig.partners
        .answer_with(Partner::Bfl, "application/json", ready(&edited()));
    let picture = rig.upload(&small()).await;
    let mut graph = edit(&picture, "by the second");
    graph["2"]["class_type"] = added.into();
    let job = rig.run(&graph).await;
    assert_eq!(decoded(&rig.output(&job).await), edited());
    let asked = rig.partners.requests_of(Partner::Bfl, Step::Submit);
    assert_eq!(asked[0].target, "/v1/second");

    fs::remove_file(folder.join("second.toml")).unwrap();
    while !class(&rig, added).await.is_null() {
        tokio::task::yield_now().await;
    }
    let refused = rig
        .send(Request::post_json(
            "/api/v2/jobs",
            &json!({"workflow": graph}),
        ))
        .await;
    assert_eq!(refused.status, 422, "{}", refused.text());
}

#[tokio::test]
async fn a_workflow_that_calls_a_model_is_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine");
    fs::create_dir_all(&mine).unwrap();
    fs::write(
        mine.join("partner.toml"),
        "kind = \"workflow\"\nname = \"Mine\"\n",
    )
    .unwrap();
    let model = "graph = \"loop.graph.json\"\nschema = \"loop.schema.json\"\n\n[output]\nnode = \"2\"\n\n[fields.text]\ninto = [{ node = \"1\", input = \"text\" }]\n";
    fs::write(mine.join("loop.toml"), model).unwrap();
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    fs::write(mine.join("loop.schema.json"), schema.to_string()).unwrap();
    let graph = json!({
        "1": {"class_type": "partner:mine:loop", "inputs": {"text": "a"}},
        "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
    });
    fs::write(mine.join("loop.graph.json"), graph.to_string()).unwrap();
    let data = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let launch = Launch {
        arguments: vec!["--catalog".into(), folder.path().into()],
        log: Some(log.clone()),
        ..Launch::of("all-in-one")
    };
    let started = Server::launch(data.path(), &launch).await;
    assert!(started.is_err(), "it calls itself");
    let told = fs::read_to_string(log).unwrap();
    assert!(
        told.contains("partner:mine:loop") && told.contains("calls a model"),
        "{told}"
    );
}
