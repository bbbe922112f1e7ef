//! `usage export` and `usage totals`: what was called, and what it cost.
//!
//! They only read the rows, so they work beside a running server and keep none from starting.

use std::io::{self, BufWriter, Write};

use accounts::{AccountId, Label, Labels};
use clap::{Arg, ArgMatches, Command, ValueEnum, builder::PossibleValue, value_parser};
use futures_util::StreamExt;
use installation::InstallationStore;
use jiff::Timestamp;
use router_core::{Bucket, FailedAttempt, ModelTotal, Usage, UsageQuery, UsageRow};
use serde_json::{Value, json};
use server_kit::program::{self, Failure};

/// The form of an export.
#[derive(Clone, Copy, Debug)]
enum Format {
    Json,
    Csv,
}

/// The columns of an export, in their order.
const COLUMNS: [&str; 23] = [
    "request_id",
    "workspace",
    "model",
    "status",
    "key_hash",
    "generation_id",
    "replayed",
    "delivered",
    "received_at",
    "answered_at",
    "provider_task_id",
    "dispatched_at",
    "accepted_at",
    "settled_at",
    "generation_status",
    "hold_cents",
    "charge_cents",
    "began",
    "duration_ms",
    "recorded",
    "served_by",
    "failed_attempts",
    "labels",
];

/// The commands.
pub(super) fn command() -> Command {
    let query = || {
        let account = Arg::new("account")
            .long("account")
            .value_name("ACCOUNT")
            .help("Of this account alone");
        let time = |name, help| Arg::new(name).long(name).value_name("TIME").help(help);
        [
            account,
            time(
                "from",
                "Received at this time or later, such as 2026-11-01T00:00:00Z",
            ),
            time("until", "Received before this time"),
        ]
    };
    let format = Arg::new("format")
        .long("format")
        .default_value("json")
        .value_parser(value_parser!(Format))
        .help("One JSON object per line, or CSV");
    let export = Command::new("export")
        .about("Prints every call, oldest first, with the generation that it began, picked up or replayed; then the generations whose call is not on record. Each bill stands once")
        .args(query())
        .arg(format);
    let totals = Command::new("totals")
        .about("Prints calls and cents of every account and model, as CSV")
        .args(query())
        .arg(
            Arg::new("label")
                .long("label")
                .value_name("KEY")
                .help("A line for each value of this label too"),
        );
    Command::new("usage")
        .about("Tells what was called and what it cost")
        .subcommand_required(true)
        .subcommands([export, totals])
}

/// Runs one of them.
pub(super) fn run(arguments: &ArgMatches, store: &dyn InstallationStore) -> Result<(), Failure> {
    let Some((name, arguments)) = arguments.subcommand() else {
        return Ok(());
    };
    let query = query(arguments)?;
    program::runtime()?.block_on(async {
        let usage = store.usage().await;
        let usage = usage.map_err(|error| Failure::fault(&error))?;
        if name == "export" {
            let format = *arguments.get_one("format").expect("it has a default");
            export(&*usage, query, format).await
        } else {
            let label = arguments.get_one::<String>("label").map(String::as_str);
            if let Some(Err(must)) = label.map(Label::check_key) {
                return Err(Failure {
                    exit_code: 2,
                    message: format!("--label is the key of a label: {must}"),
                });
            }
            let totals = usage.totals(&query, label).await;
            let totals = totals.map_err(|error| Failure::fault(&error))?;
            program::print(&totals_text(&totals, label));
            Ok(())
        }
    })
}

fn query(arguments: &ArgMatches) -> Result<UsageQuery, Failure> {
    let text = |name: &str| arguments.get_one::<String>(name);
    let account = text("account").map(|text| text.parse::<AccountId>());
    let time = |name: &str| {
        let read = text(name).map(|text| text.parse::<Timestamp>());
        read.transpose().map_err(|error| Failure {
            exit_code: 2,
            message: format!("--{name} is no time such as 2026-11-01T00:00:00Z: {error}"),
        })
    };
    Ok(UsageQuery {
        account: account
            .transpose()
            .map_err(|error| Failure::usage(&error))?,
        from: time("from")?,
        until: time("until")?,
    })
}

async fn export(usage: &dyn Usage, query: UsageQuery, format: Format) -> Result<(), Failure> {
    let mut rows = usage.export(query);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut write = |line: String| writeln!(out, "{line}").is_ok();
    if matches!(format, Format::Csv) && !write(COLUMNS.join(",")) {
        return Ok(());
    }
    while let Some(row) = rows.next().await {
        let row = row.map_err(|error| Failure::fault(&error))?;
        let line = match format {
            Format::Json => object(&row).to_string(),
            Format::Csv => csv(&object(&row)),
        };
        // A reader that went away early is no failure.
        if !write(line) {
            return Ok(());
        }
    }
    let _gone_readers_do_not_matter = out.flush();
    Ok(())
}

/// A row under its columns; what is not known is null. What a generation holds and costs stands with the call that began it: of
/// a replay or a pick-up it is 0.
fn object(row: &UsageRow) -> Value {
    let (call, generation) = (&row.call, row.generation.as_ref());
    let status = |bucket: Option<Bucket>| bucket.map_or("ok", Bucket::name);
    let time = |time: Timestamp| time.to_string();
    let key_hash = call.key.map(|key| hexadecimal(&key.0));
    let duration = call.answered_at.duration_since(call.received_at);
    let (recorded, began) = (row.is_recorded, row.began());
    let cents = |cents: u64| if began { cents } else { 0 };
    let serving = generation.and_then(|generation| generation.serving.as_deref());
    let generation_status = generation
        .filter(|generation| generation.settled_at.is_some())
        .map_or("running", |generation| status(generation.bucket));
    json!({
        "request_id": call.request.to_string(),
        "workspace": call.account.as_str(),
        "model": call.model.as_ref().map(|model| model.as_str()),
        "status": recorded.then(|| status(call.bucket)),
        "key_hash": key_hash,
        "generation_id": call.generation.map(|id| id.to_string()),
        "replayed": call.replayed,
        "delivered": call.delivered,
        "received_at": time(call.received_at),
        "answered_at": recorded.then(|| time(call.answered_at)),
        "provider_task_id": generation.and_then(|generation| generation.task_id.clone()),
        "dispatched_at": generation.map(|generation| time(generation.dispatched_at)),
        "accepted_at": generation.and_then(|generation| generation.accepted_at.map(time)),
        "settled_at": generation.and_then(|generation| generation.settled_at.map(time)),
        "generation_status": generation.map(|_| generation_status),
        "hold_cents": generation.map(|generation| cents(generation.hold_cents)),
        "charge_cents": generation.and_then(|generation| generation.charge_cents).map(cents),
        "began": call.generation.map(|_| began),
        "duration_ms": recorded.then(|| duration.as_millis() as i64),
        "recorded": recorded,
        "served_by": serving.map(|serving| serving.model.as_str()),
        "failed_attempts": serving.map(|serving| {
            let failed = serving.failed.iter().map(attempt);
            failed.collect::<Value>()
        }),
        "labels": labels(&call.labels),
    })
}

/// The labels of a call; null if it has none.
fn labels(labels: &Labels) -> Value {
    let pairs = labels.iter();
    let pairs = pairs.map(|label| (label.key().to_owned(), Value::from(label.value())));
    match labels.is_empty() {
        true => Value::Null,
        false => Value::Object(pairs.collect()),
    }
}

/// An attempt that failed before the one that ended the generation.
fn attempt(attempt: &FailedAttempt) -> Value {
    json!({
        "model": attempt.model.as_str(),
        "status": attempt.bucket.name(),
        "message": attempt.message,
        "upstream_status": attempt.upstream_status,
        "began_at": attempt.began_at.to_string(),
        "ended_at": attempt.ended_at.to_string(),
    })
}

fn csv(object: &Value) -> String {
    let fields = COLUMNS.map(|name| match &object[name] {
        Value::Null => String::new(),
        Value::String(text) => quoted(text),
        other @ (Value::Bool(_) | Value::Number(_)) => other.to_string(),
        other @ (Value::Array(_) | Value::Object(_)) => quoted(&other.to_string()),
    });
    fields.join(",")
}

/// A text of a partner may hold anything.
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The totals as CSV; by label, the value stands behind the model, under the key of the label.
fn totals_text(totals: &[ModelTotal], label: Option<&str>) -> String {
    let column = label.map_or_else(String::new, |key| format!("label:{key},"));
    let mut text = format!("workspace,model,{column}calls,succeeded,generations,charge_cents\n");
    for total in totals {
        let value = quoted(total.label.as_deref().unwrap_or_default());
        let value = label.map_or_else(String::new, |_| format!("{value},"));
        text.push_str(&format!(
            "{},{},{value}{},{},{},{}\n",
            total.account.as_str(),
            total.model.as_str(),
            total.calls,
            total.succeeded,
            total.generations,
            total.charge_cents
        ));
    }
    text
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Json, Self::Csv]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::Json => "json",
            Self::Csv => "csv",
        }))
    }
}
