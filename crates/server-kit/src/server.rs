//! A server that is ready to run: its socket, its API, its verifier and the socket of its commands, and how they end.

use std::future::Future;
use std::net::SocketAddr;

use hyper_kit::Application;
use identity::Identity;
use installation::Installation;
use tokio_util::sync::CancellationToken;

use crate::admin::{AdminPorts, AdminSocket};
use crate::reload::{Adjustable, ReloadStatus};
use crate::webhooks::WebhookSender;
use crate::{Front, ListenAddress, Listening, MetricsListening};

/// Everything that is served, bound and mounted.
#[derive(Debug)]
pub struct Server<A> {
    /// The socket.
    pub listening: Listening,
    /// The socket of metrics alone, where there is one.
    pub metrics: Option<MetricsListening>,
    /// The API, with health, readiness and metrics in front of it.
    pub front: Front<A>,
    /// Where commands come in,
    pub admin: AdminSocket,
    /// and what they work on.
    pub ports: AdminPorts,
    /// Tells whose requests they are.
    pub identity: Identity,
    /// What is looked through for damage while it serves, and written back at the end.
    pub installation: Installation,
    /// Sends what is written down for webhooks.
    pub webhooks: WebhookSender,
    /// What became of attempts to read the configuration again.
    pub reloads: ReloadStatus,
}

impl<A: Application> Server<A> {
    /// Where it listens; tells the port when any free one was asked for.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        self.listening.address()
    }

    /// Where metrics are served besides.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsListening::address)
    }

    /// What it changes of itself while it serves.
    #[must_use]
    pub fn adjustable(&self) -> Adjustable {
        Adjustable {
            identity: self.identity.clone(),
            accounts: self.ports.admin.clone(),
            catalog: self.ports.catalog.clone(),
            settings: self.ports.settings.clone(),
            status: self.reloads.clone(),
        }
    }

    /// Serves until `shutdown`, then ends well: not ready at once, accepting for the configured delay, then requests have
    /// the configured grace. `background` is handed a token that fires when nothing new may be taken up; commands are
    /// carried out until both are over. Answers when nothing runs any more.
    pub async fn run<B: Future<Output = ()>>(
        self,
        shutdown: impl Future<Output = ()>,
        background: impl FnOnce(CancellationToken) -> B,
    ) {
        let drain = self.listening.leave().drain;
        let keys = crate::keys::keep_fresh(self.identity, drain.clone());
        let checks = crate::opening::keep_checking(self.installation.health.clone(), drain.clone());
        let webhooks = self.webhooks.run(&self.installation, drain.clone());
        let background = background(drain);
        let ended = CancellationToken::new();
        let metrics = self.metrics.map(|metrics| {
            let endpoints = self.front.endpoints.clone();
            // A client that watches the server stop can do so to the end.
            metrics.serve(endpoints, ended.clone().cancelled_owned())
        });
        let metrics = async {
            if let Some(metrics) = metrics {
                metrics.await;
            }
        };
        let serving = self.listening.serve(self.front, shutdown);
        let commands = self.admin.serve(self.ports, ended.clone());
        let leaving = async {
            let (drained, (), (), (), ()) =
                tokio::join!(serving, background, keys, checks, webhooks);
            ended.cancel();
            drained
        };
        let (drained, (), ()) = tokio::join!(leaving, commands, metrics);
        self.installation.closing.write_back().await;
        tracing::info!(cut_connections = drained.cut, "stopped");
    }
}
