//! Published models of an installation with several replicas: what one publishes or withdraws the others follow.

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::models::png::Picture;

/// A picture that is scaled to this width, and saved.
fn scales(width: u32) -> Value {
    json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": "mine.png"}},
        "2": {
            "class_type": "ImageScale",
            "inputs": {
                "image": ["1", 0], "upscale_method": "nearest-exact", "width": width, "height": 2, "crop": "disabled"
            }
        },
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "scaled"}}
    })
}

impl Fleet {
    async fn publish(&self, name: &str, width: u32) -> Value {
        let file = self.folder.path().join(format!("{name}-{width}.json"));
        std::fs::write(&file, scales(width).to_string()).unwrap();
        let words = [
            "model",
            "publish",
            file.to_str().unwrap(),
            "--name",
            "scale",
            "--json",
        ];
        serde_json::from_str(&self.operate(name, &words).await).unwrap()
    }

    /// Calls a model until the answer has this status, and gives the width of its picture.
    async fn until(&self, server: &Server, model: &str, status: u16) -> Answer {
        let picture = Picture {
            width: 1,
            height: 1,
            rgb: vec![7, 8, 9],
        };
        let url = format!(
            "data:image/png;base64,{}",
            STANDARD.encode(picture.encode())
        );
        let started = Instant::now();
        loop {
            let body = json!({"image": url, "inline": true});
            let request = Request::post_json(&format!("/v1/models/{model}"), &body);
            let answer = server.send(&self.own(request)).await.unwrap();
            if answer.status == status {
                return answer;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{} {}",
                answer.status,
                answer.text()
            );
        }
    }
}

fn width(answer: &Answer) -> usize {
    let body = answer.json();
    let url = body["outputs"][0]["url"].as_str().unwrap();
    let data = url.strip_prefix("data:image/png;base64,").unwrap();
    Picture::decode(&STANDARD.decode(data).unwrap()).width
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_replica_publishes_every_replica_runs() {
    let Some(fleet) = Fleet::start("what_one_replica_publishes_every_replica_runs").await else {
        return;
    };
    let one = fleet.replica("one").await;
    let other = fleet.replica("other").await;
    let published = fleet.publish("one", 4).await;
    assert_eq!(published["version"], 1);
    for server in [&one, &other] {
        let answer = fleet.until(server, "easel/scale", 200).await;
        assert_eq!(width(&answer), 4);
    }

    // Of two at once each is a version of its own.
    let (first, second) = tokio::join!(fleet.publish("one", 5), fleet.publish("other", 6));
    assert_ne!(first["versions"], second["versions"]);
    for server in [&one, &other] {
        let mut widths = [2, 3].map(|_| 0);
        for (place, version) in [2, 3].into_iter().enumerate() {
            let id = format!("easel/scale.v{version}");
            widths[place] = width(&fleet.until(server, &id, 200).await);
        }
        widths.sort_unstable();
        assert_eq!(widths, [5, 6]);
    }

    fleet
        .operate("other", &["model", "withdraw", "scale"])
        .await;
    for server in [&other, &one] {
        let gone = fleet.until(server, "easel/scale", 404).await;
        assert!(gone.text().contains("withdrawn"), "{}", gone.text());
    }
    assert!(one.terminate().await.unwrap().success());
    let third = fleet.replica("third").await;
    fleet.until(&third, "easel/scale.v1", 404).await;
    assert_eq!(fleet.publish("third", 7).await["version"], 4);
    let answer = fleet.until(&other, "easel/scale", 200).await;
    assert_eq!(width(&answer), 7);
}
