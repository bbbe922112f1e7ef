//! The client against real servers on loopback, which an exemption lets it reach, with every limit made small.
//!
//! No test sleeps: each waits for an answer, or for the client to lose its patience.

mod fetching;
mod harness;
mod redirects;
mod sending;
mod tls;
mod wire;
