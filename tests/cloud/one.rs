//! One replica: every family of the API does over rows and a bucket what it does over a directory.

use it::partners::Partner;
use it::{Message, Request, Socket};
use serde_json::json;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_runs_from_its_upload_to_its_output() {
    let Some(fleet) = Fleet::start("a graph in the cloud").await else {
        return;
    };
    let server = fleet.replica("one").await;
    let large = vec![7; 9 << 20];
    let asset = fleet.upload(&server, "large.txt", &large).await;
    let id = asset["id"].as_str().unwrap();
    let content = format!("/api/v2/assets/{id}/content");
    assert_eq!(fleet.get(&server, &content).await.body, large);
    let part = Request::get(&content).header("Range", "bytes=5-9");
    let part = fleet.send(&server, part).await;
    assert_eq!((part.status, part.body.len()), (206, 5));

    let job = fleet.submit(&server, &tiny_graph(1)).await;
    let events = fleet.events(&server, &job).await;
    assert!(
        events.last().unwrap().contains("succeeded"),
        "{events:#?}: {}",
        fleet.log("one")
    );
    let ended = fleet.look(&server, &job).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let output = ended["outputs"][0]["id"].as_str().unwrap();
    let content = format!("/api/v2/assets/{output}/content");
    let picture = fleet.get(&server, &content).await;
    assert_eq!(picture.header("content-type"), Some("image/png"));
    let list = fleet.get(&server, "/api/v2/jobs").await.json();
    assert_eq!(list["jobs"][0]["id"], job.as_str(), "{list}");
    let about = |what| format!("/api/v2/jobs/{job}/{what}");
    let logs = fleet.get(&server, &about("logs")).await.json();
    assert_eq!(logs["complete"], true, "{logs}");
    let workflow = fleet.get(&server, &about("workflow")).await.json();
    assert_eq!(workflow["workflow"], tiny_graph(1));

    // Another process finds everything again.
    assert!(server.terminate().await.unwrap().success());
    let server = fleet.replica("one").await;
    assert_eq!(fleet.look(&server, &job).await["status"], "succeeded");
    assert_eq!(fleet.get(&server, &content).await.body, picture.body);
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_of_the_older_api_is_told_on_its_socket_and_remembered() {
    let Some(fleet) = Fleet::start("a prompt in the cloud").await else {
        return;
    };
    let server = fleet.replica("one").await;
    let socket = fleet.own(Request::get("/ws?clientId=c"));
    let mut socket = Socket::open(server.address, socket).await.unwrap();
    let body = json!({"prompt": tiny_graph(2), "client_id": "c"});
    let told = fleet.send(&server, Request::post_json("/api/prompt", &body));
    let id = told.await.json()["prompt_id"].as_str().unwrap().to_owned();
    let ends =
        |message: &Message| message.kind() == "executing" && message.data()["node"].is_null();
    let heard = socket.until(ends).await.unwrap();
    let kinds: Vec<String> = heard.iter().map(Message::kind).collect();
    for kind in ["execution_start", "executed", "execution_success"] {
        assert!(kinds.iter().any(|heard| heard == kind), "{kinds:?}");
    }
    let history = fleet.get(&server, &format!("/history/{id}")).await.json();
    assert_eq!(history[&id]["status"]["status_str"], "success", "{history}");
    let file = &history[&id]["outputs"]["2"]["images"][0]["filename"];
    let view = format!("/view?filename={}&type=output", file.as_str().unwrap());
    let link = server.send(&fleet.own(Request::get(&view))).await.unwrap();
    let link = path_of(link.header("location").unwrap());
    let picture = fleet.get(&server, &link).await;
    assert_eq!(picture.header("content-type"), Some("image/png"));
    let saved = Request::post_json("/api/settings/a", &json!("b"));
    fleet.send(&server, saved).await;
    let settings = fleet.get(&server, "/api/settings").await.json();
    assert_eq!(settings["a"], "b");
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_model_is_made_once_and_billed_once() {
    let Some(fleet) = Fleet::start("a call in the cloud").await else {
        return;
    };
    let server = fleet.replica("one").await;
    let granted = fleet.operate("one", &["account", "credit", "acme", "100"]);
    granted.await;
    for (model, cents) in [(AT_ONCE, 1), (POLLED, 4)] {
        let first = server.send(&fleet.call(model, model)).await.unwrap();
        assert_eq!(first.status, 200, "{}", first.text());
        let again = server.send(&fleet.call(model, model)).await.unwrap();
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!((again.status, &again.body), (200, &first.body));
        assert_eq!(fleet.charges("one").await[0], -cents);
    }
    assert_eq!(fleet.charges("one").await, [-4, -1]);
    assert_eq!(fleet.submits(Partner::FalSync), 1);
    assert_eq!(fleet.submits(Partner::Bfl), 1);
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_are_sent_to_the_bucket_where_that_is_set() {
    let Some(fleet) = Fleet::start("reads from the bucket").await else {
        return;
    };
    let flags = ["--content", "redirect"];
    let server = fleet.replica_with("one", &flags).await;
    let page = b"<script>alert(1)</script>".repeat(1_000);
    let page = page.as_slice();
    let asset = fleet.upload(&server, "n\u{e9}w page.html", page).await;
    let other = fleet.upload(&server, "other.txt", b"not theirs").await;
    let content =
        |asset: &Value| format!("/api/v2/assets/{}/content", asset["id"].as_str().unwrap());
    let target = content(&asset);
    let sent = async |request: Request| server.send(&fleet.own(request)).await.unwrap();

    let head = sent(Request::new("HEAD", &target)).await;
    assert_eq!(head.status, 200);
    let tag = head.header("etag").unwrap().to_owned();
    let same = sent(Request::get(&target).header("If-None-Match", &tag)).await;
    assert_eq!(same.status, 304);
    let beyond = sent(Request::get(&target).header("Range", "bytes=100000-")).await;
    assert_eq!(beyond.status, 416);
    let stranger = server.send(&Request::get(&target)).await.unwrap();
    assert_eq!((stranger.status, stranger.header("location")), (401, None));

    let link = path_of(asset["url"].as_str().unwrap());
    for request in [fleet.own(Request::get(&target)), Request::get(&link)] {
        let moved = server.send(&request).await.unwrap();
        assert_eq!(
            (moved.status, moved.body.len()),
            (302, 0),
            "{}",
            moved.text()
        );
        assert_eq!(moved.header("cache-control"), Some("no-store"));
        let address = Address::of(moved.header("location").unwrap());
        let read = address.read(&[]).await;
        assert_eq!((read.status, &*read.body), (200, page));
        for header in ["content-type", "content-disposition"] {
            assert_eq!(read.header(header), head.header(header), "{header}");
        }
        let part = address.read(&[("Range", "bytes=1-6")]).await;
        assert_eq!((part.status, &*part.body), (206, &page[1..7]));
        // It is good for these bytes as this page alone.
        let hash = |asset: &Value| {
            asset["hash"]
                .as_str()
                .unwrap()
                .trim_start_matches("blake3:")
                .to_owned()
        };
        let (own, theirs) = (hash(&asset), hash(&other));
        let cut = |hash: &str| format!("{}/{}/{hash}", &hash[..2], &hash[2..4]);
        for forged in [
            address.path.replace(&cut(&own), &cut(&theirs)),
            address.path.replace("attachment", "inline"),
            address
                .path
                .replace("X-Amz-Expires=60", "X-Amz-Expires=600"),
        ] {
            assert_ne!(forged, address.path);
            let refused = Address {
                path: forged,
                ..address
            }
            .read(&[])
            .await;
            assert_eq!(refused.status, 403, "{}", refused.text());
        }
    }

    // What is small is in no bucket.
    let small = sent(Request::get(&content(&other))).await;
    assert_eq!((small.status, small.text().as_str()), (200, "not theirs"));

    let folder = tempfile::tempdir().unwrap();
    let refused = operate(
        folder.path(),
        ["serve", "--listen", "127.0.0.1:0", "--content", "redirect"],
    )
    .await;
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("set `store` and `blobs`"),
        "{}",
        refused.stderr
    );
    assert!(server.terminate().await.unwrap().success());
}

/// An address of the store itself.
struct Address {
    host: std::net::SocketAddr,
    path: String,
}

impl Address {
    fn of(url: &str) -> Self {
        let (_, behind) = url.split_once("://").unwrap();
        let host = behind.split('/').next().unwrap();
        Self {
            host: host.parse().unwrap(),
            path: path_of(url),
        }
    }

    /// Reads as a client that follows a redirect: without a credential.
    async fn read(&self, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::get(&self.path);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.send(self.host).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_one_family_serves_as_well_and_shows_how_its_store_is() {
    let Some(fleet) = Fleet::start("servers of one family in the cloud").await else {
        return;
    };
    let keys = BUCKET_KEYS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for (program, target) in [
        ("workflow-server", "/api/v2/jobs"),
        ("router-server", "/v1/models"),
    ] {
        let flags = ["--require-credentials".to_owned()].into_iter();
        let flags = flags.chain(fleet.place.clone());
        let launch = Launch {
            arguments: flags.map(Into::into).collect(),
            variables: keys.to_vec(),
            log: Some(fleet.log_of(program)),
            ..Launch::of(program)
        };
        let started = Server::launch(&fleet.data_of(program), &launch).await;
        let server = started.unwrap_or_else(|error| panic!("{error}: {}", fleet.log(program)));
        let ready = server.send(&Request::get("/ready")).await.unwrap();
        assert_eq!(ready.status, 200, "{program}: {}", ready.text());
        // The account and its key are those of the installation.
        fleet.get(&server, target).await;
        // What the database says of itself is read beside.
        let shown = in_time(async {
            loop {
                let metrics = server.send(&Request::get("/metrics")).await.unwrap();
                if metrics.text().contains("\neasel_store_log_bytes") {
                    return metrics.text();
                }
            }
        });
        let shown = shown.await;
        for metric in [
            "easel_store_connections_used ",
            "easel_store_connections_idle ",
            "easel_store_connections_waiting ",
            "easel_store_dead_rows{table=\"jobs\"} ",
        ] {
            let line = format!("\n{metric}");
            assert!(shown.contains(&line), "{program}: {metric}\n{shown}");
        }
        assert!(server.terminate().await.unwrap().success());
    }
}
