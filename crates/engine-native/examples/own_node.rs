//! A node class of one's own, run in a graph beside the built-in ones: `cargo run -p engine-native --example own_node`.
//!
//! A server of one's own gives the engine to `workflow_core::Jobs` and `Worker`, whose sink stores what a run makes. This
//! program stands in for both: it validates one graph, runs it, and says what came out.

#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::error::Error;
use std::sync::{Arc, Mutex};

use asset_store::{BlobHash, MemoryBlobs};
use async_trait::async_trait;
use bytes::Bytes;
use engine_native::define::{classic, float_input, link, output};
use engine_native::{
    EngineConfig, Inputs, NativeEngine, Node, NodeContext, NodeError, NodeOutput, nodes,
};
use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use workflow_core::{
    CommitError, ComputePermit, Engine, Epoch, FrameRefused, Graph, JobOutput, NodeDefinition,
    NodeEvent, NodeId, OutputContent, Plan, Preview, ResolvedFiles, RunContext, RunOutput, RunSink,
    Ticket, validate,
};

/// Darkens a picture towards its corners.
struct Vignette;

impl Node for Vignette {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            description: "Darkens a picture towards its corners.".to_owned(),
            inputs: vec![
                link("image", "IMAGE"),
                float_input("strength", json!({"default": 0.5, "min": 0.0, "max": 1.0})),
            ],
            outputs: vec![output("IMAGE")],
            ..classic("Vignette", "my_nodes", "image/custom")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let strength = inputs.float("strength")? as f32;
        let image = inputs.image("image")?;
        // A frame that has another holder as well is copied: that must fit into the memory of the job.
        context.reserve(image.size_bytes())?;
        let (height, width, channels) = image.first().shape();
        let centred = |at: usize, side: usize| (at as f32 + 0.5) / side as f32 * 2.0 - 1.0;
        let darkened = image.map(|mut frame| {
            // In place where nobody else holds the frame.
            let rows = Arc::make_mut(&mut frame)
                .data_mut()
                .chunks_exact_mut(width * channels);
            for (y, row) in rows.enumerate() {
                for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
                    let distance = centred(x, width).powi(2) + centred(y, height).powi(2);
                    let factor = 1.0 - strength * distance / 2.0;
                    pixel
                        .iter_mut()
                        .take(3)
                        .for_each(|sample| *sample *= factor);
                }
            }
            frame
        })?;
        Ok(darkened.into())
    }
}

/// Keeps what a run makes, and says what happens.
#[derive(Default)]
struct Keeper {
    files: Mutex<Vec<Bytes>>,
}

#[async_trait]
impl RunSink for Keeper {
    fn progress(&self, event: NodeEvent) {
        if let NodeEvent::Started { node, class } = event {
            println!("node {node}: {class}");
        }
    }

    fn preview(&self, _preview: Preview) {}

    fn text(&self, node: &NodeId, line: &str) {
        println!("node {node} says: {line}");
    }

    async fn frame(&self, _node: &NodeId, _png: Bytes) -> Result<(), FrameRefused> {
        Ok(())
    }

    async fn commit(&self, output: RunOutput) -> Result<JobOutput, CommitError> {
        let OutputContent::Bytes(bytes) = output.content else {
            // Only a run that finds results of an earlier one refers to stored bytes.
            return Err(CommitError::BlobGone);
        };
        // Where many save, the number is the next of the account's counter, given out by the store.
        let path = output.name.path(1).map_err(|_| CommitError::InvalidName)?;
        println!("node {} made {path}: {} bytes", output.node_id, bytes.len());
        let committed = JobOutput {
            node_id: output.node_id,
            index: output.index,
            kind: output.kind,
            temp: output.temp,
            path,
            content_type: output.content_type,
            size_bytes: bytes.len() as u64,
            asset: ID.parse().map_err(|_| CommitError::InvalidName)?,
            hash: BlobHash::of(&bytes),
        };
        let mut files = self.files.lock().map_err(|_| CommitError::Superseded)?;
        files.push(bytes);
        Ok(committed)
    }
}

const ID: &str = "01890000-0000-7000-8000-000000000001";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut nodes = nodes::all();
    nodes.push(Arc::new(Vignette));
    let config = EngineConfig {
        threads: 2,
        cache_bytes: 0,
        job_memory_bytes: 256 << 20,
        downloads: None,
    };
    let blobs = Arc::new(MemoryBlobs::new(Timestamp::now));
    let engine = NativeEngine::with_nodes(blobs, config, nodes)?;

    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": 0x00ff_ffff}},
        "2": {"class_type": "Vignette", "inputs": {"image": ["1", 0], "strength": 0.8}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "vignette"}},
    });
    let graph = Graph::from_value(graph)?;
    let validation = validate(&graph, &engine.nodes(), &ResolvedFiles::new(), None);
    let graph = validation.graph.ok_or("the graph is not valid")?;
    let ticket = Ticket {
        job: ID.parse()?,
        account: "local".parse()?,
        plan: Arc::new(Plan::of(&graph)),
        graph: Arc::new(graph),
        extra_pnginfo: serde_json::Map::new(),
        origin: bytes::Bytes::new(),
    };
    let keeper = Arc::new(Keeper::default());
    let context = RunContext {
        secret: None,
        fence: Epoch(1),
        cancel: CancellationToken::new(),
        permit: ComputePermit::default(),
        sink: keeper.clone(),
    };
    let ended = engine.run(ticket, context).await;
    ended.map_err(|error| format!("the run failed: {error:?}"))?;

    let files = keeper.files.lock().map_err(|_| "a sink panicked")?;
    let picture = engine_native::images::codec::decode(
        &files[0],
        &engine_native::images::codec::Limits::default(),
    )?;
    let (corner, centre) = (
        picture.image.first().data()[0],
        picture.image.first().row(32)[32 * 3],
    );
    println!("corner {corner:.2}, centre {centre:.2}");
    if corner >= centre {
        return Err("the corner is not darker than the centre".into());
    }
    Ok(())
}
