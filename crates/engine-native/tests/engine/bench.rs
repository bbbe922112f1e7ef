//! An engine over memory, a sink that writes everything down, and one call that runs a graph.

use std::collections::HashMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use asset_store::{BlobHash, BlobStore, MemoryBlobs, read_all};
use async_trait::async_trait;
use bytes::Bytes;
use engine_native::{EngineConfig, NativeEngine, Node, nodes};
use images::codec::{Limits, probe};
use jiff::Timestamp;
use serde_json::{Map, Value as Json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use workflow_core::{
    CommitError, ComputePermit, Engine, Epoch, FrameRefused, Graph, JobOutput, NodeEvent, NodeId,
    NodeInput, OutputContent, OutputName, Plan, Preview, ResolvedFile, ResolvedFiles, RunContext,
    RunError, RunOutput, RunSink, Ticket, validate,
};

/// One installation: an engine, its blobs and an account's files.
pub(crate) struct Bench {
    pub(crate) engine: NativeEngine,
    pub(crate) blobs: MemoryBlobs,
    pub(crate) account: &'static str,
    pub(crate) extra_pnginfo: Map<String, Json>,
    /// Where `https://pictures.example` really is: servers here speak no TLS, which is tested where it is implemented.
    pub(crate) site: String,
    /// How many outputs its store takes before it keeps the next one waiting.
    pub(crate) takes: Arc<Semaphore>,
    files: ResolvedFiles,
    counters: Arc<Mutex<HashMap<String, u64>>>,
}

/// Everything that a run told, in order.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) result: Result<(), RunError>,
    /// One line per event: `started 1 LoadImage`, `executed 3 {...}` and so on.
    pub(crate) events: Vec<String>,
    pub(crate) outputs: Vec<(JobOutput, Bytes)>,
    pub(crate) frames: Vec<Bytes>,
}

/// A sink that writes everything down, and may do something when it hears a line.
pub(crate) struct Recorder {
    blobs: MemoryBlobs,
    takes: Arc<Semaphore>,
    counters: Arc<Mutex<HashMap<String, u64>>>,
    told: Mutex<Told>,
    pub(crate) hear: Box<dyn Fn(&str) + Send + Sync>,
}

pub(crate) const CONFIG: EngineConfig = EngineConfig {
    threads: 2,
    cache_bytes: 64 << 20,
    job_memory_bytes: 512 << 20,
    downloads: None,
};

impl Bench {
    /// The engine's own classes.
    pub(crate) fn new() -> Self {
        Self::with(CONFIG, Vec::new())
    }

    /// The engine's own classes and these.
    pub(crate) fn with(config: EngineConfig, more: Vec<Arc<dyn Node>>) -> Self {
        let blobs = MemoryBlobs::new(Timestamp::now);
        let nodes = nodes::all().into_iter().chain(more).collect();
        let engine = NativeEngine::with_nodes(Arc::new(blobs.clone()), config, nodes).unwrap();
        Self {
            engine,
            blobs,
            account: "local",
            extra_pnginfo: Map::new(),
            site: String::new(),
            takes: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            files: HashMap::new(),
            counters: Arc::default(),
        }
    }

    /// The same engine for another account, which has no files.
    pub(crate) fn of_account(&self, account: &'static str) -> Self {
        Self {
            engine: self.engine.clone(),
            blobs: self.blobs.clone(),
            account,
            extra_pnginfo: Map::new(),
            site: String::new(),
            takes: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            files: HashMap::new(),
            counters: Arc::default(),
        }
    }

    /// Puts a file into the account.
    pub(crate) async fn upload(&mut self, name: &str, bytes: &[u8]) {
        let mut writer = self
            .blobs
            .begin(asset_store::SpaceClass::Spare)
            .await
            .unwrap();
        writer.write(Bytes::copy_from_slice(bytes)).await.unwrap();
        let blob = writer.commit().await.unwrap();
        let file = ResolvedFile {
            asset: JOB.parse().unwrap(),
            hash: blob.hash,
            size_bytes: blob.size_bytes,
            name: name.to_owned(),
        };
        self.files.insert(name.to_owned(), file);
    }

    /// Runs a graph to its end.
    pub(crate) async fn run(&self, graph: &Json) -> Told {
        self.run_with(graph, |_| {}, CancellationToken::new()).await
    }

    /// Runs a graph; `hear` gets every line as it is told.
    pub(crate) async fn run_with(
        &self,
        graph: &Json,
        hear: impl Fn(&str) + Send + Sync + 'static,
        cancel: CancellationToken,
    ) -> Told {
        let graph = Graph::from_value(graph.clone()).unwrap();
        let validation = validate(&graph, &self.engine.nodes(), &self.files, None);
        assert!(
            validation.errors.is_empty(),
            "the graph is valid: {:?}",
            validation.errors
        );
        let mut graph = validation.graph.unwrap();
        let inputs = graph.nodes.values_mut();
        for input in inputs.flat_map(|node| node.inputs.values_mut()) {
            if let NodeInput::Constant(Json::String(text)) = input {
                *text = text.replace("https://pictures.example", &self.site);
            }
        }
        let ticket = Ticket {
            job: JOB.parse().unwrap(),
            account: self.account.parse().unwrap(),
            plan: Arc::new(Plan::of(&graph)),
            graph: Arc::new(graph),
            extra_pnginfo: self.extra_pnginfo.clone(),
            origin: bytes::Bytes::new(),
        };
        let recorder = Arc::new(Recorder {
            blobs: self.blobs.clone(),
            takes: Arc::clone(&self.takes),
            counters: Arc::clone(&self.counters),
            told: Mutex::new(Told {
                result: Ok(()),
                events: Vec::new(),
                outputs: Vec::new(),
                frames: Vec::new(),
            }),
            hear: Box::new(hear),
        });
        let sink: Arc<dyn RunSink> = Arc::<Recorder>::clone(&recorder);
        let context = RunContext {
            secret: None,
            fence: Epoch(1),
            cancel,
            permit: ComputePermit::default(),
            sink,
        };
        let result = self.engine.run(ticket, context).await;
        let mut told = recorder.told.lock().unwrap();
        Told {
            result,
            events: std::mem::take(&mut told.events),
            outputs: std::mem::take(&mut told.outputs),
            frames: std::mem::take(&mut told.frames),
        }
    }
}

pub(crate) const JOB: &str = "01890000-0000-7000-8000-000000000001";

impl Told {
    /// Lines that begin with one of these words.
    pub(crate) fn lines(&self, words: &[&str]) -> Vec<&str> {
        let is_wanted = |line: &&String| words.iter().any(|word| line.starts_with(word));
        self.events
            .iter()
            .filter(is_wanted)
            .map(String::as_str)
            .collect()
    }

    /// The texts that output nodes showed, by node.
    pub(crate) fn texts(&self) -> HashMap<String, Vec<String>> {
        let mut texts = HashMap::new();
        for line in self.lines(&["executed "]) {
            let mut words = line.splitn(3, ' ').skip(1);
            let (node, ui) = (words.next().unwrap(), words.next().unwrap());
            let ui: Json = serde_json::from_str(ui).unwrap();
            let Some(shown) = ui["text"].as_array() else {
                continue;
            };
            let shown = shown.iter().map(|text| text.as_str().unwrap().to_owned());
            texts.insert(node.to_owned(), shown.collect());
        }
        texts
    }

    /// Fails unless the run went well.
    pub(crate) fn expect_success(self) -> Self {
        assert_eq!(self.result, Ok(()), "{:#?}", self.events);
        self
    }
}

impl Recorder {
    fn note(&self, line: String) {
        (self.hear)(&line);
        self.told.lock().unwrap().events.push(line);
    }
}

#[async_trait]
impl RunSink for Recorder {
    fn progress(&self, event: NodeEvent) {
        self.note(match event {
            NodeEvent::Cached(nodes) => {
                let nodes: Vec<&str> = nodes.iter().map(NodeId::as_str).collect();
                format!("cached {}", nodes.join(","))
            }
            NodeEvent::Started { node, class } => format!("started {node} {class}"),
            NodeEvent::Step { node, step, steps } => format!("step {node} {step}/{steps}"),
            NodeEvent::Executed { node, ui } => format!("executed {node} {ui}"),
            NodeEvent::Failed { node, inputs } => format!("failed {node} {}", Json::Object(inputs)),
            NodeEvent::Finished { node } => format!("finished {node}"),
        });
    }

    fn preview(&self, preview: Preview) {
        let picture = probe(&preview.bytes, &Limits::default()).unwrap();
        assert_eq!(picture.format.media_type(), preview.content_type);
        self.note(format!(
            "preview {} {} {}x{}",
            preview.node_id, preview.content_type, picture.width, picture.height
        ));
    }

    fn text(&self, node: &NodeId, line: &str) {
        self.note(format!("text {node} {line}"));
    }

    async fn frame(&self, node: &NodeId, png: Bytes) -> Result<(), FrameRefused> {
        self.note(format!("frame {node}"));
        self.told.lock().unwrap().frames.push(png);
        Ok(())
    }

    async fn commit(&self, output: RunOutput) -> Result<JobOutput, CommitError> {
        (self.hear)("to commit");
        self.takes.acquire().await.unwrap().forget();
        let bytes = match &output.content {
            OutputContent::Bytes(bytes) => {
                let mut writer = self
                    .blobs
                    .begin(asset_store::SpaceClass::Spare)
                    .await
                    .unwrap();
                writer.write(bytes.clone()).await.unwrap();
                writer.commit().await.unwrap();
                bytes.clone()
            }
            OutputContent::Blob(blob) => read_all(&self.blobs, blob)
                .await
                .map_err(|_| CommitError::BlobGone)?,
        };
        let number = match &output.name {
            OutputName::Counted { counter, .. } => {
                let mut counters = self.counters.lock().unwrap();
                let number = counters.entry(counter.clone()).or_insert(0);
                *number += 1;
                *number
            }
            OutputName::Fixed(_) => 0,
        };
        let path = output
            .name
            .path(number)
            .map_err(|_| CommitError::InvalidName)?;
        self.note(format!("commit {}/{} {path}", output.node_id, output.index));
        let committed = JobOutput {
            node_id: output.node_id,
            index: output.index,
            kind: output.kind,
            temp: output.temp,
            path,
            content_type: output.content_type,
            size_bytes: bytes.len() as u64,
            asset: JOB.parse().unwrap(),
            hash: BlobHash::of(&bytes),
        };
        self.told
            .lock()
            .unwrap()
            .outputs
            .push((committed.clone(), bytes));
        Ok(committed)
    }
}

/// Whether FFmpeg is installed. A test that is left out says so, and in CI none is.
pub(crate) fn has_ffmpeg() -> bool {
    let is_installed = ["ffmpeg", "ffprobe"].iter().all(|program| {
        let mut command = Command::new(program);
        let command = command
            .arg("-version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    });
    if !is_installed {
        assert!(
            std::env::var_os("CI").is_none(),
            "FFmpeg is not installed, and nothing is skipped in CI; install the programs ffmpeg and ffprobe"
        );
        // Past the harness, which keeps to itself what a test that passes prints.
        let _ = std::io::stderr().write_all(b"skipped: FFmpeg is not installed\n");
    }
    is_installed
}
