//! The commands on deployments: the file of a definition, what is asked, and what is printed.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use admin_http::wire::{
    Answer, DefinitionBody, DeploymentAnswer, DeploymentBody, DeploymentRequest, EventBody,
    LogsBody, Request,
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::Deserialize;

use crate::admin::client::Client;
use crate::admin::commands::say;
use crate::admin::flags::{flag, group};
use crate::listing::{self, json_flag, table};
use crate::program::{self, Failure};

/// The pause between two looks at logs that are followed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A deployment as it is written in a file.
#[derive(Debug, Deserialize)]
struct File {
    name: String,
    #[serde(flatten)]
    definition: toml::Table,
}

/// The subcommand `deployment`.
pub(in crate::admin) fn command() -> Command {
    let name = || {
        Arg::new("name")
            .value_name("DEPLOYMENT")
            .required(true)
            .help("The name of the deployment, as `deployment list` shows it")
    };
    let of = |word: &'static str, about: &'static str| Command::new(word).about(about).arg(name());
    let count = |name: &'static str, help: &'static str| {
        flag(name, "N", help).value_parser(clap::value_parser!(u32))
    };
    let apply = Command::new("apply")
        .about("Makes a deployment from a TOML file, or a new revision of it; without a change nothing happens")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .help("A TOML file with `name`, and `command` or `urls`"),
        );
    let scale = of(
        "scale",
        "Changes how many workers a deployment has, until the next revision",
    )
    .arg(count(
        "min",
        "The least workers that stay up; 0 lets the last one stop",
    ))
    .arg(count("max", "The most workers that are started"))
    .group(
        clap::ArgGroup::new("bounds")
            .args(["min", "max"])
            .required(true)
            .multiple(true),
    );
    let rollback = of("rollback", "Goes back to a revision, which starts before the current one stops").arg(
        Arg::new("revision")
            .value_name("REVISION")
            .value_parser(clap::value_parser!(u32))
            .help("The number of the revision; by default the one before the current, or the current one while a newer one is not ready"),
    );
    let logs = of(
        "logs",
        "Prints the newest lines that the workers of a deployment wrote",
    )
    .arg(
        Arg::new("follow")
            .short('f')
            .long("follow")
            .action(ArgAction::SetTrue)
            .help("Continues with new lines until it is interrupted"),
    );
    group(
        "deployment",
        "Shows and changes deployments of ComfyUI workers",
    )
    .subcommand(apply)
    .subcommand(
        Command::new("list")
            .about("Lists all deployments")
            .arg(json_flag()),
    )
    .subcommand(of("show", "Shows everything of a deployment").arg(json_flag()))
    .subcommand(of(
        "start",
        "Starts a deployment that was stopped, or failed",
    ))
    .subcommand(of(
        "stop",
        "Stops a deployment once its jobs are over; others wait",
    ))
    .subcommand(scale)
    .subcommand(rollback)
    .subcommand(logs)
    .subcommand(
        of(
            "events",
            "Lists what happened to a deployment, newest first",
        )
        .arg(json_flag()),
    )
    .subcommand(of(
        "remove",
        "Removes a deployment that has no jobs, and stops its workers",
    ))
}

/// Carries a command out.
pub(in crate::admin) async fn run(
    word: &str,
    arguments: &ArgMatches,
    client: &mut Client<'_>,
) -> Result<(), Failure> {
    let name = || {
        arguments
            .get_one::<String>("name")
            .cloned()
            .unwrap_or_default()
    };
    let count = |name: &str| arguments.try_get_one::<u32>(name).ok().flatten().copied();
    match word {
        "list" => {
            let all = all(client).await?;
            print(arguments, &all, |all| listed(all));
            Ok(())
        }
        "show" => {
            let shown = one(client, DeploymentRequest::Show { name: name() }).await?;
            print(arguments, &shown, self::shown);
            Ok(())
        }
        "events" => {
            let events = events(client, &name()).await?;
            print(arguments, &events, |events| of_events(events));
            Ok(())
        }
        "logs" if arguments.get_flag("follow") => follow(client, &name()).await,
        "logs" => {
            let logs = logs(client, &name()).await?;
            for log in logs.logs {
                program::print(&prefixed(&log.worker, &log.text));
            }
            Ok(())
        }
        "apply" => {
            let path = arguments
                .get_one::<String>("file")
                .cloned()
                .unwrap_or_default();
            let (name, definition) = read_file(Path::new(&path))?;
            tell(client, DeploymentRequest::Apply { name, definition }).await
        }
        "start" => tell(client, DeploymentRequest::Start { name: name() }).await,
        "stop" => tell(client, DeploymentRequest::Stop { name: name() }).await,
        "scale" => {
            let (min, max) = (count("min"), count("max"));
            let name = name();
            tell(client, DeploymentRequest::Scale { name, min, max }).await
        }
        "rollback" => {
            let (name, revision) = (name(), count("revision"));
            tell(client, DeploymentRequest::RollBack { name, revision }).await
        }
        "remove" => {
            ask(client, DeploymentRequest::Remove { name: name() }).await?;
            say(&format!(
                "deployment {} is removed; its workers stop",
                name()
            ));
            Ok(())
        }
        _ => unreachable!("clap lets no other command through"),
    }
}

async fn ask(
    client: &mut Client<'_>,
    request: DeploymentRequest,
) -> Result<DeploymentAnswer, Failure> {
    let Answer::Deployment(answer) = client.ask(Request::Deployment(request)).await?? else {
        return Err(odd());
    };
    Ok(answer)
}

async fn one(
    client: &mut Client<'_>,
    request: DeploymentRequest,
) -> Result<DeploymentBody, Failure> {
    let DeploymentAnswer::One(deployment) = ask(client, request).await? else {
        return Err(odd());
    };
    Ok(*deployment)
}

/// Makes a change and says how the deployment is then.
async fn tell(client: &mut Client<'_>, request: DeploymentRequest) -> Result<(), Failure> {
    let deployment = one(client, request).await?;
    let DeploymentBody {
        name, state, why, ..
    } = &deployment;
    let next = match deployment.next_revision {
        Some(next) => {
            format!("; revision {next} is started; `deployment events {name}` shows its progress")
        }
        None => String::new(),
    };
    say(&format!("deployment {name} is {state}: {why}{next}"));
    Ok(())
}

async fn all(client: &mut Client<'_>) -> Result<Vec<DeploymentBody>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let request = DeploymentRequest::List { after, limit: None };
        let DeploymentAnswer::List(page) = ask(client, request).await? else {
            return Err(odd());
        };
        all.extend(page.deployments);
        after = page.next_cursor;
        if after.is_none() {
            return Ok(all);
        }
    }
}

async fn events(client: &mut Client<'_>, name: &str) -> Result<Vec<EventBody>, Failure> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let request = DeploymentRequest::Events {
            name: name.to_owned(),
            before,
            limit: Some(200),
        };
        let DeploymentAnswer::Events(page) = ask(client, request).await? else {
            return Err(odd());
        };
        all.extend(page.events);
        before = page.next_cursor.and_then(|cursor| cursor.parse().ok());
        if before.is_none() {
            return Ok(all);
        }
    }
}

async fn logs(client: &mut Client<'_>, name: &str) -> Result<LogsBody, Failure> {
    let name = name.to_owned();
    let DeploymentAnswer::Logs(logs) = ask(client, DeploymentRequest::Logs { name }).await? else {
        return Err(odd());
    };
    Ok(logs)
}

async fn follow(client: &mut Client<'_>, name: &str) -> Result<(), Failure> {
    let mut before: HashMap<String, String> = HashMap::new();
    loop {
        for log in logs(client, name).await?.logs {
            let known = before.get(&log.worker).map_or("", String::as_str);
            program::print(&prefixed(&log.worker, fresh(known, &log.text)));
            before.insert(log.worker, log.text);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// What is new in a log since the last look: what stands behind the last lines of then.
fn fresh<'a>(before: &str, now: &'a str) -> &'a str {
    const ENOUGH: usize = 256;
    let mut from = before.len().saturating_sub(ENOUGH);
    while !before.is_char_boundary(from) {
        from += 1;
    }
    let last = &before[from..];
    match now.rfind(last) {
        Some(place) if !last.is_empty() => &now[place + last.len()..],
        // The log has dropped its beginning since: what is left of those lines is at its start.
        Some(_) | None => {
            let mut ends = last.char_indices().map(|(at, _)| &last[at..]);
            let left = ends.find(|end| now.starts_with(end)).unwrap_or_default();
            &now[left.len()..]
        }
    }
}

fn prefixed(worker: &str, text: &str) -> String {
    text.lines()
        .map(|line| format!("{worker}  {line}\n"))
        .collect()
}

fn odd() -> Failure {
    Failure {
        exit_code: 1,
        message: "the server's answer is not one to this command; use the version of this program that the server runs"
            .to_owned(),
    }
}

/// Reads the file of a deployment.
fn read_file(path: &Path) -> Result<(String, DefinitionBody), Failure> {
    let refused = |why: String| Failure {
        exit_code: 2,
        message: format!("{}: {why}", path.display()),
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| refused(format!("it cannot be read: {error}")))?;
    read(&text).map_err(refused)
}

fn read(text: &str) -> Result<(String, DefinitionBody), String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let definition = toml::Value::Table(file.definition).try_into();
    let definition = definition.map_err(|error: toml::de::Error| error.message().to_owned())?;
    Ok((file.name, definition))
}

fn print<T: serde::Serialize>(arguments: &ArgMatches, found: &T, shown: impl FnOnce(&T) -> String) {
    program::print(&match listing::wants_json(arguments) {
        true => listing::json(found),
        false => shown(found),
    });
}

fn number(number: Option<u32>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn listed(deployments: &[DeploymentBody]) -> String {
    let rows = deployments.iter().map(|deployment| {
        let jobs: u64 = deployment.workers.iter().map(|worker| worker.jobs).sum();
        vec![
            deployment.name.clone(),
            deployment.state.clone(),
            number(deployment.revision),
            format!(
                "{} of {}-{}",
                deployment.workers.len(),
                deployment.min,
                deployment.max
            ),
            jobs.to_string(),
            deployment.why.clone(),
        ]
    });
    table(
        &["NAME", "STATE", "REVISION", "WORKERS", "JOBS", "WHY"],
        rows,
    )
}

fn shown(deployment: &DeploymentBody) -> String {
    let start = deployment
        .start_ms
        .map(|ms| format!("{:.1} s", ms as f64 / 1e3));
    let fields = [
        ("name", deployment.name.clone()),
        ("path", deployment.path.clone()),
        ("state", deployment.state.clone()),
        ("why", deployment.why.clone()),
        ("revision", number(deployment.revision)),
        ("next revision", number(deployment.next_revision)),
        (
            "workers",
            format!("{} to {}", deployment.min, deployment.max),
        ),
        ("last start", start.unwrap_or_else(|| "-".to_owned())),
    ];
    let lines = fields
        .iter()
        .map(|(name, value)| format!("{name:<17}{value}\n"));
    let mut text: String = lines.collect();
    if !deployment.workers.is_empty() {
        let rows = deployment.workers.iter().map(|worker| {
            vec![
                worker.name.clone(),
                worker.revision.to_string(),
                worker.state.clone(),
                worker.since.clone(),
                worker
                    .pid
                    .map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
                format!("{}/{}", worker.jobs, worker.slots),
                worker.breaker.clone(),
                worker.url.clone(),
            ]
        });
        let head = [
            "WORKER", "REVISION", "STATE", "SINCE", "PROCESS", "JOBS", "BREAKER", "ADDRESS",
        ];
        text.push_str(&table(&head, rows));
    }
    let rows = deployment.revisions.iter().map(|revision| {
        let definition = &revision.definition;
        let command = definition.command.as_ref().map(|command| command.join(" "));
        let urls = definition.urls.as_ref().map(|urls| urls.join(" "));
        vec![
            revision.number.to_string(),
            revision.created_at.clone(),
            command.or(urls).unwrap_or_default(),
        ]
    });
    text.push_str(&table(&["REVISION", "APPLIED", "WORKERS"], rows));
    text
}

fn of_events(events: &[EventBody]) -> String {
    let rows = events.iter();
    let rows = rows.map(|event| vec![event.at.clone(), event.kind.clone(), event.text.clone()]);
    table(&["TIME", "KIND", "WHAT"], rows)
}

#[cfg(test)]
mod tests {
    use admin_http::wire::{SecretSource, VariableBody};

    use super::*;

    #[test]
    fn a_file_is_read_strictly() {
        let text = "name = \"sdxl\"\ncommand = [\"python\", \"main.py\", \"--port\", \"{port}\"]\nmax = 2\n\
                    [environment]\nA = \"1\"\nB = { env = \"TOKEN\" }\nC = { file = \"/run/x\" }\n";
        let (name, definition) = read(text).expect("it is right");
        assert_eq!(
            (name.as_str(), definition.max, definition.min),
            ("sdxl", Some(2), None)
        );
        let variables: Vec<&VariableBody> = definition.environment.values().collect();
        let (env, file) = (
            SecretSource::Env("TOKEN".to_owned()),
            SecretSource::File("/run/x".to_owned()),
        );
        let expected = [
            &VariableBody::Text("1".to_owned()),
            &VariableBody::Secret(env),
            &VariableBody::Secret(file),
        ];
        assert_eq!(variables, expected);
        for (wrong, says) in [
            ("command = []", "name"),
            ("name = \"a\"\nmaximum = 2", "maximum"),
            ("name = \"a\"\nmin = -1", "-1"),
            ("name = ", "name"),
        ] {
            let why = read(wrong).expect_err(wrong);
            assert!(why.contains(says), "{wrong}: {why}");
        }
    }

    #[test]
    fn only_new_lines_are_printed_of_a_log_that_is_followed() {
        assert_eq!(fresh("", "a\nb\n"), "a\nb\n");
        assert_eq!(fresh("a\nb\n", "a\nb\n"), "");
        assert_eq!(fresh("a\nb\n", "b\nc\n"), "c\n");
        assert_eq!(fresh("a\nb\n", "x\n"), "x\n");
        let long = "ä".repeat(1_000);
        assert_eq!(fresh(&long, &format!("{long}\nnew\n")), "\nnew\n");
    }
}
