//! An installation that moves into a database and a bucket and back, as its operator moves it and its clients see it.

use std::path::Path;
use std::process::Stdio;

use it::partners::Outcome;
use it::partners::Plan;
use it::{Connection, DataDirectory, Operated, random::Random};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::two::{edit, ready};
use super::*;

/// An installation, and the database and the bucket that it moves to.
struct Move {
    it: DataDirectory,
    folder: tempfile::TempDir,
    database: String,
    blobs: String,
}

/// What has to be the same wherever the installation is.
struct Seen {
    ledger: String,
    usage: String,
    account: String,
}

impl Move {
    async fn prepare(test: &str) -> Option<Self> {
        if !is_possible(test).await {
            return None;
        }
        let bucket = testing::bucket()?;
        let endpoint = bucket.endpoint.expect("it is a server of this machine");
        let folder = tempfile::tempdir().unwrap();
        Some(Self {
            it: DataDirectory::make(&binary(), &folder.path().join("old"))
                .await
                .unwrap(),
            folder,
            database: testing::empty_database().await,
            blobs: format!(
                "s3://{}/{}?endpoint={endpoint}",
                bucket.bucket, bucket.prefix
            ),
        })
    }

    fn directory(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// The words that name the database and the bucket.
    fn cloud(&self) -> [&str; 2] {
        [&self.database, &self.blobs]
    }

    fn command(&self, from: &[&str], to: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.arg("migrate").arg("--from").args(from);
        command.arg("--to").args(to);
        command.envs(BUCKET_KEYS).env_remove("EASEL_STORE");
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn migrate(&self, from: &[&str], to: &[&str]) -> Operated {
        let output = self.command(from, to).output().await.unwrap();
        Operated {
            code: output.status.code().expect("no signal ends it"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Moves, killed again and again after it told of some lines more each time, until it ends by itself.
    async fn migrate_with_kills(&self, from: &[&str], to: &[&str], seed: u64) {
        let mut random = Random::of(seed);
        let (mut kills, mut lines_before) = (0, 0);
        loop {
            let mut child = self
                .command(from, to)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
            lines_before += random.below(4);
            let (mut left, mut said) = (lines_before, String::new());
            let is_over = loop {
                if left == 0 {
                    break false;
                }
                left -= 1;
                match in_time(lines.next_line()).await.unwrap() {
                    Some(line) => said.push_str(&line),
                    None => break true,
                }
            };
            if is_over {
                let ended = in_time(child.wait()).await.unwrap();
                assert!(ended.success(), "{said}");
                break;
            }
            child.kill().await.unwrap();
            kills += 1;
        }
        assert!(kills > 3, "{kills}");
    }

    /// Follows the installation to the database, with a directory for its server.
    fn follow_to_cloud(&mut self) {
        let path = self.folder.path().join("replica");
        let place = [
            ("EASEL_STORE", self.database.clone()),
            ("EASEL_BLOBS", self.blobs.clone()),
        ];
        let keys = BUCKET_KEYS.map(|(name, value)| (name, value.to_owned()));
        let variables = place.into_iter().chain(keys);
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        self.it.moved(&path, variables.collect());
    }

    async fn start(&self) -> Server {
        let mut command = Command::new(binary());
        command.stderr(Stdio::null());
        command.env("BFL_API_KEY", Partner::Bfl.secret());
        let started = self.it.start_as(command, ["--require-credentials"]).await;
        started.expect("it starts")
    }

    async fn assert_knows_all(&self, server: &Server) {
        let mut wrong = Vec::new();
        for fact in &self.it.acknowledged.facts {
            wrong.extend(in_time(fact.ask(server)).await.err());
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// What operators are told, without what changes by being asked.
    async fn seen(&self) -> Seen {
        let it = &self.it;
        let told = async |words: &[&str]| it.succeed(words).await.unwrap();
        Seen {
            ledger: told(&["account", "credit", "acme", "--json"]).await,
            usage: told(&["usage", "export"]).await,
            account: told(&["account", "show", "acme", "--json"]).await,
        }
    }

    async fn submit(&self, server: &Server, graph: &Value) -> String {
        let request = Request::post_json("/api/v2/jobs", &json!({ "workflow": graph }));
        let answer = server.send(&self.it.own(request)).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    async fn ended(&self, server: &Server, job: &str) -> Value {
        let target = format!("/api/v2/jobs/{job}");
        let events = self.it.own(Request::get(&format!("{target}/events")));
        in_time(server.send(&events)).await.unwrap();
        let job = self.it.own(Request::get(&target));
        server.send(&job).await.unwrap().json()
    }

    fn submits(&self, partner: Partner) -> usize {
        self.it.partners().requests_of(partner, Step::Submit).len()
    }
}

impl Seen {
    fn assert_same(&self, later: &Self) {
        assert_eq!(self.ledger, later.ledger);
        assert_eq!(self.usage, later.usage);
        assert_eq!(self.account, later.account);
    }
}

/// Signs a browser in, and answers the request that works as long as its session does.
async fn browser(it: &Move, server: &Server) -> Request {
    let sign_in = Request::post_json("/api/session", &json!({ "key": it.it.key() }));
    let answer = server.send(&sign_in).await.unwrap();
    let cookie = answer.header("set-cookie").expect("it signs in");
    let cookie = cookie.split(';').next().unwrap_or_default();
    Request::get("/api/queue").header("Cookie", cookie)
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_moves_into_a_database_and_back_through_kills() {
    let Some(mut it) = Move::prepare("a move").await else {
        return;
    };
    let old = it.directory("old");
    let server = it.start().await;
    it.it.use_it(&server, "first").await.unwrap();
    let session = browser(&it, &server).await;
    assert_eq!(server.send(&session).await.unwrap().status, 200);
    let jobs = it.it.own(Request::get("/api/v2/jobs"));
    let jobs = server.send(&jobs).await.unwrap().json();
    let done = it
        .ended(&server, jobs["jobs"][0]["id"].as_str().unwrap())
        .await;
    let link = path_of(done["outputs"][0]["url"].as_str().unwrap());
    let link = Request::get(&link);
    assert_eq!(server.send(&link).await.unwrap().status, 200);

    let refused = it.migrate(&[&old], &it.cloud()).await;
    assert_eq!(refused.code, 1, "{}", refused.stdout);
    assert!(
        refused.stderr.contains("in use by another process"),
        "{}",
        refused.stderr
    );

    // A job and a call that wait for their partner, and jobs that may wait or run when the server is killed.
    let partners = it.it.partners();
    for _ in 0..2 {
        partners.plan(Partner::Bfl, Plan::held());
    }
    partners.answer_with(Partner::Bfl, "application/json", ready());
    let held = it.submit(&server, &edit("slow")).await;
    in_time(partners.seen(Partner::Bfl, Step::Poll, 1)).await;
    let body = json!({"prompt": "a cat"});
    let call = Request::post_json(&format!("/v1/models/{POLLED}"), &body);
    let call = it.it.own(call.header("Idempotency-Key", "under way"));
    let mut connection = Connection::open(server.address).await.unwrap();
    connection.write(&call.bytes(server.address)).await.unwrap();
    in_time(partners.seen(Partner::Bfl, Step::Submit, 2)).await;
    let tasks = partners.tasks(Partner::Bfl);
    let last = tasks.last().unwrap();
    let polled = |asked: &[it::partners::Recorded]| asked.iter().any(|it| it.target.contains(last));
    let mut polls = 2;
    while !polled(&in_time(partners.seen(Partner::Bfl, Step::Poll, polls)).await) {
        polls += 1;
    }
    let mut waiting = Vec::new();
    for n in 0..8 {
        waiting.push(it.submit(&server, &tiny_graph(n)).await);
    }
    server.kill().await.unwrap();
    drop(connection);
    let before = it.seen().await;
    let (calls, submits) = (it.it.submissions(), it.submits(Partner::Bfl));

    it.migrate_with_kills(&[&old], &it.cloud(), 1).await;
    let again = it.migrate(&[&old], &it.cloud()).await;
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(!again.stdout.contains(" 0 rows"), "{}", again.stdout);
    let refused = operate(Path::new(&old), ["serve", "--listen", "127.0.0.1:0"]).await;
    assert!(
        refused.stderr.contains("was moved to"),
        "{}",
        refused.stderr
    );

    it.follow_to_cloud();
    before.assert_same(&it.seen().await);
    let server = it.start().await;
    it.assert_knows_all(&server).await;
    for request in [&session, &link] {
        assert_eq!(
            server.send(request).await.unwrap().status,
            200,
            "{request:?}"
        );
    }
    for job in &waiting {
        let job = it.ended(&server, job).await;
        assert_eq!(job["status"], "succeeded", "{job:#}");
    }
    for task in it.it.partners().tasks(Partner::Bfl) {
        it.it.partners().end(Partner::Bfl, &task, Outcome::Succeed);
    }
    let edited = it.ended(&server, &held).await;
    assert_eq!(edited["status"], "succeeded", "{edited:#}");
    // The server took the call over, and whoever asks again is answered with its result.
    let answer = in_time(server.send(&call)).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        (it.it.submissions(), it.submits(Partner::Bfl)),
        (calls, submits)
    );
    it.it.use_it(&server, "second").await.unwrap();
    it.it.end(server).await.unwrap();
    let before = it.seen().await;
    let calls = it.it.submissions();

    let new = it.directory("new");
    it.migrate_with_kills(&it.cloud(), &[&new], 2).await;
    let refused = it.it.operate(&["check"]).await.unwrap();
    assert!(
        refused.stderr.contains("was moved to"),
        "{}",
        refused.stderr
    );
    it.it.moved(Path::new(&new), Vec::new());
    before.assert_same(&it.seen().await);
    let sound = it.it.succeed(&["check"]).await.unwrap();
    assert!(sound.contains("is sound"), "{sound}");
    let server = it.start().await;
    it.assert_knows_all(&server).await;
    for request in [&session, &link] {
        assert_eq!(
            server.send(request).await.unwrap().status,
            200,
            "{request:?}"
        );
    }
    let replayed = server.send(&call).await.unwrap();
    assert_eq!((replayed.status, &replayed.body), (200, &answer.body));
    for job in waiting.iter().chain([&held]) {
        assert_eq!(it.ended(&server, job).await["status"], "succeeded");
    }
    let job = it.submit(&server, &tiny_graph(99)).await;
    assert_eq!(it.ended(&server, &job).await["status"], "succeeded");
    it.it.end(server).await.unwrap();
    assert_eq!(
        (it.it.submissions(), it.submits(Partner::Bfl)),
        (calls, submits)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_output_is_in_the_database_alone_and_moves_back_with_it() {
    let Some(mut it) = Move::prepare("a small output in the database").await else {
        return;
    };
    let moved = it.migrate(&[&it.directory("old")], &it.cloud()).await;
    assert_eq!(moved.code, 0, "{}", moved.stderr);
    it.follow_to_cloud();
    let server = it.start().await;
    let job = it.submit(&server, &tiny_graph(7)).await;
    let job = it.ended(&server, &job).await;
    let link = path_of(job["outputs"][0]["url"].as_str().unwrap());
    let link = Request::get(&link);
    let picture = server.send(&link).await.unwrap();
    assert_eq!(picture.status, 200, "{}", picture.text());
    assert!((1..16_384).contains(&picture.body.len()));
    it.it.end(server).await.unwrap();
    assert_eq!(testing::objects(&it.blobs).await, 0);

    let server = it.start().await;
    let again = server.send(&link).await.unwrap();
    assert_eq!((again.status, &again.body), (200, &picture.body));
    it.it.end(server).await.unwrap();
    let sound = it.it.succeed(&["check"]).await.unwrap();
    assert!(sound.contains("is sound"), "{sound}");

    let new = it.directory("new");
    let moved = it.migrate(&it.cloud(), &[&new]).await;
    assert_eq!(moved.code, 0, "{}", moved.stderr);
    it.it.moved(Path::new(&new), Vec::new());
    let sound = it.it.succeed(&["check"]).await.unwrap();
    assert!(sound.contains("is sound"), "{sound}");
    let server = it.start().await;
    let again = server.send(&link).await.unwrap();
    assert_eq!((again.status, &again.body), (200, &picture.body));
    it.it.end(server).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn places_that_cannot_be_moved_to_are_told_with_what_to_do() {
    let Some(it) = Move::prepare("a move that is refused").await else {
        return;
    };
    let (old, missing) = (it.directory("old"), it.directory("missing"));
    for (from, to, code, said) in [
        (
            vec![missing.as_str()],
            it.cloud().to_vec(),
            1,
            "there is no installation in",
        ),
        (
            it.cloud().to_vec(),
            vec![missing.as_str()],
            1,
            "there is no installation in",
        ),
        (vec![old.as_str()], vec![old.as_str()], 1, "is not empty"),
        (
            vec![old.as_str()],
            vec!["postgres://localhost/x"],
            2,
            "a database and a bucket",
        ),
    ] {
        let refused = it.migrate(&from, &to).await;
        assert_eq!(refused.code, code, "{from:?} {to:?} {}", refused.stderr);
        assert!(
            refused.stderr.contains(said),
            "{from:?} {to:?} {}",
            refused.stderr
        );
    }
    assert!(
        !Path::new(&missing).exists(),
        "nothing is made of a mistake"
    );
    let other = it.directory("other");
    let made = DataDirectory::make(&binary(), Path::new(&other)).await;
    made.unwrap();
    let moved = it.migrate(&[&old], &it.cloud()).await;
    assert_eq!(moved.code, 0, "{}", moved.stderr);
    assert!(
        moved.stdout.contains("Start the server over that place"),
        "{}",
        moved.stdout
    );
    let refused = it.migrate(&[&other], &it.cloud()).await;
    assert!(
        refused.stderr.contains("holds an installation already"),
        "{}",
        refused.stderr
    );
    let refused = it.migrate(&[&old], &[&it.directory("third")]).await;
    assert!(
        refused.stderr.contains("was moved to"),
        "{}",
        refused.stderr
    );
}
