//! The bill of materials of an archive, in the format CycloneDX 1.5.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Product;
use super::packages::{Id, Packages};

/// The table of modules that browsers get.
const PAGES: &str = "crates/console/README.md";

/// The bill of an archive that links these packages, as text.
///
/// # Errors
/// If the table of modules cannot be read.
pub(super) fn of(
    name: &str,
    product: &Product,
    packages: &Packages,
    linked: &BTreeSet<Id>,
    time: u64,
    root: &Path,
) -> io::Result<String> {
    let mut components: Vec<Value> = linked.iter().map(|id| component(packages, id)).collect();
    if product.has_pages {
        let table = fs::read_to_string(root.join(PAGES))?;
        components.extend(modules(&table));
    }
    let top = json!({
        "type": "application",
        "bom-ref": name,
        "name": product.name,
        "version": packages.version,
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
    });
    let programs = linked
        .iter()
        .filter(|(name, _)| product.programs.contains(&name.as_str()));
    let programs: Vec<String> = programs.map(reference).collect();
    let used = linked.iter().map(|id| {
        let uses = packages.get(id).uses.intersection(linked);
        json!({"ref": reference(id), "dependsOn": uses.map(reference).collect::<Vec<_>>()})
    });
    let dependencies = [json!({"ref": name, "dependsOn": programs})]
        .into_iter()
        .chain(used);
    let bill = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": timestamp(time)?, "component": top},
        "components": components,
        "dependencies": dependencies.collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&bill).map_err(io::Error::other)?;
    Ok(format!("{text}\n"))
}

/// How the bill names a package.
fn reference((name, version): &Id) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn component(packages: &Packages, id: &Id) -> Value {
    let package = packages.get(id);
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(id),
        "name": id.0,
        "version": id.1,
        "scope": "required",
    });
    if let Some(licence) = &package.licence {
        component["licenses"] = json!([{"expression": licence}]);
    }
    // The workspace's own are in no registry.
    if let Some(checksum) = &package.checksum {
        component["purl"] = reference(id).into();
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

/// The modules of a table with rows as `| files | name version: what of it | licence |`.
fn modules(table: &str) -> Vec<Value> {
    let rows = table.lines().filter_map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (_, package, licence) = (cells.next()?, cells.next()?, cells.next()?);
        let (name, version) = package.split_once(':')?.0.rsplit_once(' ')?;
        let is_version = version.starts_with(|first: char| first.is_ascii_digit());
        is_version.then(|| {
            let name_in_address = name.replace('@', "%40");
            let reference = format!("pkg:npm/{name_in_address}@{version}");
            json!({
                "type": "library",
                "bom-ref": reference,
                "name": name,
                "version": version,
                "scope": "required",
                "licenses": [{"expression": licence}],
                "purl": reference,
            })
        })
    });
    rows.collect()
}

/// A time in RFC 3339, in UTC.
fn timestamp(seconds: u64) -> io::Result<String> {
    let seconds = i64::try_from(seconds).map_err(io::Error::other)?;
    let time = Timestamp::from_second(seconds).map_err(io::Error::other)?;
    Ok(time.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::PRODUCTS;
    use super::super::packages::tests::{id, invented};
    use super::*;
    use crate::repository_root;

    #[test]
    fn a_bill_names_what_is_linked_with_licence_and_checksum() {
        let packages = invented(Path::new("/sources"));
        let linked = BTreeSet::from([id("easel"), id("used")]);
        let bill = of(
            "easel-1.2.3-x",
            &PRODUCTS[0],
            &packages,
            &linked,
            1_700_000_000,
            Path::new("/"),
        );
        let bill: Value = serde_json::from_str(&bill.expect("a bill")).expect("JSON");
        assert_eq!(bill["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
        let used = json!({
            "type": "library", "bom-ref": "pkg:cargo/used@1.2.3", "name": "used", "version": "1.2.3",
            "scope": "required", "licenses": [{"expression": "MIT OR Apache-2.0"}],
            "purl": "pkg:cargo/used@1.2.3", "hashes": [{"alg": "SHA-256", "content": "ab12"}],
            "externalReferences": [{"type": "vcs", "url": "https://example.com/used"}],
        });
        assert_eq!(bill["components"][1], used);
        assert_eq!(bill["components"][0].get("purl"), None);
        assert_eq!(
            bill["dependencies"],
            json!([
                {"ref": "easel-1.2.3-x", "dependsOn": ["pkg:cargo/easel@1.2.3"]},
                {"ref": "pkg:cargo/easel@1.2.3", "dependsOn": ["pkg:cargo/used@1.2.3"]},
                {"ref": "pkg:cargo/used@1.2.3", "dependsOn": []},
            ])
        );
    }

    #[test]
    fn every_vendored_module_is_named() {
        let table = fs::read_to_string(repository_root().join(PAGES)).expect("the table");
        let found = modules(&table);
        let names: Vec<&Value> = found.iter().map(|module| &module["name"]).collect();
        assert_eq!(
            names,
            ["preact", "htm", "@preact/signals", "@preact/signals-core"]
        );
        assert_eq!(found[0]["licenses"], json!([{"expression": "MIT"}]));
        let scoped = found[2]["purl"].as_str().expect("text");
        assert!(scoped.starts_with("pkg:npm/%40preact/signals@"), "{scoped}");
    }
}
