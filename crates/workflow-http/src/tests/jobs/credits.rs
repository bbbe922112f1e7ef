//! What an account without credits or a subscription may still do.

use super::*;

/// Billing is on, and an operator granted some cents.
async fn billed(rig: &Rig, cents: i32) {
    let cause = LedgerRef::Grant(uuid::Uuid::new_v4());
    let account = principal("local").account;
    let now = rig.clock.now();
    let granted = rig.accounts.grant(&account, cause, cents, now).await;
    granted.expect("the account is there");
}

#[tokio::test]
async fn without_credits_nothing_new_is_taken_in() {
    let rig = Rig::new();
    let principal = Principal {
        billed: true,
        ..principal("local")
    };
    let server = rig.server(principal, |_| {});
    let body = json!({ "workflow": graph() });
    let refused = server.post_json("/api/v2/jobs", &body).await;
    refused.is_error(402, "insufficient_credits");
    assert_eq!(server.get("/api/v2/jobs").await.status, 200);

    billed(&rig, 1).await;
    let key = [("idempotency-key", "k")];
    let taken = submit_with(&server, &key, &body).await;
    assert_eq!(taken.status, 201);
    billed(&rig, -1).await;
    let again = submit_with(&server, &key, &body).await;
    assert_eq!(again.status, 201);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json()["id"], taken.json()["id"]);
    let other = submit_with(&server, &[("idempotency-key", "new")], &body).await;
    other.is_error(402, "insufficient_credits");
}

#[tokio::test]
async fn a_key_gives_its_job_back_whatever_became_of_what_the_job_needed() {
    let rig = Rig::new();
    let server = rig.server(principal("local"), |_| {});
    let asset = server.upload("a.png", "a picture").await;
    let reference = json!({ "__type": "core/ASSET", "info": { "id": asset["id"] } });
    let workflow = json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": reference}},
        "9": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
    });
    let body = json!({ "workflow": workflow });
    let key = [("idempotency-key", "k")];
    let taken = submit_with(&server, &key, &body).await;
    assert_eq!(taken.status, 201);
    let id = taken.json()["id"].clone();
    let again = async |server: &Server| {
        let again = submit_with(server, &key, &body).await;
        let replayed = again.header("idempotent-replayed").map(str::to_owned);
        assert_eq!(
            (again.status.as_u16(), replayed.as_deref()),
            (201, Some("true"))
        );
        assert_eq!(again.json()["id"], id);
    };

    let path = |path: &str| format!("/api/v2/{path}");
    let cancel = path(&format!("jobs/{}/cancel", id.as_str().expect("an id")));
    assert_eq!(
        server.send(Method::POST, &cancel, &[], "").await.status,
        200
    );
    let input = path(&format!("assets/{}", asset["id"].as_str().expect("an id")));
    assert_eq!(
        server.send(Method::DELETE, &input, &[], "").await.status,
        204
    );
    again(&server).await;
    let other = submit_with(&server, &[("idempotency-key", "new")], &body).await;
    other.is_error(422, "missing_asset");

    for availability in [Availability::NotReady, Availability::Stopped] {
        *rig.available.lock().expect("nothing panicked") = availability;
        again(&server).await;
    }
    let lapsed = Principal {
        subscribed: false,
        ..principal("local")
    };
    let server = rig.server(lapsed, |_| {});
    again(&server).await;
    // It may run nothing: that is why a new one is refused, whatever else is missing.
    for availability in [
        Availability::NotReady,
        Availability::Stopped,
        Availability::Ready,
    ] {
        *rig.available.lock().expect("nothing panicked") = availability;
        for key in [&[][..], &[("idempotency-key", "new")]] {
            let other = submit_with(&server, key, &body).await;
            other.is_error(403, "forbidden");
        }
    }
    let other = json!({ "workflow": graph() });
    let other = submit_with(&server, &key, &other).await;
    other.is_error(422, "idempotency_key_reuse");
}

#[tokio::test]
async fn credits_that_are_set_aside_are_not_left() {
    let rig = Rig::new();
    let principal = Principal {
        billed: true,
        ..principal("local")
    };
    let server = rig.server(principal.clone(), |_| {});
    billed(&rig, 5).await;
    let cause = LedgerRef::Generation(uuid::Uuid::nil());
    let (hour, now) = (std::time::Duration::from_secs(3600), jiff::Timestamp::now());
    let held = rig
        .accounts
        .reserve((&principal.account).into(), cause, 5, hour, now);
    held.await.expect("memory answers");
    let body = json!({ "workflow": graph() });
    let refused = server.post_json("/api/v2/jobs", &body).await;
    refused.is_error(402, "insufficient_credits");
    let released = rig.accounts.release(&principal.account, cause).await;
    released.expect("memory answers");
    server.submit().await;
}
