//! `catalog try MODEL FILE.json`: one call, and in plain words what was sent, received, decided and billed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use bytes::Bytes;
use clap::{Arg, ArgMatches, Command, value_parser};
use providers::{Exchange, Heard, LoadedModel};
use router_core::{
    AnswerSink, Bucket, Charge, Contact, Failure as ModelFailure, GenerationId, ModelId, Price,
    Ran, Refusal, Submission, Timer, Violation, ViolationStep, read_leniently,
};
use server_kit::program::{self, Failure};
use server_kit::timer::TokioTimer;
use uuid::Uuid;

use crate::catalog::CatalogSource;
use crate::config::RouterSettings;

/// The command.
pub(super) fn command() -> Command {
    let model = Arg::new("model")
        .value_name("MODEL")
        .required(true)
        .help("The model, such as bfl/flux-2-pro");
    let file = Arg::new("file")
        .value_name("FILE.json")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The body of the call");
    Command::new("try")
        .about("Runs a model once and shows what was sent and received, secrets masked; the partner may charge for it")
        .args([model, file])
}

/// Runs it.
pub(super) fn run(
    arguments: &ArgMatches,
    source: &CatalogSource,
    router: &RouterSettings,
) -> Result<(), Failure> {
    let model: &String = arguments.get_one("model").expect("it is required");
    let file: &PathBuf = arguments.get_one("file").expect("it is required");
    program::runtime()?.block_on(attempt(model, file, source, router))
}

async fn attempt(
    model: &str,
    file: &Path,
    source: &CatalogSource,
    router: &RouterSettings,
) -> Result<(), Failure> {
    let refuse = |message: String| Failure {
        exit_code: 2,
        message,
    };
    let id: ModelId = model.parse().map_err(|error| Failure::usage(&error))?;
    let body = fs::read(file)
        .map_err(|error| refuse(format!("{} cannot be read: {error}", file.display())))?;
    let offer = source.load().map_err(|faults| Failure::usage(&faults))?;
    // What is switched off may be tried before it is switched on.
    let mut models = offer.models.iter().chain(&offer.switched_off);
    let found = models.find(|loaded| *loaded.model.id() == id);
    let Some(loaded) = found else {
        let partner = offer
            .partners
            .iter()
            .find(|known| known.id == id.provider());
        let advice = match partner.map(|partner| &partner.missing) {
            Some(Some(missing)) => format!("its partner is not in use: {missing}"),
            Some(None) => "its partner has no model of this name".to_owned(),
            None => "there is no such partner".to_owned(),
        };
        return Err(refuse(format!("{id} cannot be tried; {advice}")));
    };
    let body = Bytes::from(body);
    // What is no JSON breaks the schema, too: by not being an object.
    let view = read_leniently(&body).unwrap_or_default();
    for violation in loaded.model.document().violations(&view) {
        let (place, message) = (place(&violation), &violation.message);
        program::print(&format!("The schema refuses {place}: {message}\n"));
    }
    let failed = tried(loaded, body, router.deadline).await;
    match failed {
        None => Ok(()),
        Some(message) => Err(Failure {
            exit_code: 1,
            message,
        }),
    }
}

/// Makes one call and prints it while it is made; why it did not end with a result.
async fn tried(loaded: &LoadedModel, body: Bytes, limit: Duration) -> Option<String> {
    let view = read_leniently(&body).unwrap_or_default();
    let streams = loaded.model.provider().streams(&view);
    let price = loaded.model.provider().price(&view);
    let submission = Submission {
        generation: GenerationId(Uuid::now_v7()),
        account: AccountId::local(),
        model: loaded.model.id().clone(),
        body,
        contact: Contact::default(),
        stream: streams.then(AnswerSink::keeping),
    };
    let timer: Arc<dyn Timer> = Arc::new(TokioTimer);
    let print = |heard| program::print(&shown(&heard));
    match providers::try_model(loaded, submission, limit, &timer, print).await {
        Some(Ok(done)) => {
            let (kind, bytes) = (&done.answer.content_type, done.answer.body.len());
            let bill = bill(done.charge, price);
            program::print(&format!("Result: {bytes} bytes of {kind}, billed {bill}\n"));
            None
        }
        Some(Err(failure)) => {
            program::print(&decided(&failure, price));
            Some(reason(&failure))
        }
        None => Some(
            "the model was not done within `deadline`; if the partner was done, its word for that is missing in `state`"
                .to_owned(),
        ),
    }
}

/// What a caller would pay.
fn bill(charge: Charge, price: Price) -> String {
    let cents = charge.cents(price.hold_cents());
    let amount = format!("${}.{:02}", cents / 100, cents % 100);
    match charge {
        Charge::Cents(_) => amount,
        Charge::AsHeld => format!("{amount} as held, since the partner names no amount"),
    }
}

/// What a failure is to a caller and to its bill, and what to do where that is wrong.
fn decided(failure: &ModelFailure, price: Price) -> String {
    let (bucket, status, why) = verdict(failure);
    let bucket = bucket.name();
    let billed = bill(charge(failure), price);
    let told = match failure {
        ModelFailure::Refused {
            refusal: Refusal::Content { code, message },
            ..
        } => format!("The caller gets `{code}`: {message}\n"),
        ModelFailure::Refused { .. }
        | ModelFailure::Policy {
            detail: Some(_), ..
        } => "The caller gets the partner's own `detail`.\n".to_owned(),
        ModelFailure::Policy { .. }
        | ModelFailure::Failed { .. }
        | ModelFailure::TimedOut { .. }
        | ModelFailure::Account { .. }
        | ModelFailure::Transient { .. }
        | ModelFailure::InStream { .. } => String::new(),
    };
    format!(
        "Decided: {status} {bucket}: {why}; billed {billed}\n{told}If the partner means something else, write a rule under \
         `errors` (docs/PARTNERS.md, \"A call\").\n"
    )
}

/// The bucket and status of a failure, and what they stand for.
fn verdict(failure: &ModelFailure) -> (Bucket, u16, &'static str) {
    match failure {
        ModelFailure::Refused { .. } => (
            Bucket::InvalidInput,
            422,
            "the partner finds a mistake in the caller's body",
        ),
        ModelFailure::Policy { detail, .. } => (
            Bucket::ContentPolicyViolation,
            if detail.is_some() { 422 } else { 400 },
            "the partner's policy forbids the content",
        ),
        ModelFailure::Failed { ran, .. } => (
            Bucket::ProviderError,
            502,
            match ran {
                Ran::Nothing => "the partner failed before any work ran",
                Ran::InVain => {
                    "the partner failed, and its documentation calls that final and free"
                }
                Ran::Perhaps => {
                    "the partner failed, or what it said cannot be read; work may have run"
                }
            },
        ),
        ModelFailure::TimedOut { .. } => (
            Bucket::ProviderTimeout,
            504,
            "the partner did not answer in time",
        ),
        ModelFailure::Account { .. } => (
            Bucket::ServiceUnavailable,
            503,
            "the partner does not accept the key, or the account has no credit or permission there",
        ),
        ModelFailure::Transient { .. } => (
            Bucket::ServiceUnavailable,
            503,
            "the partner is busy or cannot be reached, and nothing ran",
        ),
        ModelFailure::InStream { cause, .. } => verdict(cause),
    }
}

fn charge(failure: &ModelFailure) -> Charge {
    match failure {
        ModelFailure::Refused { charge, .. }
        | ModelFailure::Policy { charge, .. }
        | ModelFailure::InStream { charge, .. } => *charge,
        ModelFailure::Failed { .. }
        | ModelFailure::TimedOut { .. }
        | ModelFailure::Account { .. }
        | ModelFailure::Transient { .. } => Charge::Cents(0),
    }
}

fn reason(failure: &ModelFailure) -> String {
    match failure {
        ModelFailure::Refused { .. } => "the partner rejected the content".to_owned(),
        ModelFailure::Policy { message, .. } => {
            format!("the partner's policy forbids it: {message}")
        }
        ModelFailure::Failed { message, .. }
        | ModelFailure::TimedOut { message, .. }
        | ModelFailure::Account { message, .. }
        | ModelFailure::Transient { message } => message.clone(),
        ModelFailure::InStream { cause, .. } => {
            format!("{}, after its stream began", reason(cause))
        }
    }
}

fn shown(heard: &Heard) -> String {
    let mut text = String::new();
    let written = match heard {
        Heard::Exchange(exchange) => {
            let shown = show(&mut text, exchange);
            shown.and_then(|()| match &exchange.outcome {
                Ok(received) => writeln!(text, "{}\n", body(&received.body)),
                Err(_) => Ok(()),
            })
        }
        Heard::Stream(exchange) => show(&mut text, exchange),
        Heard::More(bytes) => write!(text, "{}", body(bytes)),
        Heard::Ended(Ok(())) => writeln!(text),
        Heard::Ended(Err(reason)) => writeln!(text, "\n< {reason}\n"),
    };
    written.expect("writing into a string does not fail");
    text
}

/// The place of a violation as a JSON Pointer; the body itself where there is none.
fn place(violation: &Violation) -> String {
    let steps = violation.location.iter().map(|step| match step {
        ViolationStep::Field(name) => format!("/{name}"),
        ViolationStep::Index(index) => format!("/{index}"),
    });
    let place: String = steps.collect();
    if place.is_empty() {
        "the body".to_owned()
    } else {
        place
    }
}

/// An exchange without the body of its answer.
fn show(text: &mut String, exchange: &Exchange) -> std::fmt::Result {
    writeln!(text, "> {} {}", exchange.method, exchange.url)?;
    for (name, value) in &exchange.headers {
        writeln!(text, "> {name}: {value}")?;
    }
    writeln!(text, ">\n{}\n", body(&exchange.body))?;
    match &exchange.outcome {
        Ok(received) => {
            writeln!(text, "< {}", received.status)?;
            for (name, value) in &received.headers {
                writeln!(text, "< {name}: {value}")?;
            }
            writeln!(text, "<")
        }
        Err(reason) => writeln!(text, "< {reason}\n"),
    }
}

fn body(bytes: &Bytes) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("({} bytes that are no text)", bytes.len()),
    }
}
