//! A compact set of recorded workflows that lies with the project: small inputs, and hashes of the pixels they came to.

use std::collections::HashMap;
use std::path::Path;

use serde_json::json;
use workflow_core::OutputKind;

use crate::bench::Bench;
use crate::goldens::{self, Picture};
use crate::latest::every_case_is_equal;

#[tokio::test]
async fn the_compact_set_gives_the_recorded_pixels_and_texts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded");
    let mut outputs = 0;
    for case in goldens::json(&folder.join("cases.json"))
        .as_array()
        .unwrap()
    {
        let mut bench = Bench::new();
        for name in case["inputs"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            bench
                .upload(name, &std::fs::read(folder.join(name)).unwrap())
                .await;
        }
        let told = bench.run(&case["workflow"]).await.expect_success();
        // Several outputs of one node stand in order.
        let mut found: HashMap<&str, Vec<_>> = HashMap::new();
        for (output, bytes) in &told.outputs {
            let node = output.node_id.as_str();
            found.entry(node).or_default().push(match output.kind {
                OutputKind::Text => json!({"node": node, "text": std::str::from_utf8(bytes).unwrap()}),
                OutputKind::Image
                | OutputKind::Video
                | OutputKind::Audio
                | OutputKind::File
                | OutputKind::Latent => {
                    let picture = Picture::read(bytes);
                    json!({"node": node, "size": [picture.shape.0, picture.shape.1], "sha256": picture.sha256()})
                }
            });
        }
        found.values_mut().for_each(|outputs| outputs.reverse());
        for expected in case["outputs"].as_array().unwrap() {
            let node = expected["node"].as_str().unwrap();
            let found = found.get_mut(node).and_then(Vec::pop);
            assert_eq!(found.as_ref(), Some(expected), "{}", case["case"]);
            outputs += 1;
        }
    }
    assert_eq!(outputs, 94, "the set is whole");
}

#[tokio::test]
async fn the_first_classes_give_what_the_real_ones_gave() {
    every_case_is_equal("basics.json", 64).await;
}

#[tokio::test]
async fn linked_numbers_beyond_their_widget_do_what_they_do_in_the_real_one() {
    every_case_is_equal("linked.json", 43).await;
}
