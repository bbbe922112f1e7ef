//! The largest bodies that a server takes, nothing but small numbers: each becomes many times as large once it
//! is parsed.

use std::io;

use async_trait::async_trait;

use super::lane::{End, Lane};
use super::wire::{exchange, owned};
use super::{Strike, Target};
use crate::Request;

/// Bodies at a time: half to each API.
const LANES: usize = 6;

pub(super) struct Json {
    target: Target,
    v2: Vec<u8>,
    v1: Vec<u8>,
}

impl Json {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            target: target.clone(),
            v2: body("workflow", target.json_bytes),
            v1: body("prompt", target.json_bytes),
        }
    }
}

/// A graph of one node whose input is the array.
fn body(field: &str, bytes: usize) -> Vec<u8> {
    let mut body = format!(
        r#"{{"{field}":{{"1":{{"class_type":"EmptyImage","inputs":{{"color":1,"batch_size":1,"height":16,"width":[0"#
    )
    .into_bytes();
    let end = b"]}}}}";
    while body.len() + 2 + end.len() <= bytes {
        body.extend_from_slice(b",0");
    }
    body.extend_from_slice(end);
    body
}

#[async_trait]
impl Strike for Json {
    fn lanes(&self) -> usize {
        LANES
    }

    fn refusals(&self) -> &'static [(u16, &'static str)] {
        &[]
    }

    fn answers(&self) -> &'static [u16] {
        // The graph cannot run; it is larger than graphs may be; its body came too slowly, as others came before it; the
        // account has as many bodies under way as it may.
        &[400, 408, 413, 422, 429, 503]
    }

    async fn occupy(&self) -> io::Result<()> {
        Ok(())
    }

    async fn strike(&self, lane: &Lane) -> io::Result<End> {
        let (path, body) = match lane.number % 2 {
            0 => ("/api/v2/jobs", &self.v2),
            _ => ("/api/prompt", &self.v1),
        };
        let request = Request::new("POST", path).header("Content-Type", "application/json");
        let request = owned(&self.target, request);
        let _hold = lane.hold();
        // A server may let some of them wait: the lane has begun with its first byte.
        lane.begun();
        let reply = exchange(&self.target, lane, request, body.len(), body, None).await?;
        Ok(End::Told(reply))
    }
}
