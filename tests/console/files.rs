//! The files of the console, as clients without a browser get them.

use it::{Launch, Request, Server};

#[tokio::test]
async fn every_server_has_the_console_with_its_own_views() {
    for (package, families) in [
        ("all-in-one", "data-families=\"workflows models\""),
        ("workflow-server", "data-families=\"workflows\""),
        ("router-server", "data-families=\"models\""),
    ] {
        let data = tempfile::tempdir().unwrap();
        let server = Server::launch(data.path(), &Launch::of(package))
            .await
            .unwrap();
        let page = server.send(&Request::get("/console/")).await.unwrap();
        assert_eq!(page.status, 200, "{package}");
        assert!(page.text().contains(families), "{package}: {}", page.text());
        let script = Request::get("/console/app.js").header("Accept-Encoding", "gzip");
        let script = server.send(&script).await.unwrap();
        assert_eq!(script.header("content-encoding"), Some("gzip"), "{package}");
        let known = Request::get("/console/app.js").header("Accept-Encoding", "gzip");
        let known = known.header("If-None-Match", script.header("etag").unwrap());
        assert_eq!(server.send(&known).await.unwrap().status, 304, "{package}");
        let home = server.send(&Request::get("/")).await.unwrap();
        assert!(home.text().contains("/console"), "{}", home.text());
    }
}

#[tokio::test]
async fn the_console_is_below_the_mount_path_and_can_be_switched_off() {
    let data = tempfile::tempdir().unwrap();
    let arguments = ["--mount-path", "/a/b", "--token", "the-token-of-this-test"];
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let moved = server.send(&Request::get("/a/b/console")).await.unwrap();
    assert_eq!(moved.status, 308);
    assert_eq!(moved.header("location"), Some("/a/b/console/"));
    let page = server.send(&Request::get("/a/b/console/")).await.unwrap();
    assert_eq!(page.status, 200, "the files need no key");
    assert!(page.text().contains("data-open=\"\""), "{}", page.text());
    assert_eq!(
        server
            .send(&Request::get("/console/"))
            .await
            .unwrap()
            .status,
        404
    );

    let data = tempfile::tempdir().unwrap();
    let arguments = ["--console=false"];
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    assert_eq!(
        server
            .send(&Request::get("/console/"))
            .await
            .unwrap()
            .status,
        404
    );
    let home = server.send(&Request::get("/")).await.unwrap();
    assert!(!home.text().contains("/console"), "{}", home.text());
}
