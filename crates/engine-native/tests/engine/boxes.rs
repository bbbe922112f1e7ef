//! Boxes drawn in the page, prompts of them, and subjects cut out: the recorded cases, and what the page is shown.

use serde_json::{Value as Json, json};

use crate::bench::{Bench, CONFIG};
use crate::latest::{every_case_is_equal, shown};

#[tokio::test]
async fn every_class_gives_what_the_real_one_gave() {
    every_case_is_equal("boxes.json", 45).await;
}

#[tokio::test]
async fn colours_are_transferred_as_by_the_real_one() {
    every_case_is_equal("colors.json", 40).await;
}

#[tokio::test]
async fn the_page_is_shown_the_canvas_and_what_is_linked() {
    let linked = r#"[{"x": 1, "y": 2, "width": 3, "height": 4}]"#;
    let told = Bench::with(CONFIG, vec![shown()])
        .run(&json!({
            "1": {"class_type": "PrimitiveString", "inputs": {"value": linked}},
            "2": {"class_type": "CreateBoundingBoxes", "inputs": {
                "bboxes": ["1", 0], "width": 640, "height": 480, "editor_state": {"__value__": []},
            }},
        }))
        .await
        .expect_success();
    let line = told
        .events
        .iter()
        .find_map(|line| line.strip_prefix("executed 2 "));
    let ui: Json = serde_json::from_str(line.unwrap()).unwrap();
    assert_eq!(ui["dims"], json!([640, 480]));
    assert_eq!(
        ui["input_bboxes"],
        serde_json::from_str::<Json>(linked).unwrap()
    );
}
