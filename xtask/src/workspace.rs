//! The repository as the checks see it: its files, its packages and its Rust sources.
//!
//! A manifest that cannot be read becomes a finding instead of a package, so that one mistake does not hide the others.

use toml::{Table, Value};

use crate::finding::Finding;
use crate::source::Source;
use crate::tree::Tree;

/// Everything that a check may look at.
#[derive(Debug)]
pub struct Workspace {
    /// All files.
    pub tree: Tree,
    /// The packages that the root manifest names, in the order of their folders.
    pub packages: Vec<Package>,
    /// All Rust files.
    pub sources: Vec<Source>,
    /// What was wrong with the manifests.
    pub unreadable: Vec<Finding>,
}

/// One package of the workspace.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder, without a slash at the end.
    pub folder: String,
    /// Its whole manifest.
    pub manifest: Table,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
}

/// One line of a dependency table.
#[derive(Debug)]
pub struct Dependency {
    /// Name of the package depended on.
    pub name: String,
    /// Whether it stands under `[dev-dependencies]`.
    pub dev: bool,
    /// Whether it says `workspace = true`.
    pub inherited: bool,
    /// Its line in the manifest.
    pub line: usize,
}

impl Workspace {
    /// Reads the manifests and splits the sources of a repository.
    #[must_use]
    pub fn new(tree: Tree) -> Self {
        let mut packages = Vec::new();
        let mut unreadable = Vec::new();
        for path in manifests(&tree, &mut unreadable) {
            match Package::read(&path, tree.text(&path).unwrap_or_default()) {
                Ok(package) => packages.push(package),
                Err(finding) => unreadable.push(finding),
            }
        }
        let rust = tree.texts().filter(|(path, _)| path.ends_with(".rs"));
        let sources = rust.map(|(path, text)| Source::new(path, text)).collect();
        Self {
            tree,
            packages,
            sources,
            unreadable,
        }
    }

    /// Invents a repository of these files, behind a root manifest with the usual members.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let root = (
            "Cargo.toml",
            "[workspace]\nmembers = [\"crates/*\", \"bins/*\"]\n",
        );
        let mut all = vec![root];
        all.extend(files);
        Self::new(Tree::of(&all))
    }

    /// Iterates over the Rust files of a package.
    pub fn sources_of<'a>(&'a self, package: &'a Package) -> impl Iterator<Item = &'a Source> {
        let is_inner =
            |other: &&Package| other.folder != package.folder && package.holds(&other.folder);
        let inner: Vec<&Package> = self.packages.iter().filter(is_inner).collect();
        let is_own =
            move |path: &str| package.holds(path) && !inner.iter().any(|other| other.holds(path));
        self.sources
            .iter()
            .filter(move |source| is_own(&source.path))
    }

    /// Says whether a package of this name is in the workspace.
    #[must_use]
    pub fn has_package(&self, name: &str) -> bool {
        self.packages.iter().any(|package| package.name == name)
    }
}

impl Package {
    /// Returns the path of the manifest.
    #[must_use]
    pub fn manifest_path(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }

    fn holds(&self, path: &str) -> bool {
        path.strip_prefix(&self.folder)
            .is_some_and(|rest| rest.starts_with('/'))
    }

    fn read(path: &str, text: &str) -> Result<Self, Finding> {
        let manifest = parse(path, text)?;
        let name = manifest
            .get("package")
            .and_then(|package| package.get("name"))
            .and_then(Value::as_str);
        let Some(name) = name else {
            return Err(Finding::new(
                path,
                1,
                "a package has a name",
                "add `name` under `[package]`",
            ));
        };
        let name = name.to_owned();
        let folder = path.trim_end_matches("/Cargo.toml").to_owned();
        let mut dependencies = Vec::new();
        collect(&manifest, text, &mut dependencies);
        let targets = manifest.get("target").and_then(Value::as_table);
        for target in targets
            .into_iter()
            .flat_map(Table::values)
            .filter_map(Value::as_table)
        {
            collect(target, text, &mut dependencies);
        }
        Ok(Self {
            name,
            folder,
            manifest,
            dependencies,
        })
    }
}

/// Parses a manifest.
///
/// # Errors
/// A finding at the line of the mistake.
pub fn parse(path: &str, text: &str) -> Result<Table, Finding> {
    text.parse::<Table>().map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..offset]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1;
        Finding::new(path, line, "a manifest is TOML", error.message().to_owned())
    })
}

/// Paths of the members' manifests; a member of the form `folder/*` is every folder in it that has a manifest.
fn manifests(tree: &Tree, unreadable: &mut Vec<Finding>) -> Vec<String> {
    const ROOT: &str = "Cargo.toml";
    let root = match parse(ROOT, tree.text(ROOT).unwrap_or_default()) {
        Ok(root) => root,
        Err(finding) => {
            unreadable.push(finding);
            return Vec::new();
        }
    };
    let members = root
        .get("workspace")
        .and_then(|workspace| workspace.get("members"));
    let members: Vec<&str> = members
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if members.is_empty() {
        unreadable.push(Finding::new(
            ROOT,
            1,
            "the root names the members of the workspace",
            "add `[workspace] members`",
        ));
    }
    let is_member = |folder: &str| {
        members
            .iter()
            .any(|member| match member.strip_suffix("/*") {
                Some(parent) => folder
                    .rsplit_once('/')
                    .is_some_and(|(above, _)| above == parent),
                None => folder == *member,
            })
    };
    let manifests = tree
        .paths()
        .filter(|path| path.strip_suffix("/Cargo.toml").is_some_and(is_member));
    manifests.map(str::to_owned).collect()
}

fn collect(table: &Table, text: &str, dependencies: &mut Vec<Dependency>) {
    for (key, dev) in [
        ("dependencies", false),
        ("build-dependencies", false),
        ("dev-dependencies", true),
    ] {
        for (name, value) in table
            .get(key)
            .and_then(Value::as_table)
            .into_iter()
            .flatten()
        {
            dependencies.push(Dependency {
                name: name.clone(),
                dev,
                inherited: value.get("workspace").and_then(Value::as_bool) == Some(true),
                line: line_of(text, key, name),
            });
        }
    }
}

/// The line of `name` behind the heading of its table; 1 when it is written in a way that this does not find.
fn line_of(text: &str, table: &str, name: &str) -> usize {
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.contains(table);
        } else if inside
            && line
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '.', '=']))
        {
            return index + 1;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_their_dependencies_are_read() {
        let workspace = Workspace::of(&[
            (
                "crates/a/Cargo.toml",
                "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\n",
            ),
            (
                "bins/b/Cargo.toml",
                "[package]\nname = \"b\"\n[target.'cfg(unix)'.dev-dependencies]\nx = \"1\"\n",
            ),
            ("elsewhere/c/Cargo.toml", "[package]\nname = \"c\"\n"),
        ]);
        assert_eq!(workspace.unreadable, []);
        let names: Vec<_> = workspace
            .packages
            .iter()
            .map(|package| package.name.as_str())
            .collect();
        assert_eq!(names, ["b", "a"]);
        let [of_b] = workspace.packages[0].dependencies.as_slice() else {
            panic!("one dependency")
        };
        assert_eq!(
            (of_b.name.as_str(), of_b.dev, of_b.inherited, of_b.line),
            ("x", true, false, 4)
        );
        let [of_a] = workspace.packages[1].dependencies.as_slice() else {
            panic!("one dependency")
        };
        assert_eq!(
            (of_a.name.as_str(), of_a.dev, of_a.inherited, of_a.line),
            ("b", false, true, 4)
        );
    }

    #[test]
    fn a_broken_manifest_is_a_finding_at_its_line() {
        let workspace = Workspace::of(&[("crates/a/Cargo.toml", "[package]\nname = \n")]);
        let [finding] = workspace.unreadable.as_slice() else {
            panic!("one finding")
        };
        assert_eq!(
            (finding.path.as_str(), finding.line),
            ("crates/a/Cargo.toml", 2)
        );
    }

    #[test]
    fn a_workspace_without_members_is_a_finding() {
        let workspace = Workspace::new(Tree::of(&[("README.md", "")]));
        assert_eq!(workspace.unreadable.len(), 1);
    }
}
