//! An application with the console and the reference in front of it.

use std::future::ready;

use futures_util::future::Either;
use http::{Request, Response};
use hyper_kit::{Application, Body, ConnectionInfo, Incoming, Refusal};

use crate::{Console, Reference};

/// An application, the console and the reference: what is below the console's path is the console's, the paths of the reference
/// are the reference's, everything else is the application's.
#[derive(Clone, Debug)]
pub struct WithConsole<A> {
    /// The console; `None` where it is switched off.
    pub console: Option<Console>,
    /// The documents of the APIs as pages.
    pub reference: Reference,
    /// The application.
    pub api: A,
}

impl<A: Application> Application for WithConsole<A> {
    fn call(
        &self,
        request: Request<Incoming>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let console = self.console.as_ref();
        let answer = console.and_then(|console| console.answer(method, uri, headers));
        match answer.or_else(|| self.reference.answer(method, uri, headers)) {
            Some(response) => Either::Left(ready(response)),
            None => Either::Right(self.api.call(request, connection)),
        }
    }

    fn refuse(&self, refusal: Refusal, path: &str) -> Response<Body> {
        self.api.refuse(refusal, path)
    }
}
