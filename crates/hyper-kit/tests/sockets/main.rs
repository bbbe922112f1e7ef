//! A served application through real sockets, with raw requests and every limit made small.
//!
//! No test sleeps: each waits for an answer, or for the server to close the socket.

mod abuse;
mod drain;
mod framing;
mod harness;
mod http2;
mod stalls;
mod upgrade;
mod websocket;
