//! The unmodified web page in headless Chromium.

mod templates;

use std::collections::BTreeSet;
use std::process::Stdio;

use it::{Server, lacks, operate, root};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use templates::{NEED_FILES, RUN_HERE};

/// What the test needs and `.ci/run` installs.
const NEEDED: [&str; 3] = ["EASEL_WEB_ROOT", "EASEL_PLAYWRIGHT", "EASEL_CHROMIUM"];

/// The folder of the page, if everything is there that drives it; `None` after saying that the test was skipped.
pub(crate) fn web_root(test: &str) -> Option<String> {
    if lacks(test, &NEEDED) {
        return None;
    }
    let web_root = std::env::var_os(NEEDED[0]).unwrap();
    Some(web_root.to_str().unwrap().to_owned())
}

/// Drives the page of a server by a script in `tests/clients`; answers what it saw.
pub(crate) async fn drive_at(server: &Server, test: &str, script: &str, more: &[&str]) -> Value {
    // Kept for people to look at.
    let screenshot = root().join("target/ci").join(format!("{test}.png"));
    std::fs::create_dir_all(screenshot.parent().unwrap()).unwrap();
    let driven = Command::new("node")
        .arg(root().join("tests/clients").join(script))
        .arg(server.address.to_string())
        .arg(root().join("examples/photo.png"))
        .arg(&screenshot)
        .args(more)
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&driven.stdout);
    let complained = String::from_utf8_lossy(&driven.stderr);
    assert!(driven.status.success(), "{said}\n{complained}");
    assert!(
        std::fs::metadata(&screenshot).unwrap().len() > 10_000,
        "a screenshot was taken"
    );
    serde_json::from_str(said.lines().last().unwrap()).unwrap()
}

/// Drives the page of a server with these further arguments.
async fn drive(test: &str, script: &str, arguments: &[&str], key: Option<&str>) -> Option<Value> {
    let web_root = web_root(test)?;
    let data = tempfile::tempdir().unwrap();
    let all = ["--web-root", &web_root]
        .into_iter()
        .chain(arguments.iter().copied());
    let server = Server::start_with(data.path(), all).await.unwrap();
    Some(drive_at(&server, test, script, key.as_slice()).await)
}

/// That nothing went wrong in any window: no error, no refused request, and nothing asked of other servers but what the page
/// looks up about node packs.
pub(crate) fn judge_windows(told: &Value) {
    assert_eq!(told["errors"], json!([]), "{told:#}");
    assert_eq!(told["refused"], json!([]), "{told:#}");
    judge_outside(told);
}

fn judge_outside(told: &Value) {
    let outside = told["outside"].as_array().unwrap();
    assert!(
        outside.iter().all(|host| host == "api.comfy.org"),
        "{told:#}"
    );
}

/// What somebody sees who was never here.
fn judge_first_visit(told: &Value) {
    judge_windows(told);
    for graph in ["first", "second"] {
        let nodes = told[graph].as_array().unwrap();
        let has = |class: &str| nodes.iter().any(|node| node["type"] == class);
        assert!(has("LoadImage") && has("SaveImage"), "{graph}: {nodes:?}");
        let missing = nodes.iter().filter(|node| node["missing"] == true);
        assert_eq!(missing.count(), 0, "{graph}: {nodes:?}");
    }
    assert_eq!(told["painted"], json!({"width": 768, "height": 576}));

    // What runs here comes first, and every template says what it needs.
    let cards = told["cards"].as_array().unwrap();
    assert_eq!(cards[0][0], "easel-first-picture");
    let runs_here = cards
        .iter()
        .take_while(|card| card[1].as_str().unwrap().contains("Runs here"));
    assert_eq!(runs_here.count(), RUN_HERE.len() + 1, "{cards:?}");
    let index = told["index"].as_array().unwrap();
    let tagged = |tag: &str| index.iter().filter(|template| template[1] == tag).count();
    assert_eq!(tagged("Runs here"), RUN_HERE.len() + 1);
    assert_eq!(tagged("Needs your files"), NEED_FILES.len());
    for (card, at) in cards
        .iter()
        .skip(RUN_HERE.len() + 1)
        .zip(0..NEED_FILES.len())
    {
        let text = card[1].as_str().unwrap();
        assert!(text.contains("Needs your files"), "{at}: {text}");
    }
    assert!(tagged("Needs a model") > 200 && tagged("Needs a partner") > 300);
    let told_apart = [
        "Runs here",
        "Needs your files",
        "Needs a model",
        "Needs a worker",
        "Needs a partner",
        "Needs a node pack",
    ];
    assert_eq!(told_apart.map(tagged).iter().sum::<usize>(), index.len());

    let filtered = told["filtered"].as_array().unwrap();
    let filtered: BTreeSet<&str> = filtered.iter().filter_map(Value::as_str).collect();
    let runs = RUN_HERE.into_iter().chain(["easel-first-picture"]);
    assert_eq!(filtered, BTreeSet::from_iter(runs), "{told:#}");
    let badges = json!([
        ["KSampler", ["needs a model"]],
        ["SplatToMesh", ["needs a worker"]],
        // Nothing is known of it, and what runs says nothing where everything is native.
        ["NoSuchClass", []],
        ["ImageInvert", []],
    ]);
    assert_eq!(told["badges"], badges);

    // A workflow that lacks something names it, in our words.
    let toast = told["toast"].as_str().unwrap();
    assert!(
        toast.contains("KSampler") || toast.contains("VAELoader"),
        "{toast}"
    );
    assert!(
        toast.contains("only on a ComfyUI worker that has the model"),
        "{toast}"
    );
    let lacking = told["lacking"].as_str().unwrap();
    assert!(
        lacking.contains("Nodes that need a ComfyUI worker"),
        "{lacking}"
    );
    for wrong in [
        "pip install",
        "custom node",
        "newer version of ComfyUI",
        "Missing Node Packs",
    ] {
        assert!(!lacking.contains(wrong), "{wrong}: {lacking}");
    }
    let search = told["search"].as_str().unwrap();
    assert!(search.contains("ComfyUI worker"), "{search}");
    let version = env!("CARGO_PKG_VERSION");
    let about = told["about"].as_str().unwrap();
    assert!(about.contains(&format!("Easel {version}")), "{about}");
    let account = told["account"].as_str().unwrap();
    assert!(
        account.contains("Console") && account.contains("Credits"),
        "{account}"
    );
}

#[tokio::test]
async fn graphs_run_as_the_page_draws_them_today() {
    let test = "graphs_run_as_the_page_draws_them_today";
    let Some(told) = drive(test, "web_graphs.mjs", &[], None).await else {
        return;
    };
    judge_windows(&told);
    let (red, cyan) = (json!([255, 0, 0]), json!([0, 255, 255]));
    let picture = |side: u32, rgb: &Value| json!([{"side": side, "rgb": rgb}]);
    let batch = [&red, &json!([0, 255, 0]), &json!([0, 0, 255])];
    let batch = batch.map(|rgb| json!({"side": 8, "rgb": rgb}));
    let expected = [
        ("a bypassed node hands its input on", picture(8, &red)),
        ("a muted node does not run", picture(8, &red)),
        (
            "a legacy reroute is no node of the server",
            picture(8, &red),
        ),
        ("a subgraph in a subgraph", picture(8, &cyan)),
        ("a bypassed subgraph", picture(8, &red)),
        ("a bypassed node in a subgraph", picture(8, &cyan)),
        ("an input grows with every link", json!(batch)),
        ("named inputs grow, too", json!([])),
        ("a choice brings its own inputs", picture(16, &red)),
        ("a choice of a save node", picture(8, &red)),
        ("a type follows what is connected", picture(8, &red)),
    ];
    let runs = told["runs"].as_object().unwrap();
    assert_eq!(runs.len(), expected.len());
    for (name, pictures) in &expected {
        let run = &runs[*name];
        assert_eq!(run["kind"], "execution_success", "{name}: {run:#}");
        assert_eq!(run["pictures"], *pictures, "{name}: {run:#}");
    }
    assert_eq!(runs["named inputs grow, too"]["texts"], json!(["43"]));
    let nested = runs["a subgraph in a subgraph"]["nodes"]
        .as_array()
        .unwrap();
    let inner = nested
        .iter()
        .filter(|node| node.as_str().unwrap().contains(':'));
    assert_eq!(
        inner.count(),
        3,
        "nodes of subgraphs have paths as ids: {nested:?}"
    );
}

#[tokio::test]
async fn a_mask_is_painted_and_a_sound_and_a_video_are_played() {
    let test = "a_mask_is_painted_and_a_sound_and_a_video_are_played";
    let Some(told) = drive(test, "web_media.mjs", &[], None).await else {
        return;
    };
    judge_windows(&told);
    let mask = &told["mask"];
    assert_eq!(
        (&mask["width"], &mask["height"]),
        (&json!(192), &json!(144))
    );
    let white = mask["white"].as_u64().unwrap();
    assert!(
        (50..192 * 144 / 2).contains(&white),
        "a stroke of the brush: {told:#}"
    );
    assert_eq!(told["seconds"], 2);
    assert_eq!(told["menus"]["load"], json!(["example.png"]), "{told:#}");
    let saved = "ComfyUI_00001_.png [output]";
    assert_eq!(told["menus"]["outputs"], json!([saved]), "{told:#}");
    assert_eq!(
        told["from_outputs"],
        json!({"value": saved, "width": 192}),
        "{told:#}"
    );
    let video = &told["video"];
    assert_eq!(
        (&video["width"], &video["height"], &video["seconds"]),
        (&json!(192), &json!(144), &json!(2)),
        "{told:#}"
    );
    assert!(video["sound"].as_u64().unwrap() > 0, "{told:#}");
}

/// A video in a format that browsers do not play, with a sound.
async fn foreign_video(path: &std::path::Path) {
    let pictures = [
        "-f",
        "lavfi",
        "-i",
        "testsrc=size=192x144:rate=10:duration=2",
    ];
    let sound = ["-f", "lavfi", "-i", "sine=frequency=440:duration=2"];
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-y"])
        .args(pictures)
        .args(sound)
        .args(["-c:v", "mpeg4", "-c:a", "mp3"])
        .arg(path)
        .output()
        .await
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[tokio::test]
async fn every_sound_and_video_plays_in_its_node_and_in_the_panel_of_assets() {
    let test = "every_sound_and_video_plays_in_its_node_and_in_the_panel_of_assets";
    if lacks(test, &NEEDED) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign.avi");
    foreign_video(&foreign).await;
    // The script has no key; what stands in its place is its last argument.
    let foreign = foreign.to_str().unwrap();
    let told = drive(test, "web_players.mjs", &[], Some(foreign)).await;
    let told = told.unwrap();
    judge_windows(&told);
    let video = json!({"seconds": 2, "width": 192, "height": 144});
    let sound = json!({"seconds": 2});
    let saved = json!({
        "saved_00001_.mp4": video,
        "web_00001_.webm": video,
        "flac_00001_.flac": sound,
        "mp3_00001_.mp3": sound,
        "opus_00001_.opus": sound,
    });
    assert_eq!(told["ended"], "success", "{told:#}");
    assert_eq!(told["nodes"], saved, "{told:#}");
    assert_eq!(told["panel"], saved, "{told:#}");
    let temporary = json!([
        {"kind": "flac", "seconds": 2},
        {"kind": "mp4", "seconds": 2, "width": 192, "height": 144},
    ]);
    assert_eq!(told["temporary"], temporary, "{told:#}");
    let foreign = &told["foreign"];
    assert_eq!(foreign["ended"], "success", "{told:#}");
    for shown in ["foreign_00001_.mp4", ".mp4"] {
        let size = (&foreign[shown]["width"], &foreign[shown]["height"]);
        assert_eq!(size, (&json!(192), &json!(144)), "{shown}: {told:#}");
    }
}

#[tokio::test]
async fn a_first_visit_opens_what_runs_and_says_what_does_not() {
    let test = "a_first_visit_opens_what_runs_and_says_what_does_not";
    let Some(told) = drive(test, "web_first_visit.mjs", &[], None).await else {
        return;
    };
    judge_first_visit(&told);
    let account = told["account"].as_str().unwrap();
    assert!(
        account.contains("Sign in") && account.contains("local"),
        "{account}"
    );
}

#[tokio::test]
async fn signing_out_and_a_lost_session_lead_to_the_sign_in() {
    let test = "signing_out_and_a_lost_session_lead_to_the_sign_in";
    let key = "another-key-of-a-page-test";
    let arguments = ["--token", key];
    let Some(told) = drive(test, "web_first_visit.mjs", &arguments, Some(key)).await else {
        return;
    };
    judge_first_visit(&told);
    assert_eq!(
        told["signed_in"], 200,
        "one browser signs out, the other stays"
    );
    let account = told["account"].as_str().unwrap();
    assert!(account.contains("Sign out"), "{account}");
}

#[tokio::test]
async fn a_restart_and_a_second_user_change_nothing_for_the_first() {
    let test = "a_restart_and_a_second_user_change_nothing_for_the_first";
    let Some(web_root) = web_root(test) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let arguments = ["--web-root", &web_root, "--token", "the-token-of-this-test"];
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let mut keys = Vec::new();
    for account in ["acme", "other"] {
        operate(data.path(), ["account", "add", account]).await;
        let key = operate(data.path(), ["key", "add", account]).await;
        keys.push(key.stdout.trim().to_owned());
    }
    let session = data.path().join("session.json");
    let session = session.to_str().unwrap();
    let more = ["before", session, &keys[0], &keys[1]];
    let told = drive_at(&server, test, "web_users.mjs", &more).await;
    judge_windows(&told);
    for account in ["acme", "other"] {
        let expected = json!({
            "account": account,
            "jobs": 1,
            "uploads": ["example.png", "mine.png"],
            "painted": "first-picture_00001_.png",
        });
        assert_eq!(
            told[account], expected,
            "each sees what is theirs: {told:#}"
        );
    }

    assert!(server.terminate().await.unwrap().success());
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let more = ["after", session];
    let told = drive_at(&server, test, "web_users.mjs", &more).await;
    judge_windows(&told);
    assert_eq!(told["acme"]["account"], "acme", "still signed in: {told:#}");
    assert_eq!(told["acme"]["jobs"], 2, "{told:#}");
}

#[tokio::test]
async fn a_window_that_stays_open_over_a_restart_learns_that_its_key_is_gone() {
    let test = "a_window_that_stays_open_over_a_restart_learns_that_its_key_is_gone";
    let Some(web_root) = web_root(test) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let key = "the-first-key-of-this-test";
    let arguments = ["--web-root", &web_root, "--token", key];
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let address = server.address.to_string();
    let screenshot = root().join("target/ci").join(format!("{test}.png"));
    std::fs::create_dir_all(screenshot.parent().unwrap()).unwrap();
    let mut window = Command::new("node")
        .arg(root().join("tests/clients/web_restart.mjs"))
        .args([&address, ""])
        .arg(&screenshot)
        .arg(key)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(window.stdout.take().unwrap()).lines();
    let stands = said.next_line().await.unwrap();
    assert_eq!(stands.as_deref(), Some("stands"));

    assert!(server.terminate().await.unwrap().success());
    let other = "the-other-key-of-this-test";
    let arguments = ["--web-root", &web_root, "--token", other, "--listen"];
    let arguments = arguments.into_iter().chain([address.as_str()]);
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let told = said.next_line().await.unwrap();
    let told: Value = serde_json::from_str(&told.unwrap()).unwrap();
    let expected = format!("http://{}/signin", server.address);
    assert_eq!(told["url"], expected, "{told:#}");
    let failure = told["failure"].as_str().unwrap();
    assert!(!failure.contains("easel.js"), "blamed: {failure}");
    judge_outside(&told);
    assert!(window.wait().await.unwrap().success());
}

/// What the page showed, as far as it is the same in every run.
fn judge(told: &Value) {
    assert!(told["classes"].as_u64().unwrap() > 60, "{told}");
    assert_eq!(told["loaded"], "photo.png", "{told}");
    let painted = json!({"filename": "ComfyUI_00001_.png", "width": 192, "height": 144});
    assert_eq!(
        told["painted"], painted,
        "the result is in the node: {told}"
    );
    let row = told["row"].as_str().unwrap();
    assert!(
        row.contains("ComfyUI_00001_.png") && told["job"].is_string(),
        "the job is in the queue panel: {told}"
    );
    assert_eq!(told["here"], json!([200, 200]), "{told}");
    judge_windows(told);
    assert_eq!(told["subscribed"], 200, "{told}");
    let log = told["log"].as_str().unwrap();
    assert!(
        log.contains("completed in"),
        "the job is in the panel of logs: {told}"
    );
}

#[tokio::test]
async fn the_page_boots_loads_queues_and_shows() {
    if let Some(told) = drive(
        "the_page_boots_loads_queues_and_shows",
        "web_page.mjs",
        &[],
        None,
    )
    .await
    {
        judge(&told);
    }
}

#[tokio::test]
async fn with_a_key_the_page_asks_for_it_first() {
    let key = "a-key-of-a-page-test";
    let test = "with_a_key_the_page_asks_for_it_first";
    let arguments = ["--token", key];
    if let Some(told) = drive(test, "web_page.mjs", &arguments, Some(key)).await {
        judge(&told);
    }
}
