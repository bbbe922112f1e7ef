//! What an account has: credentials, and things that requests can name, each of a kind.

use std::collections::BTreeMap;
use std::path::Path;

use it::{Answer, Form, Request, Server, operate};
use serde_json::{Value, json};

use super::calls::PIXEL;

/// What a request can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Job,
    Asset,
    Hash,
    File,
    UserFile,
    Setting,
    Cursor,
    Key,
    Label,
    Client,
    Link,
    Request,
}

/// How a caller shows who it is.
#[derive(Clone, Debug)]
pub(super) struct Credential {
    pub(super) kind: &'static str,
    pub(super) header: (&'static str, String),
}

/// An account with what it has.
#[derive(Debug)]
pub(super) struct Stock {
    /// A word that is in everything it says and nowhere else.
    pub(super) word: &'static str,
    pub(super) credentials: Vec<Credential>,
    /// The key that its things were made with.
    pub(super) key: String,
    /// What nobody may take away.
    pub(super) things: BTreeMap<Kind, Vec<String>>,
    /// What it may delete and overwrite itself.
    pub(super) spare: BTreeMap<Kind, Vec<String>>,
    /// Its assets with their bytes.
    contents: Vec<(String, String)>,
}

/// The secret of the tokens.
pub(super) const JWT_SECRET: &str = "--jwt-secret=a secret of more than 32 bytes, for tests alone";

async fn command(data: &Path, arguments: &[&str]) -> String {
    let done = operate(data, arguments).await;
    assert_eq!(done.code, 0, "{arguments:?}: {}", done.stderr);
    done.stdout.trim_end().to_owned()
}

/// A graph whose output is named after the account.
pub(super) fn graph(word: &str, color: usize) -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": color}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": word}},
    })
}

impl Stock {
    /// Makes an account and everything it has.
    pub(super) async fn make(data: &Path, server: &Server, id: &str, word: &'static str) -> Self {
        command(data, &["account", "add", id]).await;
        let key = command(data, &["key", "add", id]).await;
        let second = command(data, &["key", "add", id]).await;
        let reader = command(data, &["key", "add", id, "--scopes", "jobs:read"]).await;
        let issue = [
            "token",
            "issue",
            "--workspace",
            id,
            "--ttl",
            "2h",
            JWT_SECRET,
        ];
        let token = command(data, &issue).await;
        let signed_in = Request::post_json("/api/session", &json!({"key": second}));
        let cookie = server.send(&signed_in).await.unwrap();
        let cookie = cookie.header("set-cookie").unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let bearer = |text: &str| ("Authorization", format!("Bearer {text}"));
        let credential = |kind, header| Credential { kind, header };
        let mut stock = Self {
            word,
            credentials: vec![
                credential("API key", ("X-API-Key", key.clone())),
                credential("API key as bearer", bearer(&second)),
                credential("token", bearer(&token)),
                credential("cookie", ("Cookie", cookie)),
                credential("key that reads", bearer(&reader)),
            ],
            key,
            things: BTreeMap::new(),
            spare: BTreeMap::new(),
            contents: Vec::new(),
        };
        for n in 0..4 {
            stock.upload(server, n).await;
            stock.run(server, n).await;
            stock.save(server, n).await;
            stock.queue(server, n).await;
        }
        stock.derive(server).await;
        stock
    }

    fn has(&mut self, kind: Kind, name: impl Into<String>, spare: bool) {
        let things = if spare {
            &mut self.spare
        } else {
            &mut self.things
        };
        things.entry(kind).or_default().push(name.into());
    }

    async fn send(&self, server: &Server, request: Request) -> Answer {
        let request = request.header("X-API-Key", &self.key);
        let answer = server.send(&request).await.unwrap();
        assert!(answer.status < 300, "{}: {}", answer.status, answer.text());
        answer
    }

    async fn upload(&mut self, server: &Server, n: usize) {
        let (name, content) = (
            format!("{}-{n}.txt", self.word),
            format!("{} says {n}", self.word),
        );
        let form = Form::new()
            .field("content_type", "text/plain")
            .field("file_path", &name)
            .file("file", &name, content.as_bytes());
        let request =
            Request::new("POST", "/api/v2/assets").header("Content-Type", &Form::content_type());
        let asset = self.send(server, request.body(form.body())).await.json();
        let text = |field: &str| asset[field].as_str().unwrap().to_owned();
        let spare = n == 3;
        self.has(Kind::Asset, text("id"), spare);
        self.has(Kind::File, name, false);
        self.has(Kind::Hash, text("hash").replace("blake3:", ""), false);
        if !spare {
            self.contents.push((text("id"), content));
        }
    }

    /// A job under an id of its own, or one that was chosen, to its end.
    async fn run(&mut self, server: &Server, n: usize) {
        let key = format!("{}-key-{n}", self.word);
        let body = json!({"workflow": graph(self.word, n), "metadata": {"of": self.word}});
        let request = Request::post_json("/api/v2/jobs", &body).header("Idempotency-Key", &key);
        let job = self.send(server, request).await.json();
        let id = job["id"].as_str().unwrap().to_owned();
        let follow = Request::get(&format!("/api/v2/jobs/{id}/events"));
        let told = self.send(server, follow).await.text();
        assert!(told.contains("succeeded"), "{told}");
        let job = self
            .send(server, Request::get(&format!("/api/v2/jobs/{id}")))
            .await;
        let output = job.json()["outputs"][0].clone();
        let asset = output["id"].as_str().unwrap_or_else(|| panic!("{output}"));
        self.has(Kind::Asset, asset, false);
        self.has(Kind::Job, id, n == 3);
        self.has(Kind::Key, key, false);

        let chosen = uuid::Uuid::new_v4().to_string();
        let body = json!({
            "prompt": graph(self.word, 100 + n), "prompt_id": chosen, "client_id": format!("{}-client", self.word),
            "workflow_id": format!("{}-flow", self.word),
        });
        self.send(server, Request::post_json("/api/prompt", &body))
            .await;
        self.has(Kind::Job, chosen, n == 3);
    }

    async fn save(&mut self, server: &Server, n: usize) {
        let name = format!("workflows%2F{}-{n}.json", self.word);
        let path = format!("/api/userdata/{name}");
        self.send(
            server,
            Request::new("POST", &path).body(format!("\"{}\"", self.word)),
        )
        .await;
        self.has(Kind::UserFile, name, n == 3);
        let setting = format!("{}.{n}", self.word);
        let path = format!("/api/settings/{setting}");
        self.send(server, Request::post_json(&path, &json!(self.word)))
            .await;
        self.has(Kind::Setting, setting, n == 3);
        self.has(Kind::Label, self.word, false);
        self.has(Kind::Client, format!("{}-client", self.word), false);
    }

    /// A queued call of a model.
    async fn queue(&mut self, server: &Server, n: usize) {
        let input = json!({"image": PIXEL, "width": 2, "height": 2});
        let request = Request::post_json("/v1/models/easel/resize/requests", &input)
            .header("Authorization", &format!("Bearer {}", self.key));
        let answer = server.send(&request).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        let id = answer.json()["request_id"].as_str().unwrap().to_owned();
        self.has(Kind::Request, id, n == 3);
    }

    /// What the server made of it: cursors, links, names of outputs.
    async fn derive(&mut self, server: &Server) {
        let page = self
            .send(server, Request::get("/api/v2/jobs?limit=2"))
            .await;
        let cursor = page.json()["next_cursor"].as_str().unwrap().to_owned();
        self.has(Kind::Cursor, cursor, false);
        let page = Request::get("/v1/models?limit=1")
            .header("Authorization", &format!("Bearer {}", self.key));
        let page = server.send(&page).await.unwrap().json();
        self.has(Kind::Cursor, page["next_cursor"].as_str().unwrap(), false);
        let output = format!("{}_00001_.png", self.word);
        let view =
            Request::get(&format!("/api/view?filename={output}")).header("X-API-Key", &self.key);
        let view = server.send(&view).await.unwrap();
        let link = view.header("location").unwrap();
        let link = link.split_once("/signed/").unwrap().1.to_owned();
        self.has(Kind::Link, link, false);
        self.has(Kind::File, output, false);
        let names: Vec<String> = self.things[&Kind::Hash]
            .iter()
            .map(|hash| format!("{hash}.txt"))
            .collect();
        for name in names {
            self.has(Kind::File, name, false);
        }
    }

    /// Everything that must be in no answer to anybody else.
    pub(super) fn secrets(&self) -> Vec<String> {
        let things = self.things.values().chain(self.spare.values()).flatten();
        let credentials = self.credentials.iter().map(|credential| {
            let text = credential.header.1.as_str();
            text.rsplit([' ', '=']).next().unwrap().to_owned()
        });
        let mut secrets: Vec<String> = things.cloned().chain(credentials).collect();
        secrets.push(self.word.to_owned());
        secrets
    }

    /// What nobody may have taken away or changed is as it was.
    pub(super) async fn is_whole(&self, server: &Server) {
        for (id, content) in &self.contents {
            let answer = self.send(
                server,
                Request::get(&format!("/api/v2/assets/{id}/content")),
            );
            assert_eq!(&answer.await.text(), content, "{}", self.word);
        }
        for id in &self.things[&Kind::Job] {
            let status = self.send(server, Request::get(&format!("/api/job/{id}/status")));
            let status = status.await.json();
            assert_eq!(status["status"], "success", "{}", self.word);
            assert_eq!(&status["id"], id);
        }
        for name in &self.things[&Kind::UserFile] {
            let saved = self.send(server, Request::get(&format!("/api/userdata/{name}")));
            assert_eq!(saved.await.text(), format!("\"{}\"", self.word));
        }
        for name in &self.things[&Kind::Setting] {
            let set = self.send(server, Request::get(&format!("/api/settings/{name}")));
            assert_eq!(set.await.json(), json!(self.word));
        }
    }
}
