//! The command on jobs: why one waits. Jobs belong to a running server, which knows its workers.

use accounts::AccountId;
use admin_http::wire::{Answer, JobExplanation, Problem, Request, WorkerNote};
use async_trait::async_trait;
use clap::{Arg, ArgMatches, Command};
use jiff::Timestamp;
use uuid::Uuid;

use super::client::Client;
use super::flags::{flag, group};
use crate::listing::{self, json_flag, table};
use crate::program::{self, Failure};

/// The jobs of a server, as operators see them.
#[async_trait]
pub trait JobAdmin: Send + Sync + 'static {
    /// Where a job of an account runs, or why it waits; `None` if the account has no such job.
    ///
    /// # Errors
    /// If the jobs cannot be read now.
    async fn explain(
        &self,
        account: &AccountId,
        job: Uuid,
        now: Timestamp,
    ) -> Result<Option<JobExplanation>, Problem>;
}

/// The subcommand `job`.
pub(super) fn command() -> Command {
    let explain = Command::new("explain")
        .about("Shows where a job runs, or why it waits, with the reason for every worker that does not take it")
        .arg(
            Arg::new("id")
                .value_name("JOB")
                .required(true)
                .help("The id of the job"),
        )
        .arg(flag(
            "account",
            "ACCOUNT",
            "The account of the job; all accounts are searched by default",
        ))
        .arg(json_flag());
    group("job", "Looks at jobs").subcommand(explain)
}

/// Carries `job explain` out.
pub(super) async fn explain(
    arguments: &ArgMatches,
    client: &mut Client<'_>,
) -> Result<(), Failure> {
    let text = |name: &str| arguments.get_one::<String>(name).cloned();
    let request = Request::ExplainJob {
        id: text("id").unwrap_or_default(),
        account: text("account"),
    };
    if let Answer::Job(job) = client.ask(request).await?? {
        program::print(&match listing::wants_json(arguments) {
            true => listing::json(&job),
            false => shown(&job),
        });
    }
    Ok(())
}

fn shown(job: &JobExplanation) -> String {
    let before = match job.queue_position {
        Some(0) => ", next of those that can run".to_owned(),
        Some(before) => format!(", behind {before} others"),
        None => String::new(),
    };
    let JobExplanation {
        account,
        account_running,
        account_room,
        ..
    } = job;
    let full = match account_running >= account_room && job.queue_position.is_some() {
        true => "; it waits until one of them ends",
        false => "",
    };
    let fields = [
        ("job", job.id.clone()),
        ("status", format!("{}{before}", job.status)),
        (
            "engine",
            job.engine
                .clone()
                .unwrap_or_else(|| "unknown to this version".to_owned()),
        ),
        (
            "account",
            format!("{account}: {account_running} of {account_room} jobs run{full}"),
        ),
    ];
    let lines = fields
        .iter()
        .map(|(name, value)| format!("{name:<17}{value}\n"));
    let mut text: String = lines.collect();
    if !job.workers.is_empty() {
        let rows = job.workers.iter();
        let rows = rows.map(|note| vec![note.worker.clone(), reason(note).to_owned()]);
        text.push_str(&table(&["WORKER", "WHY NOT"], rows));
    }
    text
}

fn reason(note: &WorkerNote) -> &str {
    match &note.why_not {
        Some(why) => why,
        None if note.has_job => "(has the job)",
        None => "(can take it now)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_stands_in_a_line_with_its_reason() {
        let note = |worker: &str, has_job, why_not: Option<&str>| WorkerNote {
            worker: worker.to_owned(),
            has_job,
            why_not: why_not.map(ToOwned::to_owned),
        };
        let job = JobExplanation {
            id: "j".to_owned(),
            account: "local".to_owned(),
            status: "queued".to_owned(),
            engine: Some("comfyui".to_owned()),
            queue_position: Some(2),
            account_running: 4,
            account_room: 4,
            workers: vec![
                note("a", false, Some("missing class KSampler")),
                note("b", true, None),
                note("c", false, None),
            ],
        };
        let expected = "job              j\n\
                        status           queued, behind 2 others\n\
                        engine           comfyui\n\
                        account          local: 4 of 4 jobs run; it waits until one of them ends\n\
                        WORKER  WHY NOT\n\
                        a       missing class KSampler\n\
                        b       (has the job)\n\
                        c       (can take it now)\n";
        assert_eq!(shown(&job), expected);
    }
}
