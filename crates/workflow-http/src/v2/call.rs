//! A request of a known caller, on its way to a handler.

use accounts::Principal;
use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::request::Parts;
use hyper_kit::{Body, Params};
use jiff::Timestamp;

use super::errors::ApiError;
use crate::WorkflowService;
use crate::links::Links;
use crate::memory::{Memory, Parsed};
use crate::streams::Streams;
use crate::uploads::Uploads;

/// What a handler is given, and how it reads a body.
pub(crate) struct Call<'a> {
    pub(crate) service: &'a WorkflowService,
    pub(crate) streams: &'a Streams,
    pub(crate) uploads: &'a Uploads,
    pub(crate) memory: &'a Memory,
    pub(crate) head: &'a Parts,
    pub(crate) params: Params,
    pub(crate) principal: Principal,
    pub(crate) links: Links,
    pub(crate) now: Timestamp,
}

impl Call<'_> {
    /// Refuses a body that is compressed.
    pub(crate) fn expect_plain(&self) -> Result<(), ApiError> {
        let mut codings = self.head.headers.get_all(CONTENT_ENCODING).iter();
        match codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            true => Ok(()),
            false => Err(ApiError::Encoded),
        }
    }

    /// A whole body within the bound of JSON.
    pub(crate) async fn read(&self, body: Body) -> Result<Bytes, ApiError> {
        self.expect_plain()?;
        let (account, config) = (&self.principal.account, &self.service.config);
        let (limit, pace) = (config.json_bytes, config.read_pace);
        Ok(self.memory.read(account, body, limit, pace).await?)
    }

    /// What `work` makes of a body, with the room that it takes.
    pub(crate) async fn parse<T: Send + 'static>(
        &self,
        bytes: &Bytes,
        work: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Result<Parsed<T>, ApiError> {
        let (account, jobs) = (&self.principal.account, &self.service.jobs);
        Ok(self.memory.parse(account, jobs, bytes, work).await?)
    }
}
