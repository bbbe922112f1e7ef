//! Prompts and user files after a start.

use std::io;
use std::time::Instant;

use serde_json::Value;
use tokio::time::sleep;

use super::{Check, LONGEST_WAIT, LOOK_AGAIN, OLDER};
use crate::client::{body, target, unexpected};
use crate::tally::{Kind, Violation};
use crate::v1::Prompt;
use it::random::Random;

impl Check<'_> {
    /// Looks at the prompts and files that changed since the last check and at some others; without random numbers at all of
    /// them, and waits until every prompt has ended.
    pub(crate) async fn v1(&mut self, random: Option<&mut Random>) -> io::Result<()> {
        let until_over = random.is_none();
        let names: Vec<String> = {
            let oracle = self.oracle.lock();
            let all = oracle.v1.prompts.keys().chain(oracle.v1.files.keys());
            let all: Vec<String> = all.cloned().collect();
            match random {
                None => all,
                Some(random) => {
                    let older = (0..OLDER / 2).filter_map(|_| random.pick(&all).cloned());
                    oracle.v1.unchecked.iter().cloned().chain(older).collect()
                }
            }
        };
        for name in &names {
            let prompt = self.oracle.lock().v1.prompts.get(name).cloned();
            match prompt {
                Some(prompt) => self.prompt(name, &prompt, until_over).await?,
                None => self.file(name).await?,
            }
        }
        let checked = |name: &String| !names.contains(name);
        self.oracle.lock().v1.unchecked.retain(checked);
        Ok(())
    }

    async fn file(&mut self, path: &str) -> io::Result<()> {
        let answer = self.get(&target(path)).await?;
        let seen = self
            .oracle
            .lock()
            .v1
            .file_seen(path, answer.status, &answer.body);
        self.judge(seen);
        Ok(())
    }

    /// An acknowledged prompt is in the history, or in the queue until it is; it may be in neither for the moment in between.
    async fn prompt(&mut self, id: &str, prompt: &Prompt, until_over: bool) -> io::Result<()> {
        let deadline = Instant::now() + LONGEST_WAIT;
        let mut was_queued = true;
        loop {
            let answer = self.get(&format!("/api/history/{id}")).await?;
            let history = match answer.status {
                200 => body(&answer),
                _ => Err(unexpected("the history of a prompt", &answer)),
            };
            let history = match history {
                Ok(history) => history,
                Err(violation) => {
                    self.violations.push(violation);
                    return Ok(());
                }
            };
            if history[id].is_object() {
                let ended = self.oracle.lock().v1.ended(id, &history[id]);
                self.judge(ended);
                return Ok(());
            }
            if self.oracle.lock().may_be_gone_since(prompt.sent) {
                return Ok(());
            }
            if !was_queued || prompt.end.is_some() {
                let what = format!("prompt {id} is neither in the history nor in the queue");
                self.violations.push(Violation::new(Kind::Lost, what));
                return Ok(());
            }
            was_queued = self.is_queued(id).await?;
            if was_queued && !until_over {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let what = format!("prompt {id} is not over after a minute");
                self.violations.push(Violation::new(Kind::Endless, what));
                return Ok(());
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    async fn is_queued(&mut self, id: &str) -> io::Result<bool> {
        let answer = self.get("/api/queue").await?;
        let queue = body(&answer).unwrap_or_default();
        let has = |list: &Value| {
            let items = list.as_array().into_iter().flatten();
            items.into_iter().any(|item| item[1] == *id)
        };
        Ok(has(&queue["queue_running"]) || has(&queue["queue_pending"]))
    }
}
