//! What the world outside knows of v1 prompts and of saved user files.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::Value;

use super::oracle::{Content, hash_of};
use super::tally::{Kind, Violation};

/// Prompts and user files of an installation.
#[derive(Debug, Default)]
pub(super) struct V1 {
    /// The prompts that were acknowledged, by id.
    pub(super) prompts: BTreeMap<String, Prompt>,
    /// By path.
    pub(super) files: BTreeMap<String, UserFile>,
    /// Prompts and files that changed since the last check.
    pub(super) unchecked: BTreeSet<String>,
}

/// An acknowledged prompt.
#[derive(Debug, Clone)]
pub(super) struct Prompt {
    /// When it was sent.
    pub(super) sent: Instant,
    /// Status and outputs of its entry in the history, once there is one.
    pub(super) end: Option<Value>,
}

/// What a user file may hold: one content, unless a change of it was not acknowledged. `None` is no file.
#[derive(Debug, Clone)]
pub(super) struct UserFile {
    pub(super) may_be: Vec<Option<Content>>,
}

impl V1 {
    /// A prompt was answered with its id.
    pub(super) fn prompted(&mut self, id: &str, sent: Instant) {
        self.prompts
            .insert(id.to_owned(), Prompt { sent, end: None });
        self.unchecked.insert(id.to_owned());
    }

    /// The history shows an entry of a prompt: it stays as it was.
    pub(super) fn ended(&mut self, id: &str, entry: &Value) -> Result<(), Violation> {
        let now = serde_json::json!({
            "status": entry["status"]["status_str"],
            "outputs": entry["outputs"],
        });
        let Some(prompt) = self.prompts.get_mut(id) else {
            return Ok(());
        };
        match &prompt.end {
            Some(end) if *end != now => {
                let what = format!("prompt {id} was {end} and is {now}");
                Err(Violation::new(Kind::Shrunk, what))
            }
            Some(_) | None => {
                prompt.end = Some(now);
                Ok(())
            }
        }
    }

    /// A file is about to be saved, or removed without a content.
    pub(super) fn changing(&mut self, path: &str, content: Option<Content>) {
        let none = || UserFile { may_be: vec![None] };
        let file = self.files.entry(path.to_owned()).or_insert_with(none);
        file.may_be.push(content);
        self.unchecked.insert(path.to_owned());
    }

    /// That was acknowledged.
    pub(super) fn changed(&mut self, path: &str, content: Option<Content>) {
        let may_be = vec![content];
        self.files.insert(path.to_owned(), UserFile { may_be });
    }

    /// The server answers a read of a file; that is what it holds from then on.
    pub(super) fn file_seen(
        &mut self,
        path: &str,
        status: u16,
        body: &[u8],
    ) -> Result<(), Violation> {
        let Some(file) = self.files.get_mut(path) else {
            return Ok(());
        };
        let is = |content: &&Option<Content>| match (content, status) {
            (Some(content), 200) => hash_of(&content.bytes()) == hash_of(body),
            (None, 404) => true,
            _ => false,
        };
        let Some(found) = file.may_be.iter().find(is).copied() else {
            let has = body.len();
            let what = format!(
                "user file {path} is answered {status} with {has} bytes and should be one of {:?}",
                file.may_be
            );
            let kind = if status == 404 {
                Kind::Lost
            } else {
                Kind::Partial
            };
            return Err(Violation::new(kind, what));
        };
        file.may_be = vec![found];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_what_was_acknowledged_or_what_was_under_way() {
        let content = |seed| Some(Content { seed, size: 9 });
        let bytes = |seed| Content { seed, size: 9 }.bytes();
        let mut v1 = V1::default();
        v1.changing("a", content(1));
        v1.changed("a", content(1));
        assert!(v1.file_seen("a", 404, b"").is_err());
        assert!(v1.file_seen("a", 200, &bytes(2)).is_err());
        v1.changing("a", content(2));
        assert!(v1.file_seen("a", 200, &bytes(2)).is_ok());
        assert!(
            v1.file_seen("a", 200, &bytes(1)).is_err(),
            "it does not go back"
        );
        v1.changing("a", None);
        assert!(v1.file_seen("a", 404, b"").is_ok());
        assert!(v1.file_seen("a", 200, &bytes(2)).is_err());
    }

    #[test]
    fn an_entry_of_the_history_stays_as_it_was() {
        let mut v1 = V1::default();
        v1.prompted("p", Instant::now());
        let entry = json!({"status": {"status_str": "success"}, "outputs": {"2": {}}});
        assert!(v1.ended("p", &entry).is_ok());
        assert!(v1.ended("p", &entry).is_ok());
        let less = json!({"status": {"status_str": "success"}, "outputs": {}});
        assert!(v1.ended("p", &less).is_err());
    }
}
