//! Faults that no program may make, brought about behind its back: each shows that the checker can fail.

use clap::ValueEnum;
use store_cloud::testing::PostgresServer;

use super::audit::DATABASE;
use super::checker::Kind;

/// A fault that the checker has to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Witness {
    /// A worker whose claim does not count any more saves a job that is over.
    Zombie,
    /// A job is claimed twice with one epoch.
    Claim,
    /// A job that was acknowledged is gone.
    Lost,
    /// A call is billed twice.
    Bill,
}

impl Witness {
    /// How the checker reports it.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Zombie => Kind::Zombie,
            Self::Claim => Kind::Doubled,
            Self::Lost => Kind::Lost,
            Self::Bill => Kind::Bill,
        }
    }

    /// Brings it about, once every job is over.
    pub(super) async fn inject(self, database: &PostgresServer) {
        let sql = match self {
            Self::Zombie => {
                "UPDATE jobs_over SET revision = revision + 1, epoch = epoch - 1
                 WHERE id = (SELECT id FROM jobs_over WHERE epoch > 0 LIMIT 1)"
            }
            Self::Claim => {
                "INSERT INTO job_runs (job, account, epoch, lease_until)
                 SELECT id, account, epoch, 0 FROM jobs_over WHERE epoch > 0 LIMIT 1"
            }
            Self::Lost => "DELETE FROM jobs_over WHERE id = (SELECT id FROM jobs_over LIMIT 1)",
            // Under another reason, which the rows allow.
            Self::Bill => {
                "INSERT INTO ledger (account, seq, why, cause, amount_cents, at)
                 SELECT account, 1000000000, why + 100, cause, amount_cents, at FROM ledger WHERE amount_cents < 0 LIMIT 1"
            }
        };
        database.execute(DATABASE, sql).await;
    }
}
