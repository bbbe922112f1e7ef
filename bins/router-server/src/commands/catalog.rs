//! `catalog new DIR`, `catalog check DIR`, `catalog try MODEL FILE.json` and `catalog diff LIST`: for people who write
//! catalogs; `catalog off NAME` and `catalog on NAME` for operators. `catalog list` and `catalog reload` ask a running server and are `server_kit::admin`'s.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use bytes::Bytes;
use clap::{Arg, ArgMatches, Command, value_parser};
use providers::{Exchange, Heard, Kind, LoadedModel, Source};
use router_core::{
    AnswerSink, Charge, Contact, Failure as ModelFailure, GenerationId, ModelId, Price, Submission,
    Timer, Violation, ViolationStep,
};
use server_kit::program::{self, Failure};
use server_kit::timer::TokioTimer;
use uuid::Uuid;

use crate::catalog::{CatalogFaults, CatalogSource};
use crate::config::RouterSettings;

mod diff;
mod new;
mod switch;

/// The commands.
pub(super) fn command() -> Command {
    let folder = Arg::new("directory")
        .value_name("DIR")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The catalog: a folder for each partner");
    let check = Command::new("check")
        .about("Says what is wrong with a catalog: file, line and reason")
        .arg(folder);
    let model = Arg::new("model")
        .value_name("MODEL")
        .required(true)
        .help("The model, such as bfl/flux-2-pro");
    let file = Arg::new("file")
        .value_name("FILE.json")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The body of the call");
    let attempt = Command::new("try")
        .about("Runs a model once and shows what was sent and received, secrets masked; the partner may charge for it")
        .args([model, file]);
    Command::new("catalog")
        .about("Makes and looks at catalogs of partners and models, and switches models off and on")
        .subcommand_required(true)
        .subcommands([new::command(), check, attempt, diff::command()])
        .subcommands(switch::commands())
        .subcommands(server_kit::admin::catalog_commands())
}

/// Runs one of them.
pub(super) fn run(
    arguments: &ArgMatches,
    router: &RouterSettings,
    kinds: Vec<Arc<dyn Kind>>,
) -> Result<(), Failure> {
    let source = CatalogSource::new(&router.partners, Arc::new(TokioTimer))
        .map_err(|error| Failure::usage(&error))?
        .with_kinds(kinds);
    match arguments.subcommand() {
        Some(("check", arguments)) => {
            let folder: &PathBuf = arguments.get_one("directory").expect("it is required");
            check(folder, &source)
        }
        Some(("new", arguments)) => new::run(arguments, source.settings()),
        Some(("diff", arguments)) => diff::run(arguments, &source),
        Some(("off", arguments)) => switch::run(arguments, false, &source),
        Some(("on", arguments)) => switch::run(arguments, true, &source),
        Some((_, arguments)) => {
            let model: &String = arguments.get_one("model").expect("it is required");
            let file: &PathBuf = arguments.get_one("file").expect("it is required");
            program::runtime()?.block_on(attempt(model, file, source, router))
        }
        None => Ok(()),
    }
}

fn check(folder: &Path, source: &CatalogSource) -> Result<(), Failure> {
    let folder = Source::with_builtin(Some(folder.to_owned()));
    let models = providers::check(&folder, source.settings())
        .map_err(|faults| Failure::usage(&CatalogFaults(faults)))?;
    program::print(&format!(
        "The catalog is right: {models} models, with those built in.\n"
    ));
    Ok(())
}

async fn attempt(
    model: &str,
    file: &Path,
    source: CatalogSource,
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
    let view = serde_json::from_slice(&body).unwrap_or_default();
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
    let view = serde_json::from_slice(&body).unwrap_or_default();
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
        Some(Err(failure)) => Some(reason(&failure, price)),
        None => Some("the model was not done within `deadline`".to_owned()),
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

fn reason(failure: &ModelFailure, price: Price) -> String {
    match failure {
        ModelFailure::Refused { .. } => "the partner rejected the content".to_owned(),
        ModelFailure::Policy { message, .. } => {
            format!("the partner's policy forbids it: {message}")
        }
        ModelFailure::Failed { message, .. }
        | ModelFailure::TimedOut { message, .. }
        | ModelFailure::Account { message, .. }
        | ModelFailure::Transient { message } => message.clone(),
        ModelFailure::InStream { cause, charge } => {
            let (reason, bill) = (reason(cause, price), bill(*charge, price));
            format!("{reason}, after its stream began; billed {bill}")
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
