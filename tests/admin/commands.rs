//! Commands that ask a server over HTTP: the same words, the same answers, no data directory.

use std::path::{Path, PathBuf};

use it::operate;
use serde_json::Value;

use super::Operated;

/// A place from which commands ask `it`, which is somewhere else.
struct Elsewhere {
    folder: tempfile::TempDir,
    server: String,
}

impl Elsewhere {
    fn of(it: &Operated) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), format!("{}\n", it.key)).unwrap();
        Self {
            folder,
            server: format!("http://{}", it.server.address),
        }
    }

    fn key_file(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    async fn operate(&self, line: &str) -> it::Operated {
        let nowhere = self.folder.path().join("nowhere");
        let file = self.key_file();
        let flags = [
            "--server",
            &self.server,
            "--admin-key-file",
            file.to_str().unwrap(),
        ];
        let words = line.split(' ').chain(flags);
        let done = operate(&nowhere, words).await;
        assert!(!nowhere.exists(), "nothing is made here");
        done
    }

    async fn run(&self, line: &str) -> String {
        let done = self.operate(line).await;
        assert_eq!(done.code, 0, "{line}: {}", done.stderr);
        done.stdout.trim_end().to_owned()
    }
}

async fn on_the_machine(data: &Path, line: &str) -> Value {
    let shown = super::command(data, &line.split(' ').collect::<Vec<_>>()).await;
    serde_json::from_str(&shown).unwrap()
}

#[tokio::test]
async fn commands_reach_a_server_from_anywhere() {
    for package in super::PROGRAMS {
        let it = Operated::start(package).await;
        let data = it.data.path().join("data");
        let elsewhere = Elsewhere::of(&it);
        elsewhere
            .run("account add acme --name Acme --billing on --calls 3")
            .await;
        elsewhere
            .run("account tier acme --calls default --spend 9")
            .await;
        let reference = "--reference 0198c0de-0000-7000-8000-000000000001";
        for _ in 0..2 {
            elsewhere
                .run(&format!("account credit acme 500 {reference}"))
                .await;
        }
        let refused = elsewhere
            .operate(&format!("account credit acme 600 {reference}"))
            .await;
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        let key = elsewhere
            .run("key add acme --scopes router:run,jobs:read")
            .await;
        assert!(key.starts_with("easel_"), "{key}");
        for line in [
            "account list --json",
            "account show acme --json",
            "account credit acme --json",
            "key list acme --json",
        ] {
            let there: Value = serde_json::from_str(&elsewhere.run(line).await).unwrap();
            assert_eq!(there, on_the_machine(&data, line).await, "{line}");
        }
        elsewhere.run(&format!("key revoke {}", &key[6..14])).await;
        let keys = on_the_machine(&data, "key list acme --json").await;
        assert_eq!(keys[0]["state"], "revoked");
        elsewhere.run("account suspend acme").await;
        elsewhere.run("sweep confirm").await;
    }
}

#[tokio::test]
async fn what_keeps_a_command_from_a_server_is_told() {
    let it = Operated::start("workflow-server").await;
    let elsewhere = Elsewhere::of(&it);
    let nowhere = elsewhere.folder.path().join("nowhere");
    let refused = elsewhere.operate("account show nobody").await;
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("no account nobody"),
        "{}",
        refused.stderr
    );

    let without_key = ["account", "list", "--server", &elsewhere.server];
    let refused = operate(&nowhere, without_key).await;
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("EASEL_ADMIN_KEY"),
        "{}",
        refused.stderr
    );
    let in_the_clear = [
        "account",
        "list",
        "--server",
        "http://easel.example",
        "--admin-key-file",
    ];
    let file = elsewhere.key_file();
    let refused = operate(
        &nowhere,
        in_the_clear.into_iter().chain([file.to_str().unwrap()]),
    )
    .await;
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("does not encrypt the key"),
        "{}",
        refused.stderr
    );

    std::fs::write(&file, "easel_aaaaaaaa_wrong").unwrap();
    let refused = elsewhere.operate("account list").await;
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("scope admin"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("wrong"), "{}", refused.stderr);

    it.server.kill().await.unwrap();
    let failed = elsewhere.operate("account credit local 5").await;
    assert_eq!(failed.code, 1);
    assert!(failed.stderr.contains("--reference"), "{}", failed.stderr);
}
