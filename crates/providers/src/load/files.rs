//! The files of a catalog: those compiled in, and those of a folder that add to them or take their places.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::fault::Fault;
use super::switches::SWITCHES_FILE;
use crate::builtin;

/// The largest file that is read: a schema of thousands of fields is far smaller.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Where a catalog comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Whether what is compiled in is part of it.
    pub builtin: bool,
    /// A folder with a folder for each partner. A file there takes the place of the one of the same name.
    pub folder: Option<PathBuf>,
}

/// A file of a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// As its author knows it.
    pub path: String,
    /// What stands in it.
    pub text: String,
}

impl File {
    /// What the file says, as TOML.
    ///
    /// # Errors
    /// With the first mistake and its line.
    pub fn toml<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        toml::from_str(&self.text).map_err(|error| Fault::of_toml(&self.path, &self.text, &error))
    }

    /// What the file says, as JSON.
    ///
    /// # Errors
    /// With the first mistake and its line.
    pub fn json(&self) -> Result<Value, Fault> {
        serde_json::from_str(&self.text).map_err(|error| Fault {
            file: self.path.clone(),
            line: error.line().max(1),
            reason: format!("it is no JSON: {error}"),
        })
    }
}

/// Files that are compiled in: path below the catalog, and text.
pub type Builtin = &'static [(&'static str, &'static str)];

/// The files of a catalog.
pub(super) struct Files {
    /// By partner and name.
    pub(super) of_partners: BTreeMap<String, BTreeMap<String, File>>,
    /// Whether all of them are compiled in: such a catalog was judged by the tests of the program.
    pub(super) are_compiled_in: bool,
}

impl Source {
    /// What is compiled in, and a folder, if any, over it.
    #[must_use]
    pub fn with_builtin(folder: Option<PathBuf>) -> Self {
        Self {
            builtin: true,
            folder,
        }
    }

    /// All files, the folder's over those compiled in, here or with a kind. What cannot be read is a fault.
    pub(super) fn files(
        &self,
        of_kinds: impl Iterator<Item = Builtin>,
        faults: &mut Vec<Fault>,
    ) -> Files {
        let mut files = BTreeMap::new();
        let builtin = std::iter::once(builtin::FILES).chain(of_kinds);
        for (path, text) in builtin.filter(|_| self.builtin).flatten() {
            let (partner, name) = path.split_once('/').unwrap_or(("", path));
            let file = File {
                path: format!("(built in) {path}"),
                text: (*text).to_owned(),
            };
            let of_partner: &mut BTreeMap<_, _> = files.entry(partner.to_owned()).or_default();
            of_partner.insert(name.to_owned(), file);
        }
        let mut are_compiled_in = self.builtin;
        if let Some(folder) = &self.folder {
            for (partner, name, file) in read_folder(folder, faults) {
                are_compiled_in = false;
                files.entry(partner).or_default().insert(name, file);
            }
        }
        Files {
            of_partners: files,
            are_compiled_in,
        }
    }
}

impl Source {
    /// The file that says what is switched off, if there is one.
    pub(super) fn switches(&self, faults: &mut Vec<Fault>) -> Option<File> {
        let path = self.folder.as_ref()?.join(SWITCHES_FILE);
        path.exists()
            .then(|| read_file(SWITCHES_FILE, &path, faults))
            .flatten()
    }
}

/// The files of a folder, each with its partner and its name.
fn read_folder(folder: &Path, faults: &mut Vec<Fault>) -> Vec<(String, String, File)> {
    let mut files = Vec::new();
    for (name, path) in entries(folder, faults) {
        if path.is_dir() {
            for (file_name, path) in entries(&path, faults) {
                if let Some(file) = read_file(&file_name, &path, faults) {
                    files.push((name.clone(), file_name, file));
                }
            }
        } else if is_of_a_catalog(&name) && name != SWITCHES_FILE {
            faults.push(Fault::at_start(
                &path.display().to_string(),
                "a file belongs into the folder of its partner",
            ));
        }
    }
    files
}

/// What lies in a folder, in the order of names, hidden files aside.
fn entries(folder: &Path, faults: &mut Vec<Fault>) -> Vec<(String, PathBuf)> {
    let listed = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let listed = match listed {
        Ok(listed) => listed,
        Err(error) => {
            let folder = folder.display().to_string();
            faults.push(Fault::at_start(&folder, format!("cannot be read: {error}")));
            return Vec::new();
        }
    };
    let named = listed.into_iter().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        (!name.starts_with('.')).then(|| (name, entry.path()))
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named
}

/// Reads a file that a catalog is made of; others are none of its business.
fn read_file(name: &str, path: &Path, faults: &mut Vec<Fault>) -> Option<File> {
    if !is_of_a_catalog(name) {
        return None;
    }
    let shown = path.display().to_string();
    let text = fs::metadata(path).and_then(|metadata| {
        if metadata.len() > MAX_FILE_BYTES {
            let why = format!("it has more than {MAX_FILE_BYTES} bytes");
            return Err(std::io::Error::other(why));
        }
        fs::read_to_string(path)
    });
    match text {
        Ok(text) => Some(File { path: shown, text }),
        Err(error) => {
            faults.push(Fault::at_start(&shown, format!("cannot be read: {error}")));
            None
        }
    }
}

fn is_of_a_catalog(name: &str) -> bool {
    name.ends_with(".toml") || name.ends_with(".json")
}
