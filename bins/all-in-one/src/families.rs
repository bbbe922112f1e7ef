//! Every family on one port: a request goes to the API that its path belongs to.

use futures_util::future::Either;
use http::{Request, Response};
use hyper_kit::{Application, Body, ConnectionInfo, Incoming, Refusal};
use router_http::RouterApi;
use workflow_http::WorkflowApi;

/// The APIs side by side. What belongs to neither is answered in the words of the workflow API.
#[derive(Clone, Debug)]
pub(crate) struct Families {
    /// Family A, below `/v1` and `/v2/models`.
    pub(crate) router: RouterApi,
    /// Everything else.
    pub(crate) workflows: WorkflowApi,
}

impl Application for Families {
    fn call(
        &self,
        request: Request<Incoming>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send {
        match self.router.owns(request.uri().path()) {
            true => Either::Left(self.router.handle(request, connection)),
            false => Either::Right(self.workflows.handle(request, connection)),
        }
    }

    fn refuse(&self, refusal: Refusal, path: &str) -> Response<Body> {
        if self.router.owns(path) {
            return self.router.refuse(refusal, path);
        }
        self.workflows.refuse(refusal, path)
    }
}
