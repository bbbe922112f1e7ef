//! Which hosts may be asked, and at which addresses they are.
//!
//! A name is resolved once, all of its addresses must pass, and the connection goes to one of those very addresses: a name
//! that is harmless when it is checked and somewhere else when it is used gains nothing.

use std::net::{IpAddr, SocketAddr};

use http::Uri;
use http::uri::Scheme;

use super::address::is_public;
use super::error::{FetchError, Reason};
use super::resolve::Resolve;
use crate::host::Host;

/// What may be asked. The default is `https` to the public internet.
#[derive(Debug, Clone)]
pub struct AddressPolicy {
    /// Whether plain `http` is refused, exempted hosts included.
    pub https_only: bool,
    /// The hosts whose addresses are not checked, each for one port: 443 or 80 by the scheme where none is written. They
    /// are compared as written, so a name exempts neither its addresses nor other names for them.
    pub allow_private: Vec<Host>,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) https: bool,
}

impl Default for AddressPolicy {
    fn default() -> Self {
        Self {
            https_only: true,
            allow_private: Vec::new(),
        }
    }
}

impl AddressPolicy {
    /// Reads the target of a request; fails when it is no web address, or its scheme is refused.
    pub(super) fn target(&self, uri: &Uri) -> Result<Target, FetchError> {
        let target = Target::read(uri)?;
        if self.https_only && !target.https {
            return Err(target.refused(Reason::NotHttps));
        }
        Ok(target)
    }

    /// The addresses to connect to, of which there is at least one.
    pub(super) async fn addresses(
        &self,
        target: &Target,
        resolver: &dyn Resolve,
    ) -> Result<Vec<SocketAddr>, FetchError> {
        let addresses = match target.literal()? {
            Some(address) => vec![SocketAddr::new(address, target.port)],
            None => resolver
                .resolve(target.host.name(), target.port)
                .await
                .map_err(|error| target.unreachable(&error))?,
        };
        if addresses.is_empty() {
            return Err(target.unreachable(&"its name has no address"));
        }
        if !self.exempts(target) && !addresses.iter().all(|address| is_public(address.ip())) {
            return Err(target.refused(Reason::NotPublic));
        }
        Ok(addresses)
    }

    fn exempts(&self, target: &Target) -> bool {
        let default_port = if target.https { 443 } else { 80 };
        let mut exempted = self.allow_private.iter();
        exempted.any(|host| host.same_as(&target.host, default_port))
    }
}

impl Target {
    fn read(uri: &Uri) -> Result<Self, FetchError> {
        let https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(_) | None => return Err(FetchError::BadUrl("it starts with no https://")),
        };
        // A user name before the host does not parse as a host either.
        let host = uri
            .authority()
            .and_then(|authority| Host::parse(authority.as_str()))
            .ok_or(FetchError::BadUrl("its host cannot be read"))?;
        let port = host.port().unwrap_or(if https { 443 } else { 80 });
        Ok(Self { host, port, https })
    }

    /// The host as a request of HTTP/1.1 names it: with its port, where that is not the usual one.
    pub(super) fn named(&self) -> String {
        match (self.https, self.port) {
            (true, 443) | (false, 80) => self.host.name().to_owned(),
            (_, port) => {
                let mut named = String::with_capacity(self.host.name().len() + ":65535".len());
                named.push_str(self.host.name());
                named.push(':');
                named.push_str(itoa::Buffer::new().format(port));
                named
            }
        }
    }

    /// The address, where the host is one in digits. Resolvers read `0x7f.1` and the like as addresses, so they are read
    /// here first, in the way of browsers.
    fn literal(&self) -> Result<Option<IpAddr>, FetchError> {
        match url::Host::parse(self.host.name()) {
            Ok(url::Host::Ipv4(v4)) => Ok(Some(v4.into())),
            Ok(url::Host::Ipv6(v6)) => Ok(Some(v6.into())),
            Ok(url::Host::Domain(_)) => Ok(None),
            Err(_) => Err(FetchError::BadUrl("its host cannot be read")),
        }
    }

    pub(super) fn refused(&self, reason: Reason) -> FetchError {
        let host = self.host.to_string();
        FetchError::NotAllowed { host, reason }
    }

    pub(super) fn unreachable(&self, cause: &dyn std::fmt::Display) -> FetchError {
        FetchError::Unreachable {
            host: self.host.to_string(),
            cause: cause.to_string(),
        }
    }
}
