//! The packages that Cargo knows, and which of them a program links.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toml::Table;

use super::{PRODUCTS, Product, output, text};
use crate::tidy::reach::APART;

/// A package by its name and version.
pub(super) type Id = (String, String);

/// Everything that the workspace may link.
#[derive(Debug)]
pub(super) struct Packages {
    /// The version of the workspace.
    pub(super) version: String,
    all: BTreeMap<Id, Package>,
}

/// One package.
#[derive(Debug, Default)]
pub(super) struct Package {
    /// Its licence, as an expression of SPDX.
    pub(super) licence: Option<String>,
    /// Where its sources are kept for everybody.
    pub(super) repository: Option<String>,
    /// The folder of its sources on this machine.
    pub(super) folder: PathBuf,
    /// The SHA-256 of what the registry has of it; nothing for the workspace's own.
    pub(super) checksum: Option<String>,
    /// What it uses when it runs.
    pub(super) uses: BTreeSet<Id>,
}

impl Packages {
    /// Asks Cargo what there is on a machine.
    ///
    /// # Errors
    /// If Cargo cannot tell.
    pub(super) fn read(root: &Path, target: &str) -> io::Result<Self> {
        let mut cargo = it::process::cargo();
        cargo.args(["metadata", "--locked", "--format-version", "1"]);
        cargo.args(["--filter-platform", target]);
        // Of optional packages it tells only those of features that are asked for.
        for product in PRODUCTS {
            for program in product.programs {
                let features = product.features.iter();
                cargo.args(features.map(|feature| format!("--features={program}/{feature}")));
            }
        }
        let metadata = text(output(cargo.current_dir(root))?)?;
        let lock = std::fs::read_to_string(root.join("Cargo.lock"))?;
        Self::of(&metadata, &lock).ok_or_else(|| io::Error::other("cargo metadata is no such JSON"))
    }

    /// From what `cargo metadata` prints and `Cargo.lock` says.
    pub(super) fn of(metadata: &str, lock: &str) -> Option<Self> {
        let metadata: Value = serde_json::from_str(metadata).ok()?;
        let lock: Table = lock.parse().ok()?;
        let locked = lock
            .get("package")?
            .as_array()?
            .iter()
            .filter_map(|package| {
                let of = |key: &str| Some(package.get(key)?.as_str()?.to_owned());
                Some(((of("name")?, of("version")?), of("checksum")?))
            });
        let locked: BTreeMap<Id, String> = locked.collect();

        let (mut all, mut ids) = (BTreeMap::new(), BTreeMap::new());
        for package in metadata["packages"].as_array()? {
            let of = |key: &str| package[key].as_str().map(str::to_owned);
            let id = (of("name")?, of("version")?);
            let manifest = PathBuf::from(of("manifest_path")?);
            ids.insert(of("id")?, id.clone());
            let package = Package {
                // As it was written before SPDX had a word for it.
                licence: of("license").map(|text| text.replace('/', " OR ")),
                repository: of("repository"),
                folder: manifest.parent()?.to_owned(),
                checksum: locked.get(&id).cloned(),
                uses: BTreeSet::new(),
            };
            all.insert(id, package);
        }
        for node in metadata["resolve"]["nodes"].as_array()? {
            let of = ids.get(node["id"].as_str()?)?;
            let used = node["deps"].as_array()?.iter().filter(|used| {
                let kinds = used["dep_kinds"].as_array().into_iter().flatten();
                kinds.clone().any(|kind| kind["kind"].is_null())
            });
            let used = used.filter_map(|used| ids.get(used["pkg"].as_str()?).cloned());
            all.get_mut(of)?.uses.extend(used);
        }
        let own = all.iter().find(|((name, _), _)| name == "easel");
        let version = own.map(|((_, version), _)| version.clone())?;
        Some(Self { version, all })
    }

    /// What the programs of a product link on a machine, themselves included, without macros and what builds them.
    ///
    /// # Errors
    /// If Cargo cannot tell, or a server of one family links something of another one.
    pub(super) fn linked(
        &self,
        root: &Path,
        product: &Product,
        target: &str,
    ) -> io::Result<BTreeSet<Id>> {
        let mut all = BTreeSet::new();
        for (program, arguments) in product.programs.iter().zip(product.cargo_arguments()) {
            let mut cargo = it::process::cargo();
            cargo.args(["tree", "--locked", "--prefix=none", "--format={p}"]);
            cargo.args(["--edges=normal,no-proc-macro", "--target", target]);
            // The same as builds it: Cargo answers for the features of that call.
            cargo.args(arguments);
            let told = text(output(cargo.current_dir(root))?)?;
            let linked = self.named(&told)?;
            require_apart(program, &linked)?;
            all.extend(linked);
        }
        Ok(all)
    }

    /// The packages that a tree names.
    fn named(&self, tree: &str) -> io::Result<BTreeSet<Id>> {
        let lines = tree.lines().filter(|line| !line.trim().is_empty());
        let named = lines.map(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default().to_owned();
            let version = words.next().unwrap_or_default().trim_start_matches('v');
            let id = (name, version.to_owned());
            match self.all.contains_key(&id) {
                true => Ok(id),
                false => Err(io::Error::other(format!(
                    "cargo tree names {line}, which nothing has"
                ))),
            }
        });
        named.collect()
    }

    /// A package.
    pub(super) fn get(&self, id: &Id) -> &Package {
        &self.all[id]
    }
}

/// Refuses to ship a server of one family that links something of another one.
fn require_apart(program: &str, linked: &BTreeSet<Id>) -> io::Result<()> {
    let apart = APART.iter().filter(|(name, _)| *name == program);
    let mut forbidden = apart.flat_map(|(_, forbidden)| *forbidden);
    match forbidden.find(|name| linked.iter().any(|(linked, _)| linked == *name)) {
        Some(name) => Err(io::Error::other(format!("{program} would link {name}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A program `easel` that uses `used` when it runs and `built` while it is built.
    pub(in super::super) fn invented(folder: &Path) -> Packages {
        let package = |name: &str, licence: &str| {
            json!({
                "id": name, "name": name, "version": "1.2.3", "license": licence,
                "repository": format!("https://example.com/{name}"),
                "manifest_path": folder.join(name).join("Cargo.toml"),
            })
        };
        let metadata = json!({
            "packages": [
                package("easel", "MIT"), package("used", "MIT/Apache-2.0"), package("built", "MIT"),
            ],
            "resolve": {"nodes": [
                {"id": "easel", "deps": [
                    {"pkg": "used", "dep_kinds": [{"kind": "dev"}, {"kind": null}]},
                    {"pkg": "built", "dep_kinds": [{"kind": "build"}]},
                ]},
                {"id": "used", "deps": []},
            ]},
        });
        let lock = "[[package]]\nname = \"used\"\nversion = \"1.2.3\"\nchecksum = \"ab12\"\n";
        Packages::of(&metadata.to_string(), lock).expect("it is well formed")
    }

    pub(in super::super) fn id(name: &str) -> Id {
        (name.to_owned(), "1.2.3".to_owned())
    }

    #[test]
    fn what_a_program_uses_when_it_runs_is_known() {
        let packages = invented(Path::new("/sources"));
        assert_eq!(packages.version, "1.2.3");
        assert_eq!(
            packages.get(&id("easel")).uses,
            BTreeSet::from([id("used")])
        );
        let used = packages.get(&id("used"));
        assert_eq!(used.licence.as_deref(), Some("MIT OR Apache-2.0"));
        assert_eq!(used.checksum.as_deref(), Some("ab12"));
        assert_eq!(packages.get(&id("easel")).checksum, None);
    }

    #[test]
    fn a_program_that_links_another_family_is_not_shipped() {
        let linked = BTreeSet::from([id("router-server"), id("workflow-core")]);
        let refused = require_apart("router-server", &linked).expect_err("another family");
        assert_eq!(
            refused.to_string(),
            "router-server would link workflow-core"
        );
        require_apart("all-in-one", &linked).expect("it has both families");
        require_apart("workflow-server", &linked).expect("it is of this family");
    }

    #[test]
    fn a_tree_names_known_packages_alone() {
        let packages = invented(Path::new("/sources"));
        let named = packages.named("easel v1.2.3 (/a)\nused v1.2.3\nused v1.2.3 (*)\n\n");
        assert_eq!(
            named.expect("known"),
            BTreeSet::from([id("easel"), id("used")])
        );
        let refused = packages.named("other v1.0.0\n").expect_err("unknown");
        assert!(refused.to_string().contains("other v1.0.0"));
    }
}
