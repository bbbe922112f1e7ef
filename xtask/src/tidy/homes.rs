//! Heavy dependencies have one home each, and the domain has a short list of outside packages.
//!
//! A heavy dependency is one that takes long to compile, opens sockets or files, or would bring its own types into
//! signatures. With one home it can be replaced in one crate.

use super::layers::{self, Room};
use crate::finding::Finding;
use crate::workspace::Workspace;

/// Outside packages and the only workspace packages that may use them.
const HOMES: &[(&[&str], &[&str])] = &[
    (&["rusqlite", "libsqlite3-sys"], &["store-local"]),
    (
        &[
            "deadpool-postgres",
            "object_store",
            "tokio-postgres",
            "tokio-postgres-rustls",
        ],
        &["store-cloud"],
    ),
    (
        &[
            "fast_image_resize",
            "fdeflate",
            "gif",
            "image",
            "image-webp",
            "jpeg-encoder",
            "libwebp-sys",
            "png",
            "pulp",
            "tiff",
            "webp",
            "weezl",
            "zune-jpeg",
        ],
        &["images"],
    ),
    (
        &["clap", "toml"],
        &[
            "all-in-one",
            "bench",
            "crash",
            "easel",
            "providers",
            "router-server",
            "server-kit",
            "workflow-server",
            "xtask",
        ],
    ),
    (&["clap_complete"], &["easel"]),
    (&["clap_mangen"], &["easel", "server-kit"]),
    (&["indicatif"], &["all-in-one", "easel", "server-kit"]),
    (&["tikv-jemallocator"], &["server-kit"]),
    (
        &[
            "opentelemetry",
            "opentelemetry-http",
            "opentelemetry-otlp",
            "opentelemetry_sdk",
        ],
        &["server-kit"],
    ),
    // The collector of the tests.
    (&["opentelemetry-proto", "prost"], &["it"]),
    (&["jsonwebtoken"], &["identity"]),
    (&["jsonschema"], &["router-core"]),
    (
        &[
            "hyper-rustls",
            "matchit",
            "multer",
            "rustls",
            "tokio-rustls",
        ],
        &["hyper-kit"],
    ),
    // The bench has a plain proxy to compare with, which must stand on nothing of ours. The pool of ComfyUI workers takes over the
    // connection that the client of hyper-kit upgraded. The tests of store-cloud break answers in ways in which no server should.
    (
        &["hyper", "hyper-util"],
        &["bench", "engine-comfy", "hyper-kit", "store-cloud"],
    ),
    // Besides the server's own sockets: the client's side for workers, and the simulated worker of the tests.
    (
        &["tokio-tungstenite", "tungstenite"],
        &["engine-comfy", "hyper-kit", "it"],
    ),
    (&["webpki-roots"], &["hyper-kit"]),
    (
        &["http", "http-body", "http-body-util"],
        &[
            "admin-http",
            "all-in-one",
            "asset-http",
            "client",
            "console",
            "engine-comfy",
            "hyper-kit",
            "identity",
            "providers",
            "router-http",
            "server-kit",
            // What `object_store` sends and gets.
            "store-cloud",
            "workflow-http",
            "bench",
        ],
    ),
];

/// What a domain package may use from outside: values and pure functions, no wire and no world.
///
/// tokio and tokio-util are here for their `sync` alone; which modules are used is checked in the text, because the
/// features of a workspace are one set. indexmap keeps the nodes of a graph in the order in which they were sent. foldhash is for
/// maps whose keys nobody outside chooses, which every call looks into a dozen times. hmac and sha2 sign messages to webhooks: pure
/// functions of bytes.
const DOMAIN: &[&str] = &[
    "async-trait",
    "base64",
    "blake3",
    "bytes",
    "foldhash",
    "futures-util",
    "indexmap",
    "hmac",
    "jiff",
    "jsonschema",
    "secrecy",
    "serde_json",
    "sha2",
    "subtle",
    "thiserror",
    "tokio",
    "tokio-util",
    "tracing",
    "uuid",
];

/// What one domain package may use and no other. The reader of json-text is a visitor of serde; no type of the domain has a wire form.
const DOMAIN_HOMES: &[(&str, &str)] = &[("serde", "json-text")];

/// What the tests of a domain package may use on top.
const DOMAIN_TESTS: &[&str] = &["proptest"];

/// Checks every outside dependency against its home and against the domain's list.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let domain = layers::of(&package.name).is_some_and(|layer| layer.room == Room::Domain);
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            if workspace.has_package(name) {
                continue;
            }
            let is_allowed = DOMAIN.contains(&name)
                || DOMAIN_HOMES.contains(&(name, package.name.as_str()))
                || (dependency.dev && DOMAIN_TESTS.contains(&name));
            let home = HOMES.iter().find(|(names, _)| names.contains(&name));
            if let Some((_, home)) = home.filter(|(_, home)| !home.contains(&package.name.as_str()))
            {
                findings.push(Finding::new(
                    package.manifest_path(),
                    dependency.line,
                    format!("`{name}` has its home in {}", home.join(", ")),
                    "call what the home offers, or offer it there",
                ));
            } else if domain && !is_allowed {
                findings.push(Finding::new(
                    package.manifest_path(),
                    dependency.line,
                    format!("a domain package may not use `{name}`"),
                    "do it in an adapter behind a port, or argue for it in xtask/src/tidy/homes.rs",
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(package: &str, dependencies: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"{package}\"\n{dependencies}");
        let workspace = Workspace::of(&[("crates/x/Cargo.toml", &manifest)]);
        check(&workspace)
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    #[test]
    fn a_heavy_dependency_lives_at_home_only() {
        let sqlite = "[dependencies]\nrusqlite.workspace = true\n";
        assert_eq!(
            rules("workflow-http", sqlite),
            ["`rusqlite` has its home in store-local"]
        );
        assert_eq!(rules("store-local", sqlite), Vec::<String>::new());
    }

    #[test]
    fn the_home_binds_tests_too() {
        let image = "[dev-dependencies]\nimage.workspace = true\n";
        assert_eq!(rules("it", image), ["`image` has its home in images"]);
    }

    #[test]
    fn the_domain_keeps_to_its_list() {
        let serde = "[dependencies]\nserde.workspace = true\nuuid.workspace = true\n";
        assert_eq!(
            rules("workflow-core", serde),
            ["a domain package may not use `serde`"]
        );
        assert_eq!(rules("json-text", serde), Vec::<String>::new());
        assert_eq!(rules("server-kit", serde), Vec::<String>::new());
    }

    #[test]
    fn what_tests_may_use_the_domain_may_not() {
        assert_eq!(
            rules(
                "accounts",
                "[dev-dependencies]\nproptest.workspace = true\n"
            ),
            Vec::<String>::new()
        );
        assert_eq!(
            rules("accounts", "[dependencies]\nproptest.workspace = true\n"),
            ["a domain package may not use `proptest`"],
        );
    }
}
