//! Whom a command asks: the server that `--server` names, the one that has the installation, or the installation itself.

use std::path::PathBuf;
use std::time::Duration;

use admin_http::wire::{Answer, Problem, ProblemKind, Reply, Request};
use admin_http::{Actor, AdminService};
use futures_util::future::BoxFuture;
use hyper_kit::error_chain;
use jiff::Timestamp;

use super::remote::Remote;
use super::{AdminPorts, Unopened, socket};
use crate::program::Failure;

/// How long a server may take to begin or to leave.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Opens the installation.
pub(super) type Opening = BoxFuture<'static, Result<AdminPorts, Unopened>>;

/// One command's way to the installation.
pub(super) struct Client<'a> {
    pub(super) data_dir: PathBuf,
    /// Opens the installation by itself.
    pub(super) open: &'a mut dyn FnMut() -> Opening,
    /// What was opened.
    pub(super) ports: Option<AdminPorts>,
    /// The server that is asked instead of this machine's installation.
    pub(super) remote: Option<Remote>,
}

impl Client<'_> {
    /// Asks. A server that just starts or leaves has the installation and does not listen: it is waited for.
    pub(super) async fn ask(
        &mut self,
        request: Request,
    ) -> Result<Result<Answer, Problem>, Failure> {
        if let Some(remote) = &self.remote {
            return remote.ask(&request).await.map(told);
        }
        let mut patience = PATIENCE;
        loop {
            if let Some(ports) = &self.ports {
                let reply = ports.answer(&Actor::Local, request, Timestamp::now());
                return Ok(told(reply.await));
            }
            let asked = socket::ask(&self.data_dir, &request).await;
            if let Some(reply) = asked.map_err(|error| unreachable(&error))? {
                return Ok(told(reply));
            }
            match (self.open)().await {
                Ok(ports) => {
                    // As a server would find it at its start.
                    let local = accounts::ensure_local(&*ports.admin, Timestamp::now()).await;
                    local.map_err(|error| Failure::fault(&error))?;
                    self.ports = Some(ports);
                }
                Err(Unopened::InUse(_)) if !patience.is_zero() => {
                    tokio::time::sleep(PAUSE).await;
                    patience = patience.saturating_sub(PAUSE);
                }
                Err(Unopened::InUse(failure) | Unopened::Failed(failure)) => return Err(failure),
            }
        }
    }
}

fn told(reply: Reply) -> Result<Answer, Problem> {
    match reply {
        Reply::Done(answer) => Ok(answer),
        Reply::Refused(problem) => Err(problem),
    }
}

fn unreachable(error: &std::io::Error) -> Failure {
    Failure {
        exit_code: 1,
        message: format!(
            "the server that has the data directory could not be asked: {}; the command may have been carried out",
            error_chain(error)
        ),
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self {
            exit_code: match problem.kind {
                ProblemKind::Fault => 1,
                ProblemKind::Invalid
                | ProblemKind::Absent
                | ProblemKind::Taken
                | ProblemKind::Conflict
                | ProblemKind::InUse => 2,
            },
            message: [problem.message]
                .into_iter()
                .chain(problem.faults)
                .collect::<Vec<_>>()
                .join("\n  "),
        }
    }
}
