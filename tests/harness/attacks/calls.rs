//! More than a thousand calls of a model at once, each under a key, of which the partner ends none.

use std::fs;
use std::io;
use std::path::Path;

use async_trait::async_trait;
use serde_json::json;

use super::graphs::number;
use super::lane::{End, Lane};
use super::wire::{Streams, owned};
use super::{Strike, Target};
use crate::Request;
use crate::http2::OPEN_WINDOW;

/// Connections and their streams: together more than the 1,024 writes that wait for the database at most.
const LANES: usize = 9;
const STREAMS: usize = 128;

/// The partner of the attack, which is Black Forest Labs under another name.
const PARTNER: &str = "held";
const MODEL: &str = "flux-2-pro";

pub(super) struct Calls(Target);

impl Calls {
    pub(super) fn new(target: &Target) -> Self {
        Self(target.clone())
    }
}

/// The model of the attack: it is asked after once, and then not for a day.
pub(super) fn write_catalog(shipped: &Path, folder: &Path) -> io::Result<()> {
    let (from, to) = (shipped.join("bfl"), folder.join(PARTNER));
    fs::create_dir_all(&to)?;
    let text = fs::read_to_string(from.join("partner.toml"))?;
    let text = text
        .replace("max_interval_ms = 5000", "max_interval_ms = 86400000")
        .replace("interval_ms = 500", "interval_ms = 86400000");
    fs::write(to.join("partner.toml"), text)?;
    for file in [format!("{MODEL}.toml"), format!("{MODEL}.schema.json")] {
        fs::copy(from.join(&file), to.join(&file))?;
    }
    Ok(())
}

#[async_trait]
impl Strike for Calls {
    fn lanes(&self) -> usize {
        LANES
    }

    fn refusals(&self) -> &'static [(u16, &'static str)] {
        // A call whose row took a whole lease to be written is not sent: 503.
        &[(429, ""), (503, "")]
    }

    fn answers(&self) -> &'static [u16] {
        &[]
    }

    async fn occupy(&self) -> io::Result<()> {
        Ok(())
    }

    async fn strike(&self, lane: &Lane) -> io::Result<End> {
        let requests: Vec<Request> = (0..STREAMS)
            .map(|_| {
                let number = number();
                let body = json!({"prompt": format!("held picture {number}")});
                let request = Request::post_json(&format!("/v1/models/{PARTNER}/{MODEL}"), &body);
                owned(&self.0, request).header("Idempotency-Key", &format!("held-{number}"))
            })
            .collect();
        let streams = Streams {
            requests: &requests,
            count: STREAMS,
            window: OPEN_WINDOW,
            from_head: false,
        };
        streams.keep(&self.0, lane).await
    }
}
