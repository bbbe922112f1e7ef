//! Starting a worker: its port, its command with what is filled in, its variables, and its connection.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::TcpListener;

use jiff::Timestamp;
use rustix::process::Signal;
use workflow_core::deployment::{EnvironmentValue, RevisionNumber, WorkerCommand};

use super::process::{Launch, Process};
use super::record::Record;
use super::running::{Managed, Running, State};
use crate::address::WorkerUrl;
use crate::pool::{ComfyPool, WorkerConfig};

/// Starts a worker and begins to connect to it. An error says what an operator has to mend, without any value of a variable.
pub(super) fn start(
    running: &Running,
    command: &WorkerCommand,
    (number, revision): (u32, RevisionNumber),
    worker: &str,
    now: Timestamp,
) -> Result<Process, String> {
    let port = free_port()?;
    let models = command.models.as_deref().unwrap_or_default();
    let filled = command
        .arguments
        .iter()
        .map(|text| fill(text, port, worker, models));
    let launch = Launch {
        arguments: filled.collect(),
        environment: environment(command, |text| fill(text, port, worker, models))?,
        folder: command.folder.as_ref().map(Into::into),
        log: running.log(number),
        mark: format!("{}/{number}/{}/{port}", running.mark, revision.0),
    };
    let process = Process::start(&launch)
        .map_err(|error| format!("{} cannot be started: {error}", launch.arguments[0]))?;
    let record = Record {
        process: process.id,
        port,
        revision,
        started_at: now,
    };
    let written = record.write(&running.folder, number);
    let failed = match written {
        Err(error) => Some(format!("its process cannot be recorded: {error}")),
        Ok(()) if connect(&running.pool, worker, port) => None,
        Ok(()) => Some("the pool takes no more workers".to_owned()),
    };
    match failed {
        None => Ok(process),
        Some(why) => {
            process.signal(Signal::KILL);
            Record::remove(&running.folder, number);
            Err(why)
        }
    }
}

/// Adds a worker of this machine to the pool; whether it is in.
pub(super) fn connect(pool: &ComfyPool, worker: &str, port: u16) -> bool {
    let url = format!("http://127.0.0.1:{port}").parse();
    url.is_ok_and(|url| add(pool, worker, url, false))
}

/// Connects to the next address of a revision that it is not connected to. One that the revision before has too goes over.
pub(super) fn connect_next(
    pool: &ComfyPool,
    state: &mut State,
    worker: &str,
    urls: &[String],
    (number, revision): (u32, RevisionNumber),
    now: Timestamp,
) {
    let reports = pool.workers();
    let url_of = |managed: &Managed| {
        let report = reports.iter().find(|report| report.name == managed.worker);
        report.map(|report| report.url.clone())
    };
    let of_revision = state
        .workers
        .values()
        .filter(|managed| managed.revision == revision);
    let connected: BTreeSet<String> = of_revision.filter_map(url_of).collect();
    let urls = urls.iter().filter_map(|url| url.parse::<WorkerUrl>().ok());
    let mut missing = urls.filter(|url| !connected.contains(url.as_str()));
    let Some(url) = missing.next() else {
        return;
    };
    let is_there = |managed: &&mut Managed| url_of(managed).as_deref() == Some(url.as_str());
    if let Some(managed) = state.workers.values_mut().find(is_there) {
        managed.revision = revision;
        return;
    }
    if add(pool, worker, url, true) {
        let managed = Managed::new(revision, worker.to_owned(), now, None);
        state.workers.insert(number, managed);
    }
}

fn add(pool: &ComfyPool, worker: &str, url: WorkerUrl, keeps_definitions: bool) -> bool {
    let added = pool.add(WorkerConfig {
        name: worker.to_owned(),
        url,
        headers: Default::default(),
        ca_pem: None,
        slots: None,
        keeps_definitions,
    });
    if let Err(error) = &added {
        tracing::warn!(worker, %error, "a worker of a deployment cannot be part of its pool");
    }
    added.is_ok()
}

/// A port that is free now. Another program may take it before the worker does: the worker then fails, and the next one gets another.
fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let bound = bound.map_err(|error| format!("no port is free: {error}"))?;
    Ok(bound.port())
}

fn fill(text: &str, port: u16, worker: &str, models: &str) -> String {
    text.replace("{port}", &port.to_string())
        .replace("{name}", worker)
        .replace("{models}", models)
}

fn environment(
    command: &WorkerCommand,
    fill: impl Fn(&str) -> String,
) -> Result<Vec<(String, OsString)>, String> {
    let variables = command.environment.iter().map(|(name, value)| {
        let value = match value {
            EnvironmentValue::Text(text) => fill(text).into(),
            EnvironmentValue::Variable(variable) => std::env::var_os(variable).ok_or_else(|| {
                format!("the server has no variable {variable}, which {name} is to have the value of; set it and restart the server")
            })?,
            EnvironmentValue::File(file) => {
                let text = std::fs::read_to_string(file).map_err(|error| {
                    format!("the file {file}, which {name} is to have the content of, cannot be read: {error}")
                })?;
                text.strip_suffix('\n').unwrap_or(&text).into()
            }
        };
        Ok((name.clone(), value))
    });
    variables.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn command(value: EnvironmentValue) -> WorkerCommand {
        WorkerCommand {
            arguments: Vec::new(),
            environment: BTreeMap::from([("TOKEN".to_owned(), value)]),
            folder: None,
            models: None,
        }
    }

    fn read(value: EnvironmentValue) -> Result<OsString, String> {
        let read = environment(&command(value), |text| {
            fill(text, 8200, "sdxl-1", "/models")
        });
        read.map(|mut variables| variables.remove(0).1)
    }

    #[test]
    fn variables_come_from_the_definition_the_server_or_a_file() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let file = root.path().join("token");
        std::fs::write(&file, "secret\n").expect("room");
        let path = file.display().to_string();
        assert_eq!(read(EnvironmentValue::File(path)), Ok("secret".into()));
        let text = "{name} at {port} with {models}";
        let filled = "sdxl-1 at 8200 with /models";
        assert_eq!(
            read(EnvironmentValue::Text(text.to_owned())),
            Ok(filled.into())
        );
        let path = std::env::var_os("PATH").expect("every test has one");
        assert_eq!(
            read(EnvironmentValue::Variable("PATH".to_owned())),
            Ok(path)
        );
        for missing in [
            EnvironmentValue::Variable("NO_SUCH_VARIABLE".to_owned()),
            EnvironmentValue::File("/no/such/file".to_owned()),
        ] {
            let why = read(missing).expect_err("it is not there");
            assert!(why.contains("TOKEN"), "{why}");
        }
    }
}
