//! Why an address was not asked, or did not answer.
//!
//! The texts are fit for the author of the address: they name its host at most, because paths, queries and user names
//! carry secrets.

/// Why there is no answer, told apart by what the caller can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The address is no web address; nothing was sent. The caller writes another one.
    #[error("the address cannot be used: {0}; write one like https://example.com/picture.png")]
    BadUrl(&'static str),
    /// The address is understood and refused; nothing was sent to it. The operator alone can allow it.
    #[error("{host} is not allowed: {reason}")]
    NotAllowed {
        /// The host, with a port where one was named.
        host: String,
        /// The rule that stands against it.
        reason: Reason,
    },
    /// No connection came about, so nothing was sent. Trying again is safe.
    #[error("{host} cannot be reached ({cause}); check the address, then try again")]
    Unreachable {
        /// The host, with a port where one was named.
        host: String,
        /// What the resolver or the socket said.
        cause: String,
    },
    /// The host could not prove who it is; nothing was sent. The operator may configure its authority.
    #[error(
        "no secure connection to {host} ({cause}); use a host with a valid certificate, or have its authority configured"
    )]
    Tls {
        /// The host, with a port where one was named.
        host: String,
        /// What TLS said.
        cause: String,
    },
    /// The answer is longer than allowed; most of it was never read.
    #[error("the answer is larger than {limit} bytes; use a smaller file")]
    TooLarge {
        /// The most that would have been taken, in bytes.
        limit: usize,
    },
    /// The host fell silent, or the time for the whole was up. What was sent may have been acted on.
    #[error("the answer took too long; try again later, or use a faster address")]
    TimedOut,
    /// The host answered, with a status other than 200.
    #[error("the address answered with status {0}; check that it is right and needs no signing in")]
    Status(u16),
    /// The connection failed after it was made. What was sent may have been acted on.
    #[error("the connection broke before the end of the answer ({cause}); try again")]
    Broken {
        /// What the transport said.
        cause: String,
    },
}

/// The rule that an address breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It is plain `http`, or a redirect led from `https` to it.
    #[error("only https addresses are; use one that starts with https://")]
    NotHttps,
    /// It is, or its name also stands for, an address that is not on the public internet.
    #[error("it is not on the public internet; use a public address, or have this host exempted")]
    NotPublic,
    /// More redirects than are followed.
    #[error("it redirects too often; use the address that it ends at")]
    TooManyRedirects,
}

impl FetchError {
    /// Whether it is certain that the host never saw the request. After a redirect this speaks of the last host alone.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::BadUrl(_)
            | Self::NotAllowed { .. }
            | Self::Unreachable { .. }
            | Self::Tls { .. } => true,
            Self::TooLarge { .. } | Self::TimedOut | Self::Status(_) | Self::Broken { .. } => false,
        }
    }
}
