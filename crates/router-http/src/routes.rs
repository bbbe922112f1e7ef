//! Every route of the API, below its mount prefix.

use http::Method;

/// Everything that a client can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    List,
    Detail,
    Schema,
    Run,
    Estimate,
    Submit,
    Requests,
    RequestStatus,
    RequestResult,
    CancelRequest,
    Calls,
    Usage,
    Generation,
    /// The bytes of a kept result, for the bearer of a link.
    Signed,
    Document,
}

/// Method, path and whether there is an alias of every operation.
pub(crate) const ROUTES: &[(Method, &str, Operation)] = &[
    (Method::GET, "/v1/models", Operation::List),
    (
        Method::GET,
        "/v1/models/{provider}/{model}",
        Operation::Detail,
    ),
    (
        Method::POST,
        "/v1/models/{provider}/{model}",
        Operation::Run,
    ),
    (
        Method::GET,
        "/v1/models/{provider}/{model}/openapi.json",
        Operation::Schema,
    ),
    (
        Method::POST,
        "/v1/models/{provider}/{model}/estimate",
        Operation::Estimate,
    ),
    (
        Method::POST,
        "/v1/models/{provider}/{model}/requests",
        Operation::Submit,
    ),
    (
        Method::GET,
        "/v1/models/{provider}/{model}/requests",
        Operation::Requests,
    ),
    (
        Method::GET,
        "/v1/models/{provider}/{model}/requests/{request}",
        Operation::RequestResult,
    ),
    (
        Method::GET,
        "/v1/models/{provider}/{model}/requests/{request}/status",
        Operation::RequestStatus,
    ),
    (
        Method::PUT,
        "/v1/models/{provider}/{model}/requests/{request}/cancel",
        Operation::CancelRequest,
    ),
    // An address of more than two segments names no model, and is answered as such.
    (
        Method::GET,
        "/v1/models/{provider}/{model}/{*rest}",
        Operation::Detail,
    ),
    (
        Method::POST,
        "/v1/models/{provider}/{model}/{*rest}",
        Operation::Run,
    ),
    (Method::GET, "/v1/calls", Operation::Calls),
    (Method::GET, "/v1/usage", Operation::Usage),
    (
        Method::GET,
        "/v1/generations/{request}",
        Operation::Generation,
    ),
    (Method::GET, asset_http::PATTERN, Operation::Signed),
    (Method::GET, "/v1/openapi.json", Operation::Document),
];

/// The same routes for today's public clients.
pub(crate) const ALIASES: &[(Method, &str, Operation)] = &[
    (Method::GET, "/v2/models", Operation::List),
    (
        Method::GET,
        "/v2/models/{provider}/{model}",
        Operation::Detail,
    ),
    (
        Method::POST,
        "/v2/models/{provider}/{model}",
        Operation::Run,
    ),
    (
        Method::GET,
        "/v2/models/{provider}/{model}/openapi.json",
        Operation::Schema,
    ),
    (
        Method::POST,
        "/v2/models/{provider}/{model}/estimate",
        Operation::Estimate,
    ),
    (
        Method::POST,
        "/v2/models/{provider}/{model}/requests",
        Operation::Submit,
    ),
    (
        Method::GET,
        "/v2/models/{provider}/{model}/requests",
        Operation::Requests,
    ),
    (
        Method::GET,
        "/v2/models/{provider}/{model}/requests/{request}",
        Operation::RequestResult,
    ),
    (
        Method::GET,
        "/v2/models/{provider}/{model}/requests/{request}/status",
        Operation::RequestStatus,
    ),
    (
        Method::PUT,
        "/v2/models/{provider}/{model}/requests/{request}/cancel",
        Operation::CancelRequest,
    ),
    // An address of more than two segments names no model, and is answered as such.
    (
        Method::GET,
        "/v2/models/{provider}/{model}/{*rest}",
        Operation::Detail,
    ),
    (
        Method::POST,
        "/v2/models/{provider}/{model}/{*rest}",
        Operation::Run,
    ),
];
