//! The hyper plumbing that every HTTP adapter mounts on: bodies, routes, the accept loop, multipart, ranges, events and
//! the rules about hosts and origins; and, for asking instead of answering, a client that reaches vetted addresses only.
//!
//! It knows HTTP and sockets and nothing of what is served: no word of the service's domain, no envelope of an error.
//! Whatever a client reads is made by the application, through `serve::Application`. Start at `serve` and `Routes`
//! (feature `server`), or at `Client` (feature `client`).
//!
#![doc = include_str!("../README.md")]

pub mod body;
pub mod error_chain;
pub mod pace;

#[cfg(feature = "server")]
pub mod api;
#[cfg(feature = "server")]
pub mod base_url;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod etag;
#[cfg(any(feature = "client", feature = "server"))]
pub mod host;
#[cfg(feature = "server")]
pub mod media;
#[cfg(feature = "server")]
pub mod mounted;
#[cfg(feature = "server")]
pub mod multipart;
#[cfg(feature = "server")]
pub mod origin;
#[cfg(feature = "server")]
pub mod peers;
#[cfg(feature = "server")]
pub mod range;
#[cfg(feature = "server")]
pub mod room;
#[cfg(feature = "server")]
pub mod routes;
#[cfg(feature = "server")]
pub mod semaphore;
#[cfg(feature = "server")]
pub mod serve;
#[cfg(feature = "server")]
pub mod sse;
#[cfg(feature = "server")]
pub mod websocket;

pub use body::{Body, BodyError, BoxError, STREAM_CHUNK_BYTES, read_limited};
pub use error_chain::error_chain;
pub use pace::{PacedBody, ReadPace};

#[cfg(feature = "client")]
pub use client::{AddressPolicy, Client, ClientConfig, Download, FetchError, FetchLimits, Fetched};
#[cfg(any(feature = "client", feature = "server"))]
pub use host::{Host, HostNames};

#[cfg(feature = "server")]
pub use {
    api::{Api, ApiMount, Asked, Fault, Observed, Observer, RequestContext},
    base_url::{BaseUrl, PublicAddress},
    mounted::{Mountable, Mounted},
    multipart::{Multipart, MultipartError, MultipartLimits, Part},
    origin::{Origin, OriginPolicy},
    peers::PeerSet,
    room::{BodyRoom, RoomError},
    routes::{Lookup, Params, RouteError, Routes},
    semaphore::{KeyedLimits, KeyedPermit, KeyedSemaphore, NoUnits},
    serve::{
        Application, ConnectionInfo, Drained, Incoming, Listener, Refusal, ServerLimits,
        ServerStats, serve, serve_and_leave,
    },
    websocket::{Conversation, NotWebSocket, Outgoing, SocketLimits, Sockets},
};

/// What the fuzzer calls of what is private otherwise.
#[cfg(all(fuzzing, feature = "client"))]
pub mod fuzzing {
    /// Reads an answer of HTTP/1: see `client::http1::fuzzing`.
    pub fn answer(bytes: &[u8]) {
        crate::client::fuzz_answer(bytes);
    }
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    dead_code,
    reason = "shared with tests that read seeds from files, and that may stop"
)]
#[path = "../../../tests/fuzz/entries/changed.rs"]
mod fuzzed;
