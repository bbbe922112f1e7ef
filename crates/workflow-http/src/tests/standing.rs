//! Streams outlive the request that opened them by hours: a store of accounts that hangs meanwhile keeps nothing back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use accounts::{
    AccountId, Accounts, AccountsError, CreditLedger, Credits, KeyHash, LedgerEntry, LedgerRef,
    MemoryAccounts, Payer, Principal, Reservation,
};
use async_trait::async_trait;
use http::Method;
use identity::Identity;
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::events::{Frame, Reader};
use super::harness::{Rig, Server, principal};

/// Accounts that may stop answering.
struct Hanging {
    accounts: Arc<MemoryAccounts>,
    hangs: AtomicBool,
}

impl Hanging {
    async fn answer<T>(&self, answer: impl Future<Output = T>) -> T {
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        answer.await
    }
}

#[async_trait]
impl Accounts for Hanging {
    async fn by_key(
        &self,
        key: &KeyHash,
        now: Timestamp,
    ) -> Result<Option<Principal>, AccountsError> {
        self.answer(self.accounts.by_key(key, now)).await
    }

    async fn by_id(&self, id: &AccountId) -> Result<Option<Principal>, AccountsError> {
        self.answer(self.accounts.by_id(id)).await
    }
}

/// No stream asks what is billed.
#[async_trait]
impl CreditLedger for Hanging {
    async fn credits(&self, _: &AccountId, _: Timestamp) -> Result<Credits, AccountsError> {
        unreachable!("nothing is billed")
    }

    async fn reserve(
        &self,
        _: Payer<'_>,
        _: LedgerRef,
        _: u32,
        _: Duration,
        _: Timestamp,
    ) -> Result<Reservation, AccountsError> {
        unreachable!("nothing is billed")
    }

    async fn renew(
        &self,
        _: &[(&AccountId, LedgerRef)],
        _: Duration,
        _: Timestamp,
    ) -> Result<Vec<usize>, AccountsError> {
        unreachable!("nothing is billed")
    }

    async fn settle(
        &self,
        _: &AccountId,
        _: LedgerRef,
        _: u32,
        _: Timestamp,
    ) -> Result<LedgerEntry, AccountsError> {
        unreachable!("nothing is billed")
    }

    async fn release(&self, _: &AccountId, _: LedgerRef) -> Result<(), AccountsError> {
        unreachable!("nothing is billed")
    }

    async fn entries(
        &self,
        _: &AccountId,
        _: Option<u64>,
        _: usize,
    ) -> Result<Vec<LedgerEntry>, AccountsError> {
        unreachable!("nothing is billed")
    }
}

/// Streams of a job that waits and of its account, at the moment at which their credentials are asked for and nobody answers.
async fn asked_in_vain() -> (Server, [Reader; 2]) {
    let rig = Rig::new();
    let accounts = Arc::new(Hanging {
        accounts: Arc::clone(&rig.accounts),
        hangs: AtomicBool::new(false),
    });
    let server = rig.server(principal("local"), |service| {
        service.identity = Identity::none(accounts.clone(), AccountId::local());
    });
    let id = server.submit().await;
    let open = async |path: &str| Reader::new(server.open(Method::GET, path, &[], "").await);
    let mut of_job = open(&format!("/api/v2/jobs/{id}/events")).await;
    let mut of_account = open("/api/v2/events").await;
    of_job.event("status").await;
    of_job.event("progress").await;
    of_account.event("sync").await;
    accounts.hangs.store(true, Ordering::Relaxed);
    // Two times ten seconds.
    for _ in 0..2 {
        let silence = tokio::join!(of_job.next(), of_account.next());
        assert_eq!(silence, (Frame::Comment, Frame::Comment));
    }
    (server, [of_job, of_account])
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_keeps_no_event_back() {
    let (server, [mut of_job, mut of_account]) = asked_in_vain().await;
    server.rig.claim().await;
    let (of_job, of_account) = tokio::join!(of_job.event("status"), of_account.event("job"));
    assert_eq!(of_job["status"], "running");
    assert_eq!(of_account["status"], "running");
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_no_store_that_hangs() {
    let (server, [mut of_job, mut of_account]) = asked_in_vain().await;
    let drain = async {
        sleep(Duration::from_secs(1)).await;
        server.service.drain.cancel();
        Instant::now()
    };
    let ended = async |reader: &mut Reader| (reader.next().await, Instant::now());
    let (drained, of_job, of_account) =
        tokio::join!(drain, ended(&mut of_job), ended(&mut of_account));
    assert_eq!(of_job, (Frame::End, drained));
    assert_eq!(of_account, (Frame::End, drained));
}
