//! Partners of other kinds: their folders lie among the others, and somebody else knows how their models run.
//!
//! `kind = "..."` in a `partner.toml` says so. Everything else about the folder (compiled in or replaced, watched, judged
//! whole with file, line and reason) is as with any partner.

use std::collections::BTreeMap;
use std::sync::Arc;

use router_core::Model;
use serde::Deserialize;

use super::fault::Fault;
use super::files::{Builtin, File};
use super::parse::PARTNER_FILE;
use super::{Loaded, LoadedModel, PartnerStatus, Settings};

/// A kind of partners.
///
/// **Contract.** `read` judges a folder whole and without running anything: it gives every model of it, or everything that
/// is wrong, each mistake with the file and the line. The same folder always gives the same. It may be asked at any time,
/// also while models that it gave before are running.
pub trait Kind: Send + Sync + 'static {
    /// What `kind` says of a partner that is one of these.
    fn name(&self) -> &'static str;

    /// Its own files, which a catalog's folder adds to or replaces as it does with all.
    fn builtin(&self) -> Builtin;

    /// The partner that a folder describes.
    ///
    /// # Errors
    /// With everything that is wrong.
    fn read(&self, folder: KindFolder<'_>) -> Result<KindPartner, Vec<Fault>>;
}

/// The folder of a partner.
#[derive(Clone, Copy, Debug)]
pub struct KindFolder<'a> {
    /// Its name: the first segment of the ids of its models.
    pub id: &'a str,
    /// Its files by name, [`KindFolder::partner`] among them.
    pub files: &'a BTreeMap<String, File>,
}

/// A partner of a kind.
#[derive(Debug)]
pub struct KindPartner {
    /// What people call it.
    pub name: String,
    /// Its models.
    pub models: Vec<Arc<Model>>,
}

/// The one thing that is read before it is known who reads the rest.
#[derive(Deserialize)]
struct Head {
    kind: Option<String>,
}

impl<'a> KindFolder<'a> {
    /// The `partner.toml`.
    #[must_use]
    pub fn partner(&self) -> &'a File {
        &self.files[PARTNER_FILE]
    }

    /// The files that stand for a model each, by the second segment of its id.
    pub fn models(&self) -> impl Iterator<Item = (&'a str, &'a File)> + use<'a> {
        let files = self.files.iter();
        let files = files.filter(|(name, _)| *name != PARTNER_FILE);
        files.filter_map(|(name, file)| Some((name.strip_suffix(".toml")?, file)))
    }
}

/// The kind that a partner's file names. A file that cannot be read has none, and is judged as any other.
pub(super) fn named(files: &BTreeMap<String, File>) -> Option<String> {
    let head: Head = toml::from_str(&files.get(PARTNER_FILE)?.text).ok()?;
    head.kind
}

/// Loads a partner of a kind.
pub(super) fn load(
    kind: &str,
    id: &str,
    files: &BTreeMap<String, File>,
    settings: &Settings,
    loaded: &mut Loaded,
    faults: &mut Vec<Fault>,
) {
    let folder = KindFolder { id, files };
    let mut kinds = settings.kinds.iter();
    let Some(kind) = kinds.find(|known| known.name() == kind) else {
        let File { path, text } = folder.partner();
        let reason = format!("this program runs no partners of the kind `{kind}`");
        faults.push(Fault::mentioning(path, text, "kind", reason));
        return;
    };
    match kind.read(folder) {
        Ok(partner) => {
            loaded.partners.push(PartnerStatus {
                id: id.to_owned(),
                name: partner.name,
                credentials: Vec::new(),
                models: partner.models.len(),
                missing: None,
            });
            let models = partner.models.into_iter();
            loaded.models.extend(models.map(|model| LoadedModel {
                model,
                runner: None,
            }));
        }
        Err(wrong) => faults.extend(wrong),
    }
}
