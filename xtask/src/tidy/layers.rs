//! The layer table: the exact set of workspace packages that each package depends on.
//!
//! The table is the law and the manifests obey it, in both directions: an edge that is not in the table fails, and so
//! does an edge of the table that no manifest has. A new line here is an event of its own, with its reason in the commit.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::workspace::{Package, Workspace};

const TABLE: &str = "xtask/src/tidy/layers.rs";

/// Which kind of room a package is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Decides; knows neither clock, file, socket nor wire.
    Domain,
    /// What adapters share: plumbing, credentials, the bytes of assets. It has no route of a family and no port.
    Plumbing,
    /// Does what the domain decided, against the world.
    Adapter,
    /// Chooses adapters and wires them together.
    Binary,
    /// Serves the repository itself and never ships.
    Tool,
}

/// One line of the table.
#[derive(Debug)]
pub struct Layer {
    /// Name of the package.
    pub name: &'static str,
    /// Its kind.
    pub room: Room,
    /// The workspace packages under `[dependencies]`, exactly.
    pub uses: &'static [&'static str],
    /// The workspace packages under `[dev-dependencies]`, exactly.
    pub tests_use: &'static [&'static str],
}

const fn layer(name: &'static str, room: Room, uses: &'static [&'static str]) -> Layer {
    Layer {
        name,
        room,
        uses,
        tests_use: &[],
    }
}

/// The rooms of the house from the ground up; a package uses only what stands above it in this list.
pub const LAYERS: &[Layer] = &[
    layer("trace-context", Room::Domain, &[]),
    layer("accounts", Room::Domain, &[]),
    layer("asset-store", Room::Domain, &["accounts"]),
    layer("json-text", Room::Domain, &[]),
    layer("webhooks", Room::Domain, &["accounts"]),
    layer(
        "router-core",
        Room::Domain,
        &["accounts", "json-text", "trace-context"],
    ),
    layer(
        "workflow-core",
        Room::Domain,
        &["accounts", "asset-store", "json-text", "trace-context"],
    ),
    layer(
        "v1-compat",
        Room::Domain,
        &["accounts", "asset-store", "json-text", "workflow-core"],
    ),
    layer(
        "installation",
        Room::Domain,
        &[
            "accounts",
            "asset-store",
            "router-core",
            "v1-compat",
            "webhooks",
            "workflow-core",
        ],
    ),
    layer("hyper-kit", Room::Plumbing, &["trace-context"]),
    layer("identity", Room::Plumbing, &["accounts"]),
    layer("images", Room::Plumbing, &[]),
    layer("asset-http", Room::Plumbing, &["asset-store", "hyper-kit"]),
    layer(
        "admin-http",
        Room::Plumbing,
        &["accounts", "hyper-kit", "identity", "json-text"],
    ),
    layer(
        "workflow-http",
        Room::Adapter,
        &[
            "accounts",
            "asset-http",
            "asset-store",
            "hyper-kit",
            "identity",
            "json-text",
            "trace-context",
            "v1-compat",
            "workflow-core",
        ],
    ),
    layer(
        "router-http",
        Room::Adapter,
        &[
            "accounts",
            "asset-http",
            "asset-store",
            "hyper-kit",
            "identity",
            "router-core",
        ],
    ),
    Layer {
        name: "store-local",
        room: Room::Adapter,
        uses: &[
            "accounts",
            "asset-store",
            "installation",
            "router-core",
            "trace-context",
            "v1-compat",
            "webhooks",
            "workflow-core",
        ],
        // With the features of all families.
        tests_use: &["store-local"],
    },
    Layer {
        name: "store-cloud",
        room: Room::Adapter,
        uses: &[
            "accounts",
            "asset-store",
            "hyper-kit",
            "installation",
            "router-core",
            "trace-context",
            "v1-compat",
            "webhooks",
            "workflow-core",
        ],
        // With the features of all families.
        tests_use: &["store-cloud"],
    },
    layer(
        "engine-comfy",
        Room::Adapter,
        &["asset-store", "hyper-kit", "trace-context", "workflow-core"],
    ),
    layer(
        "engine-native",
        Room::Adapter,
        &[
            "asset-store",
            "hyper-kit",
            "images",
            "json-text",
            "workflow-core",
        ],
    ),
    layer(
        "providers",
        Room::Adapter,
        &["hyper-kit", "router-core", "trace-context"],
    ),
    layer("console", Room::Adapter, &["hyper-kit"]),
    // Speaks to servers of others too: it knows the wire and nothing of the domain.
    layer("client", Room::Adapter, &["hyper-kit"]),
    layer(
        "server-kit",
        Room::Adapter,
        &[
            "accounts",
            "admin-http",
            "asset-store",
            "hyper-kit",
            "identity",
            "installation",
            "json-text",
            "trace-context",
            "webhooks",
            // Their ports for the clock and the threads of the system, behind features.
            "router-core",
            "workflow-core",
        ],
    ),
    layer(
        "router-server",
        Room::Binary,
        &[
            "accounts",
            "asset-store",
            "console",
            "hyper-kit",
            "identity",
            "installation",
            "providers",
            "router-core",
            "router-http",
            "server-kit",
            "store-cloud",
            "store-local",
        ],
    ),
    layer(
        "workflow-server",
        Room::Binary,
        &[
            "accounts",
            "asset-store",
            "console",
            "engine-comfy",
            "engine-native",
            "hyper-kit",
            "identity",
            "installation",
            "server-kit",
            "store-cloud",
            "store-local",
            "workflow-core",
            "workflow-http",
        ],
    ),
    layer(
        "all-in-one",
        Room::Binary,
        &[
            "accounts",
            "asset-store",
            "console",
            "engine-native",
            "hyper-kit",
            "identity",
            "installation",
            "json-text",
            "providers",
            "router-core",
            "router-http",
            "router-server",
            "server-kit",
            "trace-context",
            "workflow-core",
            "workflow-http",
            "workflow-server",
        ],
    ),
    // The command line of users has no server in it.
    layer("easel", Room::Binary, &["client", "images", "json-text"]),
    Layer {
        name: "it",
        room: Room::Tool,
        uses: &[],
        tests_use: &[
            "accounts",
            "asset-store",
            "hyper-kit",
            "providers",
            "router-core",
            "store-cloud",
            "store-local",
        ],
    },
    // The harness drives the programs; the bench of fairness attacks with what the tests attack with.
    layer("bench", Room::Tool, &["it", "store-cloud"]),
    layer("crash", Room::Tool, &["it", "store-cloud"]),
    layer("xtask", Room::Tool, &["bench", "crash", "it"]),
];

/// Returns the line of a package.
#[must_use]
pub fn of(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

/// Compares the manifests with [`LAYERS`].
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    compare(workspace, LAYERS)
}

fn compare(workspace: &Workspace, table: &[Layer]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        match table.iter().find(|layer| layer.name == package.name) {
            Some(layer) => {
                edges(workspace, package, layer.uses, false, &mut findings);
                edges(workspace, package, layer.tests_use, true, &mut findings);
            }
            None => findings.push(Finding::new(
                package.manifest_path(),
                1,
                format!(
                    "every package stands in the layer table, and `{}` does not",
                    package.name
                ),
                format!("decide what it may depend on and add its line to {TABLE}"),
            )),
        }
    }
    for layer in table
        .iter()
        .filter(|layer| !workspace.has_package(layer.name))
    {
        findings.push(Finding::new(
            TABLE,
            1,
            format!(
                "the layer table lists packages that exist, and `{}` does not",
                layer.name
            ),
            "remove its line",
        ));
    }
    findings
}

fn edges(
    workspace: &Workspace,
    package: &Package,
    allowed: &[&str],
    dev: bool,
    findings: &mut Vec<Finding>,
) {
    let table = if dev {
        "[dev-dependencies]"
    } else {
        "[dependencies]"
    };
    let mut used = BTreeSet::new();
    for dependency in package
        .dependencies
        .iter()
        .filter(|dependency| dependency.dev == dev)
    {
        if !workspace.has_package(&dependency.name) {
            continue;
        }
        used.insert(dependency.name.as_str());
        if !allowed.contains(&dependency.name.as_str()) {
            findings.push(Finding::new(
                package.manifest_path(),
                dependency.line,
                format!(
                    "`{}` may not depend on `{}` under {table}",
                    package.name, dependency.name
                ),
                format!(
                    "move the code to where the edge points down, or argue for the edge in {TABLE}"
                ),
            ));
        }
    }
    for unused in allowed.iter().filter(|name| !used.contains(*name)) {
        findings.push(Finding::new(
            package.manifest_path(),
            1,
            format!(
                "`{}` is allowed `{unused}` under {table} and does not use it",
                package.name
            ),
            format!("remove the edge from {TABLE}"),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: Layer = layer("low", Room::Domain, &[]);
    const HIGH: Layer = Layer {
        name: "high",
        room: Room::Adapter,
        uses: &["low"],
        tests_use: &["twin"],
    };
    const TWIN: Layer = layer("twin", Room::Domain, &[]);

    fn rules(high: &str, table: &[Layer]) -> Vec<String> {
        let workspace = Workspace::of(&[
            ("crates/low/Cargo.toml", "[package]\nname = \"low\"\n"),
            ("crates/twin/Cargo.toml", "[package]\nname = \"twin\"\n"),
            (
                "crates/high/Cargo.toml",
                &format!("[package]\nname = \"high\"\n{high}"),
            ),
        ]);
        compare(&workspace, table)
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    #[test]
    fn what_the_table_says_passes() {
        let high =
            "[dependencies]\nlow.workspace = true\n[dev-dependencies]\ntwin.workspace = true\n";
        assert_eq!(rules(high, &[LOW, HIGH, TWIN]), Vec::<String>::new());
    }

    #[test]
    fn an_edge_outside_the_table_fails_also_for_tests() {
        let high = "[dependencies]\nlow.workspace = true\ntwin.workspace = true\n\
                    [dev-dependencies]\ntwin.workspace = true\nlow.workspace = true\n";
        assert_eq!(
            rules(high, &[LOW, HIGH, TWIN]),
            [
                "`high` may not depend on `twin` under [dependencies]",
                "`high` may not depend on `low` under [dev-dependencies]",
            ],
        );
    }

    #[test]
    fn an_allowed_edge_that_nobody_uses_fails() {
        assert_eq!(
            rules("", &[LOW, HIGH, TWIN]),
            [
                "`high` is allowed `low` under [dependencies] and does not use it",
                "`high` is allowed `twin` under [dev-dependencies] and does not use it",
            ],
        );
    }

    #[test]
    fn an_unlisted_package_and_a_listed_ghost_fail() {
        assert_eq!(
            rules("", &[LOW, TWIN, layer("ghost", Room::Tool, &[])]),
            [
                "every package stands in the layer table, and `high` does not",
                "the layer table lists packages that exist, and `ghost` does not",
            ],
        );
    }

    #[test]
    fn the_table_points_down_and_adapters_do_not_meet() {
        for (index, layer) in LAYERS.iter().enumerate() {
            for used in layer.uses {
                let below = LAYERS[..index].iter().find(|below| below.name == *used);
                let below = below.unwrap_or_else(|| panic!("{} stands above {used}", layer.name));
                let fits = match layer.room {
                    Room::Domain => below.room == Room::Domain,
                    Room::Plumbing | Room::Adapter => {
                        matches!(below.room, Room::Domain | Room::Plumbing)
                    }
                    Room::Binary | Room::Tool => true,
                };
                assert!(
                    fits,
                    "{} is {:?} and may not use {used}",
                    layer.name, layer.room
                );
            }
        }
    }
}
