//! Starts a SeaweedFS: an object store with the API of S3 in one program.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::server;
use crate::BucketOptions;

/// How often a start is tried: somebody else may take a port between the look for it and its use.
const TRIES: u32 = 3;

/// The name of the bucket.
const BUCKET: &str = "easel";

/// Who may do everything, and who may only read.
const IDENTITIES: &str = r#"{"identities": [
    {"name": "easel", "credentials": [{"accessKey": "easel", "secretKey": "easel-secret"}],
     "actions": ["Admin", "Read", "Write", "List", "Tagging"]},
    {"name": "reader", "credentials": [{"accessKey": "reader", "secretKey": "reader-secret"}],
     "actions": ["Read", "List"]}
]}"#;

/// An object store that ends with this process, with a bucket and two keys: `easel` may do everything, `reader` may read. The
/// secrets are the names with `-secret` behind them.
#[derive(Debug)]
pub struct S3Server {
    _folder: TempDir,
    endpoint: String,
}

impl S3Server {
    /// Starts one on loopback; `None`, with a line that says so, where none is installed.
    ///
    /// # Panics
    /// If it does not start, or is missing in CI.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_with(None)
    }

    /// Starts one that speaks TLS as `localhost`, with these files of a certificate and its key; `None` as [`S3Server::start`].
    ///
    /// # Panics
    /// As [`S3Server::start`].
    #[must_use]
    pub fn secured(certificate: &Path, key: &Path) -> Option<Self> {
        Self::start_with(Some((certificate, key)))
    }

    #[expect(clippy::print_stderr, reason = "a test that is left out says so")]
    fn start_with(secured: Option<(&Path, &Path)>) -> Option<Self> {
        let Some(program) = installed() else {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "no object store: `.ci/run` installs one, or EASEL_WEED names the program"
            );
            eprintln!("skipped: no SeaweedFS is installed; EASEL_WEED names its program `weed`");
            return None;
        };
        let mut said = String::new();
        for _ in 0..TRIES {
            match Self::try_start(&program, secured) {
                Ok(server) => return Some(server),
                Err(log) => said = log,
            }
        }
        panic!("SeaweedFS does not start:\n{said}");
    }

    fn try_start(program: &Path, secured: Option<(&Path, &Path)>) -> Result<Self, String> {
        let folder = server::folder("seaweedfs");
        let file = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(file("identities.json"), IDENTITIES).expect("the folder is new");
        std::fs::create_dir(file("data")).expect("the folder is new");
        let ports = free_ports();
        let mut command = server::command(program);
        command.args([
            "-logtostderr",
            "mini",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
        ]);
        for (name, port) in PORTS.iter().zip(ports) {
            command.arg(format!("-{name}={port}"));
        }
        command
            .arg(format!("-dir={}", file("data")))
            .arg(format!("-s3.config={}", file("identities.json")))
            // The paths of sockets are short.
            .arg(format!("-filer.localSocket={}", file("f")))
            .arg(format!("-s3.localSocket={}", file("s")))
            .arg(format!("-bucket={BUCKET}"))
            .args([
                "-s3.autoCreateBucket=false",
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
            ])
            .args([
                "-webdav=false",
                "-admin.ui=false",
                "-master.telemetry=false",
            ]);
        let mut endpoint = format!("http://127.0.0.1:{}", ports[0]);
        if let Some((certificate, key)) = secured {
            let [port, ..] = free_ports();
            command.arg(format!("-s3.port.https={port}"));
            command.arg(format!("-s3.cert.file={}", certificate.display()));
            command.arg(format!("-s3.key.file={}", key.display()));
            endpoint = format!("https://localhost:{port}");
        }
        server::run(command, "All enabled components are running and ready")?;
        Ok(Self {
            _folder: folder,
            endpoint,
        })
    }

    /// The address of the store.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// Its bucket, under this prefix, with the key that may do everything.
    #[must_use]
    pub fn options(&self, prefix: &str) -> BucketOptions {
        BucketOptions {
            bucket: BUCKET.to_owned(),
            prefix: prefix.to_owned(),
            endpoint: Some(self.endpoint()),
            region: "us-east-1".to_owned(),
            extra_ca_pem: None,
            credentials: vec![
                ("AWS_ACCESS_KEY_ID", "easel".into()),
                ("AWS_SECRET_ACCESS_KEY", "easel-secret".into()),
            ],
            patience: Duration::from_secs(10),
        }
    }
}

/// The names of the settings of ports.
const PORTS: [&str; 10] = [
    "s3.port",
    "s3.port.grpc",
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "admin.port",
    "admin.port.grpc",
];

fn free_ports() -> [u16; PORTS.len()] {
    let listeners = PORTS.map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"));
    listeners.map(|listener| listener.local_addr().expect("it is bound").port())
}

/// The program that `EASEL_WEED` names, or the one that `.ci/run` installed.
fn installed() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("EASEL_WEED") {
        return Some(program.into());
    }
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ci");
    let tools = std::fs::read_dir(tools).into_iter().flatten().flatten();
    let programs = tools
        .filter(|tool| tool.file_name().to_string_lossy().starts_with("seaweedfs-"))
        .map(|tool| tool.path().join("bin/weed"));
    programs.filter(|program| program.exists()).max()
}
