//! Turning names into addresses.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;

/// A source of addresses.
///
/// **Contract**: asked once for each connection and never again for it, so that an answer which changes between checking
/// and connecting changes nothing. Every address of the answer is checked; an empty answer means that the name is unknown.
#[async_trait]
pub trait Resolve: Debug + Send + Sync {
    /// The addresses of `name`, the most promising first, each with `port`. Never asked about an address in digits.
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The resolver of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((name, port)).await?.collect())
    }
}
