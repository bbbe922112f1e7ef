//! Routers that are killed while another provider is asked.

use super::*;

#[tokio::test]
async fn killed_while_a_fallback_is_sent_it_is_never_sent_again_nor_billed() {
    let mut rig = rig(&[]).await;
    for round in 0..3 {
        rig.partners
            .plan(Partner::FalQueue, Plan::of(Outcome::RefuseFunds));
        rig.partners.fault(together(), Step::Submit, Fault::Stall);
        let key = format!("k{round}");
        let keyed =
            || call("?fallback_provider=together,replicate").header("Idempotency-Key", &key);
        let address = rig.server().address;
        let mut connection = it::Connection::open(address).await.unwrap();
        connection.write(&keyed().bytes(address)).await.unwrap();
        rig.partners.seen(together(), Step::Submit, round + 1).await;
        rig.kill().await;
        drop(connection);
        rig.begin().await;
        let answer = rig.send(keyed()).await;
        assert_error(
            &answer,
            502,
            "provider_error",
            "the outcome at the partner is unknown; use a new key",
            &["idempotent-replayed: true"],
        );
        assert_eq!(rig.submits(together()), round + 1);
        assert_eq!(rig.submits(Partner::FalQueue), round + 1);
    }
    assert_eq!(rig.submits(Partner::Replicate), 0);
    let record = rig.record().await;
    assert_eq!(bills(&record).iter().sum::<u64>(), 0);
    for row in record.iter().filter(|row| row.began()) {
        let serving = row.generation.as_ref().unwrap().serving.as_ref().unwrap();
        assert_eq!(
            (serving.model.provider(), serving.failed.len()),
            ("together", 1)
        );
    }
}

#[tokio::test]
async fn killed_while_a_fallback_works_its_task_is_picked_up_and_billed_once() {
    let mut rig = rig(&[]).await;
    // The first one accepted a task too, whose handle is in the row until the second one accepts.
    rig.partners
        .plan(Partner::FalQueue, Plan::of(Outcome::Fail));
    rig.partners.plan(Partner::Replicate, Plan::held());
    let keyed = || call("?fallback_provider=replicate").header("Idempotency-Key", "k");
    let address = rig.server().address;
    let mut connection = it::Connection::open(address).await.unwrap();
    connection.write(&keyed().bytes(address)).await.unwrap();
    rig.partners.seen(Partner::Replicate, Step::Poll, 1).await;
    rig.kill().await;
    drop(connection);
    let polled = rig
        .partners
        .requests_of(Partner::Replicate, Step::Poll)
        .len();
    rig.begin().await;
    let task = rig.partners.tasks(Partner::Replicate).remove(0);
    let ending = async {
        rig.partners
            .seen(Partner::Replicate, Step::Poll, polled + 1)
            .await;
        rig.partners
            .end(Partner::Replicate, &task, Outcome::Succeed);
    };
    let (answer, ()) = tokio::join!(rig.send(keyed()), ending);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header(FALLBACK), Some("replicate"));
    assert!(answer.json()["images"][0]["url"].is_string());
    assert_eq!(rig.submits(Partner::FalQueue), 1);
    assert_eq!(rig.submits(Partner::Replicate), 1);
    assert_eq!(bills(&rig.record().await), [1]);
}
