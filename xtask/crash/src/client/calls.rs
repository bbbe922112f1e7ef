//! Calls of models by a client: new ones with and without a key, and answered ones again.

use std::io;

use super::{Client, Shared};
use crate::calls::Call;
use crate::partner::{Behavior, Order};
use crate::tally::Violation;
use it::http::{Connection, post_json};

/// Bytes above which a result has a file of its own.
const OWN_FILE: usize = 64 * 1024;

impl Client {
    /// Calls a model; a third of the calls is polled, three of five have a key.
    pub(super) async fn call(
        &mut self,
        connection: &mut Connection,
        name: &str,
    ) -> io::Result<Result<(), Violation>> {
        let behavior = match self.random.below(100) {
            0..76 => Behavior::Answer,
            76..84 => Behavior::Refuse,
            84..92 => Behavior::Busy,
            92..96 => Behavior::Break,
            _ => Behavior::Cut,
        };
        let padding = match self.random.below(12) {
            0 => OWN_FILE + 1,
            _ => usize::try_from(self.random.below(4_000)).unwrap_or(0),
        };
        let order = Order {
            call: name.to_owned(),
            behavior,
            cents: 1 + self.random.below(9),
            delay_ms: self.random.below(15),
            looks: u32::try_from(self.random.below(6)).unwrap_or(0),
            padding,
        };
        let (is_keyed, is_polled) = (self.random.below(5) < 3, self.random.below(3) == 0);
        let call = Call::new(order, is_keyed, is_polled);
        send_call(&self.oracle, connection, name, call).await
    }

    /// Sends a call with a key again that was answered.
    pub(super) async fn replay(
        &mut self,
        connection: &mut Connection,
    ) -> io::Result<Result<(), Violation>> {
        let answered: Vec<(String, Call)> = {
            let oracle = self.oracle.lock();
            let calls = oracle.calls.iter().flat_map(|calls| &calls.calls);
            let answered = calls.filter(|(_, call)| call.is_keyed && call.end.is_some());
            answered
                .map(|(name, call)| (name.clone(), call.clone()))
                .collect()
        };
        match self.random.pick(&answered).cloned() {
            Some((name, call)) => send_call(&self.oracle, connection, &name, call).await,
            None => Ok(Ok(())),
        }
    }
}

/// Sends a call and tells the oracle of its answer.
pub(crate) async fn send_call(
    oracle: &Shared,
    connection: &mut Connection,
    name: &str,
    call: Call,
) -> io::Result<Result<(), Violation>> {
    let mut headers = String::new();
    if let Some(calls) = &mut oracle.lock().calls {
        headers = format!("Authorization: Bearer {}\r\n", calls.api_key);
        calls.sending(name, || call.clone());
    }
    if call.is_keyed {
        headers.push_str(&format!("Idempotency-Key: {name}\r\n"));
    }
    let request = post_json(call.target(), &headers, &call.body());
    let answer = connection.send(&request).await?;
    let is_replay = answer.header("Idempotent-Replayed") == Some("true");
    let mut oracle = oracle.lock();
    let Some(calls) = &mut oracle.calls else {
        return Ok(Ok(()));
    };
    let told = (answer.status, &answer.body[..]);
    Ok(calls.answered(name, told, is_replay))
}
