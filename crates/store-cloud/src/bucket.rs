//! A bucket of an S3-compatible store, and the objects of one installation in it.

mod connector;
mod error;
mod options;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use asset_store::{BlobError, BlobHash, Presented};
use bytes::Bytes;
use http::{Method, StatusCode};
use hyper_kit::{AddressPolicy, Client, ClientConfig, Host};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use object_store::{
    BackoffConfig, GetOptions, GetRange, GetResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, RetryConfig,
};
use secrecy::ExposeSecret;
use url::Url;
use uuid::Uuid;

use connector::{Connector, Refused};

pub use error::BucketError;
pub use options::BucketOptions;

/// How often a request that does no harm twice is sent again, and for how long.
const RETRIES: usize = 5;
const RETRIED_FOR: Duration = Duration::from_secs(30);

/// How often an upload is begun again whose beginning got half an answer.
const BEGUN_ANEW: usize = 2;

/// Where platforms give out credentials; they are asked only if no key is configured.
const METADATA: [&str; 3] = ["169.254.169.254", "169.254.170.2", "169.254.170.23"];

/// A bucket. Clones share their connections.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<AmazonS3>,
    /// What the keys of blobs begin with.
    root: String,
    /// What all keys begin with.
    prefix: String,
    place: String,
}

impl Bucket {
    /// Makes the client; nothing is sent before the first use.
    ///
    /// # Errors
    /// If the options cannot be used.
    pub fn new(options: &BucketOptions) -> Result<Self, BucketError> {
        let mut hosts: Vec<Host> = METADATA.into_iter().filter_map(Host::parse).collect();
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&options.bucket)
            .with_region(&options.region)
            .with_disable_bulk_delete(true)
            .with_retry(RetryConfig {
                backoff: BackoffConfig {
                    init_backoff: Duration::from_millis(50),
                    max_backoff: Duration::from_secs(2),
                    base: 2.,
                },
                max_retries: RETRIES,
                retry_timeout: RETRIED_FOR,
            });
        if let Some(endpoint) = &options.endpoint {
            let url = Url::parse(endpoint).ok();
            let host = url.as_ref().and_then(|url| Host::parse(url.authority()));
            hosts.push(host.ok_or(BucketError::Url("the endpoint is no address of a host"))?);
            builder = builder.with_endpoint(endpoint);
        }
        for (name, value) in &options.credentials {
            let key = name.to_ascii_lowercase().parse();
            let key = key.map_err(BucketError::Options)?;
            builder = builder.with_config(key, value.expose_secret());
        }
        let client = Client::new(ClientConfig {
            // Nothing is asked but what the operator named.
            policy: AddressPolicy {
                https_only: false,
                allow_private: hosts,
            },
            extra_ca_pem: options.extra_ca_pem.clone(),
            connect_timeout: options.patience,
            ..ClientConfig::default()
        });
        let connector = Connector {
            client: client.map_err(BucketError::Authorities)?,
            patience: options.patience,
        };
        let builder = builder.with_http_connector(connector);
        let prefix = match options.prefix.as_str() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let endpoint = options.endpoint.as_deref().unwrap_or("AWS");
        Ok(Self {
            store: Arc::new(builder.build().map_err(BucketError::Options)?),
            root: format!("{prefix}b3/"),
            place: format!("s3://{}/{} at {endpoint}", options.bucket, options.prefix),
            prefix,
        })
    }

    /// Where it is, for people; without any secret.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Puts, reads, lists and deletes an object.
    ///
    /// # Errors
    /// With a sentence for what is wrong.
    pub async fn check(&self) -> Result<(), BucketError> {
        let key = Path::from(format!("{}checks/{}", self.prefix, Uuid::now_v7()));
        let tried = async {
            let bytes = Bytes::from_static(b"check");
            self.store.put(&key, bytes.into()).await?;
            self.store.get(&key).await?.bytes().await?;
            self.page(None, 1, None).await?;
            self.store.delete(&key).await
        };
        let tried = tried.await;
        tried.map_err(|error| BucketError::of(&self.place, error))
    }

    /// Makes this the bucket of an installation, whose name is then in the object `installation`; a `fresh` one takes over what
    /// another one left.
    ///
    /// # Errors
    /// If it is the bucket of another installation.
    pub(crate) async fn claim(&self, installation: Uuid, fresh: bool) -> Result<(), BucketError> {
        let key = Path::from(format!("{}installation", self.prefix));
        let failed = |error| BucketError::of(&self.place, error);
        let found = match self.store.get(&key).await {
            Err(error) if is_absent(&error) => None,
            got => Some(got.map_err(failed)?.bytes().await.map_err(failed)?),
        };
        let wanted = installation.to_string();
        match found {
            Some(found) if found == wanted => Ok(()),
            Some(found) if !fresh => Err(BucketError::OfAnother {
                place: self.place.clone(),
                found: String::from_utf8_lossy(&found).chars().take(36).collect(),
                wanted: installation,
            }),
            Some(_) | None => {
                let put = self.store.put(&key, wanted.into_bytes().into()).await;
                put.map(drop).map_err(failed)
            }
        }
    }

    /// Where a blob lies.
    pub(crate) fn key(&self, hash: &BlobHash) -> Path {
        let hex = hash.to_hex();
        Path::from(format!("{}{}/{}/{hex}", self.root, &hex[..2], &hex[2..4]))
    }

    /// Begins to read a part of a blob, or all of it, in the version of this tag where one is given.
    pub(crate) async fn get(
        &self,
        hash: &BlobHash,
        range: Option<Range<u64>>,
        version: Option<String>,
    ) -> object_store::Result<GetResult> {
        let options = GetOptions {
            range: range.map(GetRange::Bounded),
            if_match: version,
            ..GetOptions::default()
        };
        self.store.get_opts(&self.key(hash), options).await
    }

    /// An address at which the store itself gives a blob out for this long, with these headers.
    pub(crate) async fn address(
        &self,
        hash: &BlobHash,
        presented: Presented<'_>,
        lasts: Duration,
    ) -> object_store::Result<Url> {
        let headers = [
            ("response-content-type", presented.content_type),
            ("response-content-disposition", presented.disposition),
            ("response-cache-control", "private"),
        ];
        let options = SignedUrlOptions::default().with_query(headers);
        let key = self.key(hash);
        let signed = self
            .store
            .signed_url_opts(Method::GET, &key, lasts, &options);
        signed.await
    }

    /// What is there of a blob.
    pub(crate) async fn head(&self, hash: &BlobHash) -> object_store::Result<ObjectMeta> {
        self.store.head(&self.key(hash)).await
    }

    /// Puts a blob at once.
    pub(crate) async fn put(&self, hash: &BlobHash, bytes: Bytes) -> object_store::Result<()> {
        let put = self.store.put(&self.key(hash), bytes.into()).await;
        put.map(drop)
    }

    /// Begins to put a blob in parts. Where the answer breaks off, nobody knows what was begun, and it is begun anew: the rule for
    /// incomplete uploads removes the one before.
    pub(crate) async fn put_parts(
        &self,
        hash: &BlobHash,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        let mut tries_left = BEGUN_ANEW;
        loop {
            match self.store.put_multipart(&self.key(hash)).await {
                Err(error) if tries_left > 0 && is_broken_off(&error) => tries_left -= 1,
                begun => return begun,
            }
        }
    }

    /// Deletes a blob; one that is not there is gone, too.
    pub(crate) async fn delete(&self, hash: &BlobHash) -> object_store::Result<()> {
        match self.store.delete(&self.key(hash)).await {
            Err(error) if is_absent(&error) => Ok(()),
            deleted => deleted,
        }
    }

    /// Blobs in the order of their hashes, from behind `after`: at least one unless there are none, at most about `limit`.
    /// Objects of other names are passed over. A second call goes on with the mark that the first one answered.
    pub(crate) async fn page(
        &self,
        after: Option<BlobHash>,
        limit: usize,
        mark: Option<String>,
    ) -> object_store::Result<(Vec<(BlobHash, u64)>, Option<String>)> {
        let options = PaginatedListOptions {
            offset: after.map(|hash| self.key(&hash).to_string()),
            max_keys: Some(limit.clamp(1, 1_000)),
            page_token: mark,
            ..PaginatedListOptions::default()
        };
        let page = self.store.list_paginated(Some(&self.root), options).await?;
        let objects = page.result.objects.into_iter();
        let blobs = objects.filter_map(|object| {
            let hash = BlobHash::from_hex(object.location.filename()?).ok()?;
            (self.key(&hash) == object.location).then_some((hash, object.size))
        });
        Ok((blobs.collect(), page.page_token))
    }
}

/// Whether an error says that a range lies behind the end of its object.
pub(crate) fn is_out_of_range(error: &object_store::Error) -> bool {
    refused(error) == Some(StatusCode::RANGE_NOT_SATISFIABLE)
}

/// Whether the answer came and broke off.
fn is_broken_off(error: &object_store::Error) -> bool {
    let of_http = error::find::<HttpError>(error);
    of_http.is_some_and(|error| error.kind() == HttpErrorKind::Interrupted)
}

/// Whether an error says that there is no such object.
pub(crate) fn is_absent(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. })
}

/// What a failure of the store means to a caller.
pub(crate) fn blob_error(error: object_store::Error) -> BlobError {
    if is_absent(&error) {
        return BlobError::Absent;
    }
    match refused(&error) == Some(StatusCode::INSUFFICIENT_STORAGE) {
        true => BlobError::Full(error.into()),
        false => BlobError::Io(error.into()),
    }
}

fn refused(error: &object_store::Error) -> Option<StatusCode> {
    error::find::<Refused>(error).map(|Refused(status)| *status)
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bucket({})", self.place)
    }
}

#[cfg(test)]
mod tests;
