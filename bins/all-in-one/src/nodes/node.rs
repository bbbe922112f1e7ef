//! A node that runs a model: its definition, what it asks for, and how it waits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine_native::define::{hidden, list_output, modern, output};
use engine_native::{Inputs, Node, NodeContext, NodeError, NodeOutput, Slot, Wait};
use router_core::{Answer, Model, ReturnKind, RouterError};
use router_server::InnerCall;
use secrecy::SecretString;
use serde_json::Value;
use workflow_core::{HiddenInput, NodeDefinition, OutputDefinition, Partner};

use super::alias::Alias;
use super::answer::Came;
use super::class::class_of;
use super::schema::Form;
use super::{Partners, fields, price, problem};

/// Pauses between calls that find the account's own calls in their way: the first and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// The longest wait for a quota that is used up; what takes longer fails.
const MOST_PATIENCE: Duration = Duration::from_secs(120);

/// The class of a model.
#[derive(Debug)]
pub(super) struct PartnerNode {
    definition: NodeDefinition,
    form: Form,
    model: Arc<Model>,
    partners: Arc<Partners>,
}

/// Whose job it is that calls, and what with.
struct Payer {
    account: String,
    secret: Option<SecretString>,
}

impl PartnerNode {
    pub(super) fn new(model: Arc<Model>, partners: Arc<Partners>) -> Self {
        let form = Form::of(&model);
        Self {
            definition: definition(&model, &form),
            form,
            model,
            partners,
        }
    }

    /// The class under which ComfyUI itself has the model.
    pub(super) fn known_as(alias: &Alias, model: Arc<Model>, partners: Arc<Partners>) -> Self {
        let form = alias.form();
        let class = modern(&alias.class, &alias.module, &alias.category);
        let named = NodeDefinition {
            display_name: Some(alias.display_name.clone()),
            inputs: alias.definitions(),
            outputs: vec![output(output_type(model.form().returns.kind))],
            ..class
        };
        Self {
            definition: of_partner(named, &model, &form),
            form,
            model,
            partners,
        }
    }
}

impl Node for PartnerNode {
    fn definition(&self) -> NodeDefinition {
        self.definition.clone()
    }

    fn ask(&self, inputs: &mut Inputs, context: &NodeContext) -> Result<Option<Wait>, NodeError> {
        let body = fields::body(&self.form, inputs, context)?;
        let body = Bytes::from(Value::Object(body).to_string());
        let call = InnerCall {
            model: self.model.id().clone(),
            key: key(context, &body),
            body,
            label: format!("job={}", context.job()),
        };
        let payer = Payer {
            account: context.account().to_owned(),
            secret: context.secret().cloned(),
        };
        context.text(&format!("waiting for {}", self.model.id()));
        let (partners, model) = (Arc::clone(&self.partners), Arc::clone(&self.model));
        // Half of what is free: beside the files there are the pictures in them.
        let most_bytes = context.free_bytes() / 2;
        Ok(Some(Wait::for_answer(async move {
            let answer = partners.generate(&payer, call).await?;
            let returns = &model.form().returns;
            partners.results(returns, answer, most_bytes).await
        })))
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let came: Came = inputs.awaited()?;
        let output = came.outputs(self.model.form().returns.kind, context)?;
        let gives_all = self.definition.outputs.iter().any(|output| output.is_list);
        Ok(if gives_all { output } else { first(output) })
    }
}

/// The first result alone, as ComfyUI's own classes give it.
fn first(output: NodeOutput) -> NodeOutput {
    match output.slots.into_iter().next() {
        Some(Slot::List(results)) => NodeOutput::of(results.into_iter().take(1)),
        Some(slot) => NodeOutput {
            slots: vec![slot],
            ..NodeOutput::none()
        },
        None => NodeOutput::none(),
    }
}

impl Partners {
    /// Calls a model until there is an answer: whatever happens to the waiting, the key makes it one generation.
    async fn generate(&self, payer: &Payer, call: InnerCall) -> Result<Answer, NodeError> {
        let mut pause = PAUSE.0;
        loop {
            let caller = self.payer(&payer.account, payer.secret.as_ref()).await?;
            let error = match self.caller.call(&caller, call.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let Some(least) = again_after(&error) else {
                tracing::debug!(model = %call.model, error = &error as &dyn std::error::Error, "a partner node failed");
                return Err(problem::of(&error, &caller));
            };
            self.caller.clock().sleep(pause.max(least)).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}

/// After how long the same call may be let through, if it is only others that are in its way.
fn again_after(error: &RouterError) -> Option<Duration> {
    match error {
        RouterError::InFlight { retry_after } => Some(*retry_after),
        RouterError::RateLimited { retry_after, .. } if *retry_after <= MOST_PATIENCE => {
            Some(*retry_after)
        }
        // What was dispatched goes on. A job that waits when the server stops is run again by the next one.
        RouterError::Deadline { .. }
        | RouterError::Stopping { .. }
        | RouterError::TakenOver { .. }
        | RouterError::NoRoom { .. } => Some(Duration::ZERO),
        RouterError::TooManyCalls { limit } if *limit > 0 => Some(Duration::ZERO),
        // A call that is dearer than the whole cap never has room.
        RouterError::SpendCap {
            hold_cents,
            limit_cents,
            ..
        } if hold_cents <= limit_cents => Some(Duration::ZERO),
        RouterError::Malformed(_)
        | RouterError::KeyConflict
        | RouterError::NotReplayable
        | RouterError::TooLarge { .. }
        | RouterError::MediaType
        | RouterError::Schema(_)
        | RouterError::Ended(_)
        | RouterError::InsufficientCredits
        | RouterError::OverBudget(_)
        | RouterError::ModelNotFound { .. }
        | RouterError::SwitchedOff
        | RouterError::Withdrawn
        | RouterError::Forbidden(_)
        | RouterError::NotEnabled
        | RouterError::TooManyCalls { .. }
        | RouterError::SpendCap { .. }
        | RouterError::RateLimited { .. }
        | RouterError::Disconnected
        // Only submitted requests end like these.
        | RouterError::RequestNotFound
        | RouterError::CallNotFound
        | RouterError::ResultGone
        | RouterError::RequestCancelled
        | RouterError::WaitedTooLong
        | RouterError::NotDispatched { .. }
        | RouterError::BacklogFull { .. }
        | RouterError::Internal(_)
        | RouterError::Unavailable(_) => None,
    }
}

/// The same for the same request of the same node of the same job, however often the job is run; another one otherwise.
fn key(context: &NodeContext, body: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("easel partner node key v1");
    let job = context.job().to_string();
    for part in [job.as_bytes(), context.node().as_str().as_bytes(), body] {
        hasher
            .update(&(part.len() as u64).to_be_bytes())
            .update(part);
    }
    format!("node-{}", hasher.finalize().to_hex())
}

fn definition(model: &Model, form: &Form) -> NodeDefinition {
    let (id, partner) = (model.id(), &model.form().partner);
    let (kind, outputs): (&str, Vec<OutputDefinition>) = match model.form().returns.kind {
        ReturnKind::Text => ("text", vec![output("STRING")]),
        ReturnKind::Image => ("image", vec![list_output("IMAGE"), list_output("MASK")]),
        ReturnKind::Video => ("video", vec![list_output("VIDEO")]),
        ReturnKind::Audio => ("audio", vec![list_output("AUDIO")]),
    };
    let category = format!("api node/{kind}/{}", partner.replace('/', "-"));
    let module = format!("comfy_api_nodes.{}", id.provider());
    let class = NodeDefinition {
        display_name: Some(format!("{} ({partner})", id.model())),
        inputs: fields::definitions(form),
        outputs,
        ..modern(&class_of(id), &module, &category)
    };
    of_partner(class, model, form)
}

/// What every class has whose nodes call a model.
fn of_partner(mut class: NodeDefinition, model: &Model, form: &Form) -> NodeDefinition {
    let (id, partner) = (model.id(), &model.form().partner);
    class.description = format!(
        "Runs {id} of {partner} through the model router of this server, which bills the account. {}",
        price::words(model, form)
    );
    class.hidden = secrets();
    class.partner = Some(Partner {
        provider: id.provider().to_owned(),
    });
    let badge = price::badge(model, form);
    class.extra.insert("price_badge".to_owned(), badge);
    class
}

fn output_type(kind: ReturnKind) -> &'static str {
    match kind {
        ReturnKind::Text => "STRING",
        ReturnKind::Image => "IMAGE",
        ReturnKind::Video => "VIDEO",
        ReturnKind::Audio => "AUDIO",
    }
}

/// What clients know such classes by: they send a key along. The node's id makes each node a result of its own.
fn secrets() -> Vec<HiddenInput> {
    let tokens = [
        ("auth_token_comfy_org", "AUTH_TOKEN_COMFY_ORG"),
        ("api_key_comfy_org", "API_KEY_COMFY_ORG"),
        ("unique_id", "UNIQUE_ID"),
    ];
    let hidden = tokens.into_iter().map(|(name, token)| HiddenInput {
        in_list: true,
        ..hidden(name, token)
    });
    hidden.collect()
}
