//! Sends what is written down for webhooks: one process of an installation at a time.
//!
//! The loop asks the outbox for what is due, lets attempts run within the lanes of [`Lanes`], and notes what came of them. An
//! attempt that a stop or a crash cuts off is made again: receivers recognise the repeat by its `webhook-id`.

mod attempt;
mod sending;

use std::sync::Arc;
use std::time::Duration;

use hyper_kit::{AddressPolicy, Client, ClientConfig, Host};
use installation::{Installation, Work};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio_util::sync::CancellationToken;
use webhooks::{LaneSizes, WebhookUrl};

use crate::config::ServerConfig;
use crate::metrics::{Metrics, most_descriptors};
use crate::turns::in_turn;

use sending::Sending;

/// How long a receiver may take for the whole of its answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// The time for resolution, TCP and TLS within it.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// One descriptor in so many is for attempts of each lane.
const SHARE_OF_DESCRIPTORS: i64 = 32;

/// Sends messages to webhooks. Clones are the same one.
#[derive(Clone, Debug)]
pub struct WebhookSender {
    client: Client,
    private_hosts: Arc<[Host]>,
    sizes: LaneSizes,
    metrics: WebhookMetrics,
}

/// What is counted.
#[derive(Clone, Debug, Default)]
struct WebhookMetrics {
    attempts: Family<OutcomeLabels, Counter>,
    under_way: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

impl WebhookSender {
    /// A sender that reaches public addresses over `https`, and the hosts that the operator names.
    ///
    /// # Panics
    /// Never: it brings no authorities of its own, which alone could be wrong.
    #[must_use]
    pub fn new(config: &ServerConfig, metrics: &mut Metrics) -> Self {
        let client = ClientConfig {
            policy: AddressPolicy {
                // The hosts below may be plain http; all others are refused it before they are asked.
                https_only: false,
                allow_private: config.webhook_private_hosts.clone(),
            },
            connect_timeout: CONNECT_PATIENCE,
            user_agent: concat!("easel-webhooks/", env!("CARGO_PKG_VERSION"))
                .parse()
                .ok(),
            ..ClientConfig::default()
        };
        let of_each = most_descriptors().unwrap_or(1024) / SHARE_OF_DESCRIPTORS;
        let of_each = usize::try_from(of_each.clamp(8, 256)).unwrap_or(8);
        let sender = Self {
            client: Client::new(client).expect("it brings no authorities"),
            private_hosts: config.webhook_private_hosts.clone().into(),
            sizes: LaneSizes {
                of_each,
                of_all: 3 * of_each,
            },
            metrics: WebhookMetrics::default(),
        };
        let registry = metrics.registry();
        registry.register(
            "easel_webhook_attempts",
            "Attempts to send messages to webhooks, by outcome",
            sender.metrics.attempts.clone(),
        );
        registry.register(
            "easel_webhook_attempts_under_way",
            "Attempts to send messages to webhooks that are under way",
            sender.metrics.under_way.clone(),
        );
        for outcome in ["delivered", "failed"] {
            drop(sender.metrics.of(outcome));
        }
        sender
    }

    /// Sends while this process has the turn, until `stop` fires.
    pub(crate) async fn run(self, installation: &Installation, stop: CancellationToken) {
        let begin = || Sending::new(&self, installation, &stop).run();
        in_turn(&*installation.turns, Work::Webhooks, &stop, begin).await;
    }
}

impl WebhookMetrics {
    fn of(&self, outcome: &'static str) -> Counter {
        self.attempts
            .get_or_create_owned(&OutcomeLabels { outcome })
    }
}

/// Whether the operator named the host of an address as one that may be private and plain `http`.
pub(crate) fn is_private(url: &WebhookUrl, hosts: &[Host]) -> bool {
    let default_port = match url.as_str().starts_with("https://") {
        true => 443,
        false => 80,
    };
    let host = Host::parse(url.host());
    host.is_some_and(|host| hosts.iter().any(|it| it.same_as(&host, default_port)))
}
