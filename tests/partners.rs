//! The simulated partners themselves: what is built on them is worth what they are.

use it::partners::{Fault, Outcome, Partner, Partners, Plan, Step, console};
use it::{Answer, Connection, Request};
use serde_json::json;

fn submission(key: &str) -> Request {
    let body = json!({"prompt": "a cat"});
    Request::post_json("/bfl/v1/flux-pro-1.1", &body).header("X-Key", key)
}

async fn sent(partners: &Partners, request: Request) -> Answer {
    request.send(partners.address()).await.unwrap()
}

async fn submit(partners: &Partners) -> Answer {
    sent(partners, submission(&Partner::Bfl.secret())).await
}

async fn poll(partners: &Partners, task: &str) -> Answer {
    let request = Request::get(&format!("/bfl/v1/get_result?id={task}"));
    sent(partners, request.header("x-key", &Partner::Bfl.secret())).await
}

#[tokio::test]
async fn every_byte_is_recorded() {
    let partners = Partners::start().await.unwrap();
    let request = submission("wrong").body(&b"{ \"prompt\" :1.0 }"[..]);
    let sent = request.bytes(partners.address());
    let answer = request.send(partners.address()).await.unwrap();
    assert_eq!(answer.status, 401);
    let seen = partners.seen(Partner::Bfl, Step::Submit, 1).await;
    assert_eq!(seen[0].raw, sent);
    assert_eq!(seen[0].body, b"{ \"prompt\" :1.0 }");
    assert_eq!(seen[0].target, "/v1/flux-pro-1.1");
    assert!(partners.tasks(Partner::Bfl).is_empty());
}

#[tokio::test]
async fn a_task_ends_when_it_is_told_to() {
    let partners = Partners::start().await.unwrap();
    partners.plan(Partner::Bfl, Plan::held());
    let accepted = submit(&partners).await.json();
    assert_eq!(accepted["id"], "task-1");
    for _ in 0..3 {
        assert_eq!(poll(&partners, "task-1").await.json()["status"], "Pending");
    }
    partners.end(Partner::Bfl, "task-1", Outcome::Moderate);
    let over = poll(&partners, "task-1").await.json();
    assert_eq!(over["status"], "Content Moderated");
}

#[tokio::test]
async fn a_fault_meets_one_request_and_acts_as_it_says() {
    let partners = Partners::start().await.unwrap();
    partners.fault(Partner::Bfl, Step::Submit, Fault::Status(503));
    partners.fault(Partner::Bfl, Step::Submit, Fault::CutAfterRequest);
    assert_eq!(submit(&partners).await.status, 503);
    assert!(partners.tasks(Partner::Bfl).is_empty());
    let request = submission(&Partner::Bfl.secret());
    assert!(request.send(partners.address()).await.is_err());
    assert_eq!(partners.tasks(Partner::Bfl), ["task-1"]);
    assert_eq!(submit(&partners).await.json()["id"], "task-2");
}

#[tokio::test]
async fn a_cut_answer_stops_in_its_middle() {
    let partners = Partners::start().await.unwrap();
    partners.fault(Partner::Bfl, Step::Submit, Fault::CutMidAnswer);
    let mut connection = Connection::open(partners.address()).await.unwrap();
    let request = submission(&Partner::Bfl.secret());
    let bytes = request.bytes(partners.address());
    connection.write(&bytes).await.unwrap();
    let (status, headers) = connection.head().await.unwrap();
    assert_eq!(status, 200);
    let announced: usize = headers.get("content-length").unwrap().parse().unwrap();
    let body = connection.until_closed().await.unwrap();
    assert_eq!(body.len(), announced / 2);
}

#[tokio::test]
async fn a_stalled_answer_waits_for_its_release() {
    let partners = Partners::start().await.unwrap();
    partners.fault(Partner::Bfl, Step::Submit, Fault::Stall);
    let release = async {
        partners.seen(Partner::Bfl, Step::Submit, 1).await;
        partners.release();
    };
    let (answer, ()) = tokio::join!(submit(&partners), release);
    assert_eq!(answer.json()["id"], "task-1");
}

#[tokio::test]
async fn lines_of_text_drive_them_too() {
    let partners = Partners::start().await.unwrap();
    let told = |line: &str| console::command(&partners, line);
    assert_eq!(told("plan bfl succeed held"), Ok(json!("done")));
    assert_eq!(told("fault bfl poll status 503"), Ok(json!("done")));
    submit(&partners).await;
    assert_eq!(told("tasks bfl"), Ok(json!(["task-1"])));
    assert_eq!(poll(&partners, "task-1").await.status, 503);
    assert_eq!(poll(&partners, "task-1").await.json()["status"], "Pending");
    assert_eq!(told("end bfl task-1 succeed"), Ok(json!("done")));
    assert_eq!(poll(&partners, "task-1").await.json()["status"], "Ready");
    let seen = told("requests bfl submit").unwrap();
    assert_eq!(seen[0]["target"], "/v1/flux-pro-1.1");
    assert_eq!(seen[0]["body"], "eyJwcm9tcHQiOiJhIGNhdCJ9");
    for wrong in [
        "",
        "plan nobody fail",
        "end bfl task-9 fail",
        "fault bfl poll rain",
    ] {
        assert!(told(wrong).is_err(), "{wrong}");
    }
    assert_eq!(console::directory(&partners).len(), Partner::all().count());
}
