//! What an operator reads when a database cannot be opened: against servers with passwords, TLS and a pooler.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tempfile::TempDir;
use tokio_postgres::NoTls;

use super::*;
use crate::testing::{self, PgBouncer, PostgresServer};

/// A server that is reached over TCP, with a password and TLS or without TLS, and its files.
struct Secured {
    server: PostgresServer,
    folder: TempDir,
    port: u16,
}

const PASSWORD: &str = "hidden-secret";

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("it is bound").port()
}

fn write(path: &Path, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).expect("the folder is ours");
    // A key that others can read is refused.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("the file is ours");
    path.display().to_string()
}

fn pem(what: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: Vec<_> = lines.collect();
    format!(
        "-----BEGIN {what}-----\n{}\n-----END {what}-----\n",
        lines.join("\n")
    )
}

impl Secured {
    /// Starts a server whose certificate is of `localhost`.
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
        let made = made.expect("a certificate");
        let file = |name: &str| folder.path().join(name);
        let certificate = write(&file("server.crt"), &pem("CERTIFICATE", made.cert.der()));
        let key = write(
            &file("server.key"),
            &pem("PRIVATE KEY", &made.signing_key.serialize_der()),
        );
        let rules = write(
            &file("rules"),
            "local all easel trust\n\
             hostssl all all 127.0.0.1/32 scram-sha-256\n\
             hostnossl plain all 127.0.0.1/32 scram-sha-256\n",
        );
        let port = free_port();
        let server = PostgresServer::start(&[
            "listen_addresses=127.0.0.1",
            &format!("port={port}"),
            "ssl=on",
            &format!("ssl_cert_file={certificate}"),
            &format!("ssl_key_file={key}"),
            &format!("hba_file={rules}"),
            "fsync=off",
        ]);
        for name in ["secured", "plain"] {
            server.create_database(name, "template1").await;
            let (client, connection) = tokio_postgres::connect(&server.url(name), NoTls)
                .await
                .expect("the socket takes its owner");
            tokio::spawn(connection);
            let roles = match name {
                "secured" => format!(
                    "CREATE ROLE owner LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'"
                ),
                _ => "SELECT 1".to_owned(),
            };
            client.batch_execute(&roles).await.expect("they are new");
            let owned = client
                .batch_execute("GRANT ALL ON SCHEMA public TO owner")
                .await;
            owned.expect("it is ours");
        }
        Self {
            server,
            folder,
            port,
        }
    }

    fn authority(&self) -> String {
        self.folder.path().join("server.crt").display().to_string()
    }
}

/// What opening came to; no text of an error has the password.
async fn open(address: &str, password: Option<&str>) -> Result<Database, String> {
    let options = DatabaseOptions {
        password: password.map(Into::into),
        ..DatabaseOptions::default()
    };
    Database::open(address, options).await.map_err(|error| {
        let whole = format!("{error:?} {}", hyper_kit::error_chain(&error));
        assert!(!whole.contains(PASSWORD), "{whole}");
        error.to_string()
    })
}

async fn refused(address: &str, password: Option<&str>, says: &str) {
    let refused = open(address, password).await.expect_err(says);
    assert!(refused.contains(says), "{address}: {refused}");
}

#[tokio::test]
async fn tls_and_passwords_are_as_the_address_says() {
    if !crate::testing::has_postgres() {
        return;
    }
    let secured = Secured::start().await;
    let (port, authority) = (secured.port, secured.authority());
    let at = |user: &str, rest: &str| format!("postgres://{user}@localhost:{port}/{rest}");
    let verified = format!("secured?sslmode=verify-full&sslrootcert={authority}");
    let opened = open(&at("owner", &verified), Some(PASSWORD)).await;
    let opened = opened.expect("all is right");
    let connection = opened.connection().await.expect("it answers");
    let row = connection
        .query_one(
            "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
            &[],
        )
        .await;
    assert!(row.expect("a row").get::<_, bool>(0));
    assert!(!format!("{opened:?}").contains(PASSWORD));
    // The address has its own; so have a list of settings and a file.
    let with_password = at(&format!("owner:{PASSWORD}"), &verified);
    open(&with_password, Some("another"))
        .await
        .expect("it is right");
    let list = format!(
        "host=localhost port={port} user=owner dbname=secured sslmode=require sslrootcert={authority}"
    );
    open(&list, Some(PASSWORD)).await.expect("it is right");
    let file = write(
        &secured.folder.path().join("password"),
        &format!("{PASSWORD}\n"),
    );
    let environment = |name: &str| (name == "PGPASSWORD_FILE").then(|| file.clone());
    let options = DatabaseOptions::from_environment(environment).expect("the file is there");
    Database::open(&list, options).await.expect("it is right");

    let not_let_in = "does not let this user in";
    refused(&at("owner", &verified), Some("wrong"), not_let_in).await;
    refused(&at("owner", &verified), None, not_let_in).await;
    refused(&at("nobody", &verified), Some(PASSWORD), not_let_in).await;
    refused(
        &at("guest", &verified),
        Some(PASSWORD),
        "may not create tables",
    )
    .await;
    let missing = verified.replace("secured?", "missing?");
    refused(
        &at("owner", &missing),
        Some(PASSWORD),
        "does not exist; create it",
    )
    .await;
    // Without the authority; with the wrong name of the host; where TLS is asked for and the other way round.
    let not_secure = "no secure connection";
    refused(&at("owner", "secured"), Some(PASSWORD), not_secure).await;
    let by_number = at("owner", &verified).replace("localhost", "127.0.0.1");
    refused(&by_number, Some(PASSWORD), not_secure).await;
    refused(
        &at("owner", "secured?sslmode=disable"),
        Some(PASSWORD),
        not_let_in,
    )
    .await;
    let plain = open(&at("owner", "plain?sslmode=disable"), Some(PASSWORD)).await;
    plain.expect("this one needs no TLS");
    refused(
        &at("owner", "secured?sslrootcert=/no/such/file"),
        None,
        "cannot be read",
    )
    .await;
    drop(secured.server);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_be_out_of_reach() {
    if !crate::testing::has_postgres() {
        return;
    }
    let nowhere = format!("postgres://me@127.0.0.1:{}/name", free_port());
    refused(&nowhere, None, "127.0.0.1/name cannot be reached").await;
}

#[tokio::test]
async fn a_clock_that_is_an_hour_off_is_refused() {
    if !crate::testing::has_postgres() {
        return;
    }
    let address = testing::empty_database().await;
    let options = DatabaseOptions {
        clock: || jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1),
        ..DatabaseOptions::default()
    };
    let refused = Database::open(&address, options).await;
    let refused = refused.expect_err("it is too far").to_string();
    assert!(refused.contains("set both by NTP"), "{refused}");
}

#[tokio::test]
async fn a_pooler_is_taken_if_it_keeps_sessions_and_refused_if_it_does_not() {
    if !crate::testing::has_postgres() {
        return;
    }
    let server = PostgresServer::start(&["fsync=off"]);
    for (mode, is_taken) in [
        ("session", true),
        ("transaction", false),
        ("statement", false),
    ] {
        server.create_database(mode, "template1").await;
        let Some(pooler) = PgBouncer::start(&server, mode) else {
            return;
        };
        let opened = open(&pooler.url(mode), None).await;
        match opened {
            Ok(_) => assert!(is_taken, "{mode}"),
            Err(refused) => {
                assert!(!is_taken, "{mode}: {refused}");
                assert!(refused.contains("pooler in transaction mode"), "{refused}");
            }
        }
    }
}
