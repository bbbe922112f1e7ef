//! `usage export` and `usage totals`: what was called, and what it cost.
//!
//! They only read the rows, so they work beside a running server and keep none from starting.

use std::io::{self, BufWriter, Write};

use accounts::{AccountId, Label, Labels};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueEnum, builder::PossibleValue, value_parser};
use futures_util::StreamExt;
use installation::InstallationStore;
use jiff::Timestamp;
use router_core::{Breakdown, Bucket, FailedAttempt, ModelTotal, Usage, UsageQuery, UsageRow};
use serde_json::{Value, json};
use server_kit::program::{self, Failure};

/// The form of an export.
#[derive(Clone, Copy, Debug)]
enum Format {
    Json,
    Csv,
}

/// Most days of totals by day: each is read by itself.
const MOST_DAYS: usize = 366;

/// The columns of an export, in their order.
const COLUMNS: [&str; 24] = [
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
    "api_key",
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
        )
        .arg(
            Arg::new("by")
                .long("by")
                .value_name("WHAT")
                .action(ArgAction::Append)
                .value_delimiter(',')
                .value_parser(["key", "day"])
                .help("A line for each API key, or for each day (UTC) between --from and --until, too; may be both: key,day"),
        );
    Command::new("usage")
        .about("Shows which calls were made and what they cost")
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
            totals(&*usage, &query, arguments, label).await
        }
    })
}

/// Prints totals as CSV.
async fn totals(
    usage: &dyn Usage,
    query: &UsageQuery,
    arguments: &ArgMatches,
    label: Option<&str>,
) -> Result<(), Failure> {
    let words: Vec<&String> = arguments.get_many("by").into_iter().flatten().collect();
    let is_by = |word: &str| words.iter().any(|wanted| *wanted == word);
    let by = Breakdown {
        by_key: is_by("key"),
        label,
    };
    let is_by_day = is_by("day");
    let spans = match is_by_day {
        true => days(query)?,
        false => vec![(String::new(), query.clone())],
    };
    let mut text = totals_head(is_by_day, by);
    for (day, query) in spans {
        let totals = usage.totals(&query, by).await;
        let totals = totals.map_err(|error| Failure::fault(&error))?;
        let day = is_by_day.then_some(day.as_str());
        totals_text(&mut text, &totals, day, by);
    }
    program::print(&text);
    Ok(())
}

/// Each day (UTC) of a query, with its part of it.
fn days(query: &UsageQuery) -> Result<Vec<(String, UsageQuery)>, Failure> {
    const DAY_S: i64 = 24 * 60 * 60;
    let (Some(from), Some(until)) = (query.from, query.until) else {
        return Err(Failure {
            exit_code: 2,
            message: "--by day needs --from and --until".to_owned(),
        });
    };
    let mut days = Vec::new();
    let mut start = from;
    while start < until {
        if days.len() == MOST_DAYS {
            return Err(Failure {
                exit_code: 2,
                message: format!(
                    "--by day spans at most {MOST_DAYS} days; name --from and --until closer to each other"
                ),
            });
        }
        let next = (start.as_second().div_euclid(DAY_S) + 1) * DAY_S;
        let end = Timestamp::from_second(next).unwrap_or(until).min(until);
        let part = UsageQuery {
            from: Some(start),
            until: Some(end),
            ..query.clone()
        };
        days.push((start.strftime("%F").to_string(), part));
        start = end;
    }
    Ok(days)
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
        "api_key": call.api_key.as_ref().map(ToString::to_string),
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

/// The first line of totals as CSV.
fn totals_head(is_by_day: bool, by: Breakdown<'_>) -> String {
    let day = if is_by_day { "day," } else { "" };
    let key = if by.by_key { "api_key," } else { "" };
    let label = by
        .label
        .map_or_else(String::new, |label| format!("label:{label},"));
    format!("{day}workspace,model,{key}{label}calls,succeeded,generations,charge_cents\n")
}

/// Totals as CSV: the day first, API key and value of the label behind the model.
fn totals_text(text: &mut String, totals: &[ModelTotal], day: Option<&str>, by: Breakdown<'_>) {
    for total in totals {
        let day = day.map_or_else(String::new, |day| format!("{day},"));
        let key = total.api_key.as_ref().map(ToString::to_string);
        let key = match by.by_key {
            true => format!("{},", key.unwrap_or_default()),
            false => String::new(),
        };
        let value = quoted(total.label.as_deref().unwrap_or_default());
        let value = by.label.map_or_else(String::new, |_| format!("{value},"));
        text.push_str(&format!(
            "{day}{},{},{key}{value}{},{},{},{}\n",
            total.account.as_str(),
            total.model.as_str(),
            total.calls,
            total.succeeded,
            total.generations,
            total.charge_cents
        ));
    }
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
