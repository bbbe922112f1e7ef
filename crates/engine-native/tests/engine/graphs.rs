//! Whole graphs against what they gave in a real ComfyUI: files that are loaded, lists of videos, and what output nodes hand on.

use std::path::Path;

use crate::bench::{Bench, CONFIG, has_ffmpeg};
use crate::goldens;
use crate::latest::{made, made_list, of_node, same, shown};

#[tokio::test]
async fn graphs_give_what_they_gave_in_the_real_one() {
    if !has_ffmpeg() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded");
    let cases = goldens::json(&folder.join("graphs.json"));
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 16, "the set is whole");
    let mut wrong = Vec::new();
    for case in cases {
        let mut bench = Bench::with(CONFIG, vec![made(), made_list(), shown()]);
        for file in case["inputs"].as_array().unwrap() {
            let path = folder.join(file.as_str().unwrap());
            let name = path.file_name().unwrap().to_str().unwrap();
            bench.upload(name, &std::fs::read(&path).unwrap()).await;
        }
        let told = bench.run(&case["workflow"]).await;
        for (node, expected) in case["shown"].as_object().unwrap() {
            let found = of_node(&told.events, node);
            if !same(&found, expected) {
                wrong.push(format!(
                    "{} {node}: {found}, recorded {expected} {:?}",
                    case["case"], told.result
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
