//! What the API is made from, and what an operator settles about it.

use std::sync::Arc;

use hyper_kit::{Origin, PublicAddress, ReadPace};
use identity::Identity;
use jiff::SignedDuration;
use router_core::{Router, Timer, Usage};
use tokio_util::task::TaskTracker;

use crate::{Observer, ResultFiles};

/// Everything that the API calls.
#[derive(Clone)]
pub struct RouterService {
    /// The router.
    pub router: Router,
    /// Which calls were made, and what they cost.
    pub usage: Arc<dyn Usage>,
    /// Where the results are that are kept; `None` where nothing keeps any.
    pub results: Option<ResultFiles>,
    /// Tells whose request it is; never anonymous here.
    pub identity: Identity,
    /// The clock of requests.
    pub clock: Arc<dyn Timer>,
    /// Where executions go whose connection has left, and what counts the others: to be joined when the server drains.
    pub executions: TaskTracker,
    /// Hears of every answered request.
    pub observer: Observer,
    /// What the operator settled.
    pub config: RouterHttpConfig,
}

/// What an operator settles.
#[derive(Clone, Debug)]
pub struct RouterHttpConfig {
    /// How links are addressed, whose forwarding headers are believed, and the prefix that every path stands below.
    pub address: PublicAddress,
    /// Pages of other origins that may call.
    pub allowed_origins: Vec<Origin>,
    /// Most bytes of a call's body.
    pub body_bytes: usize,
    /// How slowly a body may arrive.
    pub read_pace: ReadPace,
    /// Whether the routes are served under `/v2/models` too.
    pub aliases: bool,
    /// Whether `X-Service-*` headers of answers are repeated as `X-Comfy-*`.
    pub mirror_headers: bool,
    /// Whether credentials are taken from `X-API-Key`.
    pub api_key_header: bool,
    /// How long a link to a kept result works.
    pub link_lifetime: SignedDuration,
}

impl RouterHttpConfig {
    /// 32 MiB: the default of [`RouterHttpConfig::body_bytes`], room for a few pictures in base64.
    pub const BODY_BYTES: usize = 32 << 20;

    /// 15 minutes: the default of [`RouterHttpConfig::link_lifetime`].
    pub const LINK_LIFETIME: SignedDuration = SignedDuration::from_mins(15);
}

impl std::fmt::Debug for RouterService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterService")
            .field("identity", &self.identity)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
