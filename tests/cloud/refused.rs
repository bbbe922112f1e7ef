//! What an operator reads when a place of an installation cannot be used: the program ends with a sentence that says what to do,
//! and names no secret.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use store_cloud::testing::PgBouncer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use it::{BucketProxy, Trouble};

use super::*;

const PASSWORD: &str = "hidden-secret";

/// What a program is started with.
pub(super) struct Start<'a> {
    pub(super) store: &'a str,
    pub(super) blobs: &'a str,
    pub(super) variables: &'a [(&'a str, &'a str)],
}

/// Starts a program that is to end at once; what it said.
pub(super) async fn refused(start: &Start<'_>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary());
    // They are for the test, and the program would wonder.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("EASEL_")) {
        command.env_remove(name);
    }
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path().join("data"))
        .args(["--store", start.store, "--blobs", start.blobs])
        .envs(start.variables.iter().copied())
        .kill_on_drop(true);
    let ended = in_time(command.output()).await.unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}: {said}", start.store);
    assert!(!said.contains("-secret"), "{said}");
    said
}

pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// A bucket and its keys, which are right.
fn bucket() -> Option<(String, String)> {
    let bucket = testing::bucket()?;
    let endpoint = bucket.endpoint.unwrap();
    let place = format!("s3://{}/{}", bucket.bucket, bucket.prefix);
    Some((place, endpoint))
}

/// A server over TCP that asks for passwords, and its port. The user `owner` may make tables in the databases `rows`, `pooled`,
/// `newer` and `few`.
async fn postgres(folder: &Path) -> (PostgresServer, u16) {
    let rules = folder.join("rules");
    let text = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(&rules, text).unwrap();
    let port = free_port();
    let server = PostgresServer::start(&[
        "listen_addresses=127.0.0.1",
        &format!("port={port}"),
        &format!("hba_file={}", rules.display()),
        "fsync=off",
    ]);
    let roles = format!(
        "CREATE ROLE owner LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}';
         CREATE ROLE few LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT 1;
         CREATE ROLE late LOGIN PASSWORD '{PASSWORD}'"
    );
    server.execute("postgres", &roles).await;
    server.create_database("rows", "template1").await;
    // Whoever has this path asks another clock.
    let owned = "GRANT ALL ON SCHEMA public TO owner; CREATE SCHEMA wrong; GRANT USAGE ON SCHEMA wrong TO late;
         CREATE FUNCTION wrong.clock_timestamp() RETURNS timestamptz LANGUAGE sql
             AS 'SELECT pg_catalog.clock_timestamp() + interval ''61.5 s''';
         ALTER ROLE late SET search_path = wrong, pg_catalog, public";
    server.execute("rows", owned).await;
    (server, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_the_database_is_said_at_the_start() {
    if !is_possible("a database that cannot be used").await {
        return;
    }
    let Some((place, endpoint)) = bucket() else {
        return;
    };
    let blobs = format!("{place}?endpoint={endpoint}");
    let folder = tempfile::tempdir().unwrap();
    let (server, port) = postgres(folder.path()).await;
    let at = |user: &str, name: &str| format!("postgres://{user}@127.0.0.1:{port}/{name}");
    let closed = format!("postgres://owner@127.0.0.1:{}/rows", free_port());
    let old = Old::start().await;
    let cases = [
        (
            closed,
            PASSWORD,
            "127.0.0.1/rows cannot be reached; check the address",
        ),
        (
            at("owner", "rows"),
            "wrong-secret",
            "does not let this user in",
        ),
        (at("nobody", "rows"), PASSWORD, "does not let this user in"),
        (
            at("owner", "missing"),
            PASSWORD,
            "does not exist; create it",
        ),
        (at("guest", "rows"), PASSWORD, "may not create tables"),
        (
            at("few", "rows"),
            PASSWORD,
            "has no connection left; raise its max_connections",
        ),
        (
            at("late", "rows"),
            PASSWORD,
            "are 61 s apart; set both by NTP",
        ),
        (
            old.address(),
            PASSWORD,
            "has version 14; version 15 or newer is needed",
        ),
    ];
    let [id, secret] = BUCKET_KEYS;
    for (store, password, says) in &cases {
        let variables = [id, secret, ("PGPASSWORD", *password)];
        let start = Start {
            store,
            blobs: &blobs,
            variables: &variables,
        };
        let said = refused(&start).await;
        assert!(said.contains(says), "{store}: {said}");
    }

    // What stands between, and what a newer program left.
    if let Some(pooler) = PgBouncer::start(&server, "transaction") {
        let start = Start {
            store: &pooler.url("rows"),
            blobs: &blobs,
            variables: &BUCKET_KEYS,
        };
        let said = refused(&start).await;
        assert!(said.contains("a pooler in transaction mode"), "{said}");
    }
    // Nothing of these was written.
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(server.query("rows", tables).await, [["0"]]);
    let newer = "CREATE TABLE migrations (aggregate text PRIMARY KEY, version integer NOT NULL);
        INSERT INTO migrations VALUES ('calls', 1000)";
    server.execute("rows", newer).await;
    let start = Start {
        store: &server.url("rows"),
        blobs: &blobs,
        variables: &BUCKET_KEYS,
    };
    let said = refused(&start).await;
    assert!(
        said.contains("have version 1000") && said.contains("start the newer program"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_the_bucket_is_said_at_the_start() {
    if !is_possible("a bucket that cannot be used").await {
        return;
    }
    let Some((place, endpoint)) = bucket() else {
        return;
    };
    let store = testing::empty_database().await;
    let proxy = BucketProxy::start(&endpoint).await.unwrap();
    let skewed = "<Error><Code>RequestTimeTooSkewed</Code></Error>";
    proxy.always(Some(Trouble::Refused(403, skewed)));
    let key = |id, secret| [("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", secret)];
    let at = |endpoint: &str| format!("{place}?endpoint={endpoint}");
    let other = at(&endpoint).replace("s3://easel/", "s3://missing/");
    let closed = at(&format!("http://127.0.0.1:{}", free_port()));
    let authority = format!("{}&ca=/no/such/file", at(&endpoint));
    let right = BUCKET_KEYS;
    let cases = [
        (closed, right, "cannot be reached; check the endpoint"),
        (other, right, "does not exist; create it"),
        (
            at(&endpoint),
            key("nobody", "easel-secret"),
            "does not accept the access key",
        ),
        (
            at(&endpoint),
            key("easel", "another-secret"),
            "does not accept the access key",
        ),
        (
            at(&endpoint),
            key("reader", "reader-secret"),
            "may not use s3://easel/",
        ),
        (
            at(&proxy.endpoint()),
            right,
            "too far apart; set both by NTP",
        ),
        (authority, right, "/no/such/file cannot be read"),
        (
            at(&endpoint),
            [right[0], ("AWS_SECRET_ACCESS_KEY_FILE", "/no/such/secret")],
            "/no/such/secret cannot be read",
        ),
        (
            at(&endpoint).replace("s3://", "s3://easel:easel-secret@"),
            right,
            "put them into AWS_ACCESS_KEY_ID",
        ),
    ];
    for (blobs, variables, says) in &cases {
        let start = Start {
            store: &store,
            blobs,
            variables,
        };
        let said = refused(&start).await;
        assert!(said.contains(says), "{blobs}: {said}");
    }
}

/// A PostgreSQL of another age: all that it can do is to say which.
struct Old {
    port: u16,
}

impl Old {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // The program goes when it has heard enough.
                tokio::spawn(async move { drop(Self::serve(stream).await) });
            }
        });
        Self { port }
    }

    fn address(&self) -> String {
        format!(
            "postgres://owner@127.0.0.1:{}/rows?sslmode=disable",
            self.port
        )
    }

    async fn serve(mut stream: tokio::net::TcpStream) -> std::io::Result<()> {
        let length = stream.read_u32().await?;
        stream.read_exact(&mut vec![0; length as usize - 4]).await?;
        // It lets everybody in.
        let ready = message(b'Z', b"I");
        let welcome = [message(b'R', &[0; 4]), ready.clone()].concat();
        stream.write_all(&welcome).await?;
        loop {
            let _kind = stream.read_u8().await?;
            let length = stream.read_u32().await?;
            let mut asked = vec![0; length as usize - 4];
            stream.read_exact(&mut asked).await?;
            let mut answer = Vec::new();
            if asked.starts_with(b"SHOW") {
                let column = [
                    &[0, 1][..],
                    b"v\0",
                    &[0; 6],
                    &[0, 0, 0, 25, 255, 255],
                    &[0; 6],
                ];
                answer.extend(message(b'T', &column.concat()));
                answer.extend(message(
                    b'D',
                    &[&[0, 1, 0, 0, 0, 6][..], b"140012"].concat(),
                ));
            }
            answer.extend(message(b'C', b"SET\0"));
            answer.extend(ready.clone());
            stream.write_all(&answer).await?;
        }
    }
}

/// A message of its protocol.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind][..], &length.to_be_bytes(), body].concat()
}
