//! An application with the console in front of it.

use std::future::ready;

use futures_util::future::Either;
use http::{Request, Response};
use hyper_kit::{Application, Body, ConnectionInfo, Incoming, Refusal};

use crate::Console;

/// An application and the console: what is below the console's path is the console's, everything else the application's.
#[derive(Clone, Debug)]
pub struct Beside<A> {
    /// The console; `None` where it is switched off.
    pub console: Option<Console>,
    /// The application.
    pub api: A,
}

impl<A: Application> Application for Beside<A> {
    fn call(
        &self,
        request: Request<Incoming>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send {
        let console = self.console.as_ref();
        match console
            .and_then(|console| console.answer(request.method(), request.uri(), request.headers()))
        {
            Some(response) => Either::Left(ready(response)),
            None => Either::Right(self.api.call(request, connection)),
        }
    }

    fn refuse(&self, refusal: Refusal, path: &str) -> Response<Body> {
        self.api.refuse(refusal, path)
    }
}
