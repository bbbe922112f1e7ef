//! The listener of metrics alone.

use std::net::SocketAddr;

use it::{Launch, Request, Server};

/// Where a server says that its metrics are.
fn metrics_of(server: &Server) -> SocketAddr {
    let line = server.welcome.lines().find(|line| line.contains("Metrics"));
    let url = line.unwrap().split_once("http://").unwrap().1;
    url.strip_suffix("/metrics").unwrap().parse().unwrap()
}

#[tokio::test]
async fn metrics_have_a_listener_of_their_own_on_every_server() {
    let data = tempfile::tempdir().unwrap();
    for package in ["all-in-one", "router-server"] {
        let launch = Launch {
            variables: vec![("EASEL_METRICS_LISTEN".to_owned(), "127.0.0.1:0".to_owned())],
            ..Launch::of(package)
        };
        let store = data.path().join(package);
        let server = Server::launch(&store, &launch).await.unwrap();
        let own = metrics_of(&server);
        assert_ne!(own, server.address);
        for (path, status) in [
            ("/metrics", 200),
            ("/health", 200),
            ("/ready", 200),
            ("/", 404),
            ("/api/v2/jobs", 404),
            ("/v1/models", 404),
            ("/signin", 404),
        ] {
            let answer = Request::get(path).send(own).await.unwrap();
            assert_eq!(answer.status, status, "{package} {path}: {}", answer.text());
        }
        let posted = Request::new("POST", "/metrics").send(own).await.unwrap();
        assert_eq!(posted.status, 404);
        let rebound = Request::get("/metrics").header("Host", "rebound.example");
        assert_eq!(rebound.send(own).await.unwrap().status, 403);
        let metrics = Request::get("/metrics").send(own).await.unwrap().text();
        // What it shows is the server's: this is the second time that they were asked for.
        assert!(
            metrics.contains("easel_http_requests_total{method=\"GET\",route=\"/metrics\""),
            "{metrics}"
        );
        assert!(server.terminate().await.unwrap().success());
    }
}
