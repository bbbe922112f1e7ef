//! Several routers over one database beside nginx, under the same calls: what `bench cloud` measures of them.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::requests::CONNECTIONS;
use super::subjects::{
    Nginx, Partner, Router, Subject, UNBOUNDED, nginx, start_nginx, write_catalog,
};
use super::{Bench, NO_END, Tally};
use crate::client::{Plan, Work};
use crate::clients::Clients;
use it::load::server::Server;

/// What is started, and where.
pub(crate) struct Paths<'a> {
    /// The program whose router is measured.
    pub(crate) program: PathBuf,
    /// This very program, built for speed.
    pub(crate) own: PathBuf,
    pub(crate) folder: &'a Path,
    /// What tells a router where its rows are.
    pub(crate) variables: Vec<(String, String)>,
}

/// nginx and routers, before one partner. Dropping it ends the processes.
pub(crate) struct Calls {
    bench: Bench,
    nginx: (Nginx, Subject),
    routers: Vec<(Subject, Server)>,
    _partner: Partner,
}

impl Calls {
    /// Starts everything, with so many routers.
    pub(crate) async fn start(paths: &Paths<'_>, routers: usize) -> io::Result<Self> {
        let Some(program) = nginx() else {
            let text = "nginx is not installed; `apt-get install nginx` installs it";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        };
        let bench = Bench {
            program: paths.program.clone(),
            under: Vec::new(),
            own: paths.own.clone(),
            folder: TempDir::with_prefix_in("calls-", paths.folder)?,
            seconds: 0.0,
            turns: 1,
            held: 0,
            models: 0,
            with: Vec::new(),
            variables: paths.variables.clone(),
        };
        let partner = Partner::start(&bench).await?;
        let (master, at) = start_nginx(&bench, "calls", &program, partner.address).await?;
        let nginx = Subject::plain(at, master.pid());
        let models = write_catalog(&bench, "models", partner.address, 10)?;
        let router = Router {
            folder: bench.folder.path(),
            models: &models,
            partner: partner.address,
            checked: true,
            concurrent_calls: UNBOUNDED,
        };
        let mut started = Vec::new();
        for number in 1..=routers {
            started.push(router.start(&bench, &format!("router-{number}")).await?);
        }
        Ok(Self {
            bench,
            nginx: (master, nginx),
            routers: started,
            _partner: partner,
        })
    }

    /// Calls through nginx for so long.
    pub(crate) async fn through_nginx(&self, seconds: f64) -> io::Result<Tally> {
        self.through(&[&self.nginx.1], seconds).await
    }

    /// As many calls at once through all routers together.
    pub(crate) async fn through_replicas(&self, seconds: f64) -> io::Result<Tally> {
        let routers: Vec<&Subject> = self.routers.iter().map(|(router, _)| router).collect();
        self.through(&routers, seconds).await
    }

    /// The memory of all routers.
    pub(crate) fn resident_bytes(&self) -> io::Result<u64> {
        let mut sum = 0;
        for (router, _) in &self.routers {
            sum += router.usage()?.resident_bytes;
        }
        Ok(sum)
    }

    /// Ends the routers.
    pub(crate) async fn end(self) -> io::Result<()> {
        for (_, server) in self.routers {
            server.kill().await?;
        }
        Ok(())
    }

    async fn through(&self, subjects: &[&Subject], seconds: f64) -> io::Result<Tally> {
        let plans = subjects.iter().map(|subject| Plan {
            server: subject.address,
            connections: CONNECTIONS / subjects.len(),
            work: Work::Post(subject.call()),
            seconds,
            most: NO_END,
            first: 0,
        });
        let plans: Vec<Plan> = plans.collect();
        let mut clients = Clients::start(&self.bench.own, &plans).await?;
        let used = || {
            let mut seconds = 0.0;
            for subject in subjects {
                seconds += subject.usage()?.cpu_seconds;
            }
            io::Result::Ok(seconds)
        };
        let before = used()?;
        clients.go().await?;
        let outcome = clients.outcome().await?;
        Ok(Tally {
            cpu_seconds: used()? - before,
            seconds: outcome.seconds,
            times_us: outcome.samples,
            resident_bytes: 0,
        })
    }
}
