//! The licences of what is linked, word for word: most of them ask to be passed on with the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use super::packages::{Id, Packages};

/// How the names of files with licences begin.
const NAMES: &[&str] = &[
    "copying",
    "copyright",
    "licence",
    "license",
    "notice",
    "unlicense",
];

/// How many folders below that of a package are looked into.
const DEPTH: usize = 3;

/// Folders of what no program links.
const NOT_LINKED: &[&str] = &["benches", "examples", "target", "tests"];

/// Modules that browsers get, with their licences beside them.
const PAGES: &str = "crates/console/static/vendor";

/// All of them, each text once, behind the names of those that it is of. `root` is that of the repository where pages are
/// shipped.
///
/// # Errors
/// If a folder of sources cannot be read.
pub(super) fn of(
    packages: &Packages,
    linked: &BTreeSet<Id>,
    root: Option<&Path>,
) -> io::Result<String> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut without = Vec::new();
    // The workspace's own are beside this file.
    let others = linked
        .iter()
        .filter(|id| packages.get(id).checksum.is_some());
    for id in others {
        let package = packages.get(id);
        let found = files(&package.folder)?;
        if found.is_empty() {
            let licence = package.licence.as_deref().unwrap_or("not told");
            without.push(format!("{} {}: {licence}", id.0, id.1));
        }
        for text in found {
            texts
                .entry(text)
                .or_default()
                .insert(format!("{} {}", id.0, id.1));
        }
    }
    if let Some(root) = root {
        for text in files(&root.join(PAGES))? {
            texts
                .entry(text)
                .or_default()
                .insert("modules of the console".to_owned());
        }
    }
    let rule = "=".repeat(80);
    let mut whole = "What the programs of this archive are made of besides Easel itself, with the licences of all of it.\n".to_owned();
    for (text, names) in texts {
        let names: Vec<String> = names.into_iter().collect();
        whole.push_str(&format!(
            "\n{rule}\n{}\n{rule}\n\n{}\n",
            names.join(", "),
            text.trim_end()
        ));
    }
    if !without.is_empty() {
        whole.push_str(&format!(
            "\n{rule}\nWithout a file of their own, under the licences named here:\n{rule}\n\n{}\n",
            without.join("\n")
        ));
    }
    Ok(whole)
}

/// The texts of the licences in a folder, and in those below it: sources in C that a package brings have theirs there.
fn files(folder: &Path) -> io::Result<Vec<String>> {
    let mut texts = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().to_lowercase();
            let kind = entry.file_type()?;
            if kind.is_dir() && depth < DEPTH && !NOT_LINKED.contains(&name.as_str()) {
                folders.push((entry.path(), depth + 1));
            } else if kind.is_file() && is_licence(&name) {
                let bytes = fs::read(entry.path())?;
                texts.push(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"));
            }
        }
    }
    Ok(texts)
}

/// Whether a file of this name has a licence, and no program.
fn is_licence(name: &str) -> bool {
    let is_code = [".rs", ".py", ".c", ".h"];
    NAMES.iter().any(|begin| name.starts_with(begin))
        && !is_code.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::super::packages::tests::{id, invented};
    use super::*;

    #[test]
    fn every_licence_is_there_once_and_a_missing_one_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let sources = folder.path().join("used");
        fs::create_dir(&sources).expect("a folder");
        fs::write(sources.join("main.rs"), "fn main() {}").expect("a file");
        let linked = BTreeSet::from([id("easel"), id("used")]);
        let whole = || of(&invented(folder.path()), &linked, None).expect("they can be read");
        assert!(
            whole().ends_with("used 1.2.3: MIT OR Apache-2.0\n"),
            "{}",
            whole()
        );

        fs::write(
            sources.join("LICENSE-MIT"),
            "Permission is granted\r\nto you\n",
        )
        .expect("a file");
        let brought = sources.join("vendor/library");
        fs::create_dir_all(&brought).expect("a folder");
        fs::write(brought.join("COPYING"), "Redistribution is permitted").expect("a file");
        fs::write(brought.join("license.c"), "int main").expect("a file");
        let whole = whole();
        assert!(whole.contains("used 1.2.3\n"), "{whole}");
        for text in [
            "\n\nPermission is granted\nto you\n",
            "Redistribution is permitted",
        ] {
            assert!(whole.contains(text), "{whole}");
        }
        for text in ["easel 1.2.3", "fn main", "int main"] {
            assert!(!whole.contains(text), "{whole}");
        }
    }
}
