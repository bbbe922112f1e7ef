//! Jobs through the older API: submitted, listed, remembered, stopped.

use it::{Request, Server};
use serde_json::{Value, json};

use super::{get, post, run, slow_graph, submit, tiny_graph};

#[tokio::test]
async fn a_job_is_in_every_list_before_and_after_a_crash() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let id = run(&server, &tiny_graph(7)).await;
    let shown = |server: Server| {
        let id = id.clone();
        async move {
            let mut all = Vec::new();
            for target in [
                format!("/api/job/{id}/status"),
                "/api/jobs".to_owned(),
                format!("/api/jobs/{id}"),
                "/history".to_owned(),
                format!("/history/{id}"),
                "/api/history_v2".to_owned(),
                format!("/api/history_v2/{id}"),
            ] {
                all.push(get(&server, &target).await);
            }
            (server, all)
        }
    };
    let (server, before) = shown(server).await;
    assert_eq!(before[0]["status"], "success");
    let entry = &before[1]["jobs"][0];
    assert_eq!(
        (&entry["id"], &entry["status"]),
        (&json!(id), &json!("completed"))
    );
    let preview = json!({
        "filename": "tiny_00001_.png", "subfolder": "", "type": "output", "nodeId": "2", "mediaType": "images",
    });
    assert_eq!(entry["preview_output"], preview);
    let page = json!({"offset": 0, "limit": 100, "total": 1, "has_more": false});
    assert_eq!(before[1]["pagination"], page);
    assert_eq!(before[2]["workflow"]["prompt"], tiny_graph(7));
    let history = &before[3][&id];
    let image = json!({"filename": "tiny_00001_.png", "subfolder": "", "type": "output"});
    assert_eq!(history["outputs"], json!({"2": {"images": [image]}}));
    assert_eq!(history["prompt"][1], json!(id));
    assert_eq!(history["prompt"][3]["client_id"], "c");
    assert_eq!(history["prompt"][4], json!(["2"]));
    assert_eq!(history["status"]["status_str"], "success");
    let messages = history["status"]["messages"].as_array().unwrap();
    let names: Vec<&Value> = messages.iter().map(|message| &message[0]).collect();
    assert_eq!(
        names,
        ["execution_start", "execution_cached", "execution_success"]
    );
    assert_eq!(before[5]["history"][0]["prompt_id"], json!(id));
    assert_eq!(before[6][&id]["outputs"], history["outputs"]);

    server.kill().await.unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let (_server, after) = shown(server).await;
    assert_eq!(
        after, before,
        "a crash changes nothing of what ended before it"
    );
}

#[tokio::test]
async fn valid_outputs_run_and_the_others_are_reported() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let mut graph = tiny_graph(1);
    graph["3"] = json!({"class_type": "SaveImage", "inputs": {"filename_prefix": "x"}});
    let answer = post(&server, "/prompt", &json!({"prompt": graph})).await;
    assert_eq!(answer.status, 200);
    let body = answer.json();
    let error = &body["node_errors"]["3"]["errors"][0];
    assert_eq!(error["type"], "required_input_missing");
    assert_eq!(body["node_errors"]["3"]["dependent_outputs"], json!(["3"]));
    // What one client asks for is what runs: an output that is not named is left out, right or wrong.
    graph["4"] = json!({"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}});
    let body = json!({"prompt": graph, "partial_execution_targets": ["4", "nothing"]});
    let answer = post(&server, "/prompt", &body).await;
    assert_eq!(
        (answer.status, &answer.json()["node_errors"]),
        (200, &json!({}))
    );
    let id = answer.json()["prompt_id"].as_str().unwrap().to_owned();
    let queue = get(&server, "/queue").await;
    let detail = get(&server, &format!("/api/jobs/{id}")).await;
    assert!(queue["queue_pending"].is_array() && detail["id"] == json!(id));
}

#[tokio::test]
async fn a_client_may_choose_an_id_once() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let id = "9c0e6f4a-0000-4000-8000-000000000001";
    let body = json!({"prompt": tiny_graph(1), "prompt_id": id, "number": "2.5"});
    let first = post(&server, "/api/prompt", &body).await.json();
    assert_eq!(
        (&first["prompt_id"], &first["number"]),
        (&json!(id), &json!(2.5))
    );
    let again = post(&server, "/api/prompt", &body).await;
    assert_eq!(again.status, 400);
    assert_eq!(again.json()["error"]["type"], "invalid_prompt_id");
}

#[tokio::test]
async fn jobs_are_stopped_by_every_way_to_stop_them() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), ["--job-slots", "1"])
        .await
        .unwrap();
    // The first keeps the only slot until it is stopped; the others wait behind it.
    let slow = slow_graph();
    let mut socket = super::listen(&server).await;
    let running = submit(&server, &slow).await;
    socket
        .until(|message| message.kind() == "execution_start")
        .await
        .unwrap();
    let mut waiting = Vec::new();
    for color in 0..4 {
        waiting.push(submit(&server, &tiny_graph(color)).await);
    }
    let queue = get(&server, "/api/queue").await;
    assert_eq!(queue["queue_running"][0][1], json!(running));
    let pending = queue["queue_pending"].as_array().unwrap();
    let pending: Vec<&Value> = pending.iter().map(|item| &item[1]).collect();
    assert_eq!(pending, waiting.iter().collect::<Vec<_>>());
    let info = get(&server, "/prompt").await;
    assert_eq!(info["exec_info"]["queue_remaining"], 5);

    let body = json!({"delete": [waiting[0], "no id", "9c0e6f4a-0000-4000-8000-000000000001"]});
    let answer = post(&server, "/api/queue", &body).await.json();
    assert_eq!(answer, json!({"deleted": [waiting[0]], "cleared": false}));
    let one = post(
        &server,
        &format!("/api/jobs/{}/cancel", waiting[1]),
        &json!({}),
    )
    .await;
    assert_eq!(one.json(), json!({"cancelled": true}));
    let again = post(
        &server,
        &format!("/api/jobs/{}/cancel", waiting[1]),
        &json!({}),
    )
    .await;
    assert_eq!(again.json(), json!({"cancelled": false}));
    let many = json!({"job_ids": [waiting[1], waiting[2]]});
    let many = post(&server, "/api/jobs/cancel", &many).await;
    assert_eq!(many.json(), json!({"cancelled": [waiting[2]]}));
    let clear = post(&server, "/queue", &json!({"clear": true}))
        .await
        .json();
    assert_eq!(clear, json!({"deleted": [waiting[3]], "cleared": true}));
    // What is no JSON is no reason to refuse.
    let interrupt = Request::new("POST", "/interrupt").body("{oh");
    assert_eq!(server.send(&interrupt).await.unwrap().status, 200);
    let heard = socket.until(super::ends).await.unwrap();
    assert!(
        heard
            .iter()
            .any(|message| message.kind() == "execution_interrupted")
    );
    for id in waiting.iter().chain([&running]) {
        let status = get(&server, &format!("/api/job/{id}/status")).await;
        assert_eq!(status["status"], "cancelled", "{id}");
    }
    assert_eq!(
        post(&server, "/interrupt", &json!({})).await.status,
        200,
        "nothing runs"
    );
}

#[tokio::test]
async fn what_requests_at_once_delete_from_a_history_is_hidden_once_it_is_over() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let mut ids = Vec::new();
    for color in 0..8 {
        ids.push(run(&server, &tiny_graph(color)).await);
    }
    let delete = async |id: &String| {
        let answer = post(&server, "/api/history", &json!({"delete": [id]})).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    futures_util::future::join_all(ids.iter().map(delete)).await;
    assert_eq!(get(&server, "/api/history").await, json!({}));

    let mut socket = super::listen(&server).await;
    let running = submit(&server, &slow_graph()).await;
    delete(&running).await;
    assert_eq!(
        post(&server, "/interrupt", &json!({"prompt_id": running}))
            .await
            .status,
        200
    );
    socket.until(super::ends).await.unwrap();
    let seen = get(&server, "/api/history").await;
    assert_eq!(
        seen.as_object().unwrap().keys().collect::<Vec<_>>(),
        [&running]
    );
    delete(&running).await;
    assert_eq!(get(&server, "/api/history").await, json!({}));
}

#[tokio::test]
async fn a_history_is_cleared_and_the_jobs_stay() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let first = run(&server, &tiny_graph(1)).await;
    let second = run(&server, &tiny_graph(2)).await;
    let newest = get(&server, "/history?max_items=1").await;
    assert_eq!(
        newest.as_object().unwrap().keys().collect::<Vec<_>>(),
        [&second]
    );
    let answer = post(&server, "/history", &json!({"delete": [first]})).await;
    assert_eq!(answer.status, 200);
    let left = get(&server, "/api/history").await;
    assert_eq!(
        left.as_object().unwrap().keys().collect::<Vec<_>>(),
        [&second]
    );
    assert_eq!(get(&server, &format!("/history/{first}")).await, json!({}));
    post(&server, "/history", &json!({"clear": true})).await;
    assert_eq!(get(&server, "/history").await, json!({}));
    let status = get(&server, &format!("/api/job/{first}/status")).await;
    assert_eq!(status["status"], "success");
    let v2 = get(&server, &format!("/api/v2/jobs/{first}")).await;
    assert_eq!(v2["status"], "succeeded");
}

#[tokio::test]
async fn lists_are_narrowed_sorted_and_paged() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let mut ids = Vec::new();
    for color in 0..3 {
        ids.push(run(&server, &tiny_graph(color)).await);
    }
    let listed = async |query: &str| {
        let page = get(&server, &format!("/api/jobs?{query}")).await;
        let jobs = page["jobs"].as_array().unwrap();
        let listed = jobs
            .iter()
            .map(|job| job["id"].as_str().unwrap().to_owned());
        (
            listed.collect::<Vec<_>>(),
            page["pagination"]["has_more"].clone(),
        )
    };
    let newest: Vec<String> = ids.iter().rev().cloned().collect();
    assert_eq!(
        listed("status=completed").await,
        (newest.clone(), json!(false))
    );
    assert_eq!(listed("sort_order=asc&sort_by=created_at").await.0, ids);
    assert_eq!(
        listed("limit=1&offset=1").await,
        (vec![newest[1].clone()], json!(true))
    );
    // A cursor goes on behind a page, and is one of this list.
    let mut walked = Vec::new();
    let mut after = String::new();
    loop {
        let page = get(&server, &format!("/api/jobs?limit=1&after={after}")).await;
        walked.push(page["jobs"][0]["id"].as_str().unwrap().to_owned());
        let next = page["pagination"]["next_cursor"].as_str();
        assert_eq!(page["pagination"]["has_more"], json!(next.is_some()));
        let Some(next) = next else { break };
        after = next.to_owned();
    }
    assert_eq!(walked, newest);
    let oldest = get(&server, "/api/jobs?limit=1&sort_order=asc").await;
    assert_eq!(oldest["pagination"].get("next_cursor"), None);
    assert_eq!(listed("status=pending,in_progress,failed").await.0, [""; 0]);
    assert_eq!(listed("output_type=video").await.0, [""; 0]);
    for bad in [
        "status=done",
        "limit=0",
        "limit=x",
        "offset=-1",
        "sort_by=size",
        "sort_order=up",
        "after=x",
    ] {
        let answer = server
            .send(&Request::get(&format!("/api/jobs?{bad}")))
            .await
            .unwrap();
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (400, &json!("INVALID_REQUEST")),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn classes_offer_the_accounts_own_files() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let told = super::upload(&server, "a photo.png", &super::photo()).await;
    let hash = told["asset"]["asset_hash"].as_str().unwrap();
    let hashed = format!("{}.png", hash.strip_prefix("blake3:").unwrap());
    assert_eq!(
        (&told["name"], &told["subfolder"]),
        (&json!("a photo.png"), &json!(""))
    );
    let nodes = get(&server, "/object_info").await;
    assert!(nodes.as_object().unwrap().len() >= 60);
    let choices = &nodes["LoadImage"]["input"]["required"]["image"][0];
    assert_eq!(choices, &json!(["a photo.png"]));
    assert_eq!(nodes["SaveImage"]["input"]["hidden"]["prompt"], "PROMPT");
    assert_eq!(
        nodes["EmptyImage"]["input_order"]["required"],
        json!(["width", "height", "batch_size", "color"])
    );
    let one = get(&server, "/api/object_info/LoadImage").await;
    assert_eq!(one["LoadImage"], nodes["LoadImage"]);
    assert_eq!(get(&server, "/object_info/Nothing").await, json!({}));
    // Its name loads the file, and so does its hash.
    for name in ["a photo.png", &hashed] {
        let graph = json!({
            "1": {"class_type": "LoadImage", "inputs": {"image": name}},
            "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
        });
        let id = run(&server, &graph).await;
        let status = get(&server, &format!("/api/job/{id}/status")).await;
        assert_eq!(status["status"], "success", "{name}");
    }
}

#[tokio::test]
async fn what_a_page_asks_for_first_is_answered() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    for prefix in ["", "/api"] {
        let users = get(&server, &format!("{prefix}/users")).await;
        assert_eq!(users, json!({"storage": "server", "migrated": true}));
        assert_eq!(
            get(&server, &format!("{prefix}/extensions")).await,
            json!([])
        );
        assert_eq!(get(&server, &format!("{prefix}/i18n")).await, json!({}));
        let log = get(&server, &format!("{prefix}/internal/logs/raw")).await;
        assert_eq!(log["entries"], json!([]));
        let flags = get(&server, &format!("{prefix}/features")).await;
        assert_eq!(flags["supports_preview_metadata"], true);
        assert_eq!(flags["partner_run_gate_enabled"], false);
        let stats = get(&server, &format!("{prefix}/system_stats")).await;
        assert!(stats["system"]["comfyui_version"].is_string() && stats["devices"].is_array());
        let memory = |name: &str| stats["system"][name].as_u64().unwrap();
        assert!(memory("ram_total") > memory("ram_free") && memory("ram_free") > 0);
    }
    assert_eq!(get(&server, "/settings").await, json!({}));
    let facts = get(&server, "/api/easel").await;
    assert_eq!(
        (&facts["account"], &facts["signed_in"], &facts["native"]),
        (&json!("local"), &json!(false), &json!(null))
    );
    assert_eq!(
        facts["console"],
        json!(null),
        "there is no page to link from"
    );
    let one = server
        .send(&Request::post_json(
            "/api/settings/Comfy.Locale",
            &json!("de"),
        ))
        .await;
    assert_eq!(one.unwrap().status, 200);
    assert_eq!(
        post(&server, "/settings", &json!({"a": {"b": 1}}))
            .await
            .status,
        200
    );
    let settings = json!({"Comfy.Locale": "de", "a": {"b": 1}});
    assert_eq!(get(&server, "/api/settings").await, settings);
    assert_eq!(get(&server, "/settings/Comfy.Locale").await, json!("de"));
    assert_eq!(get(&server, "/settings/unknown").await, json!(null));
    server.terminate().await.unwrap();
    let server = Server::start(data.path()).await.unwrap();
    assert_eq!(
        get(&server, "/settings").await,
        settings,
        "settings outlive the server"
    );
}
