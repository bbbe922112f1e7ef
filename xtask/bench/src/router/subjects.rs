//! What a call can go through: nothing, nginx, a plain proxy, the router. Each is a process or a few of them.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::sleep;

use super::token::{SECRET, token};
use super::{Bench, say};
use it::http::{Connection, post_json, request};
use it::load::server::{Launch, Server};
use it::usage::Usage;

/// Bytes of a call's body.
const BODY_BYTES: usize = 900;
/// How often it is looked whether nginx listens, and how many times.
const READY: (Duration, u32) = (Duration::from_millis(20), 250);
/// A folder in memory.
const MEMORY: &str = "/dev/shm";
/// The token of the router whose checks are as few as there can be.
const PLAIN_TOKEN: &str = "a-token-of-a-bench";

/// Something that takes calls.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) address: SocketAddr,
    /// A process and those that it started.
    pub(super) pid: u32,
    /// Path and headers of a call that the partner answers at once,
    at_once: (String, String),
    /// of one that it holds,
    held: (String, String),
    /// and of one that it answers with a stream.
    streamed: (String, String),
}

/// Everything of one scenario. Dropping it ends the processes.
#[derive(Debug)]
pub(super) struct Peers {
    /// The partner itself.
    pub(super) direct: Subject,
    /// `None` where it is not installed.
    pub(super) nginx: Option<Subject>,
    pub(super) proxy: Subject,
    /// With every check: tokens, schema, prices, windows.
    pub(super) router: Subject,
    /// The same with its rows in memory, where a sync takes no time; on the disk, too, where the system has no such folder.
    pub(super) in_memory: Subject,
    /// With a fixed token and a model without schema and price. The rows of calls are written all the same.
    pub(super) unchecked: Subject,
    pub(super) partner: Partner,
    _nginx: Option<Nginx>,
    _processes: Vec<Child>,
    _servers: Vec<Server>,
    _memory: Option<TempDir>,
}

/// The master of nginx. Dropping it asks it to end, for it has to end its workers: killed on the spot it would leave them
/// behind.
#[derive(Debug)]
pub(super) struct Nginx(Child);

impl Nginx {
    pub(super) fn pid(&self) -> Option<u32> {
        self.0.id()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if let Some(pid) = self.0.id() {
            // Nobody is left to hear of a failure.
            let _ = std::process::Command::new("kill")
                .arg(pid.to_string())
                .status();
        }
    }
}

/// The partner of a scenario. It ends with its standard input.
#[derive(Debug)]
pub(super) struct Partner {
    child: Child,
    input: ChildStdin,
    pub(super) address: SocketAddr,
}

impl Partner {
    pub(super) async fn start(bench: &Bench) -> io::Result<Self> {
        let mut child = own(bench, &["bench-partner"])?;
        let address = first_line(&mut child).await?;
        let input = child.stdin.take().expect("standard input is piped");
        Ok(Self {
            child,
            input,
            address,
        })
    }

    /// How many calls it holds.
    pub(super) async fn holding(&self) -> io::Result<usize> {
        let mut connection = Connection::open(self.address).await?;
        let answer = connection.send(&request("GET", "/held")).await?;
        answer.text().parse().map_err(io::Error::other)
    }

    /// Lets every call go that it holds.
    pub(super) async fn release(&mut self) -> io::Result<()> {
        self.input.write_all(b"go\n").await
    }
}

impl Subject {
    /// One that passes calls to the partner as they are.
    pub(super) fn plain(address: SocketAddr, pid: Option<u32>) -> Self {
        let path = |path: &str| (path.to_owned(), String::new());
        Self {
            address,
            pid: pid.unwrap_or_default(),
            at_once: path("/now"),
            held: path("/hold"),
            streamed: path("/stream"),
        }
    }

    /// The call that is answered at once.
    pub(super) fn call(&self) -> String {
        spelled(&self.at_once)
    }

    /// The call that is held.
    pub(super) fn held(&self) -> String {
        spelled(&self.held)
    }

    /// The call that is answered with a stream.
    pub(super) fn streamed(&self) -> String {
        let (path, headers) = &self.streamed;
        let body = body("a stream").replacen('{', "{\"stream\":true,", 1);
        String::from_utf8(post_json(path, headers, &body)).expect("it is made of texts")
    }

    /// A request for the estimate of the call that is answered at once.
    pub(super) fn estimate(&self) -> String {
        let (path, headers) = &self.at_once;
        spelled(&(format!("{path}/estimate"), headers.clone()))
    }

    /// A request for a page of `limit` models.
    pub(super) fn list(&self, limit: u32) -> String {
        self.asked("GET", &format!("/v1/models?limit={limit}"))
    }

    /// A request without a body.
    pub(super) fn asked(&self, method: &str, path: &str) -> String {
        let headers = &self.at_once.1;
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
    }

    /// The call that is held, queued instead of waited for.
    pub(super) fn submission(&self) -> String {
        let (path, headers) = &self.held;
        spelled(&(format!("{path}/requests"), headers.clone()))
    }

    /// The call that is answered at once, of another account.
    pub(super) fn call_as(&self, headers: &str) -> String {
        spelled(&(self.at_once.0.clone(), headers.to_owned()))
    }

    /// What its processes use, all together.
    pub(super) fn usage(&self) -> io::Result<Usage> {
        let mut whole = Usage::of(self.pid)?;
        for child in children(self.pid)? {
            let usage = Usage::of(child)?;
            whole.cpu_seconds += usage.cpu_seconds;
            whole.resident_bytes += usage.resident_bytes;
            whole.peak_bytes += usage.peak_bytes;
        }
        Ok(whole)
    }
}

impl Peers {
    pub(super) async fn start(bench: &Bench, name: &str) -> io::Result<Self> {
        let mut processes = Vec::new();
        let partner = Partner::start(bench).await?;
        let address = partner.address;
        let plain = |address, child: &Child| Subject::plain(address, child.id());
        let direct = plain(address, &partner.child);

        let mut child = own(bench, &["bench-proxy", &address.to_string()])?;
        let proxy = plain(first_line(&mut child).await?, &child);
        processes.push(child);

        let (nginx, master) = match nginx() {
            Some(program) => {
                let (master, at) = start_nginx(bench, name, &program, address).await?;
                (Some(plain(at, &master.0)), Some(master))
            }
            None => {
                say("nginx is not installed; the run goes on without it");
                (None, None)
            }
        };
        let models = write_catalog(bench, name, address, 10)?;
        let disk = bench.folder.path();
        let memory = TempDir::with_prefix_in("bench-", MEMORY).ok();
        let in_memory = memory.as_ref().map_or(disk, TempDir::path);
        let checked = |folder| Router {
            folder,
            models: &models,
            partner: address,
            checked: true,
            concurrent_calls: UNBOUNDED,
        };
        let router = checked(disk);
        let router = router.start(bench, &format!("{name}-checked")).await?;
        let in_memory = checked(in_memory);
        let in_memory = in_memory.start(bench, &format!("{name}-memory")).await?;
        let unchecked = Router {
            checked: false,
            ..checked(disk)
        };
        let unchecked = unchecked.start(bench, &format!("{name}-unchecked")).await?;
        let servers = vec![router.1, in_memory.1, unchecked.1];
        Ok(Self {
            direct,
            nginx,
            proxy,
            router: router.0,
            in_memory: in_memory.0,
            unchecked: unchecked.0,
            partner,
            _nginx: master,
            _processes: processes,
            _servers: servers,
            _memory: memory,
        })
    }
}

/// A router that is to be started.
pub(super) struct Router<'a> {
    /// Where its data directory is made.
    pub(super) folder: &'a Path,
    pub(super) models: &'a Path,
    pub(super) partner: SocketAddr,
    /// With every check, or with as few as there can be.
    pub(super) checked: bool,
    /// Calls of an account at once.
    pub(super) concurrent_calls: &'static str,
}

/// More calls at once than any scenario makes.
pub(super) const UNBOUNDED: &str = "1000000";

impl Router<'_> {
    /// Starts it; the subject that it is.
    pub(super) async fn start(&self, bench: &Bench, name: &str) -> io::Result<(Subject, Server)> {
        let (folder, checked) = (self.folder, self.checked);
        let models = self.models.to_str().unwrap_or_default();
        let partner = self.partner.to_string();
        let mut arguments = vec![
            "--catalog",
            models,
            "--plain-partners",
            &partner,
            "--concurrent-calls",
            self.concurrent_calls,
            "--committed-spend-cents",
            "1000000000",
            "--log-level",
            "warn",
        ];
        if checked {
            arguments.extend(["--rate-windows", "100000000/1h"]);
        }
        let with = bench.with.iter().map(String::as_str);
        let secret = match checked {
            true => ("EASEL_JWT_SECRET", SECRET),
            false => ("EASEL_TOKEN", PLAIN_TOKEN),
        };
        let launch = Launch {
            program: bench.program.clone(),
            under: bench.under.clone(),
            data_dir: folder.join(name),
            log: folder.join(format!("{name}.log")),
            arguments: arguments
                .into_iter()
                .chain(with)
                .map(str::to_owned)
                .collect(),
            variables: bench
                .variables
                .iter()
                .cloned()
                .chain([(secret.0.to_owned(), secret.1.to_owned())])
                .collect(),
        };
        let server = Server::start(&launch).await?;
        let bearer = match checked {
            true => token("local", &["router:run"]),
            false => PLAIN_TOKEN.to_owned(),
        };
        let headers = format!("Authorization: Bearer {bearer}\r\n");
        let model = |name: &str| {
            let kind = if checked { "" } else { "open-" };
            (format!("/v1/models/bench/{kind}{name}"), headers.clone())
        };
        let subject = Subject {
            address: server.address,
            pid: server.pid,
            at_once: model("now"),
            held: model("hold"),
            streamed: model("stream"),
        };
        Ok((subject, server))
    }
}

/// Writes a catalog of one partner with this many models; `now`, `hold` and `stream` are among them.
pub(super) fn write_catalog(
    bench: &Bench,
    name: &str,
    partner: SocketAddr,
    models: u32,
) -> io::Result<PathBuf> {
    let root = bench.folder.path().join(format!("{name}-{models}"));
    let folder = root.join("bench");
    fs::create_dir_all(&folder)?;
    let file = |name: &str, text: &str| fs::write(folder.join(name), text);
    file(
        "partner.toml",
        &format!(
            "name = \"Bench\"\nbase_url = \"http://{partner}\"\n\n[auth]\nkind = \"none\"\n\n\
             [call.run]\nstyle = \"sync\"\ntimeouts = {{ submit_ms = 3600000 }}\n\n[call.run.submit]\npath = \"/{{endpoint}}\"\n\n\
             [call.stream]\nstyle = \"sync\"\ntimeouts = {{ submit_ms = 3600000 }}\nsubmit = {{ path = \"/stream\" }}\nevents = {{}}\n"
        ),
    )?;
    file("input.schema.json", SCHEMA)?;
    let streamed = SCHEMA.replacen(
        "\"properties\": {",
        "\"properties\": {\n    \"stream\": {\"type\": \"boolean\"},",
        1,
    );
    file("stream.schema.json", &streamed)?;
    let model = |schema: &str, endpoint: &str, price: &str| {
        format!(
            "call = \"run\"\n{schema}charges_on_policy_rejection = \"no\"\n\n[values]\nendpoint = \"{endpoint}\"\n\n[price]\n{price}\n"
        )
    };
    let schema = "schema = \"input.schema.json\"\n";
    let (dear, free) = ("kind = \"fixed\"\ncents = 4", "kind = \"fixed\"\ncents = 0");
    for endpoint in ["now", "hold"] {
        file(&format!("{endpoint}.toml"), &model(schema, endpoint, dear))?;
        file(&format!("open-{endpoint}.toml"), &model("", endpoint, free))?;
    }
    let stream = "call = \"stream\"\nstream = \"sse\"\nschema = \"stream.schema.json\"\ncharges_on_policy_rejection = \"no\"";
    file("stream.toml", &format!("{stream}\n\n[price]\n{dear}\n"))?;
    for number in 5..models {
        let name = format!("model-{number:05}.toml");
        file(&name, &model(schema, "now", dear))?;
    }
    Ok(root)
}

/// As models of pictures have them.
const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "prompt": {"type": "string", "minLength": 1, "maxLength": 5000},
    "width": {"type": "integer", "minimum": 64, "maximum": 4096},
    "height": {"type": "integer", "minimum": 64, "maximum": 4096},
    "seed": {"type": "integer"},
    "guidance": {"type": "number", "minimum": 0, "maximum": 20},
    "output_format": {"type": "string", "enum": ["png", "jpeg"]}
  },
  "required": ["prompt"],
  "additionalProperties": false
}
"#;

fn spelled((path, headers): &(String, String)) -> String {
    let around = body("").len();
    let request = post_json(path, headers, &body(&"p".repeat(BODY_BYTES - around)));
    String::from_utf8(request).expect("it is made of texts")
}

fn body(prompt: &str) -> String {
    format!(
        "{{\"prompt\":\"{prompt}\",\"width\":1024,\"height\":768,\"seed\":42,\"guidance\":3.5,\"output_format\":\"png\"}}"
    )
}

fn own(bench: &Bench, arguments: &[&str]) -> io::Result<Child> {
    Command::new(&bench.own)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

async fn first_line(child: &mut Child) -> io::Result<SocketAddr> {
    let stdout = child.stdout.take().expect("standard output is piped");
    let line = BufReader::new(stdout).lines().next_line().await?;
    let line = line.ok_or_else(|| io::Error::other("a process of the bench ended at once"))?;
    line.parse().map_err(io::Error::other)
}

/// Where nginx is, if it is installed.
pub(super) fn nginx() -> Option<PathBuf> {
    let places = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"];
    places.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// Starts nginx before the partner.
pub(super) async fn start_nginx(
    bench: &Bench,
    name: &str,
    program: &Path,
    partner: SocketAddr,
) -> io::Result<(Nginx, SocketAddr)> {
    // It cannot tell which free port it took, so one is found for it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    drop(listener);
    let folder = bench.folder.path().join(format!("{name}-nginx"));
    fs::create_dir_all(&folder)?;
    let at = folder.display();
    let configuration = format!(
        "daemon off;\nworker_processes 2;\nworker_rlimit_nofile 20000;\npid {at}/pid;\nerror_log {at}/error.log;\n\
         events {{ worker_connections 19000; }}\n\
         http {{\n  access_log off;\n  client_body_temp_path {at}/body;\n  proxy_temp_path {at}/proxy;\n\
         \x20 fastcgi_temp_path {at}/fastcgi;\n  uwsgi_temp_path {at}/uwsgi;\n  scgi_temp_path {at}/scgi;\n\
         \x20 keepalive_requests 100000000;\n  proxy_read_timeout 600s;\n\
         \x20 upstream partner {{ server {partner}; keepalive 1024; keepalive_requests 100000000; }}\n\
         \x20 server {{\n    listen {address} backlog=4096;\n    location / {{\n      proxy_pass http://partner;\n\
         \x20     proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n    }}\n  }}\n}}\n"
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, configuration)?;
    let child = Command::new(program)
        .arg("-e")
        .arg(folder.join("error.log"))
        .arg("-p")
        .arg(&folder)
        .arg("-c")
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let mut master = Nginx(child);
    for _ in 0..READY.1 {
        if Connection::open(address).await.is_ok() {
            return Ok((master, address));
        }
        if let Some(status) = master.0.try_wait()? {
            return Err(io::Error::other(format!("nginx ended with {status}")));
        }
        sleep(READY.0).await;
    }
    Err(io::Error::other("nginx does not listen"))
}

/// The processes that a process started.
fn children(pid: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for (thread, _) in it::usage::threads(pid)? {
        let listed = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children"));
        let listed = listed.unwrap_or_default();
        children.extend(
            listed
                .split_whitespace()
                .filter_map(|id| id.parse::<u32>().ok()),
        );
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_its_size() {
        let call = spelled(&("/now".to_owned(), String::new()));
        assert!(call.contains(&format!("Content-Length: {BODY_BYTES}\r\n")));
    }
}
