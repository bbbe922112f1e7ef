//! Bodies that are on their way: an account has room for some of the largest, and all others have theirs.

use super::*;

/// The largest body that is taken.
const LARGEST: usize = 16 << 20;

#[tokio::test]
async fn bodies_of_one_account_have_a_bound_and_leave_room_for_others() {
    let it = Fixture::new().await;
    let grown = it.growth(async {
        let mut held = Vec::new();
        for path in [
            "/api/v2/jobs",
            "/api/prompt",
            "/api/settings",
            "/api/userdata/x",
            "/api/history",
        ] {
            let head = it.of(&it.hostile, head(path, LARGEST));
            held.push(begun(&it.server, &head, LARGEST / 2).await);
        }
        while it.server.metric("easel_body_bytes").await.unwrap() < (5 * LARGEST) as f64 {
            tokio::task::yield_now().await;
        }
        // More wait, and are refused in the words of their API after a while; a client that sends little is not.
        let refused = async |path: &str| {
            let head = it.of(&it.hostile, head(path, LARGEST));
            let mut connection = begun(&it.server, &head, 0).await;
            let answer = connection.answer(false).await.unwrap();
            assert_eq!(answer.status, 429, "{path}: {}", answer.text());
            assert_eq!(answer.header("retry-after"), Some("1"));
            answer.json()
        };
        let (v2, v1, settings) = tokio::join!(
            refused("/api/v2/jobs"),
            refused("/api/prompt"),
            refused("/api/settings")
        );
        assert_eq!(v2["error"]["code"], "too_busy");
        assert_eq!(v1["error"]["type"], "TOO_BUSY");
        assert_eq!(settings["code"], "TOO_BUSY");
        let small = it.hostile(post("/api/settings", "{}".to_owned())).await;
        assert_eq!(small.status, 200);
        it.other_gets_on().await;
        let text = " ".repeat(LARGEST - 1000);
        let large = format!("{{\"workflow\":{},\"more\":\"{text}\"}}", tiny_graph());
        let large = it.of(&it.other, post("/api/v2/jobs", large));
        let large = it.server.send(&large).await.unwrap();
        assert_eq!(large.status, 201, "{}", large.text());
    });
    let grown = grown.await;
    assert!(grown < 160 * MIB, "{} MiB", grown / MIB);
    // What is given up gives its room back.
    while it.server.metric("easel_body_bytes").await.unwrap() > 0.0 {
        tokio::task::yield_now().await;
    }
}
