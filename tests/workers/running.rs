//! Jobs that run as they should.

use asset_store::BlobHash;

use super::*;

#[tokio::test]
async fn a_graph_runs_where_its_classes_are() {
    let rig = Rig::start().await;
    let job = rig.run(&graph("at-a-worker", 1)).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(job["outputs"][0]["name"], "at-a-worker_00001_.png");
    assert_eq!(job["outputs"][0]["content_type"], "image/png");
    assert_eq!(job["progress"]["nodes_done"], 3);
    let bytes = rig.output(&job, 0).await;
    let id = job["id"].as_str().unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
    assert!(
        String::from_utf8_lossy(&bytes).contains(id),
        "the prompt has the id of its job"
    );

    // What this process can run stays here.
    let native = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "here"}}
    });
    assert_eq!(rig.run(&native).await["status"], "succeeded");
    assert_eq!(rig.worker().ran().len(), 1);
}

#[tokio::test]
async fn outputs_of_every_kind_are_kept() {
    let rig = Rig::start().await;
    let mut all = sampled("kinds/picture", "a.safetensors", 1);
    for (id, class, input, source) in [
        ("10", "SaveClip", "images", "3"),
        ("11", "SaveSound", "images", "3"),
        ("12", "SaveLatent", "samples", "2"),
        ("13", "SaveLarge", "images", "3"),
        ("16", "Save3DAdvanced", "images", "3"),
        ("14", "PreviewImage", "images", "3"),
        ("15", "PreviewAny", "source", "3"),
    ] {
        let mut inputs = json!({"filename_prefix": "kinds/other"});
        inputs[input] = json!([source, 0]);
        if class.starts_with("Preview") {
            inputs.as_object_mut().unwrap().remove("filename_prefix");
        }
        all[id] = json!({"class_type": class, "inputs": inputs});
    }
    let job = rig.run(&all).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let outputs = job["outputs"].as_array().unwrap();
    let of = |node: &str| {
        let at = outputs.iter().position(|output| output["node_id"] == node);
        at.unwrap_or_else(|| panic!("no output of {node}: {job:#}"))
    };
    for (node, kind, content_type) in [
        ("4", "image", "image/png"),
        ("10", "video", "video/mp4"),
        ("11", "audio", "audio/flac"),
        ("12", "latent", "application/octet-stream"),
        ("13", "file", "application/octet-stream"),
        ("14", "image", "image/png"),
        ("15", "text", "text/plain; charset=utf-8"),
        ("16", "file", "model/gltf-binary"),
    ] {
        let output = &outputs[of(node)];
        assert_eq!(
            (&output["type"], &output["content_type"]),
            (&json!(kind), &json!(content_type)),
            "{output:#}"
        );
    }
    assert_eq!(rig.output(&job, of("13")).await.len(), 3 << 20);
}

#[tokio::test]
async fn an_input_is_staged_once_under_its_hash() {
    let rig = Rig::start().await;
    let bytes = b"not really a picture";
    assert_eq!(rig.upload("My Cat.PNG", bytes).await, "My Cat.PNG");
    let graph = |prefix: &str| {
        json!({
            "1": {"class_type": "LoadImage", "inputs": {"image": "My Cat.PNG"}},
            "2": {"class_type": "Wait", "inputs": {"image": ["1", 0], "steps": 1}},
            "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": prefix}}
        })
    };
    for prefix in ["one", "two"] {
        let job = rig.run(&graph(prefix)).await;
        assert_eq!(job["status"], "succeeded", "{job:#}");
    }
    assert_eq!(rig.worker().uploads(), 1);
    let sent = &rig.worker().submissions()[1];
    assert_eq!(
        sent["prompt"]["1"]["inputs"]["image"],
        json!(format!("{}.png", BlobHash::of(bytes).to_hex())),
        "a worker gets the bytes under their hash"
    );
    assert_eq!(sent["prompt"]["3"]["inputs"]["filename_prefix"], "two");
    assert_eq!(sent["extra_data"]["preview_method"], "auto");
}

#[tokio::test]
async fn what_no_worker_has_is_refused_at_once_and_named() {
    let other = Comfy::start_with(Version::New, &["b.safetensors"], &["Decode"])
        .await
        .unwrap();
    let rig = Rig::with(vec![Comfy::start(Version::Recorded).await.unwrap(), other]).await;
    let answer = rig
        .try_submit(&sampled("x", "nowhere.safetensors", 1))
        .await;
    assert_eq!(
        (answer.status, answer.error_code()),
        (422, "invalid_workflow".to_owned())
    );
    assert!(
        answer.text().contains("nowhere.safetensors"),
        "{}",
        answer.text()
    );
    // One worker has the file and the other the class.
    let answer = rig.try_submit(&sampled("x", "b.safetensors", 1)).await;
    assert_eq!(answer.status, 422, "{}", answer.text());
    let job = rig.run(&sampled("x", "a.safetensors", 1)).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(rig.workers[1].ran(), []);
}

#[tokio::test]
async fn a_refusal_of_an_idle_worker_is_the_answer_and_nothing_is_kept() {
    let rig = Rig::start().await;
    let mut refused = graph("x", 1);
    refused["1"]["inputs"]["width"] = json!(0);
    let answer = rig.try_submit(&refused).await;
    assert_eq!(answer.status, 422, "{}", answer.text());
    let error = answer.json()["error"].take();
    assert_eq!(error["code"], "invalid_workflow", "{error:#}");
    let body = json!({"prompt": refused, "client_id": "somebody"});
    let older = rig.send(Request::post_json("/api/prompt", &body)).await;
    assert_eq!(older.status, 400, "{}", older.text());
    let node = older.json()["node_errors"]["1"]["errors"][0].take();
    assert_eq!(node["type"], "value_smaller_than_min", "{node:#}");
    for told in [answer.text(), older.text()] {
        assert!(told.contains("value_smaller_than_min"), "{told}");
        assert!(!told.contains("/home/"), "{told}");
    }
    let jobs = rig.send(Request::get("/api/v2/jobs")).await.json();
    assert_eq!(jobs["jobs"], json!([]), "{jobs:#}");
    let history = rig.send(Request::get("/api/history")).await.json();
    assert_eq!(history, json!({}));
}

#[tokio::test]
async fn a_refusal_of_a_busy_worker_ends_the_job_with_its_words() {
    let rig = Rig::start().await;
    rig.worker().pace(Duration::from_millis(20));
    let busy = rig.submit(&graph("long", 1000)).await;
    rig.worker().until(|ran| ran.len() == 1).await;
    let mut refused = graph("x", 1);
    refused["1"]["inputs"]["width"] = json!(0);
    let refused = rig.submit(&refused).await;
    rig.cancel(&busy).await;
    let job = rig.ended(&refused).await;
    assert_eq!(
        (&job["status"], &job["error"]["code"]),
        (&json!("failed"), &json!("invalid_workflow")),
        "{job:#}"
    );
    assert!(
        job.to_string().contains("value_smaller_than_min"),
        "{job:#}"
    );
    assert!(!job.to_string().contains("/home/"), "{job:#}");
}

#[tokio::test]
async fn a_refusal_of_one_output_is_no_success_of_the_others() {
    let rig = Rig::start().await;
    rig.worker().pace(Duration::from_millis(20));
    let mut refused = sampled("x", "a.safetensors", 1000);
    refused["5"] = json!({"class_type": "EmptyImage", "inputs": {"width": 0, "height": 8, "batch_size": 1, "color": 7}});
    refused["6"] =
        json!({"class_type": "SaveImage", "inputs": {"images": ["5", 0], "filename_prefix": "y"}});
    let answer = rig.try_submit(&refused).await;
    assert_eq!(answer.status, 422, "{}", answer.text());
    let errors = answer.json()["error"]["details"]["node_errors"].take();
    assert_eq!(errors.as_object().map(serde_json::Map::len), Some(1));
    assert!(
        errors["5"].to_string().contains("value_smaller_than_min"),
        "{errors:#}"
    );
    // What the worker runs of it is stopped.
    rig.worker()
        .until(|ran| ran.iter().all(|ran| ran.end.is_some()))
        .await;
    let ends: Vec<_> = rig.worker().ran().iter().map(|ran| ran.end).collect();
    assert!(!ends.contains(&Some("success")), "{ends:?}");
}

#[tokio::test]
async fn a_failing_node_is_named_without_a_path_of_its_worker() {
    let rig = Rig::start().await;
    let mut failing = graph("x", 1);
    failing["2"] = json!({"class_type": "Fails", "inputs": {"image": ["1", 0], "exception": "torch.OutOfMemoryError"}});
    let job = rig.run(&failing).await;
    assert_eq!(job["error"]["code"], "out_of_memory", "{job:#}");
    failing["2"]["inputs"]["exception"] = json!("FileNotFoundError");
    let job = rig.run(&failing).await;
    assert_eq!(job["error"]["code"], "node_execution_error", "{job:#}");
    assert!(job.to_string().contains("no such file: a.bin"), "{job:#}");
    assert!(!job.to_string().contains("/home/"), "{job:#}");
}

#[tokio::test]
async fn a_key_goes_to_the_worker_of_its_job_and_nowhere_else() {
    let rig = Rig::start().await;
    let body = json!({
        "workflow": graph("keyed", 1),
        "extra_data": {"api_key_service_org": "sk-never-shown-anywhere"}
    });
    let answer = rig.send(Request::post_json("/api/v2/jobs", &body)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let job = rig.ended(answer.json()["id"].as_str().unwrap()).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let sent = rig.worker().submissions();
    assert_eq!(
        sent[0]["extra_data"]["api_key_comfy_org"],
        "sk-never-shown-anywhere"
    );
    assert!(!sent[0]["prompt"].to_string().contains("sk-never"));
    assert!(!job.to_string().contains("sk-never"));
}

#[tokio::test]
async fn workers_share_the_jobs_and_a_loaded_model_decides() {
    let checkpoints = ["a.safetensors", "b.safetensors"];
    let mut workers = Vec::new();
    for version in [Version::Recorded, Version::New] {
        workers.push(Comfy::start_with(version, &checkpoints, &[]).await.unwrap());
    }
    let rig = Rig::with(workers).await;
    for round in 0..10 {
        for checkpoint in checkpoints {
            let job = rig.run(&sampled(&format!("r{round}"), checkpoint, 1)).await;
            assert_eq!(job["status"], "succeeded", "{job:#}");
        }
    }
    for worker in &rig.workers {
        let used: std::collections::BTreeSet<_> =
            worker.ran().into_iter().map(|ran| ran.checkpoint).collect();
        assert_eq!(used.len(), 1, "each worker keeps its model: {used:?}");
    }
}

#[tokio::test]
async fn an_older_version_without_its_own_routes_works_too() {
    let old = Comfy::start(Version::Old).await.unwrap();
    old.fault(it::comfy::Fault::MissingRoutes);
    let rig = Rig::with(vec![old]).await;
    let job = rig.run(&sampled("old", "a.safetensors", 3)).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(job["progress"]["nodes_done"], 4);
}

#[tokio::test]
async fn a_name_that_a_caller_wrote_is_no_output_of_a_job() {
    let rig = Rig::start().await;
    let saved = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "Save3DAdvanced", "inputs": {"images": ["1", 0], "filename_prefix": "3d/of-somebody"}}
    });
    let job = rig.run(&saved).await;
    let name = "of-somebody_00001_.glb";
    assert_eq!(job["outputs"][0]["name"], name, "{job:#}");
    let name = format!("3d/{name}");
    let shown = json!({"1": {"class_type": "Preview3D", "inputs": {"model_file": name}}});
    let job = rig.run(&shown).await;
    assert_eq!(
        (&job["status"], &job["outputs"]),
        (&json!("succeeded"), &json!([])),
        "{job:#}"
    );
}

#[tokio::test]
async fn a_file_may_be_left_out_where_the_class_says_so() {
    let rig = Rig::with(vec![Comfy::start(Version::Latest).await.unwrap()]).await;
    let info = rig.send(Request::get("/api/object_info")).await.json();
    let menu =
        |info: &Value| info["Load3D"]["input"]["required"]["model_file"][1]["options"].clone();
    assert_eq!(menu(&info), json!(["none"]));
    let drawn = |mask: &str, model: &str| {
        json!({
            "1": {"class_type": "Load3D", "inputs": {"model_file": model, "image": {}}},
            "2": {"class_type": "Painter", "inputs": {"mask": mask}},
            "3": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "model"}},
            "4": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "mask"}}
        })
    };
    let job = rig.run(&drawn("", "none")).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let sent = rig.worker().submissions()[0]["prompt"].clone();
    assert_eq!(sent["1"]["inputs"]["model_file"], "none");
    assert_eq!(sent["2"]["inputs"]["mask"], "");
    let answer = rig.try_submit(&drawn("", "3d/of-somebody.glb")).await;
    assert_eq!(answer.status, 422, "{}", answer.text());

    let (model, mask) = (b"glTF of mine", b"a picture of mine");
    let names = [
        rig.upload("mine.glb", model).await,
        rig.upload("mask.png", mask).await,
    ];
    let job = rig.run(&drawn(&names[1], &names[0])).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let sent = rig.worker().submissions()[1]["prompt"].clone();
    let staged = |bytes: &[u8], ending: &str| format!("{}.{ending}", BlobHash::of(bytes).to_hex());
    assert_eq!(sent["1"]["inputs"]["model_file"], staged(model, "glb"));
    assert_eq!(sent["2"]["inputs"]["mask"], staged(mask, "png"));
    let info = rig.send(Request::get("/api/object_info")).await.json();
    assert_eq!(menu(&info)[0], "none");
}

#[tokio::test]
async fn a_worker_that_is_being_met_lacks_nothing_for_good() {
    let worker = Comfy::start(Version::Latest).await.unwrap();
    // So many that they take a while to read.
    worker.fault(it::comfy::Fault::MoreClasses(4000));
    let data = tempfile::tempdir().unwrap();
    let arguments = ["--comfyui".to_owned(), worker.url()];
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let rig = Rig {
        data,
        server,
        workers: vec![worker],
    };
    loop {
        let answer = rig.try_submit(&graph("first", 1)).await;
        match answer.status {
            201 => break,
            429 => assert_eq!(answer.error_code(), "deployment_not_ready"),
            status => panic!("{status}: {}", answer.text()),
        }
    }
}

#[tokio::test]
async fn a_mesh_is_a_file_of_its_own_type_under_the_name_that_its_worker_gave_it() {
    let rig = Rig::start().await;
    let mut meshed = graph("meshes/pawn", 1);
    meshed["3"] = json!({"class_type": "SaveMesh", "inputs": {"images": ["2", 0], "filename_prefix": "meshes/pawn"}});
    let job = rig.run(&meshed).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let output = &job["outputs"][0];
    let bytes = rig.output(&job, 0).await;
    for (field, value) in [
        ("node_id", json!("3")),
        ("type", json!("file")),
        ("content_type", json!("model/gltf-binary")),
        ("name", json!("pawn_00001_.glb")),
        ("size_bytes", json!(bytes.len())),
        (
            "hash",
            json!(format!("blake3:{}", BlobHash::of(&bytes).to_hex())),
        ),
    ] {
        assert_eq!(output[field], value, "{field}: {output:#}");
    }
    let id = job["id"].as_str().unwrap();
    assert!(bytes.starts_with(b"glTF"));
    assert!(String::from_utf8_lossy(&bytes).contains(id));
    // It is a file of the account like any other.
    let asset = format!("/api/v2/assets/{}", output["id"].as_str().unwrap());
    let asset = rig.send(Request::get(&asset)).await.json();
    assert_eq!(asset["content_type"], "model/gltf-binary", "{asset:#}");
    // The older API shows it as the node did, and hands it out.
    let history = rig.send(Request::get(&format!("/api/history/{id}"))).await;
    assert_eq!(
        history.json()[id]["outputs"]["3"]["3d"],
        json!([{"filename": "pawn_00001_.glb", "subfolder": "meshes", "type": "output"}])
    );
    let view = "/api/view?filename=pawn_00001_.glb&subfolder=meshes&type=output";
    let view = rig.send(Request::get(view)).await;
    let link = view
        .header("location")
        .unwrap_or_else(|| panic!("{view:?}"));
    let path = &link[link.find("/signed/").unwrap()..];
    let seen = rig.send(Request::get(path)).await;
    assert_eq!(seen.header("content-type"), Some("model/gltf-binary"));
    assert_eq!(seen.body, bytes);
}

#[tokio::test]
async fn workers_are_preferred_where_the_operator_says_so() {
    let data = tempfile::tempdir().unwrap();
    let worker = Comfy::start(Version::Recorded).await.unwrap();
    let url = worker.url();
    let arguments = ["--comfyui", url.as_str(), "--prefer", "comfyui"];
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let rig = Rig {
        data,
        server,
        workers: vec![worker],
    };
    rig.until_worker(rig.worker(), &["ready"]).await;
    let both = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "both"}}
    });
    let job = rig.run(&both).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let ran = rig.worker().ran();
    let saves: Vec<_> = ran.iter().map(|ran| ran.saves.as_deref()).collect();
    assert_eq!(saves, [Some("both")], "the server can run it, too");
    // What only the server has runs there all the same.
    let mut native = both;
    native["3"] = json!({"class_type": "ImageBlur", "inputs": {"image": ["1", 0], "blur_radius": 1, "sigma": 1.0}});
    native["2"]["inputs"]["images"] = json!(["3", 0]);
    let job = rig.run(&native).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(rig.worker().ran().len(), 1);
}
