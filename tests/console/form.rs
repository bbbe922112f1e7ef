//! The form of a model: what is dropped on it, and what is sent.

use it::{Server, lacks, root};
use serde_json::{Value, json};
use tokio::process::Command;

use super::views::NEEDED;

#[tokio::test]
async fn a_form_takes_files_leaves_texts_and_bounds_what_it_sends() {
    const TEST: &str = "a_form_takes_files_leaves_texts_and_bounds_what_it_sends";
    if lacks(TEST, &NEEDED) {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let key = "a-key-of-the-form-test";
    let server = Server::start_with(data.path(), ["--token", key])
        .await
        .unwrap();
    let driven = Command::new("node")
        .arg(root().join("tests/clients/console_form.mjs"))
        .arg(server.address.to_string())
        .arg(key)
        .arg(data.path())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&driven.stdout);
    let complained = String::from_utf8_lossy(&driven.stderr);
    assert!(driven.status.success(), "{said}\n{complained}");
    let told: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    for none in ["errors", "outside"] {
        assert_eq!(told[none], json!([]), "{told:#}");
    }
    assert_eq!(told["taken"], json!([true, true]), "{told:#}");
    let line = json!([true, "", "The file below is sent."]);
    assert_eq!(told["line"], line, "the file stands for the line");
    assert_eq!(told["text"], json!([false, false]), "{told:#}");
    assert_eq!(told["both"], json!(["a.bin", "b.bin"]), "{told:#}");
    let file = "data:application/octet-stream;base64,AAA";
    assert_eq!(told["sent"]["image_url"], format!("{file}A"), "{told:#}");
    let pair = json!([format!("{file}="), format!("{file}=")]);
    assert_eq!(told["sent"]["images"], pair, "{told:#}");
    let expected =
        "The files of a call may have 24 MB together. Give the model the address of a larger one.";
    assert_eq!(told["tooMuch"], expected);
    assert_eq!(told["kept"], "first.bin", "what was chosen stays");
    assert_eq!(told["mended"], "", "{told:#}");
    let expected = "This view could not be read. Reload the page.";
    assert_eq!(told["stale"], expected);
}
