//! The files of a repository, held in memory.
//!
//! The list comes from the file system minus what `.gitignore` names, not from git: the checks then also see a file that
//! nobody has added yet, and they run in an unpacked archive. Only the simple patterns are understood, and a pattern that
//! is not is an error, because guessing would leave files out of every check without a word.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Paths from the root (forward slashes) and their texts; a file that is not UTF-8 is there without a text.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads every file under `root` that `.gitignore` does not name.
    ///
    /// # Errors
    /// When a folder or file cannot be read, or `.gitignore` holds a pattern that is not understood.
    pub fn read(root: &Path) -> io::Result<Self> {
        let ignored = Ignored::read(&root.join(".gitignore"))?;
        let mut tree = Self::default();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root.join(&folder))? {
                let entry = entry?;
                let path = format!("{folder}{}", entry.file_name().to_string_lossy());
                let kind = entry.file_type()?;
                if ignored.names(&path) {
                    continue;
                }
                if kind.is_dir() {
                    folders.push(format!("{path}/"));
                } else if kind.is_file() {
                    match fs::read(entry.path()) {
                        Ok(bytes) => drop(tree.files.insert(path, String::from_utf8(bytes).ok())),
                        // An editor's temporary file may go away between the listing and the reading.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(tree)
    }

    /// Invents a repository of these files; the tests of the checks use it.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())));
        Self {
            files: files.collect(),
        }
    }

    /// Returns the text of a file, if it is there and is text.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Says whether a file or folder is there; `*` stands for any one part of the path.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        let wanted: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        self.files.keys().any(|file| {
            let mut parts = file.split('/');
            wanted.iter().all(|want| {
                parts
                    .next()
                    .is_some_and(|part| *want == "*" || *want == part)
            })
        })
    }

    /// Iterates over the text files, in the order of their paths.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Iterates over all paths, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}

/// The patterns of a `.gitignore`, as far as this repository needs them.
struct Ignored {
    anchored: Vec<String>,
    names: Vec<String>,
    suffixes: Vec<String>,
}

impl Ignored {
    fn read(path: &Path) -> io::Result<Self> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            other => other?,
        };
        Self::parse(&text).map_err(|pattern| {
            let message = format!(
                "{}: the pattern {pattern:?} is not understood; write /name, name/ or *.ending",
                path.display()
            );
            io::Error::new(io::ErrorKind::InvalidData, message)
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut ignored = Self {
            anchored: Vec::new(),
            names: vec![".git".to_owned()],
            suffixes: Vec::new(),
        };
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (list, name) = if let Some(name) = line.strip_prefix('/') {
                (&mut ignored.anchored, name)
            } else if let Some(ending) = line.strip_prefix('*') {
                (&mut ignored.suffixes, ending)
            } else {
                (&mut ignored.names, line)
            };
            let name = name.trim_end_matches('/');
            if name.is_empty() || name.contains(['*', '/', '!', '?', '[']) {
                return Err(line.to_owned());
            }
            list.push(name.to_owned());
        }
        Ok(ignored)
    }

    fn names(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.anchored.iter().any(|anchored| anchored == path)
            || self.names.iter().any(|ignored| ignored == name)
            || self.suffixes.iter().any(|suffix| name.ends_with(suffix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_exists_through_its_files_and_a_star_is_one_part() {
        let tree = Tree::of(&[("crates/assets/src/lib.rs", "")]);
        assert!(tree.exists("crates/assets/src/lib.rs"));
        assert!(tree.exists("crates/assets/"));
        assert!(tree.exists("crates/*/src"));
        assert!(!tree.exists("crates/asset"));
        assert!(!tree.exists("crates/*/lib.rs"));
    }

    #[test]
    fn gitignore_patterns_anchor_name_and_end() {
        let ignored = Ignored::parse("# built\n/target\ncache/\n*.pyc\n").expect("simple patterns");
        assert!(ignored.names("target"));
        assert!(!ignored.names("docs/target"));
        assert!(ignored.names("tests/cache"));
        assert!(ignored.names("tests/a.pyc"));
        assert!(ignored.names(".git"));
    }

    #[test]
    fn a_pattern_that_is_not_understood_is_an_error() {
        assert_eq!(Ignored::parse("!keep").err().as_deref(), Some("!keep"));
        assert_eq!(Ignored::parse("a/b").err().as_deref(), Some("a/b"));
    }
}
