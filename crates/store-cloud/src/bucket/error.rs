//! What can be wrong with a bucket, in sentences for the operator.

use hyper_kit::FetchError;
use uuid::Uuid;

/// Why a bucket cannot be used. The texts say what to do, and name no secret.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The address cannot be read.
    #[error("{0}; write s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION")]
    Url(&'static str),
    /// A file that the address or the environment names cannot be read.
    #[error("{path} cannot be read; correct the path, or make it readable for this user")]
    File {
        /// The path as it was named.
        path: String,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
    /// The file of authorities cannot be used.
    #[error("the authorities of the store cannot be used")]
    Authorities(#[source] hyper_kit::client::ExtraCaError),
    /// The client refuses the options.
    #[error("the bucket's options cannot be used")]
    Options(#[source] object_store::Error),
    /// No answer.
    #[error(
        "{place} cannot be reached; check the endpoint, and that the object store runs and is not behind a firewall"
    )]
    Unreachable {
        /// The bucket and its endpoint.
        place: String,
        /// What the client met.
        #[source]
        error: object_store::Error,
    },
    /// The store is not who it should be, or nobody vouches for it.
    #[error(
        "no secure connection to {place}: name the file of its authority by `ca`, and a host of its certificate"
    )]
    Tls {
        /// The bucket and its endpoint.
        place: String,
        /// What TLS said.
        #[source]
        error: object_store::Error,
    },
    /// There is no such bucket.
    #[error("the bucket of {place} does not exist; create it, or name another one")]
    Missing {
        /// The bucket and its endpoint.
        place: String,
    },
    /// The store knows no such key, or the secret is another one.
    #[error(
        "the object store does not accept the access key for {place}; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )]
    WrongKey {
        /// The bucket and its endpoint.
        place: String,
    },
    /// The key may not do what an installation needs.
    #[error(
        "the access key may not use {place}; allow it to get, put, list and delete objects there, and to abort multipart uploads"
    )]
    NotPermitted {
        /// The bucket and its endpoint.
        place: String,
    },
    /// The signatures are from another time.
    #[error(
        "the clock of this machine and that of the object store of {place} are too far apart; set both by NTP"
    )]
    ClocksApart {
        /// The bucket and its endpoint.
        place: String,
    },
    /// Database and bucket do not belong together.
    #[error(
        "{place} holds the blobs of installation {found}, and the database is that of {wanted}: name the bucket that belongs to the database, or another prefix"
    )]
    OfAnother {
        /// The bucket and its endpoint.
        place: String,
        /// Whose blobs these are.
        found: String,
        /// Whose database it is.
        wanted: Uuid,
    },
    /// Anything else.
    #[error("{place} cannot be used")]
    Failed {
        /// The bucket and its endpoint.
        place: String,
        /// What the store answered.
        #[source]
        error: object_store::Error,
    },
}

impl BucketError {
    /// What an error means for the operator. The code of S3 stands in the body of the answer, which the client puts in the text of its
    /// error.
    pub(super) fn of(place: &str, error: object_store::Error) -> Self {
        let place = place.to_owned();
        let text = error.to_string();
        let says = |codes: &[&str]| codes.iter().any(|code| text.contains(code));
        if says(&["NoSuchBucket"]) {
            Self::Missing { place }
        } else if says(&["RequestTimeTooSkewed"]) {
            Self::ClocksApart { place }
        } else if says(&["InvalidAccessKeyId", "SignatureDoesNotMatch"]) {
            Self::WrongKey { place }
        } else if matches!(error, object_store::Error::PermissionDenied { .. }) {
            Self::NotPermitted { place }
        } else if matches!(error, object_store::Error::Unauthenticated { .. }) {
            Self::WrongKey { place }
        } else {
            match find::<FetchError>(&error) {
                Some(FetchError::Tls { .. }) => Self::Tls { place, error },
                Some(_) => Self::Unreachable { place, error },
                None => Self::Failed { place, error },
            }
        }
    }
}

/// The first cause of a kind.
pub(super) fn find<'a, E: std::error::Error + 'static>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a E> {
    std::iter::successors(Some(error), |error| error.source())
        .find_map(|error| error.downcast_ref())
}
