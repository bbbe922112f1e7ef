//! Scenes in three dimensions: the pictures that ComfyUI's page paints for `Load3D`, and the one behind a `Preview3D`.

use asset_store::BlobHash;

use super::*;

/// What the page sends of a scene, with these pictures.
fn loaded(pictures: &Value) -> Value {
    let mut scene = json!({
        "image": "", "mask": "", "normal": "", "recording": "",
        "camera_info": {"position": {"x": 1.5, "y": 0, "z": 2}, "zoom": 1}, "model_3d_info": []
    });
    for (key, name) in pictures.as_object().into_iter().flatten() {
        scene[key] = name.clone();
    }
    json!({
        "1": {"class_type": "Load3D", "inputs": {"model_file": "none", "image": scene}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "scene"}}
    })
}

/// Uploads a picture as the page does; answers how it names it in a graph.
async fn painted(rig: &Rig, name: &str, bytes: &[u8]) -> String {
    let form = Form::new()
        .file("image", name, bytes)
        .field("subfolder", "threed")
        .field("type", "temp");
    let request = Request::new("POST", "/api/upload/image")
        .header("Content-Type", &Form::content_type())
        .body(form.body());
    let answer = rig.send(request).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    format!("threed/{} [temp]", answer.json()["name"].as_str().unwrap())
}

#[tokio::test]
async fn pictures_of_a_scene_are_at_the_worker_that_loads_it() {
    let rig = Rig::with(vec![Comfy::start(Version::Latest).await.unwrap()]).await;
    let all: [(&str, &str, &[u8]); 4] = [
        ("image", "png", b"the scene"),
        ("mask", "png", b"its mask"),
        ("normal", "png", b"its normals"),
        ("recording", "mp4", b"a walk around it"),
    ];
    let mut pictures = json!({});
    for (key, ending, bytes) in all {
        pictures[key] = painted(&rig, &format!("scene_{key}.{ending}"), bytes)
            .await
            .into();
    }
    let graph = loaded(&pictures);
    for _ in 0..2 {
        let request = Request::post_json("/api/prompt", &json!({"prompt": graph}));
        let answer = rig.send(request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let job = answer.json()["prompt_id"].clone();
        let job = rig.ended(job.as_str().unwrap()).await;
        assert_eq!(job["status"], "succeeded", "{job:#}");
    }
    let sent = rig.worker().submissions()[0]["prompt"]["1"]["inputs"]["image"].clone();
    let mut expected = graph["1"]["inputs"]["image"].clone();
    for (key, ending, bytes) in all {
        expected[key] = format!("{}.{ending}", BlobHash::of(bytes).to_hex()).into();
    }
    assert_eq!(sent, expected);
    assert_eq!(rig.worker().uploads(), 4, "each is sent once");

    // A preview of a scene leaves its pictures empty.
    let job = rig.run(&loaded(&json!({}))).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(rig.worker().uploads(), 4);
}

#[tokio::test]
async fn a_scene_names_no_file_of_somebody_else() {
    let rig = Rig::with(vec![Comfy::start(Version::Latest).await.unwrap()]).await;
    for name in [
        "threed/of-somebody.png [temp]",
        "ComfyUI_00001_.png [output]",
    ] {
        let answer = rig.try_submit(&loaded(&json!({"mask": name}))).await;
        assert_eq!(answer.status, 422, "{}", answer.text());
        let told = answer.text();
        assert!(
            told.contains(&format!("there is no file '{name}'")),
            "{told}"
        );
    }
    assert_eq!(rig.worker().submissions().len(), 0);
}

#[tokio::test]
async fn the_picture_behind_a_preview_is_delivered_where_the_page_looks() {
    let rig = Rig::with(vec![Comfy::start(Version::Latest).await.unwrap()]).await;
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "Preview3D", "inputs": {"model_file": "3d/of-somebody.glb", "bg_image": ["1", 0]}}
    });
    let job = rig.run(&graph).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let id = job["id"].as_str().unwrap();
    let name = format!("bg_{}.png", id.replace('-', ""));
    let outputs = job["outputs"].as_array().unwrap();
    assert_eq!(outputs.len(), 1, "{job:#}");
    assert_eq!(
        (&outputs[0]["name"], &outputs[0]["type"]),
        (&json!(name), &json!("image")),
        "{job:#}"
    );
    let shown = format!("/api/view?filename={name}&type=temp&subfolder=");
    let shown = rig.send(Request::get(&shown)).await;
    // The address of its bytes is signed anew each time.
    assert_eq!(shown.status, 302, "{}", shown.text());
    let hash = outputs[0]["hash"].as_str().unwrap();
    let bytes = rig.output(&job, 0).await;
    assert_eq!(hash, BlobHash::of(&bytes).to_string());
    assert!(
        bytes.ends_with(id.as_bytes()),
        "it is the one of this prompt"
    );
}
