//! Submitting a graph.

use http::Response;
use hyper_kit::Body;
use serde_json::json;
use trace_context::TraceContext;
use uuid::Uuid;
use v1_compat::{PromptProblem, PromptRequest, job_of, labels, node_errors, prompt_id};
use workflow_core::{JobId, Metadata, Submission};

use super::errors::ApiError;
use super::reply;
use super::request::Call;
use crate::memory::{IntakeError, Parsed};

/// A body that is too large for its tree, in the words of a refused submission.
fn refused(error: ApiError) -> ApiError {
    if let ApiError::Intake(error @ IntakeError::TooLarge(_)) = &error {
        let problem =
            PromptProblem::new("invalid_prompt", "The prompt is invalid", error.to_string());
        return ApiError::Prompt(Box::new(problem));
    }
    error
}

/// POST /prompt: 200 once what is valid of the graph is durably queued.
pub(super) async fn submit(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    if !call.service.can_pay(&call.principal, call.now).await? {
        return Err(ApiError::InsufficientCredits);
    }
    let bytes = call.read(body).await?;
    let now = call.now;
    let parsed = call.parse(&bytes, move |bytes| PromptRequest::read(bytes, now));
    // The room that it has is kept until the job is in: until then there are copies and trees of it.
    let Parsed { value, room } = parsed.await.map_err(refused)?;
    let mut request = value?;
    let (id, metadata) = match request.prompt_id {
        Some(chosen) => (job_of(call.account(), chosen), labels(chosen)),
        None => (JobId(Uuid::now_v7()), Metadata::new()),
    };
    // It grows with every submission and means nothing more: what a client asks for is told back to it.
    let number = request.number.unwrap_or(call.now.as_microsecond() as f64);
    request.origin.number = number;
    let submission = Submission {
        id,
        account: call.account().clone(),
        tier: call.principal.tier.clone(),
        workflow: request.workflow,
        metadata,
        secret: request.secret,
        key: None,
        origin: request.origin.to_bytes(),
        targets: request.targets,
        partial: true,
        flat_uploads: true,
        extra_pnginfo: request.extra_pnginfo,
        trace: TraceContext::current(),
    };
    let submitted = call
        .service
        .jobs_of(&call.principal)
        .submit(submission, call.now)
        .await?;
    drop((room, bytes));
    let number = match number.fract() == 0.0 && number.abs() < 9e15 {
        true => json!(number as i64),
        false => json!(number),
    };
    Ok(reply::ok(&json!({
        "prompt_id": prompt_id(&submitted.view.job).to_string(),
        "number": number,
        "node_errors": node_errors(&submitted.node_errors),
    })))
}
