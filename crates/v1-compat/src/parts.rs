//! JSON in parts, in the order in which they are sent: texts that are spelled already, and graphs that are spelled on their way.
//!
//! A graph may have 16 MiB, and a tree of it many times that. Here it stays the bytes that the store has.

use std::collections::VecDeque;

use bytes::Bytes;
use json_text::Spelling;
use serde_json::Value;

/// JSON of which nothing is copied before it is asked for.
#[derive(Clone, Debug, Default)]
pub struct Parts(VecDeque<Part>);

#[derive(Clone, Debug)]
enum Part {
    /// As it is sent.
    Spelled(Bytes),
    /// A graph as it was submitted, sent as a tree of it would be.
    Graph(Bytes, Spelling),
}

impl Parts {
    /// Adds a text that is spelled as it is sent.
    pub fn text(&mut self, text: impl Into<Bytes>) {
        self.0.push_back(Part::Spelled(text.into()));
    }

    /// Adds a value.
    pub(crate) fn value(&mut self, value: &Value) {
        self.text(value.to_string());
    }

    /// Adds a graph.
    pub(crate) fn graph(&mut self, text: &Bytes) {
        self.0
            .push_back(Part::Graph(text.clone(), Spelling::default()));
    }

    /// Adds all parts of another one.
    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Moves the next part of the JSON to `out`: about `piece` bytes, or what is left. Tells whether more is left.
    pub fn next(&mut self, out: &mut Vec<u8>, piece: usize) -> bool {
        let until = out.len().saturating_add(piece);
        while out.len() < until {
            let Some(part) = self.0.front_mut() else {
                return false;
            };
            let room = until - out.len();
            let is_done = match part {
                Part::Spelled(text) => {
                    let next = text.split_to(room.min(text.len()));
                    out.extend_from_slice(&next);
                    text.is_empty()
                }
                Part::Graph(text, spelling) => !spelling.next(text, out, room),
            };
            if is_done {
                self.0.pop_front();
            }
        }
        !self.0.is_empty()
    }
}

#[cfg(test)]
impl Parts {
    /// All of it as a tree.
    pub(crate) fn tree(mut self) -> Value {
        let mut out = Vec::new();
        while self.next(&mut out, 5) {}
        serde_json::from_slice(&out).expect("valid JSON")
    }
}
