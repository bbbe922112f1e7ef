//! The documents of the APIs against the real binary: schemathesis makes requests from each, good and bad, and every answer
//! must be one that the document has.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use it::{Server, operate, skipped};
use tokio::process::Command;

/// A document, and what it takes to be let in.
struct Document {
    /// Where it is served.
    path: &'static str,
    /// Further arguments of the server.
    server: &'static [&'static str],
    /// Further arguments of schemathesis, such as a header with a key.
    client: &'static [&'static str],
    /// Whether the client has a key with the scope `admin`.
    operator: bool,
    /// Models that run here, by path and text below the folder of a catalog.
    catalog: &'static [(&'static str, &'static str)],
}

/// Every document that is served.
const DOCUMENTS: &[Document] = &[
    Document {
        path: "/api/v2/openapi.json",
        server: &[],
        // A stream that nothing ends but the reader.
        client: &["--exclude-operation-id", "followAccount"],
        catalog: &[],
        operator: false,
    },
    Document {
        path: "/api/openapi.json",
        server: &[],
        client: &[],
        catalog: &[],
        operator: false,
    },
    Document {
        path: "/v1/openapi.json",
        server: &["--token", "the-token-of-this-test"],
        client: &[
            "-H",
            "Authorization: Bearer the-token-of-this-test",
            // The API of v2 answers them here, and is held against its own document.
            "--exclude-operation-id",
            "getSigned",
        ],
        catalog: NOUGHT,
        operator: false,
    },
    Document {
        path: "/api/v2/admin/openapi.json",
        server: &[],
        client: &[],
        catalog: &[],
        operator: true,
    },
];

/// A model named by the first names that anybody makes up who knows no more than their pattern, so that calls meet one.
const NOUGHT: &[(&str, &str)] = &[
    ("0/partner.toml", "name = \"Nought\"\nkind = \"workflow\"\n"),
    (
        "0/0.toml",
        "graph = \"0.graph.json\"\nschema = \"0.schema.json\"\nprice_cents = 0\n\n[output]\nnode = \"2\"\n\n\
         [fields.width]\ninto = [{ node = \"1\", input = \"width\" }]\n",
    ),
    (
        "0/0.graph.json",
        r#"{
          "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": 0}},
          "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "0"}}
        }"#,
    ),
    (
        "0/0.schema.json",
        r#"{"type": "object", "properties": {"width": {"type": "integer", "minimum": 1, "maximum": 64}}}"#,
    ),
];

/// Names the program.
const VARIABLE: &str = "EASEL_SCHEMATHESIS";

/// What an answer is held against. Whether a request that the document allows is taken in is not among it: a graph is more
/// than its schema.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance";

/// The time that one document may take.
const SECONDS: &str = "45";

/// Every run makes the same requests first.
const SEED: &str = "20261121";

#[tokio::test]
async fn no_answer_is_outside_its_document() {
    let Some(program) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "{VARIABLE} must be set where nothing may be skipped"
        );
        let why = format!("{VARIABLE} does not name schemathesis; `.ci/run` installs it");
        return skipped("no_answer_is_outside_its_document", &why);
    };
    for document in DOCUMENTS {
        let data = tempfile::tempdir().unwrap();
        let catalog = data.path().join("catalog");
        for (path, text) in document.catalog {
            let path = catalog.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut arguments = document.server.to_vec();
        if !document.catalog.is_empty() {
            arguments.extend(["--catalog", catalog.to_str().unwrap()]);
        }
        let server = Server::start_with(&data.path().join("data"), arguments)
            .await
            .unwrap();
        let mut client: Vec<String> = document.client.iter().map(ToString::to_string).collect();
        if document.operator {
            let add = ["key", "add", "local", "--scopes", "admin"];
            let made = operate(&data.path().join("data"), add).await;
            assert_eq!(made.code, 0, "{}", made.stderr);
            let bearer = format!("Authorization: Bearer {}", made.stdout.trim_end());
            client.extend(["-H".to_owned(), bearer]);
        }
        let url = format!("http://{}{}", server.address, document.path);
        let ran = Command::new(&program)
            .args(["run", &url, "--checks", CHECKS])
            .args([
                "--max-time",
                SECONDS,
                "--seed",
                SEED,
                "--max-examples",
                "12",
            ])
            .args(["--request-timeout", "15", "--warnings", "off", "--no-color"])
            .args(client)
            // What it leaves behind goes with the data.
            .current_dir(data.path())
            .output()
            .await
            .unwrap();
        let report = String::from_utf8_lossy(&ran.stdout);
        assert!(
            ran.status.success(),
            "{}: {}\n{report}\n{}",
            document.path,
            ran.status,
            String::from_utf8_lossy(&ran.stderr)
        );
        // A run that asked nothing would pass, too.
        let passed = report.lines().find(|line| line.contains(" generated, "));
        let passed = passed.unwrap_or_else(|| panic!("no count of requests:\n{report}"));
        // Past the capture of test output; a closed standard error is no reason to fail a test.
        let _ = writeln!(std::io::stderr(), "{}: {}", document.path, passed.trim());
        let asked: u32 = passed
            .split_whitespace()
            .next()
            .and_then(|count| count.parse().ok())
            .unwrap_or_default();
        assert!(asked >= 25, "{passed}");
        assert!(server.terminate().await.unwrap().success());
    }
}
