//! Models of one's own: a file adds one, and a broken file is told with file, line and reason.

use std::fs;
use std::path::Path;
use std::process::Output;

use it::process::binary;
use serde_json::json;

use super::{data_url, get, inline, run, small, start};

pub(super) const MODEL: &str = r#"graph = "invert.graph.json"
schema = "invert.schema.json"
price_cents = 0

[output]
node = "3"
inline = "inline"

[fields.image]
picture = true
into = [{ node = "1", input = "image" }]
"#;

const GRAPH: &str = r#"{
  "1": {"class_type": "LoadImage", "inputs": {"image": "the picture"}},
  "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
  "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "invert"}}
}
"#;

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {"image": {"type": "string"}, "inline": {"type": "boolean"}},
  "required": ["image"]
}
"#;

/// A catalog of one model, with one file changed.
pub(super) fn write(catalog: &Path, changed: Option<(&str, &str)>) {
    let folder = catalog.join("mine");
    fs::create_dir_all(&folder).unwrap();
    let files = [
        ("partner.toml", "kind = \"workflow\"\nname = \"Mine\"\n"),
        ("invert.toml", MODEL),
        ("invert.graph.json", GRAPH),
        ("invert.schema.json", SCHEMA),
    ];
    for (name, text) in files.into_iter().chain(changed) {
        fs::write(folder.join(name), text).unwrap();
    }
}

fn check(catalog: &Path) -> Output {
    std::process::Command::new(binary())
        .args(["catalog", "check"])
        .arg(catalog)
        .output()
        .unwrap()
}

#[tokio::test]
async fn a_file_adds_a_model() {
    let data = tempfile::tempdir().unwrap();
    let catalog = data.path().join("catalog");
    write(&catalog, None);
    assert!(check(&catalog).status.success());
    let server = start(
        &data.path().join("data"),
        &["--catalog", catalog.to_str().unwrap()],
    )
    .await;
    let detail = get(&server, "/v1/models/mine/invert").await;
    assert_eq!(detail.status, 200, "{}", detail.text());
    let body = json!({"image": data_url(&small()), "inline": true});
    let inverted = inline(&server.send(&run("mine/invert", &body)).await.unwrap());
    // The first three pixels are of 0 and 255, which have an exact opposite.
    let expected: Vec<u8> = small().rgb[..9].iter().map(|value| 255 - value).collect();
    assert_eq!(inverted.rgb[..9], expected);
}

#[tokio::test]
async fn a_broken_file_is_told_with_its_line_and_its_reason() {
    let data = tempfile::tempdir().unwrap();
    let catalog = data.path().join("catalog");
    let cases = [
        (
            "invert.toml",
            MODEL.replace("node = \"3\"", "node = \"2\""),
            "mine/invert.toml:5: node 2 (ImageInvert) makes no outputs",
        ),
        (
            "invert.graph.json",
            GRAPH.replace("ImageInvert", "Unheard"),
            "mine/invert.graph.json:3: node 2",
        ),
        (
            "invert.schema.json",
            SCHEMA.replace("\"inline\"", "\"other\""),
            "mine/invert.schema.json:3: the property `other` goes into no node",
        ),
    ];
    for (name, text, told) in cases {
        write(&catalog, Some((name, &text)));
        let checked = check(&catalog);
        assert_eq!(checked.status.code(), Some(2), "{checked:?}");
        let said = String::from_utf8(checked.stderr).unwrap();
        assert!(said.contains(told), "{said}");
    }
}
