//! Calls after a start: what was acknowledged is replayed, what was under way ends, and the money adds up.

use std::collections::BTreeSet;
use std::io;
use std::time::Instant;

use tokio::time::sleep;

use super::{Check, LONGEST_WAIT, LOOK_AGAIN, OLDER};
use crate::client::send_call;
use crate::database::Sqlite;
use crate::money::{self, Counted};
use crate::operator::Operator;
use crate::tally::{Kind, Violation};
use it::http::Connection;
use it::random::Random;

/// How often a call is sent again whose partner was provably too busy.
const ATTEMPTS: usize = 3;
/// The gauge of calls that are carried out.
const EXECUTIONS: &str = "easel_router_executions ";

impl Check<'_> {
    /// Sends calls with keys again: those since the last check and some older ones, or all without random numbers.
    pub(crate) async fn calls(&mut self, random: Option<&mut Random>) -> io::Result<()> {
        let names = {
            let oracle = self.oracle.lock();
            let Some(calls) = &oracle.calls else {
                return Ok(());
            };
            let all: Vec<String> = calls.calls.keys().cloned().collect();
            match random {
                None => all.into_iter().collect(),
                Some(random) => {
                    let mut names = calls.unchecked.clone();
                    names.extend((0..OLDER).filter_map(|_| random.pick(&all).cloned()));
                    names
                }
            }
        };
        for name in &names {
            self.call(name).await?;
        }
        self.checked(&names);
        Ok(())
    }

    async fn call(&mut self, name: &str) -> io::Result<()> {
        for _ in 0..ATTEMPTS {
            let call = {
                let oracle = self.oracle.lock();
                let calls = oracle.calls.as_ref();
                calls.and_then(|calls| calls.calls.get(name).cloned())
            };
            let Some(call) = call.filter(|call| call.is_keyed) else {
                return Ok(());
            };
            let judged = send_call(self.oracle, &mut self.connection, name, call).await?;
            let is_over = judged.is_err() || {
                let oracle = self.oracle.lock();
                let calls = oracle.calls.as_ref();
                let call = calls.and_then(|calls| calls.calls.get(name));
                call.is_none_or(|call| call.end.is_some())
            };
            self.judge(judged);
            if is_over {
                return Ok(());
            }
        }
        let what = format!("call {name} does not end although its partner is ready");
        self.violations.push(Violation::new(Kind::Endless, what));
        Ok(())
    }

    fn checked(&self, names: &BTreeSet<String>) {
        if let Some(calls) = &mut self.oracle.lock().calls {
            calls.unchecked.retain(|name| !names.contains(name));
        }
    }

    /// Once nothing runs any more, compares the reports of money with the partner.
    pub(crate) async fn money(
        &mut self,
        operator: &Operator,
        sqlite: Option<&Sqlite>,
    ) -> io::Result<Option<Counted>> {
        if self.oracle.lock().calls.is_none() || !self.idle().await? {
            return Ok(None);
        }
        let reports = operator.reports(sqlite).await?;
        // Reports of a server that is gone meanwhile are not those of one moment.
        executions(&mut self.connection).await?;
        let mut oracle = self.oracle.lock();
        let judged = oracle
            .calls
            .as_mut()
            .map(|calls| money::judge(calls, &reports));
        Ok(judged.map(|(counted, violations)| {
            self.violations.extend(violations);
            counted
        }))
    }

    /// Waits until no call is carried out.
    async fn idle(&mut self) -> io::Result<bool> {
        let deadline = Instant::now() + LONGEST_WAIT;
        while executions(&mut self.connection).await? > 0 {
            if Instant::now() >= deadline {
                let what = "a call is still carried out after a minute";
                self.violations.push(Violation::new(Kind::Endless, what));
                return Ok(false);
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(true)
    }
}

/// How many calls are carried out.
async fn executions(connection: &mut Connection) -> io::Result<u64> {
    let answer = connection
        .send(&it::http::request("GET", "/metrics"))
        .await?
        .expect_status(200)?;
    let text = answer.text();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(EXECUTIONS));
    let missing = || io::Error::other("there is no gauge of executions");
    value
        .and_then(|value| value.trim().parse().ok())
        .ok_or_else(missing)
}
