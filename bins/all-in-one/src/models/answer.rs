//! From the outputs of a job to the answer of a call.

use asset_store::{AssetsError, Blob, BlobError, read_all};
use bytes::Bytes;
use router_core::Answer;
use serde_json::{Value, json};
use workflow_core::{Job, JobOutput, OutputKind};

use super::Workflows;
use super::body::data_url;

/// Most bytes of outputs that go into an answer itself; beyond that there are links. Its base64 stays below what the router
/// keeps to tell again.
const MOST_INLINE_BYTES: u64 = 5 << 20;

/// The answer of a job that succeeded: what this node of it put out.
///
/// # Errors
/// If bytes that are to go into it cannot be read.
pub(super) async fn of(
    workflows: &Workflows,
    node: &str,
    job: &Job,
    inline: bool,
) -> Result<Answer, AssetsError> {
    let outputs = job.outputs.iter();
    let outputs = outputs.filter(|output| output.node_id.as_str() == node);
    let outputs: Vec<&JobOutput> = outputs.collect();
    let bytes: u64 = outputs.iter().map(|output| output.size_bytes).sum();
    let inline = inline && bytes <= MOST_INLINE_BYTES;
    let mut told = Vec::with_capacity(outputs.len());
    for output in outputs {
        told.push(entry(workflows, job, output, inline).await?);
    }
    let body = json!({"job_id": job.id.to_string(), "outputs": told});
    Ok(Answer {
        content_type: "application/json".to_owned(),
        body: Bytes::from(body.to_string()),
    })
}

async fn entry(
    workflows: &Workflows,
    job: &Job,
    output: &JobOutput,
    inline: bool,
) -> Result<Value, AssetsError> {
    let url = if inline {
        let blob = Blob {
            hash: output.hash,
            size_bytes: output.size_bytes,
        };
        let read = read_all(workflows.assets.blobs().as_ref(), &blob).await;
        let read = read.map_err(|error: BlobError| AssetsError::Store(Box::new(error)))?;
        data_url(&output.content_type, &read)
    } else {
        // As long as the bytes are there: a repeated call gets the same answer.
        let keys = &workflows.link_keys;
        workflow_http::output_url(&workflows.base, keys, output, job.expires_at)
    };
    Ok(json!({
        "kind": kind(output.kind),
        "url": url,
        "content_type": output.content_type,
        "file_name": output.path.name(),
        "size_bytes": output.size_bytes,
        "asset_id": output.asset.to_string(),
    }))
}

fn kind(kind: OutputKind) -> &'static str {
    match kind {
        OutputKind::Image => "image",
        OutputKind::Video => "video",
        OutputKind::Audio => "audio",
        OutputKind::Text => "text",
        OutputKind::File => "file",
        OutputKind::Latent => "latent",
    }
}
