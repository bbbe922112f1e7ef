//! How much room a request takes while it is answered.

use http::{Request, Response};
use hyper_kit::{Body, ConnectionInfo};

use crate::WorkflowApi;

/// Every request has this room, and every hand-over copies it. A submission lies on the heap by itself.
#[test]
fn a_request_does_not_make_room_for_a_submission() {
    fn bytes_of<F: Future<Output = Response<Body>>>(
        _: impl Fn(&'static WorkflowApi, Request<Body>, ConnectionInfo) -> F,
    ) -> usize {
        size_of::<F>()
    }
    let bytes = bytes_of(|api, request, connection| api.handle(request, connection));
    assert!(bytes <= 2_304, "it has {bytes} bytes");
}
