//! The hyper plumbing that every HTTP adapter mounts on: bodies, routes, the accept loop, multipart, ranges, events and
//! the rules about hosts and origins.
//!
//! It knows HTTP and sockets and nothing of what is served: no word of the service's domain, no envelope of an error.
//! Whatever a client reads is made by the application, through [`serve::Application`]. Start at [`serve()`] and
//! [`Routes`].

pub mod body;
pub mod pace;

#[cfg(feature = "server")]
pub mod peers;
#[cfg(feature = "server")]
pub mod routes;
#[cfg(feature = "server")]
pub mod serve;

pub use body::{Body, BodyError, BoxError, read_limited};
pub use pace::{PacedBody, ReadPace};

#[cfg(feature = "server")]
pub use {
    peers::PeerSet,
    routes::{Lookup, Params, RouteError, Routes},
    serve::{Application, ConnectionInfo, Drained, Refusal, ServerLimits, ServerStats, serve},
};
