//! How a bucket is reached: its address, and what the environment adds to it.

use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use super::BucketError;

/// What of the environment is handed on: keys, or the way to them where a platform gives them out.
const CREDENTIALS: [&str; 8] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];

/// How a bucket is reached.
#[derive(Clone, Debug)]
pub struct BucketOptions {
    /// Its name.
    pub bucket: String,
    /// What all keys begin with, without slashes around it; empty for none.
    pub prefix: String,
    /// The address of the store; AWS where there is none.
    pub endpoint: Option<String>,
    /// Its region.
    pub region: String,
    /// Authorities to trust beside the usual ones: the content of a PEM file.
    pub extra_ca_pem: Option<Vec<u8>>,
    /// The settings of credentials, by the names of their variables in the environment.
    pub credentials: Vec<(&'static str, SecretString)>,
    /// The longest wait for a connection, for the head of an answer, and for the next bytes of its body.
    pub patience: Duration,
}

impl BucketOptions {
    /// Reads `s3://BUCKET/PREFIX?endpoint=URL&region=NAME&ca=FILE`; credentials come from the environment, where a name with
    /// `_FILE` behind it may name a file that holds the value.
    ///
    /// # Errors
    /// If the address has another form, or a file cannot be read.
    pub fn from_url(
        address: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, BucketError> {
        let url = Url::parse(address).map_err(|_| BucketError::Url("this is no address"))?;
        if url.scheme() != "s3" {
            return Err(BucketError::Url(
                "the address of a bucket starts with s3://",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BucketError::Url(
                "keys do not belong into the address of a bucket: put them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ));
        }
        let bucket = url.host_str().filter(|bucket| !bucket.is_empty());
        let bucket = bucket.ok_or(BucketError::Url("the address names no bucket"))?;
        let mut options = Self {
            bucket: bucket.to_owned(),
            prefix: url.path().trim_matches('/').to_owned(),
            endpoint: environment("AWS_ENDPOINT_URL"),
            region: environment("AWS_REGION").unwrap_or_else(|| "us-east-1".to_owned()),
            extra_ca_pem: None,
            credentials: Vec::new(),
            patience: Duration::from_secs(10),
        };
        for (name, value) in url.query_pairs() {
            match &*name {
                "endpoint" => options.endpoint = Some(value.into_owned()),
                "region" => options.region = value.into_owned(),
                "ca" => options.extra_ca_pem = Some(read(&value)?),
                _ => {
                    return Err(BucketError::Url(
                        "the address of a bucket has the parameters `endpoint`, `region` and `ca`",
                    ));
                }
            }
        }
        for name in CREDENTIALS {
            let value = match environment(&format!("{name}_FILE")) {
                Some(path) => Some(String::from_utf8_lossy(&read(&path)?).trim().to_owned()),
                None => environment(name),
            };
            let value = value.map(SecretString::from);
            options.credentials.extend(value.map(|value| (name, value)));
        }
        Ok(options)
    }
}

fn read(path: &str) -> Result<Vec<u8>, BucketError> {
    std::fs::read(path).map_err(|error| BucketError::File {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_what_the_environment_adds() {
        let environment = |name: &str| match name {
            "AWS_SECRET_ACCESS_KEY" => Some("hidden-secret".to_owned()),
            "AWS_REGION" => Some("eu-north-1".to_owned()),
            _ => None,
        };
        let read = |address| BucketOptions::from_url(address, environment);
        let options = read("s3://pictures/one/two/?endpoint=http://localhost:8333");
        let options = options.expect("it is an address");
        assert_eq!(options.bucket, "pictures");
        assert_eq!(options.prefix, "one/two");
        assert_eq!(options.endpoint.as_deref(), Some("http://localhost:8333"));
        assert_eq!(options.region, "eu-north-1");
        assert!(!format!("{options:?}").contains("hidden-secret"));
        for wrong in [
            "pictures",
            "https://pictures",
            "s3:///prefix",
            "s3://key:hidden-secret@pictures",
            "s3://pictures?key=hidden-secret",
            "s3://pictures?ca=/no/such/file",
        ] {
            let refused = read(wrong).expect_err(wrong);
            assert!(!format!("{refused} {refused:?}").contains("hidden-secret"));
        }
    }
}
