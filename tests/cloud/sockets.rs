//! What sockets of the older API hear: the same messages in the same order, whichever replica they are open at.

use std::collections::BTreeMap;

use it::{Message, Request, Socket};
use serde_json::json;

use super::*;

const PROMPTS: usize = 5;

async fn socket_at(fleet: &Fleet, server: &Server) -> Socket {
    let request = fleet.own(Request::get("/ws?clientId=c"));
    Socket::open(server.address, request).await.unwrap()
}

async fn prompt_at(fleet: &Fleet, server: &Server, color: usize) -> String {
    let body = json!({"prompt": tiny_graph(color), "client_id": "c"});
    let answer = fleet.send(server, Request::post_json("/api/prompt", &body));
    let id = answer.await.json()["prompt_id"].as_str().map(str::to_owned);
    id.unwrap()
}

fn is_end(message: &Message) -> bool {
    message.kind() == "executing" && message.data()["node"].is_null()
}

/// What a socket hears of prompts to the end of the last of them, by prompt. The length of the queue and how long a prompt waits
/// depend on the moment: they are left out.
async fn heard_of_prompts(socket: &mut Socket, prompts: usize) -> BTreeMap<String, Vec<Message>> {
    let mut heard: BTreeMap<String, Vec<Message>> = BTreeMap::new();
    let mut ended = 0;
    while ended < prompts {
        let message = socket.next().await.unwrap();
        if ["status", "notification"].contains(&message.kind().as_str()) {
            continue;
        }
        ended += usize::from(is_end(&message));
        let prompt = message.data()["prompt_id"].as_str();
        let prompt = prompt.unwrap_or_else(|| panic!("{message:?}")).to_owned();
        heard.entry(prompt).or_default().push(message);
    }
    heard
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_on_every_replica_hear_the_same() {
    let Some(fleet) = Fleet::start("sockets of two replicas").await else {
        return;
    };
    let (a, b) = tokio::join!(fleet.replica("a"), fleet.replica("b"));
    let (mut here, mut there) = tokio::join!(socket_at(&fleet, &a), socket_at(&fleet, &b));
    // One after the other, through the replicas in turn: any of the two may run them.
    for n in 0..PROMPTS {
        let prompt = prompt_at(&fleet, [&a, &b][n % 2], n).await;
        let (one, other) = tokio::join!(
            heard_of_prompts(&mut here, 1),
            heard_of_prompts(&mut there, 1)
        );
        assert_eq!(one, other);
        let kinds: Vec<String> = one[&prompt].iter().map(Message::kind).collect();
        for kind in [
            "execution_start",
            "progress_state",
            "executed",
            "execution_success",
        ] {
            assert!(kinds.iter().any(|heard| heard == kind), "{kinds:?}");
        }
    }
    // All at once: those of one prompt keep their order among what is told of the others.
    for n in 0..PROMPTS {
        prompt_at(&fleet, [&a, &b][n % 2], PROMPTS + n).await;
    }
    let (one, other) = tokio::join!(
        heard_of_prompts(&mut here, PROMPTS),
        heard_of_prompts(&mut there, PROMPTS)
    );
    assert_eq!(one.len(), PROMPTS);
    assert_eq!(one, other);
    for server in [a, b] {
        assert!(server.terminate().await.unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_for_a_socket_elsewhere_fails_its_job_with_a_sentence() {
    let Some(fleet) = Fleet::start("pictures for sockets of other replicas").await else {
        return;
    };
    let (api, worker) = tokio::join!(
        fleet.replica_with("api", &["--role", "api"]),
        fleet.replica_with("worker", &["--role", "worker"])
    );
    let mut socket = socket_at(&fleet, &api).await;
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": 255}},
        "2": {"class_type": "SaveImageWebsocket", "inputs": {"images": ["1", 0]}},
    });
    let body = json!({"prompt": graph, "client_id": "c"});
    let answer = fleet.send(&api, Request::post_json("/api/prompt", &body));
    let answer = answer.await.json();
    let prompt = answer["prompt_id"].as_str().unwrap();
    let heard = socket.until(|message| message.kind() == "execution_error");
    let heard = in_time(heard).await.unwrap();
    let said = heard.last().unwrap().data()["exception_message"].clone();
    assert!(said.as_str().unwrap().contains("reached nobody"), "{said}");
    let history = fleet.get(&api, &format!("/api/history/{prompt}")).await;
    let history = history.json();
    assert_eq!(history[prompt]["status"]["status_str"], "error");
    for server in [api, worker] {
        assert!(server.terminate().await.unwrap().success());
    }
}

/// A page at one replica whose subscription another one answers, as a proxy without affinity has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_hears_the_log_whichever_replica_its_subscription_reaches() {
    let Some(fleet) = Fleet::start("the log of two replicas").await else {
        return;
    };
    let (a, b) = tokio::join!(fleet.replica("a"), fleet.replica("b"));
    let (mut page, mut script) = tokio::join!(socket_at(&fleet, &a), socket_at(&fleet, &a));
    let flags = json!({"type": "feature_flags", "data": {}}).to_string();
    page.say(&flags).await.unwrap();
    page.until(|message| message.kind() == "feature_flags")
        .await
        .unwrap();
    // The panel is opened, closed and opened again; each time another replica is told.
    for (server, enabled) in [(&b, true), (&a, false), (&b, true)] {
        let subscription = json!({"enabled": enabled, "clientId": "c"}).to_string();
        let subscription = Request::new("PATCH", "/internal/logs/subscribe")
            .header("Content-Type", "application/json")
            .body(subscription.as_bytes());
        assert_eq!(fleet.send(server, subscription).await.status, 200);
    }

    // Through both of them: any of the two may run it.
    for (n, server) in [&a, &b].into_iter().enumerate() {
        let prompt = prompt_at(&fleet, server, n).await;
        let heard = page
            .until(|message| message.kind() == "logs")
            .await
            .unwrap();
        let line = heard.last().unwrap().data()["entries"][0]["m"].to_string();
        assert!(line.contains(&prompt), "{line}");
        // A client that is no page hears nothing that it did not ask this replica for.
        let heard = script.until(is_end).await.unwrap();
        assert!(heard.iter().all(|message| message.kind() != "logs"));
        // The panel that is opened later has the same lines, of both.
        for server in [&a, &b] {
            let listed = fleet.send(server, Request::get("/internal/logs")).await;
            assert!(listed.text().contains(&prompt), "{}", listed.text());
        }
    }
}
