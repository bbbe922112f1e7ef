//! Usage by API key: what each key called and what it cost, in every report.

use super::limits::operate;
use super::*;

#[tokio::test]
async fn calls_and_cents_are_told_by_api_key() {
    let mut rig = Rig::start().await;
    let first = operate(&rig, &["key", "list", "acme", "--json"]).await;
    let first: Value = serde_json::from_str(&first).unwrap();
    let first = first[0]["id"].as_str().unwrap().to_owned();
    let text = operate(&rig, &["key", "add", "acme"]).await;
    let text = text.trim().to_owned();
    let second = text["easel_".len()..][..8].to_owned();
    let with_second = |request: Request| request.header("Authorization", &format!("Bearer {text}"));

    // With and without an idempotency key, waiting and queued, a replay, and one that is refused.
    for _ in 0..2 {
        let answered = rig.call(AT_ONCE, &prompt("a")).await;
        assert_eq!(answered.status, 200, "{}", answered.text());
    }
    let keyed = || {
        let request = Request::post_json(&path_of(AT_ONCE), &prompt("b"));
        with_second(request).header("Idempotency-Key", "once")
    };
    let answered = rig.send(keyed()).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    let replayed = of("acme", Request::post_json(&path_of(AT_ONCE), &prompt("b")));
    let replayed = rig.send(replayed.header("Idempotency-Key", "once")).await;
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    let queued = Request::post_json(&format!("{}/requests", path_of(AT_ONCE)), &prompt("c"));
    let queued = with_second(queued).header("X-Service-Label", "team=blue");
    let queued = rig.send(queued).await;
    assert_eq!(queued.status, 201, "{}", queued.text());
    let result = format!(
        "{}/requests/{}",
        path_of(AT_ONCE),
        queued.json()["request_id"].as_str().unwrap()
    );
    while rig.get(&result).await.status == 202 {}
    let refused = rig
        .send(with_second(Request::post_json(
            &path_of(AT_ONCE),
            &json!({}),
        )))
        .await;
    assert_eq!(refused.status, 422, "{}", refused.text());

    let report = async |rig: &Rig, query: &str| {
        let report = rig.get(&format!("/v1/usage?{query}")).await;
        assert_eq!(report.status, 200, "{}", report.text());
        report.json()["data"].as_array().unwrap().clone()
    };
    // A call is written down once its answer was delivered, which its caller cannot see.
    let calls = |rows: &[Value]| {
        rows.iter()
            .map(|row| row["calls"].as_u64().unwrap())
            .sum::<u64>()
    };
    while calls(&report(&rig, "by=key").await) < 6 {}
    rig.kill().await;
    rig.begin().await;
    let cents = report(&rig, "by=model").await[0]["charge_cents"]
        .as_u64()
        .unwrap();
    assert!(cents > 0 && cents % 4 == 0, "{cents}");
    let each = cents / 4;
    let mut expected = vec![
        (json!(first), 3, 2, 2 * each),
        (json!(second), 3, 2, 2 * each),
    ];
    expected.sort_by_key(|row| row.0.to_string());
    let told = |rows: &[Value]| -> Vec<(Value, u64, u64, u64)> {
        let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
        let rows = rows.iter().map(|row| {
            let sums = ["calls", "generations", "charge_cents"].map(|name| number(row, name));
            (row["api_key"].clone(), sums[0], sums[1], sums[2])
        });
        rows.collect()
    };
    assert_eq!(told(&report(&rig, "by=key").await), expected);
    let by_day = report(&rig, "by=day,key").await;
    assert_eq!(told(&by_day), expected);
    assert!(by_day.iter().all(|row| row["day"].is_string()));
    let labelled = report(&rig, "by=key&label=team").await;
    let blue: Vec<&Value> = labelled
        .iter()
        .filter(|row| row["label"] == "blue")
        .collect();
    assert_eq!((blue.len(), &blue[0]["api_key"]), (1, &json!(second)));
    assert!(report(&rig, "by=model").await[0].get("api_key").is_none());
    assert_eq!(rig.get("/v1/usage?by=account").await.status, 400);

    let totals = operate(&rig, &["usage", "totals", "--by", "key"]).await;
    let line = format!("acme,{AT_ONCE},{second},3,2,2,{}", 2 * each);
    assert!(totals.lines().any(|it| it == line), "{totals}");
    let spans = [
        "--from",
        "2026-01-01T00:00:00Z",
        "--until",
        "2026-01-03T00:00:00Z",
    ];
    let words = ["usage", "totals", "--by", "key,day"]
        .into_iter()
        .chain(spans);
    let totals = operate(&rig, &words.collect::<Vec<_>>()).await;
    assert!(
        totals.starts_with("day,workspace,model,api_key,calls,"),
        "{totals}"
    );
    let exported = operate(&rig, &["usage", "export"]).await;
    let rows: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of_second = rows.iter().filter(|row| row["api_key"] == json!(second));
    assert_eq!((rows.len(), of_second.count()), (6, 3));
    assert!(!exported.contains(&text[14..]), "the key itself is nowhere");
}
