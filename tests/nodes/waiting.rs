//! While a node waits: no slot is held, a cancel is heard, and nothing is asked for twice whatever happens.

use it::partners::Plan;

use super::*;

#[tokio::test]
async fn a_job_that_waits_for_a_partner_holds_no_slot() {
    let rig = Rig::with(&["--job-slots", "1"], &[]).await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    rig.partners
        .answer_with(Partner::Bfl, "application/json", ready(&edited()));
    let picture = rig.upload(&small()).await;
    let waiting = rig.submit(&edit(&picture, "slow")).await;
    // Several looks: it really waits.
    rig.partners.seen(Partner::Bfl, Step::Poll, 3).await;

    let other = json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": picture}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "other"}},
    });
    let job = rig.run(&other).await;
    assert_eq!(decoded(&rig.output(&job).await), small());
    let job = rig.get(&format!("/api/v2/jobs/{waiting}")).await;
    assert_eq!(job["status"], "running", "{job:#}");

    let task = rig.partners.tasks(Partner::Bfl).remove(0);
    rig.partners
        .end(Partner::Bfl, &task, it::partners::Outcome::Succeed);
    let job = rig.ended(&waiting).await;
    assert_eq!(decoded(&rig.output(&job).await), edited());
}

#[tokio::test]
async fn a_cancel_ends_the_waiting() {
    let rig = Rig::start().await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    let picture = rig.upload(&small()).await;
    let id = rig.submit(&edit(&picture, "never")).await;
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;
    let answer = rig
        .send(Request::new("POST", &format!("/api/v2/jobs/{id}/cancel")))
        .await;
    assert!(answer.status < 300, "{}", answer.text());
    assert_eq!(rig.ended(&id).await["status"], "canceled");

    // As the older API asks.
    rig.partners.plan(Partner::Bfl, Plan::held());
    let id = rig.submit(&edit(&picture, "never again")).await;
    rig.partners.seen(Partner::Bfl, Step::Submit, 2).await;
    let body = json!({"prompt_id": id});
    let answer = rig.send(Request::post_json("/api/interrupt", &body)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(rig.ended(&id).await["status"], "canceled");
}

#[tokio::test]
async fn a_kill_while_it_waits_pays_once() {
    let mut rig = Rig::start().await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    rig.partners
        .answer_with(Partner::Bfl, "application/json", ready(&edited()));
    let picture = rig.upload(&small()).await;
    let id = rig.submit(&edit(&picture, "slow")).await;
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;
    rig.kill().await;
    rig.begin().await;
    let before = rig.partners.requests_of(Partner::Bfl, Step::Poll).len();
    rig.partners
        .seen(Partner::Bfl, Step::Poll, before + 1)
        .await;
    let task = rig.partners.tasks(Partner::Bfl).remove(0);
    rig.partners
        .end(Partner::Bfl, &task, it::partners::Outcome::Succeed);
    let job = rig.ended(&id).await;
    assert_eq!(decoded(&rig.output(&job).await), edited());
    assert_eq!(rig.submits(Partner::Bfl), 1);
    assert_eq!(rig.spent("acme").await, PRICE);
}

#[tokio::test]
async fn more_nodes_than_calls_at_a_time_take_their_turns() {
    let mut rig = Rig::with(&["--concurrent-calls", "1"], &[]).await;
    let body = json!({"data": [{"b64_json": base64_of(&edited())}]}).to_string();
    rig.partners
        .answer_with(Partner::OpenaiImages, "application/json", body);
    let mut graph = json!({});
    for n in 0..4 {
        let (made, saved) = ((2 * n).to_string(), (2 * n + 1).to_string());
        graph[&made] = json!({"class_type": AT_ONCE, "inputs": {"prompt": format!("cat {n}")}});
        graph[&saved] = json!({"class_type": "SaveImage", "inputs": {"images": [made, 0], "filename_prefix": "cat"}});
    }
    let job = rig.run(&graph).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(job["outputs"].as_array().map(Vec::len), Some(4));
    assert_eq!(rig.submits(Partner::OpenaiImages), 4);
    assert!(rig.spent("acme").await > 0);
}
