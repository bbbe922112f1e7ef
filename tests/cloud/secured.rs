//! Secrets in files, and a database and a bucket that are reached over TLS with an authority of the operator's own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use store_cloud::testing::S3Server;

use super::refused::{Start, free_port, refused};
use super::*;

const PASSWORD: &str = "hidden-secret";

fn write(path: &Path, text: &str) -> String {
    fs::write(path, text).unwrap();
    // PostgreSQL takes no key that others can read.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

fn pem(what: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    format!("-----BEGIN {what}-----\n{text}\n-----END {what}-----\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_come_from_files_and_both_places_are_trusted_by_an_own_authority() {
    if !is_possible("places with an own authority").await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = write(&file("server.crt"), &pem("CERTIFICATE", made.cert.der()));
    let key = pem("PRIVATE KEY", &made.signing_key.serialize_der());
    let key = write(&file("server.key"), &key);
    let Some(bucket) = S3Server::secured(Path::new(&certificate), Path::new(&key)) else {
        return;
    };
    let rules = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
    let port = free_port();
    let postgres = PostgresServer::start(&[
        "listen_addresses=127.0.0.1",
        &format!("port={port}"),
        "ssl=on",
        &format!("ssl_cert_file={certificate}"),
        &format!("ssl_key_file={key}"),
        &format!("hba_file={}", write(&file("rules"), rules)),
        "fsync=off",
    ]);
    let owner = format!(
        "CREATE ROLE owner LOGIN PASSWORD '{PASSWORD}'; GRANT ALL ON SCHEMA public TO owner"
    );
    postgres.execute("postgres", &owner).await;

    let store = format!("postgres://owner@localhost:{port}/postgres?sslmode=require");
    let trusted = format!("{store}&sslrootcert={certificate}");
    let blobs = format!("s3://easel/secured?endpoint={}", bucket.endpoint());
    let trusting = format!("{blobs}&ca={certificate}");
    // As editors leave them, with the end of a line.
    let secrets = [
        ("PGPASSWORD_FILE", format!("{PASSWORD}\n")),
        ("AWS_ACCESS_KEY_ID_FILE", "easel\n".to_owned()),
        ("AWS_SECRET_ACCESS_KEY_FILE", "easel-secret\n".to_owned()),
    ];
    let variables = secrets.map(|(name, secret)| (name, write(&file(name), &secret)));
    let borrowed: Vec<(&str, &str)> = variables
        .iter()
        .map(|(name, path)| (*name, &**path))
        .collect();
    for (store, blobs, says) in [
        (&store, &trusting, "no secure connection to PostgreSQL"),
        (
            &trusted,
            &blobs,
            "no secure connection to s3://easel/secured",
        ),
    ] {
        let start = Start {
            store,
            blobs,
            variables: &borrowed,
        };
        let said = refused(&start).await;
        assert!(said.contains(says), "{said}");
    }

    let launch = Launch {
        arguments: ["--store", &trusted, "--blobs", &trusting]
            .map(Into::into)
            .to_vec(),
        variables: variables
            .map(|(name, path)| (name.to_owned(), path))
            .to_vec(),
        log: Some(file("log")),
        ..Launch::of("all-in-one")
    };
    let started = Server::launch(&file("data"), &launch).await;
    let log = || fs::read_to_string(file("log")).unwrap_or_default();
    let server = started.unwrap_or_else(|error| panic!("{error}: {}", log()));
    let form = Form::new()
        .field("content_type", "text/plain")
        .field("file_path", "hello.txt")
        .file("file", "hello.txt", b"hello");
    let upload =
        Request::new("POST", "/api/v2/assets").header("Content-Type", &Form::content_type());
    let uploaded = server.send(&upload.body(form.body())).await.unwrap();
    assert_eq!(uploaded.status, 201, "{}", uploaded.text());
    let id = uploaded.json()["id"].as_str().unwrap().to_owned();
    let content = Request::get(&format!("/api/v2/assets/{id}/content"));
    let content = server.send(&content).await.unwrap();
    assert_eq!((content.status, content.text()), (200, "hello".to_owned()));
    assert!(server.terminate().await.unwrap().success());
    assert!(!log().contains("-secret"), "{}", log());
}
