//! What of a call goes through the log, and when the log has to be in the rows.

use ::accounts::{AccountId, LedgerRef};
use jiff::Timestamp;
use router_core::{
    CallsError, Dispatched, Ending, Generation, GenerationId, KeyDigest, Lease, OwnerId, Settled,
};
use rusqlite::Connection;

use super::columns::Replay;
use super::event::{Ended, Event, KeyColumns, Raw, ReplayBody};
use super::log::Flush;
use super::{SqliteCalls, UnderWay, body_of, unavailable};
use crate::accounts::bill_ahead;
use crate::database::Durability;

/// Results up to this size go through the log with the end of their generation: of larger ones a few would fill it, and where the
/// disk is full its files do not become longer.
const LOGGED_BYTES: usize = 8 * 1024;

impl SqliteCalls {
    /// Has the writing thread know of what was noted in the log.
    pub(super) fn tell(&self) {
        if self.log.take_news() {
            self.database.nudge();
        }
    }

    /// Waits until what was noted in the log is on the disk.
    pub(super) async fn log_durably(&self) -> Result<(), CallsError> {
        self.tell();
        self.log.durable().await.map_err(unavailable)
    }

    /// Brings the log into the rows.
    pub(super) async fn bring_in(&self) -> Result<(), CallsError> {
        let (log, how) = (self.log.clone(), Durability::Now.end().sure());
        self.write(None, how, move |rows| log.flush(rows, Flush::All))
            .await
    }

    /// Dispatches a generation; `None` if the log cannot know it, or knows it already: then the rows decide.
    pub(super) async fn dispatch_in_log(
        &self,
        generation: &Generation,
        key: Option<KeyDigest>,
        lease: Lease,
    ) -> Result<Option<Dispatched>, CallsError> {
        let UnderWay { keyed, owned } = &self.under_way;
        let id = generation.id;
        // It knows neither providers nor budgets of keys and labels: what has some has its row at once.
        let has_scopes = || {
            let cause = LedgerRef::Generation(id.0);
            self.accounts.has_scopes(&generation.account, cause)
        };
        if generation.serving.is_some() || has_scopes() {
            return Ok(None);
        }
        self.log.may_begin().map_err(unavailable)?;
        let begun = match key {
            None => self.log.begin(generation, None).map(Some),
            Some(key) => {
                let of = (&generation.account, key);
                keyed.dispatch_in_log(of, id, |fingerprint, expires_at| {
                    let key = KeyColumns {
                        key: Raw(&key.0),
                        fingerprint: Raw(&fingerprint.0),
                        expires_at: expires_at.as_microsecond(),
                    };
                    self.log.begin(generation, Some(key))
                })
            }
        };
        if begun.map_err(unavailable)?.is_none() {
            return Ok(None);
        }
        owned.lock().begin(id, lease, generation.dispatched_at);
        crate::faults::fault_point!("call-dispatch");
        self.log_durably().await?;
        Ok(Some(Dispatched::Begun))
    }

    /// Ends a generation and bills it, if it runs in the log; otherwise its row tells. With a key it is on the disk then.
    pub(super) async fn end_in_log(
        &self,
        of: (GenerationId, OwnerId),
        account: &AccountId,
        ending: &Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Settled>, CallsError> {
        let keyed = &self.under_way.keyed;
        let id = of.0;
        if let Some(expires_at) = keyed.take_doubt(id) {
            return self.end_in_rows(id, expires_at).await.map(Some);
        }
        let Some(expires_at) = keyed.expires_at(id) else {
            return self.note_end(of, account, (ending, None), task_id, now);
        };
        let body = body_of(ending).map_or(&[][..], |body| body);
        if body.len() > LOGGED_BYTES {
            return Ok(None);
        }
        let replay = ReplayBody {
            body: Raw(body),
            expires_at: expires_at.as_microsecond(),
        };
        let settled = self.note_end(of, account, (ending, Some(replay)), task_id, now)?;
        if settled == Some(Settled::Now) && self.log_durably().await.is_err() {
            return self.end_in_rows(id, expires_at).await.map(Some);
        }
        Ok(settled)
    }

    /// Brings the end of a generation to the disk which the log could not: the rows are another way there.
    async fn end_in_rows(
        &self,
        id: GenerationId,
        expires_at: Timestamp,
    ) -> Result<Settled, CallsError> {
        let brought_in = self.bring_in().await;
        brought_in
            .inspect_err(|_| self.under_way.keyed.doubt(id, expires_at))
            .map(|()| Settled::Now)
    }

    fn note_end(
        &self,
        (id, owner): (GenerationId, OwnerId),
        account: &AccountId,
        (ending, kept): (&Ending, Option<ReplayBody<'_>>),
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Settled>, CallsError> {
        let replay = match (body_of(ending), kept) {
            (None, _) => Replay::NoBody,
            (Some(_), None) => Replay::NotKept,
            (Some(_), Some(_)) => Replay::Shared,
        };
        let mut ended = Ended::of((id, account), ending, replay, task_id, now);
        ended.is_billed = self.accounts.knows(account);
        let cents = ended.charge_cents;
        let mut owned = self.under_way.owned.lock();
        if !owned.is_of(id, owner) {
            return Ok(self.log.runs(id).then_some(Settled::Before));
        }
        let event = match kept {
            None => Event::Ended(ended),
            Some(kept) => Event::KeyedEnded(ended, kept),
        };
        let settled = self.log.end(id, account, &event).map_err(unavailable)?;
        if settled == Some(Settled::Now) {
            owned.end(id);
            drop(owned);
            self.tell();
            let cause = LedgerRef::Generation(id.0);
            bill_ahead(&self.accounts, account, cause, cents, now);
        }
        Ok(settled)
    }

    /// What has to be done before the row of a generation is looked at: what happened to it may be in the log.
    pub(super) fn catching_up(
        &self,
        generation: GenerationId,
    ) -> impl FnOnce(&Connection) -> rusqlite::Result<()> + Send + use<> {
        let log = self.log.clone();
        let keyed = &self.under_way.keyed;
        let may_be_in_log = keyed.expires_at(generation).is_none() || keyed.is_in_log(generation);
        move |rows| match may_be_in_log {
            true => log.flush(rows, Flush::All),
            false => Ok(()),
        }
    }
}
