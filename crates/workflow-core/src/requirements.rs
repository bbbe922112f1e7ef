//! What a job needs of the worker that claims it, and its stored form.
//!
//! Jobs with equal needs share one *requirement set*. A store keeps the text of a set and compares its id; only the domain
//! reads the text. A worker asks which sets wait, judges each of them, and names in its claim those that can run now.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::WorkerId;

/// Names an engine among those of an installation. Stored with every job, so it never changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineName(Arc<str>);

impl EngineName {
    /// The engine that runs in the server's own process.
    pub const NATIVE: &'static str = "native";

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for EngineName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file of a worker that a graph names, such as a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelFile {
    /// The kind of file, such as `checkpoints`.
    pub folder: String,
    /// Its name, as the graph spells it.
    pub name: String,
}

/// What a job needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// The engine that was chosen for it at submission.
    pub engine: EngineName,
    /// The classes of its nodes.
    pub classes: BTreeSet<String>,
    /// The files that it names, besides those of the account.
    pub files: BTreeSet<ModelFile>,
    /// The process that holds the secret of the submission, where one came with it: no other process can run the job.
    pub secret_at: Option<WorkerId>,
}

/// Identifies a requirement set: the hash of its text, so that every replica computes the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequirementId([u8; 32]);

/// The stored form of [`Requirements`]: a text that only this module reads. Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequirementSet {
    id: RequirementId,
    text: Arc<str>,
}

impl Requirements {
    /// Needs that every worker of an engine meets.
    #[must_use]
    pub fn of_engine(engine: impl Into<EngineName>) -> Self {
        Self {
            engine: engine.into(),
            classes: BTreeSet::new(),
            files: BTreeSet::new(),
            secret_at: None,
        }
    }

    /// The stored form. Equal needs have equal texts.
    #[must_use]
    pub fn to_set(&self) -> RequirementSet {
        let files = self.files.iter();
        let files: Vec<_> = files.map(|file| json!([file.folder, file.name])).collect();
        // Migrations of stores write the same spelling: this order of keys and no space between them.
        let text = json!({
            "engine": self.engine.as_str(),
            "classes": self.classes,
            "files": files,
            "secret_at": self.secret_at.map(|worker| worker.0.to_string()),
        });
        RequirementSet::stored(text.to_string())
    }
}

impl RequirementSet {
    /// A set as a store kept it.
    #[must_use]
    pub fn stored(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        Self {
            id: RequirementId(blake3::hash(text.as_bytes()).into()),
            text,
        }
    }

    /// Identifies the set.
    #[must_use]
    pub fn id(&self) -> RequirementId {
        self.id
    }

    /// What a store keeps.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the set means; `None` if a newer version wrote it in a way that this one does not know.
    #[must_use]
    pub fn read(&self) -> Option<Requirements> {
        let value: Value = serde_json::from_str(&self.text).ok()?;
        let texts = |value: &Value| -> Option<Vec<String>> {
            let items = value.as_array()?.iter();
            items.map(|item| Some(item.as_str()?.to_owned())).collect()
        };
        let files = value.get("files")?.as_array()?.iter();
        let files = files.map(|file| {
            let [folder, name]: [String; 2] = texts(file)?.try_into().ok()?;
            Some(ModelFile { folder, name })
        });
        let secret_at = value.get("secret_at")?;
        let secret_at = match secret_at.is_null() {
            true => None,
            false => Some(WorkerId(Uuid::parse_str(secret_at.as_str()?).ok()?)),
        };
        Some(Requirements {
            engine: value.get("engine")?.as_str()?.into(),
            classes: texts(value.get("classes")?)?.into_iter().collect(),
            files: files.collect::<Option<_>>()?,
            secret_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs() -> Requirements {
        Requirements {
            classes: ["SaveImage", "Load\"Image"].map(str::to_owned).into(),
            files: [ModelFile {
                folder: "checkpoints".to_owned(),
                name: "a/b.safetensors".to_owned(),
            }]
            .into(),
            secret_at: Some(WorkerId(Uuid::from_u128(7))),
            ..Requirements::of_engine("comfyui")
        }
    }

    #[test]
    fn a_set_reads_back_and_equal_needs_share_one() {
        let set = needs().to_set();
        assert_eq!(set.read(), Some(needs()));
        assert_eq!(
            RequirementSet::stored(set.text()).id(),
            needs().to_set().id()
        );
        let others = [
            Requirements {
                secret_at: None,
                ..needs()
            },
            Requirements {
                engine: EngineName::NATIVE.into(),
                ..needs()
            },
            Requirements {
                files: BTreeSet::new(),
                ..needs()
            },
            Requirements {
                classes: BTreeSet::new(),
                ..needs()
            },
        ];
        for other in others {
            assert_eq!(other.to_set().read().as_ref(), Some(&other));
            assert_ne!(other.to_set().id(), set.id(), "{other:?}");
        }
    }

    #[test]
    fn the_spelling_is_the_one_that_migrations_write() {
        let plain = Requirements {
            classes: ["A", "B"].map(str::to_owned).into(),
            ..Requirements::of_engine(EngineName::NATIVE)
        };
        assert_eq!(
            plain.to_set().text(),
            r#"{"engine":"native","classes":["A","B"],"files":[],"secret_at":null}"#
        );
    }

    #[test]
    fn what_is_no_set_has_no_meaning() {
        for text in [
            "",
            "{}",
            r#"{"engine":"native","classes":[1],"files":[],"secret_at":null}"#,
        ] {
            assert_eq!(RequirementSet::stored(text).read(), None, "{text}");
        }
    }
}
