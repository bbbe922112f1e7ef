//! Paintings of the page: a small one of our own, and hashes of what the real one makes of it.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::bench::{Bench, CONFIG, Told};
use crate::latest::{made, shown};

async fn painted(inputs: Json) -> Told {
    let mut bench = Bench::with(CONFIG, vec![made(), shown()]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded");
    let painting = std::fs::read(folder.join("painting.png")).unwrap();
    bench.upload("painting.png", &painting).await;
    let mut graph = json!({
        "painter": {"class_type": "Painter", "inputs": inputs},
        "image": {"class_type": "Shown", "inputs": {"value": ["painter", 0]}},
        "mask": {"class_type": "Shown", "inputs": {"value": ["painter", 1]}},
        "text": {"class_type": "PrimitiveString", "inputs": {"value": "painting.png"}},
    });
    let picture = graph["painter"]["inputs"]["image"].take();
    let inputs = graph["painter"]["inputs"].as_object_mut().unwrap();
    inputs.remove("image");
    if !picture.is_null() {
        inputs.insert("image".to_owned(), json!(["made", 0]));
        let of = json!({"__value__": {"$image": picture}});
        graph["made"] = json!({"class_type": "Made", "inputs": {"of": of}});
    }
    bench.run(&graph).await
}

/// What a node was shown.
fn told(told: &Told, node: &str) -> String {
    let prefix = format!("executed {node} ");
    let line = told
        .events
        .iter()
        .find_map(|line| line.strip_prefix(&prefix));
    let ui: Json = serde_json::from_str(line.unwrap()).unwrap();
    ui["told"][0][0].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_painting_lies_over_a_picture_or_a_colour() {
    for (inputs, image, mask) in [
        (
            json!({"mask": "painting.png [input]", "width": 64, "height": 64, "bg_color": "#ff8000"}),
            "IMAGE [1, 64, 64, 3] 3a590350a38997a5",
            "MASK [1, 64, 64] a8f99a382934e38b",
        ),
        (
            json!({"mask": "painting.png", "image": [1, 6, 8, 3, 1]}),
            "IMAGE [1, 6, 8, 3] c5695f8a70285188",
            "MASK [1, 6, 8] e924ba2a729d3adf",
        ),
        (
            json!({"mask": "painting.png", "image": [2, 20, 10, 3, 1]}),
            "IMAGE [1, 20, 10, 3] 909471d270f41fba",
            "MASK [1, 20, 10] 53b3890de582b814",
        ),
        (
            json!({"mask": "painting.png", "image": [1, 9, 9, 1, 1]}),
            "IMAGE [1, 9, 9, 3] 2d16d4e08df2ff8e",
            "MASK [1, 9, 9] 3b7d3acc94ea1b2b",
        ),
    ] {
        let run = painted(inputs.clone()).await.expect_success();
        let shown = told(&run, "image");
        assert_eq!(shown.split(" ~").next(), Some(image), "{inputs}");
        assert_eq!(told(&run, "mask"), mask, "{inputs}");
    }
}

#[tokio::test]
async fn nothing_painted_leaves_the_picture_and_an_empty_mask() {
    let of_picture = painted(json!({"mask": "", "image": [2, 5, 4, 4, 3]})).await;
    let of_picture = of_picture.expect_success();
    assert!(told(&of_picture, "image").starts_with("IMAGE [1, 5, 4, 4] "));
    assert!(told(&of_picture, "mask").starts_with("MASK [1, 5, 4] "));
    // Older graphs lack inputs, which take their defaults.
    let of_colour = painted(json!({})).await.expect_success();
    assert!(told(&of_colour, "image").starts_with("IMAGE [1, 512, 512, 3] "));
}

#[tokio::test]
async fn what_cannot_be_painted_on_is_refused_with_what_to_do() {
    for (inputs, sentence) in [
        (
            json!({"mask": "painting.png", "image": [1, 6, 8, 4, 1]}),
            "take its alpha off with SplitImageWithAlpha",
        ),
        (
            json!({"mask": ["text", 0]}),
            "a file that is named in the node itself",
        ),
        (
            json!({"mask": "", "bg_color": "#zzzzzz"}),
            "written as #RRGGBB",
        ),
    ] {
        let run = painted(inputs.clone()).await;
        let error = format!("{:?}", run.result.expect_err("it cannot be painted"));
        assert!(error.contains(sentence), "{inputs}: {error}");
    }
}
