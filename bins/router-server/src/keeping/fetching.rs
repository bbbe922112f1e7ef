//! One attempt to keep a result: its address is asked, without any credential, and what it answers becomes an asset.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use asset_store::{AssetId, Assets, AssetsError, BlobHash, BlobWriter, FilePath, Upload};
use hyper_kit::{AddressPolicy, Client, ClientConfig, FetchError, FetchLimits, Host};
use jiff::SignedDuration;
use router_core::{DueResult, KeepFault, KeepOutcome, KeptFile, ResultId, Timer};
use uuid::Uuid;

use super::FilePorts;
use crate::config::PartnerConfig;

/// How long one result may take, and how long its host may be silent in between.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
const SILENCE: Duration = Duration::from_secs(30);

/// What a result is called whose host says nothing of use.
const UNKNOWN: &str = "application/octet-stream";

/// The types that results usually have, and what the names of their files end with.
const EXTENSIONS: &[(&str, &str)] = &[
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/webp", "webp"),
    ("image/gif", "gif"),
    ("image/avif", "avif"),
    ("image/svg+xml", "svg"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
    ("video/quicktime", "mov"),
    ("audio/mpeg", "mp3"),
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("audio/flac", "flac"),
    ("audio/ogg", "ogg"),
    ("model/gltf-binary", "glb"),
    ("model/vnd.usdz+zip", "usdz"),
    ("application/zip", "zip"),
];

/// Fetches results into the store of files.
pub(crate) struct Fetcher {
    client: Client,
    /// The hosts and ports that may be plain `http` and private.
    exempt: Vec<Host>,
    files: FilePorts,
    most_bytes: u64,
}

/// Results cannot be fetched as configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetcherError {
    /// The authorities cannot be read.
    #[error("the authorities in {} cannot be read", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// They are none.
    #[error("there is no certificate in PEM form in {}", .0.display())]
    NoAuthorities(PathBuf),
}

/// Why a result is not kept, this time or for good.
struct NotKept {
    fault: KeepFault,
    reason: String,
}

impl Fetcher {
    /// A fetcher that reaches public addresses over `https`, and the partners that the operator vouches for.
    pub(crate) async fn new(
        partners: &PartnerConfig,
        files: FilePorts,
        most_bytes: u64,
    ) -> Result<Self, FetcherError> {
        let file = partners.extra_ca.as_ref();
        let extra_ca_pem = match file {
            Some(file) => {
                let read = tokio::fs::read(file).await;
                Some(read.map_err(|error| FetcherError::Unreadable(file.clone(), error))?)
            }
            None => None,
        };
        let relocated = partners.relocations.iter();
        let relocated = relocated.map(|to| to.base_url.host().clone());
        let exempt: Vec<Host> = partners.exempt.iter().cloned().chain(relocated).collect();
        let client = Client::new(ClientConfig {
            policy: AddressPolicy {
                // Who may go without TLS is decided address by address.
                https_only: exempt.is_empty(),
                allow_private: exempt.clone(),
            },
            extra_ca_pem,
            user_agent: concat!("easel/", env!("CARGO_PKG_VERSION")).parse().ok(),
            ..ClientConfig::default()
        });
        let client =
            client.map_err(|_| FetcherError::NoAuthorities(file.cloned().unwrap_or_default()))?;
        Ok(Self {
            client,
            exempt,
            files,
            most_bytes,
        })
    }

    /// Fetches a result; what is to be noted of the attempt.
    pub(super) async fn keep(&self, due: &DueResult, timer: &dyn Timer) -> KeepOutcome {
        if due.is_beyond() {
            let reason = "the server ended in the middle of each attempt to fetch it".to_owned();
            return KeepOutcome::Failed { reason };
        }
        let NotKept { fault, reason } = match self.fetch(due, timer).await {
            Ok(file) => return KeepOutcome::Kept(file),
            Err(not_kept) => not_kept,
        };
        let due_at = fault.pause(due.attempt).map(|pause| {
            let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
            timer.now().saturating_add(pause)
        });
        match due_at {
            Some(Ok(due_at)) => KeepOutcome::Later { reason, due_at },
            Some(Err(_)) | None => KeepOutcome::Failed { reason },
        }
    }

    async fn fetch(&self, due: &DueResult, timer: &dyn Timer) -> Result<KeptFile, NotKept> {
        let url = due.address.expose();
        if !may_fetch(&self.exempt, url) {
            return Err(NotKept {
                fault: KeepFault::Final,
                reason: "its address is plain http, which is for hosts of `plain_partners` alone"
                    .to_owned(),
            });
        }
        let caller = self.files.accounts.by_id(&due.account).await;
        let caller = caller.map_err(|error| passing(&error))?;
        let caller = caller.ok_or_else(|| NotKept {
            fault: KeepFault::Passing,
            reason: "the workspace is not active".to_owned(),
        })?;
        let assets = self.files.assets.within(caller.tier.stored_bound());
        let room = assets.room(&due.account, false).await;
        let room = room.map_err(|error| passing(&error))?;
        let room = room.unwrap_or(u64::MAX);
        if room == 0 {
            return Err(no_room());
        }
        let most = self.most_bytes.min(room);
        let limits = FetchLimits {
            max_bytes: usize::try_from(most).unwrap_or(usize::MAX),
            total_timeout: PATIENCE,
            idle_timeout: SILENCE,
            redirects: hyper_kit::client::MOST_REDIRECTS,
        };
        let is_full = most < self.most_bytes;
        let refused = |error: FetchError| {
            let is_too_large = matches!(error, FetchError::TooLarge { .. });
            if is_full && is_too_large {
                no_room()
            } else {
                not_fetched(&error)
            }
        };
        let mut download = self.client.download(url, limits).await.map_err(refused)?;
        let mut writer = assets.begin().await.map_err(|error| passing(&error))?;
        while let Some(chunk) = download.chunk().await.map_err(refused)? {
            let written = writer.write(chunk).await;
            written.map_err(|error| passing(&error))?;
        }
        let content_type = media_type(download.content_type());
        self.file(due, &assets, (content_type, writer), timer).await
    }

    /// Makes an asset of what was fetched. After a crash in between, it is the same one.
    async fn file(
        &self,
        due: &DueResult,
        assets: &Assets,
        (content_type, writer): (String, Box<dyn BlobWriter>),
        timer: &dyn Timer,
    ) -> Result<KeptFile, NotKept> {
        let id = due.id;
        let upload = Upload {
            id: AssetId(Uuid::new_v4()),
            account: due.account.clone(),
            file_path: file_path(id, &content_type),
            content_type,
            tags: vec!["result".to_owned()],
            expires_in: None,
            key: Some(key_of(id)),
        };
        let now = timer.now();
        let asset = match assets.finish(writer, upload, None, now).await {
            Ok(created) => created.asset,
            // An attempt before fetched other bytes and ended before it was noted: those are kept.
            Err(AssetsError::KeyReused(before)) => {
                let asset = assets.get(&due.account, before, now).await;
                asset.map_err(|error| passing(&error))?
            }
            Err(AssetsError::QuotaExceeded { .. }) => return Err(no_room()),
            Err(error) => return Err(passing(&error)),
        };
        Ok(KeptFile {
            file: asset.id.0,
            hash: *asset.hash.as_bytes(),
            size_bytes: asset.size_bytes,
            content_type: asset.content_type,
        })
    }
}

/// Whether an address may be asked: without TLS only on hosts that the operator vouches for. What may be asked over TLS is the
/// client's to say.
fn may_fetch(exempt: &[Host], url: &str) -> bool {
    const PLAIN: &str = "http://";
    let scheme = url.get(..PLAIN.len());
    if !scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(PLAIN)) {
        return true;
    }
    // Up to what ends an authority for the client, too: more than a host and a port is none that is exempted.
    let authority = url[PLAIN.len()..].split(['/', '\\', '?', '#']).next();
    let host = authority.and_then(Host::parse);
    host.is_some_and(|host| exempt.iter().any(|it| it.same_as(&host, 80)))
}

/// The type that a host names, if it is one; its parameters do not matter.
fn media_type(named: Option<&str>) -> String {
    let essence = named.unwrap_or_default().split(';').next();
    let essence = essence.unwrap_or_default().trim().to_ascii_lowercase();
    let is_token = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
        !part.is_empty() && part.len() <= 127 && part.bytes().all(allowed)
    };
    match essence.split_once('/') {
        Some((kind, name)) if is_token(kind) && is_token(name) => essence,
        Some(_) | None => UNKNOWN.to_owned(),
    }
}

/// The name of the file: where it is from, and what it is.
fn file_path(id: ResultId, content_type: &str) -> Option<FilePath> {
    let known = EXTENSIONS.iter().find(|(known, _)| *known == content_type);
    let extension = known.map_or("bin", |(_, extension)| extension);
    let path = format!("results/{}/{}.{extension}", id.generation, id.place);
    path.parse().ok()
}

/// What makes two uploads of one result the same upload.
fn key_of(id: ResultId) -> [u8; 32] {
    let named = format!("kept result {}/{}", id.generation, id.place);
    *BlobHash::of(named.as_bytes()).as_bytes()
}

fn no_room() -> NotKept {
    NotKept {
        fault: KeepFault::Passing,
        reason: "the workspace has no room for it; delete files, or raise `stored-bytes`"
            .to_owned(),
    }
}

fn passing(error: &(dyn std::error::Error + 'static)) -> NotKept {
    tracing::warn!(error, "a result cannot be kept now");
    NotKept {
        fault: KeepFault::Passing,
        reason: "the server could not store it".to_owned(),
    }
}

/// What a failed fetch means. The reasons name hosts at most, since addresses may be signed.
fn not_fetched(error: &FetchError) -> NotKept {
    let (fault, reason) = match error {
        FetchError::Status(status) => {
            let fault = match status {
                408 | 425 | 429 => KeepFault::Passing,
                400..=499 => KeepFault::Refused,
                _ => KeepFault::Passing,
            };
            (fault, format!("its address answered with status {status}"))
        }
        FetchError::TooLarge { limit } => (
            KeepFault::Final,
            format!("it is larger than {limit} bytes (`kept_result_size`)"),
        ),
        FetchError::BadUrl(_) => (KeepFault::Final, "its address cannot be used".to_owned()),
        FetchError::NotAllowed { .. } => (KeepFault::Final, error.to_string()),
        FetchError::Unreachable { .. } | FetchError::Tls { .. } | FetchError::Broken { .. } => {
            (KeepFault::Passing, error.to_string())
        }
        FetchError::TimedOut => (
            KeepFault::Passing,
            "its host was silent or took too long".to_owned(),
        ),
    };
    NotKept { fault, reason }
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher")
            .field("exempt", &self.exempt)
            .field("most_bytes", &self.most_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use router_core::GenerationId;

    use super::*;

    #[test]
    fn a_file_is_named_by_its_generation_and_its_type() {
        let id = ResultId {
            generation: GenerationId(Uuid::nil()),
            place: 3,
        };
        let name = |named: Option<&str>| {
            let content_type = media_type(named);
            let path = file_path(id, &content_type).expect("it is a path");
            let name = path.name().to_owned();
            (content_type, name)
        };
        let of = |content_type: &str, name: &str| (content_type.to_owned(), name.to_owned());
        assert_eq!(name(Some("IMAGE/PNG; x=y")), of("image/png", "3.png"));
        assert_eq!(name(Some("video/mp4")), of("video/mp4", "3.mp4"));
        assert_eq!(name(Some("text/csv")), of("text/csv", "3.bin"));
        for unusable in [
            None,
            Some(""),
            Some("png"),
            Some("image/"),
            Some("a/b\u{e9}"),
        ] {
            assert_eq!(name(unusable), of(UNKNOWN, "3.bin"));
        }
    }

    #[test]
    fn plain_http_is_for_the_hosts_that_the_operator_names() {
        let exempt: Vec<Host> = Host::parse("gateway:8080").into_iter().collect();
        for good in [
            "https://a/1",
            "HTTP://gateway:8080/1?x",
            "http://gateway:8080",
        ] {
            assert!(may_fetch(&exempt, good), "{good}");
        }
        for bad in [
            "http://a/1",
            "http://gateway/1",
            "http://gateway:8080@a/1",
            "http://a\\@gateway:8080/1",
            "http://a#@gateway:8080/1",
            "http:///gateway:8080",
        ] {
            assert!(!may_fetch(&exempt, bad), "{bad}");
        }
    }

    #[test]
    fn what_no_other_attempt_helps_is_given_up_at_once() {
        let pause = |error: FetchError| not_fetched(&error).fault.pause(1).is_some();
        for status in [403, 404, 408, 410, 429, 500, 503, 302] {
            assert!(pause(FetchError::Status(status)), "{status}");
        }
        assert!(
            not_fetched(&FetchError::Status(404))
                .fault
                .pause(3)
                .is_none()
        );
        assert!(
            not_fetched(&FetchError::Status(503))
                .fault
                .pause(6)
                .is_some()
        );
        assert!(pause(FetchError::TimedOut));
        assert!(!pause(FetchError::TooLarge { limit: 1 }));
        assert!(!pause(FetchError::BadUrl("it is none")));
        let private = FetchError::NotAllowed {
            host: "10.0.0.1".to_owned(),
            reason: hyper_kit::client::Reason::NotPublic,
        };
        assert!(!pause(private));
    }
}
