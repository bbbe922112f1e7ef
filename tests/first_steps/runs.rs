//! `run` with partners: the same stack as the server's, in one process.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use it::partners::{Partner, Partners, Step};
use it::process::binary_of;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use crate::models::png::Picture;
use crate::router::write_catalog;

/// A folder to run in, before simulated partners.
struct Desk {
    partners: Partners,
    folder: TempDir,
}

impl Desk {
    async fn new() -> Self {
        let desk = Self {
            partners: Partners::start().await.unwrap(),
            folder: tempfile::tempdir().unwrap(),
        };
        write_catalog(&desk.folder.path().join("catalog"));
        desk
    }

    /// Runs a file of the examples with these variables; answers code, standard output and standard error.
    async fn run(&self, file: &str, variables: &[(&str, String)]) -> (i32, String, String) {
        let relocations = self.partners.relocations().into_iter();
        let relocations: Vec<String> = relocations
            .map(|(host, url)| format!("{host}={url}"))
            .collect();
        let output = Command::new(binary_of("all-in-one"))
            .arg("run")
            .arg(it::root().join("examples").join(file))
            .current_dir(self.folder.path())
            .env_remove("BFL_API_KEY")
            .env("EASEL_CATALOG", self.folder.path().join("catalog"))
            .env("EASEL_RELOCATE_PARTNERS", relocations.join(","))
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        (code, text(output.stdout), text(output.stderr))
    }
}

#[tokio::test]
async fn a_graph_with_a_partner_runs_with_the_key_in_the_environment() {
    let desk = Desk::new().await;
    let edited = Picture {
        width: 64,
        height: 64,
        rgb: vec![9; 64 * 64 * 3],
    };
    let sample = format!("data:image/png;base64,{}", STANDARD.encode(edited.encode()));
    let ready = json!({"id": "t", "status": "Ready", "result": {"sample": sample}}).to_string();
    desk.partners
        .answer_with(Partner::Bfl, "application/json", ready);

    let key = [("BFL_API_KEY", Partner::Bfl.secret())];
    let (code, out, err) = desk.run("edit.json", &key).await;
    assert_eq!((code, out.as_str()), (0, "out/edit_00001_.png\n"), "{err}");
    let bytes = std::fs::read(desk.folder.path().join("out/edit_00001_.png")).unwrap();
    // The frame of the graph is around what the partner made.
    let framed = Picture::decode(&bytes);
    assert_eq!((framed.width, framed.height), (96, 96));
    assert_eq!(
        desk.partners.requests_of(Partner::Bfl, Step::Submit).len(),
        1
    );
    assert!(!String::from_utf8_lossy(&bytes).contains(&Partner::Bfl.secret()));
}

#[tokio::test]
async fn a_partner_without_its_key_is_told_with_the_variable() {
    let desk = Desk::new().await;
    let (code, out, err) = desk.run("edit.json", &[]).await;
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    for words in ["node 2 (partner:bfl:flux-kontext-pro)", "set BFL_API_KEY"] {
        assert!(err.contains(words), "{words} in {err}");
    }
    assert!(desk.partners.requests().is_empty());
}

#[tokio::test]
async fn a_model_that_runs_here_needs_no_key() {
    let desk = Desk::new().await;
    let graph = json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": "photo.png"}},
        "2": {"class_type": "partner:easel:resize", "inputs": {"image": ["1", 0], "width": 8, "height": 6, "method": "nearest-exact"}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "small"}},
    });
    let file = desk.folder.path().join("graph.json");
    std::fs::write(&file, graph.to_string()).unwrap();
    let photo = it::root().join("examples/photo.png");
    std::fs::copy(photo, desk.folder.path().join("photo.png")).unwrap();
    let (code, out, err) = desk.run(file.to_str().unwrap(), &[]).await;
    assert_eq!((code, out.as_str()), (0, "out/small_00001_.png\n"), "{err}");
    let bytes = std::fs::read(desk.folder.path().join("out/small_00001_.png")).unwrap();
    let small = Picture::decode(&bytes);
    assert_eq!((small.width, small.height), (8, 6));
}
