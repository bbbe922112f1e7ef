//! A data directory with one of everything in it, and what its clients were told: for tests of damage and of older formats.
//!
//! The program that makes it is named by its path, so a program of an earlier version makes a directory of its own format.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::acknowledged::{Acknowledged, Fact, Holder};
use crate::partners::{Partner, Partners};
use crate::{Answer, Connection, Form, Operated, Request, Server, process, root};

/// A model whose partner answers at once, and what its calls are sent to.
const MODEL: &str = "/v1/models/fal-sync/flux-schnell";

/// Larger than what shares a file with other results.
const LARGE_RESULT: usize = 100 * 1024;

/// Larger than what goes through the journal of blobs.
const LARGE_FILE: usize = 300 * 1024;

/// An installation that a server may run over, with the partners that its models need.
#[derive(Debug)]
pub struct DataDirectory {
    program: PathBuf,
    path: PathBuf,
    partners: Partners,
    key: String,
    /// Variables of the program besides those of partners: where the installation is, if it is not in the directory.
    variables: Vec<(String, String)>,
    /// What clients were told so far.
    pub acknowledged: Acknowledged,
}

impl DataDirectory {
    /// The directory at `path`, which another one made, with what its clients were told.
    ///
    /// # Errors
    /// If the partners cannot be started.
    pub async fn at(path: &Path, acknowledged: Acknowledged) -> io::Result<Self> {
        Ok(Self {
            program: process::binary(),
            path: path.to_owned(),
            partners: Partners::start().await?,
            key: String::new(),
            variables: Vec::new(),
            acknowledged,
        })
    }

    /// A new installation at `path`, made by `program`, with an account, its key and credits. No server runs over it.
    ///
    /// # Errors
    /// If the program cannot be started.
    ///
    /// # Panics
    /// If it refuses anything.
    pub async fn make(program: &Path, path: &Path) -> io::Result<Self> {
        let mut made = Self::at(path, Acknowledged::default()).await?;
        made.program = program.to_owned();
        // A first start makes the files that a command alone does not.
        made.end(made.start([] as [&str; 0]).await?).await?;
        for arguments in [
            &["account", "add", "acme", "--name", "Acme"][..],
            &["account", "credit", "acme", "10000"],
        ] {
            made.succeed(arguments).await?;
        }
        let key = made.succeed(&["key", "add", "acme"]).await?;
        made.key = key.trim().to_owned();
        Ok(made)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Follows the installation to another directory, or to what these variables name, beside which the directory is a server's own.
    pub fn moved(&mut self, path: &Path, variables: Vec<(String, String)>) {
        self.path = path.to_owned();
        self.variables = variables;
    }

    /// The partners of its models.
    #[must_use]
    pub fn partners(&self) -> &Partners {
        &self.partners
    }

    /// The key of its account.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The request as its account's.
    #[must_use]
    pub fn own(&self, request: Request) -> Request {
        self.authorized(request)
    }

    /// How often a partner was asked to make something: what is answered again asks none.
    #[must_use]
    pub fn submissions(&self) -> usize {
        let submissions = self
            .partners
            .requests_of(Partner::FalSync, crate::partners::Step::Submit);
        submissions.len()
    }

    /// Flags of a server with partners, for a server that is started otherwise.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let relocations = self.partners.relocations().into_iter();
        let relocations: Vec<String> = relocations
            .map(|(host, url)| format!("{host}={url}"))
            .collect();
        [
            "--ballast",
            "1MiB",
            "--relocate-partners",
            &relocations.join(","),
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// Variables of a server with partners.
    #[must_use]
    pub fn variables() -> [(&'static str, String); 2] {
        [
            ("FAL_KEY", Partner::FalSync.secret()),
            ("EASEL_MIN_FREE", "0B".to_owned()),
        ]
    }

    /// Starts the program over it.
    ///
    /// # Errors
    /// If it ends before it is ready.
    pub async fn start(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Server> {
        let mut command = Command::new(&self.program);
        command.stderr(Stdio::null());
        self.start_as(command, arguments).await
    }

    /// As [`DataDirectory::start`], by a command that becomes the program.
    ///
    /// # Errors
    /// If it ends before it is ready.
    pub async fn start_as(
        &self,
        mut command: Command,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Server> {
        command.envs(Self::variables());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let mut all: Vec<_> = self.arguments().into_iter().map(Into::into).collect();
        all.extend(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        Server::start_as(command, &self.path, all).await
    }

    /// Ends a server well.
    ///
    /// # Errors
    /// If it does not end so.
    pub async fn end(&self, server: Server) -> io::Result<()> {
        match server.terminate().await?.success() {
            true => Ok(()),
            false => Err(io::Error::other("the server did not end well")),
        }
    }

    /// Has clients do one of everything, and notes what they are told. `name` tells this round from others.
    ///
    /// # Errors
    /// If the server goes away.
    ///
    /// # Panics
    /// If it refuses anything.
    pub async fn use_it(&mut self, server: &Server, name: &str) -> io::Result<()> {
        let mut photo = fs::read(root().join("examples/photo.png"))?;
        // Bytes behind the picture make it another file.
        photo.extend(name.bytes());
        let file = format!("{name}.png");
        self.upload(server, &file, &photo).await?;
        let large: Vec<u8> = name.bytes().cycle().take(LARGE_FILE).collect();
        self.upload(server, &format!("{name}.bin"), &large).await?;
        self.save(server, name).await?;
        self.run_job(server, name).await?;
        let result = json!({"images": [name]}).to_string();
        self.partners
            .answer_with(Partner::FalSync, "application/json", result);
        self.keyed_call(server, name, Holder::SmallResults).await?;
        let result = name.as_bytes().repeat(LARGE_RESULT / name.len());
        self.partners
            .answer_with(Partner::FalSync, "application/octet-stream", result);
        self.keyed_call(server, &format!("{name}-large"), Holder::LargeResult)
            .await?;
        // Who asks for the ledger has the log of calls brought into the rows.
        self.succeed(&["account", "credit", "acme"]).await?;
        // The latest: what the log of calls has is in no row yet.
        self.call(server, self.request(name)).await?;
        Ok(())
    }

    /// Kills a server while a client is in the middle of an upload.
    ///
    /// # Errors
    /// If it cannot be killed.
    ///
    /// # Panics
    /// If the upload is not taken.
    pub async fn kill(&self, server: Server) -> io::Result<()> {
        let form = upload_form("cut.bin", &[7; 8 * LARGE_FILE]);
        let request = form.bytes(server.address);
        let mut connection = Connection::open(server.address).await?;
        connection.write(&request[..request.len() - 1024]).await?;
        while !has_bytes(&self.path.join("tmp")) {
            tokio::task::yield_now().await;
        }
        server.kill().await
    }

    /// Runs a command of operators with the program that made it, to its end.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub async fn operate(&self, arguments: &[&str]) -> io::Result<Operated> {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("EASEL_DATA_DIR", &self.path);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = command
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        Ok(Operated {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// As [`DataDirectory::operate`], for a command that has to succeed; what it printed.
    ///
    /// # Errors
    /// If the program cannot be started.
    ///
    /// # Panics
    /// If it does not succeed.
    pub async fn succeed(&self, arguments: &[&str]) -> io::Result<String> {
        let done = self.operate(arguments).await?;
        assert_eq!(done.code, 0, "{arguments:?}: {}", done.stderr);
        Ok(done.stdout)
    }

    async fn upload(&mut self, server: &Server, name: &str, content: &[u8]) -> io::Result<()> {
        let answer = server
            .send(&self.authorized(upload_form(name, content)))
            .await?;
        assert_eq!(answer.status, 201, "{}", answer.text());
        self.note_asset("the file", &answer.json(), content);
        Ok(())
    }

    fn note_asset(&mut self, what: &str, asset: &Value, content: &[u8]) {
        let (id, hash) = (text(asset, "id"), text(asset, "hash"));
        let request = self.authorized(Request::get(&format!("/api/v2/assets/{id}/content")));
        let hash = hash.trim_start_matches("blake3:").to_owned();
        let fact = Fact::of_body(
            &format!("{what} {id}"),
            Holder::Blob(hash),
            request,
            content,
        );
        self.acknowledged.facts.push(fact);
    }

    /// Saves a file of the older API.
    async fn save(&mut self, server: &Server, name: &str) -> io::Result<()> {
        let target = format!("/api/userdata/workflows%2F{name}.json");
        let content = json!({"saved": name}).to_string();
        let request = Request::new("POST", &target).body(content.clone());
        let answer = server.send(&self.authorized(request)).await?;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let request = self.authorized(Request::get(&target));
        let fact = Fact::of_body(
            &format!("the saved workflow {name}"),
            Holder::Rows,
            request,
            content.as_bytes(),
        );
        self.acknowledged.facts.push(fact);
        Ok(())
    }

    async fn run_job(&mut self, server: &Server, name: &str) -> io::Result<()> {
        let color = name
            .bytes()
            .fold(1, |sum: u32, byte| sum * 31 % 0xff_ffff + u32::from(byte));
        let graph = json!({
            "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": color}},
            "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": name}},
        });
        let submitted = Request::post_json("/api/v2/jobs", &json!({"workflow": graph}));
        let job = server.send(&self.authorized(submitted)).await?;
        assert_eq!(job.status, 201, "{}", job.text());
        let target = format!("/api/v2/jobs/{}", text(&job.json(), "id"));
        // The stream ends with the job.
        server
            .send(&self.authorized(Request::get(&format!("{target}/events"))))
            .await?;
        let job = server
            .send(&self.authorized(Request::get(&target)))
            .await?
            .json();
        assert_eq!(job["status"], "succeeded", "{job:#}");
        let output = &job["outputs"][0];
        let request = self.authorized(Request::get(&format!(
            "/api/v2/assets/{}/content",
            text(output, "id")
        )));
        let content = server.send(&request).await?.body;
        self.note_asset("the output", output, &content);
        let fields = json!({"id": job["id"], "status": "succeeded", "outputs": [{"id": output["id"], "hash": output["hash"]}]});
        let request = self.authorized(Request::get(&target));
        let fact = Fact::of_fields(&format!("the job {name}"), Holder::Rows, request, fields);
        self.acknowledged.facts.push(fact);
        Ok(())
    }

    /// Calls the model under a key, whose answer is told again.
    async fn keyed_call(&mut self, server: &Server, key: &str, holder: Holder) -> io::Result<()> {
        let request = self.request(key).header("Idempotency-Key", key);
        let answer = self.call(server, request.clone()).await?;
        let fact = Fact::of_body(
            &format!("the result of the key {key}"),
            holder,
            request,
            &answer.body,
        );
        self.acknowledged.facts.push(fact.replayed());
        Ok(())
    }

    async fn call(&mut self, server: &Server, request: Request) -> io::Result<Answer> {
        let answer = server.send(&request).await?;
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.acknowledged.calls += 1;
        Ok(answer)
    }

    fn request(&self, prompt: &str) -> Request {
        self.authorized(Request::post_json(MODEL, &json!({"prompt": prompt})))
    }

    fn authorized(&self, request: Request) -> Request {
        request.header("Authorization", &format!("Bearer {}", self.key))
    }
}

fn upload_form(name: &str, content: &[u8]) -> Request {
    let form = Form::new()
        .field("content_type", "application/octet-stream")
        .field("file_path", name)
        .file("file", name, content);
    Request::new("POST", "/api/v2/assets")
        .header("Content-Type", &Form::content_type())
        .body(form.body())
}

/// Whether a file in a folder has content.
fn has_bytes(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.metadata().is_ok_and(|entry| entry.len() > 0))
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field]
        .as_str()
        .unwrap_or_else(|| panic!("{object:#} has no {field}"))
}
