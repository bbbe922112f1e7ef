//! Shaders of our own against what a real ComfyUI drew with them on a processor, and what a shader cannot do.

use std::path::Path;
use std::sync::Arc;

use engine_native::define::link;
use engine_native::{Node, NodeOutput, Value};
use serde_json::{Value as Json, json};

use crate::bench::{Bench, CONFIG};
use crate::goldens;
use crate::latest::{graph, made, made_list, of_node};
use crate::toys::toy;

#[tokio::test]
async fn shaders_draw_what_the_real_one_drew() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded");
    let cases = goldens::json(&folder.join("shaders.json"));
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 15, "the set is whole");
    let bench = Bench::with(CONFIG, vec![made(), made_list(), levels()]);
    let mut wrong = Vec::new();
    for case in cases {
        let (graph, outputs) = graph(&bench, case);
        let told = bench.run(&graph).await.expect_success();
        for (node, expected) in outputs.iter().zip(case["outputs"].as_array().unwrap()) {
            let found = of_node(&told.events, node);
            if found["shape"] != expected["shape"] || !near(&found["levels"], &expected["levels"]) {
                let source = case["inputs"]["fragment_shader"].as_str().unwrap();
                wrong.push(format!("{source}\n{node}: {found}\nrecorded {expected}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}

/// Whether every level is that of the recording or a neighbour; one "0" stands for nothing but zeros.
fn near(found: &Json, expected: &Json) -> bool {
    let level = |text: &str, at: usize| match text {
        "0" => 0,
        text => i16::from_str_radix(&text[at..at + 2], 16).unwrap(),
    };
    let (found, expected) = (found.as_str().unwrap(), expected.as_str().unwrap());
    let length = found.len().max(expected.len());
    let is_whole = |text: &str| text == "0" || text.len() == length;
    let mut places = (0..length - 1).step_by(2);
    is_whole(found)
        && is_whole(expected)
        && places.all(|at| (level(found, at) - level(expected, at)).abs() <= 1)
}

/// A class called as the one that shows values: it tells all levels of pictures.
pub(crate) fn levels() -> Arc<dyn Node> {
    let mut node = toy(
        "Shown",
        vec![link("value", "*")],
        Vec::new(),
        |mut inputs, _| {
            let mut output = NodeOutput::none();
            if let Value::Image(image) = inputs.list("value")?.swap_remove(0) {
                let samples = image.frames().iter().flat_map(|frame| frame.data());
                let levels: Vec<u8> = samples
                    .map(|sample| (sample * 255.0).round_ties_even().clamp(0.0, 255.0) as u8)
                    .collect();
                let (height, width, channels) = image.first().shape();
                let hex: String = levels.iter().map(|level| format!("{level:02x}")).collect();
                let is_black = levels.iter().all(|level| *level == 0);
                let told = json!({
                    "shape": [image.frames().len(), height, width, channels],
                    "levels": if is_black { "0" } else { &hex },
                });
                output.ui.insert("told".to_owned(), json!([told]));
            }
            Ok(output)
        },
    );
    node.definition.output_node = true;
    node.definition.takes_lists = true;
    Arc::new(node)
}

async fn refused(source: &str, more: Json) -> String {
    let mut inputs =
        json!({"fragment_shader": source, "size_mode": "from_input", "images.image0": ["1", 0]});
    for (name, value) in more.as_object().unwrap() {
        inputs[name] = value.clone();
    }
    let told = Bench::with(CONFIG, vec![made(), levels()])
        .run(&json!({
            "1": {"class_type": "Made", "inputs": {"of": {"__value__": {"$image": [1, 3, 4, 3, 1]}}}},
            "2": {"class_type": "GLSLShader", "inputs": inputs},
            "3": {"class_type": "Shown", "inputs": {"value": ["2", 0]}},
        }))
        .await;
    format!("{:?}", told.result.expect_err("it is refused"))
}

#[tokio::test]
async fn a_shader_that_cannot_run_says_why() {
    let begin = "#version 300 es\nprecision highp float;\nout vec4 fragColor;\n";
    let none = json!({});
    let said = refused(
        &format!("{begin}void main() {{ fragColor = vec4(1) + 2; }}"),
        none.clone(),
    )
    .await;
    assert!(
        said.contains("line 4: '+' does not work on vec4 and int"),
        "{said}"
    );
    let source =
        format!("{begin}uniform int u_float0;\nvoid main() {{ fragColor = vec4(u_float0); }}");
    let said = refused(&source, json!({"floats.u_float0": 0.5})).await;
    assert!(said.contains("declares u_float0 as int"), "{said}");
    let said = refused(
        &format!("{begin}void main() {{ for (;;) {{}} }}"),
        none.clone(),
    )
    .await;
    assert!(said.contains("loops shorter"), "{said}");
    let source = format!("{begin}#pragma passes 1000\nvoid main() {{ fragColor = vec4(1); }}");
    let said = refused(&source, none).await;
    assert!(said.contains("at most 64 times"), "{said}");
    let large = json!({"size_mode": "custom", "size_mode.width": 16384, "size_mode.height": 16384});
    let said = refused(
        &format!("{begin}void main() {{ fragColor = vec4(1); }}"),
        large,
    )
    .await;
    assert!(said.contains("bytes more"), "{said}");
}
