//! Lists of pictures, videos and texts: the recorded cases, and what videos of them are.

use serde_json::{Value as Json, json};

use crate::bench::{Bench, CONFIG, JOB};
use crate::latest::{every_case_is_equal, made, made_list, shown};

#[tokio::test]
async fn every_class_of_lists_gives_what_the_real_one_gave() {
    every_case_is_equal("dataset.json", 150).await;
}

/// Of 12 pictures at 30 a second: the class, its settings, and which pictures a real ComfyUI takes of them.
const PARTS: &str = include_str!("recorded/parts.json");

#[tokio::test]
async fn parts_of_videos_have_the_pictures_that_the_real_one_takes() {
    let cases: Vec<(String, Json, Vec<usize>)> = serde_json::from_str(PARTS).unwrap();
    assert!(cases.len() > 30, "the set is whole");
    let bench = Bench::with(CONFIG, vec![made(), shown()]);
    let mut wrong = Vec::new();
    for (class, settings, places) in &cases {
        let mut inputs = settings.clone();
        inputs["video"] = json!(["2", 0]);
        let mut graph = json!({
            "1": {"class_type": "Made", "inputs": {"of": {"__value__": {"$image": [12, 2, 3, 3, 9]}}}},
            "2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 30.0}},
            "3": {"class_type": class, "inputs": inputs},
            "4": {"class_type": "GetVideoComponents", "inputs": {"video": ["3", 0]}},
            "5": {"class_type": "Shown", "inputs": {"value": ["4", 0]}},
        });
        // The same pictures, one by one.
        let mut joined = Vec::new();
        for place in places {
            let id = format!("of {place}");
            graph[&id] = json!({"class_type": "ImageFromBatch", "inputs": {"image": ["1", 0], "batch_index": place, "length": 1}});
            joined.push(id);
        }
        let mut batch = json!({});
        for (at, id) in joined.iter().enumerate() {
            batch[format!("images.image{at}")] = json!([id, 0]);
        }
        graph["6"] = json!({"class_type": "BatchImagesNode", "inputs": batch});
        graph["7"] = json!({"class_type": "Shown", "inputs": {"value": ["6", 0]}});
        let told = bench.run(&graph).await.expect_success();
        let shown = |node: &str| {
            let prefix = format!("executed {node} ");
            let line = told
                .events
                .iter()
                .find_map(|line| line.strip_prefix(&prefix));
            line.unwrap().to_owned()
        };
        if shown("5") != shown("7") {
            wrong.push(format!("{class} {settings}: {}", shown("5")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_list_without_a_text_for_each_picture_is_refused() {
    let bench = Bench::with(CONFIG, vec![made(), made_list(), shown()]);
    let image = json!({"$image": [1, 2, 2, 3, 1]});
    let told = bench
        .run(&json!({
            "1": {"class_type": "MadeList", "inputs": {"of": {"__value__": {"$list": [image, image]}}}},
            "2": {"class_type": "ShuffleImageTextDataset", "inputs": {"images": ["1", 0], "texts": "one", "seed": 0}},
            "3": {"class_type": "Shown", "inputs": {"value": ["2", 1]}},
        }))
        .await;
    let error = format!("{:?}", told.result.unwrap_err());
    assert!(error.contains("link a text for each"), "{error}");
}

/// Two runs of a set of three pictures with two captions, each of pictures of its own.
async fn saved(mode: &str) -> Vec<Vec<String>> {
    let bench = Bench::with(CONFIG, vec![made_list()]);
    let mut runs = Vec::new();
    for seed in 0..2 {
        let first = json!({"$image": [1, 2, 3, 3, seed]});
        let images = json!({"$list": [first, {"$image": [2, 3, 2, 4, 2]}]});
        let texts = json!({"$list": [{"$value": "a cat"}, {"$value": "ein Bär"}]});
        let graph = json!({
            "1": {"class_type": "MadeList", "inputs": {"of": {"__value__": images}}},
            "2": {"class_type": "MadeList", "inputs": {"of": {"__value__": texts}}},
            "3": {"class_type": "SaveImageTextDataSetToFolder", "inputs": {
                "images": ["1", 0], "texts": ["2", 0],
                "folder_name": "sets/cats", "filename_prefix": "cat", "mode": mode,
            }},
        });
        let told = bench.run(&graph).await.expect_success();
        let mut texts = told
            .outputs
            .iter()
            .filter(|(output, _)| output.path.as_str().ends_with(".txt"));
        assert_eq!(
            texts.nth(1).map(|(_, bytes)| &bytes[..]),
            Some("ein Bär".as_bytes())
        );
        let paths = told
            .outputs
            .iter()
            .map(|(output, _)| output.path.to_string());
        runs.push(paths.collect());
    }
    runs
}

#[tokio::test]
async fn a_set_is_saved_with_captions_beside_its_pictures() {
    let runs = saved("overwrite").await;
    let expected = [
        "cat_00000.png",
        "cat_00000.txt",
        "cat_00001.png",
        "cat_00001.txt",
        "cat_00002.png",
    ];
    assert_eq!(runs[0], expected.map(|name| format!("sets/cats/{name}")));
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn a_set_beside_older_ones_is_named_by_its_job() {
    let runs = saved("increment").await;
    let job = &JOB[..8];
    let expected = [
        "00000.png",
        "00000.txt",
        "00001.png",
        "00001.txt",
        "00002.png",
    ];
    assert_eq!(
        runs[0],
        expected.map(|name| format!("sets/cats/cat_{job}_{name}"))
    );
}

#[tokio::test]
async fn a_set_stays_among_the_outputs() {
    let told = Bench::with(CONFIG, vec![made_list()])
        .run(&json!({
            "1": {"class_type": "EmptyImage", "inputs": {"width": 2, "height": 2, "batch_size": 1, "color": 0}},
            "2": {"class_type": "SaveImageDataSetToFolder", "inputs": {
                "images": ["1", 0], "folder_name": "../elsewhere", "filename_prefix": "cat", "mode": "overwrite",
            }},
        }))
        .await;
    let error = format!("{:?}", told.result.unwrap_err());
    assert!(
        error.contains("no name inside the output folder"),
        "{error}"
    );
}
