//! A rolling upgrade, as the version before sees it: the first process of the next one changes the schema, while this one runs.

use it::partners::{Outcome, Partner, Plan, Step};

use super::two::Stream;
use super::*;

/// What the next version may do: every table gets a column, and there are tables that this version does not know.
const NEXT: &str = "DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' LOOP
        EXECUTE format('ALTER TABLE %I ADD COLUMN of_next_version text', name);
    END LOOP; END $$;
    CREATE TABLE of_next_version (one bigint PRIMARY KEY);
    UPDATE migrations SET version = version + 1";

/// Everything that an account does, through one replica and through another one; each thing differs from all others.
async fn use_both(fleet: &Fleet, [one, other]: [&Server; 2], round: usize) {
    let text = format!("round {round} of {}", one.address);
    let asset = fleet
        .upload(one, &format!("{text}.txt"), text.as_bytes())
        .await;
    let content = format!("/api/v2/assets/{}/content", asset["id"].as_str().unwrap());
    assert_eq!(fleet.get(other, &content).await.text(), text);
    let link = path_of(asset["url"].as_str().unwrap());
    assert_eq!(other.send(&Request::get(&link)).await.unwrap().status, 200);
    // The same bytes again: the record is found, not made.
    fleet
        .upload(other, &format!("{text}.txt"), text.as_bytes())
        .await;

    let color = round * 100 + usize::from(one.address.port());
    let submission = || {
        let request = Request::post_json("/api/v2/jobs", &json!({"workflow": tiny_graph(color)}));
        request.header("Idempotency-Key", &text)
    };
    let job = fleet.send(one, submission()).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let again = fleet.send(other, submission()).await.json();
    assert_eq!(again["id"], job.as_str());
    let ended = fleet.ended(other, &job).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let output = ended["outputs"][0]["id"].as_str().unwrap();
    fleet
        .get(one, &format!("/api/v2/assets/{output}/content"))
        .await;
    let listed = fleet.get(other, "/api/v2/jobs?limit=5").await.json();
    assert_eq!(listed["jobs"][0]["id"], job.as_str(), "{listed:#}");
    fleet.get(one, "/api/history").await;

    for model in [AT_ONCE, POLLED] {
        let call = fleet.call(model, &format!("{model} {text}"));
        let first = in_time(one.send(&call)).await.unwrap();
        assert_eq!(first.status, 200, "{}", first.text());
        let again = in_time(other.send(&call)).await.unwrap();
        assert_eq!((again.status, again.body), (200, first.body));
    }
    let saved = Request::post_json("/api/settings/round", &json!(text));
    fleet.send(one, saved).await;
    assert_eq!(
        fleet.get(other, "/api/settings").await.json()["round"],
        text
    );
    let sign_in = Request::post_json("/api/session", &json!({"key": fleet.key}));
    let signed = one.send(&sign_in).await.unwrap();
    let cookie = signed
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    let queue = Request::get("/api/queue").header("Cookie", cookie);
    assert_eq!(other.send(&queue).await.unwrap().status, 200);
    assert_eq!(fleet.get(other, "/ready").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_goes_on_while_the_next_version_changes_the_schema() {
    if !is_possible("the next version").await {
        return;
    }
    let postgres = PostgresServer::start(&["fsync=off"]);
    let Some(fleet) = Fleet::over(postgres.url("postgres")).await else {
        return;
    };
    // The connections of a replica are few, so that all of them have prepared their statements.
    let few = ["--store-connections", "3"];
    let (a, b) = tokio::join!(fleet.replica_with("a", &few), fleet.replica_with("b", &few));
    for round in 0..2 {
        use_both(&fleet, [&a, &b], round).await;
        use_both(&fleet, [&b, &a], round).await;
    }
    // A call and a stream that are under way meanwhile.
    fleet.partners.plan(Partner::Bfl, Plan::held());
    let polls = fleet.partners.requests_of(Partner::Bfl, Step::Poll).len();
    let call = fleet.call(POLLED, "under way");
    let under_way = a.send(&call);
    let changing = async {
        in_time(fleet.partners.seen(Partner::Bfl, Step::Poll, polls + 1)).await;
        postgres.execute("postgres", NEXT).await;
        let task = fleet.partners.tasks(Partner::Bfl).pop().unwrap();
        fleet.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    };
    let (answer, ()) = tokio::join!(in_time(under_way), changing);
    let answer = answer.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    for round in 2..4 {
        use_both(&fleet, [&a, &b], round).await;
        use_both(&fleet, [&b, &a], round).await;
    }
    let job = fleet.submit(&a, &tiny_graph(7)).await;
    let stream = Stream::open(&fleet, &b, &job).await;
    let told = stream.rest("event: ").await;
    assert_eq!(told.last().unwrap().1["status"], "succeeded", "{told:#?}");
    // 4 rounds through each, with a bill for each call.
    let charges = fleet.charges("a").await;
    assert_eq!(
        charges.iter().sum::<i64>(),
        -(8 * (1 + 4) + 4),
        "{charges:?}"
    );
    for name in ["a", "b"] {
        let log = fleet.log(name);
        assert!(!log.contains("cached plan"), "{log}");
    }
    assert!(a.terminate().await.unwrap().success());
    // A process of this version that starts now is told so.
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["serve", "--listen", "127.0.0.1:0"];
    arguments.extend(fleet.place.iter().map(String::as_str));
    let refused = operate(folder.path(), arguments).await;
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("start the newer program"),
        "{}",
        refused.stderr
    );
    use_both(&fleet, [&b, &b], 9).await;
    assert!(b.terminate().await.unwrap().success());
}
