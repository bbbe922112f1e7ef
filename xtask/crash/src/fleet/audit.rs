//! What the database accepted: triggers write every change of a job and of a claim down, in the transaction that makes it.
//!
//! A client cannot see claims and revisions, and the program's own record of them is what is judged. Changes of one job have the
//! order of their commits, since its row is locked; claims of all jobs have it, since one transaction claims at a time.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant, SystemTime};

use store_cloud::testing::PostgresServer;

/// A change that the database accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A revision of a job.
    Saved {
        job: String,
        revision: i64,
        status: String,
        epoch: i64,
    },
    /// A claim began to count.
    Claimed {
        job: String,
        account: String,
        epoch: i64,
    },
    /// A claim counts no more.
    Left { job: String, account: String },
}

/// An entry of the ledger for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bill {
    /// The generation, in digits alone.
    pub(super) generation: String,
    pub(super) cents: i64,
}

/// The database of the installation.
pub(super) const DATABASE: &str = "postgres";

const TRIGGERS: &str = "
CREATE TABLE campaign_audit (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL, job uuid NOT NULL, account text NOT NULL,
    revision bigint NOT NULL, status text NOT NULL, epoch bigint NOT NULL
);
CREATE FUNCTION campaign_saved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO campaign_audit (kind, job, account, revision, status, epoch)
    VALUES ('saved', NEW.id, NEW.account, NEW.revision, NEW.status, NEW.epoch);
    RETURN NULL;
END $$;
CREATE FUNCTION campaign_claimed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO campaign_audit (kind, job, account, revision, status, epoch)
        VALUES ('left', OLD.job, OLD.account, 0, '', OLD.epoch);
    ELSIF TG_OP = 'INSERT' OR NEW.epoch <> OLD.epoch THEN
        INSERT INTO campaign_audit (kind, job, account, revision, status, epoch)
        VALUES ('claimed', NEW.job, NEW.account, 0, '', NEW.epoch);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER campaign_saved AFTER INSERT OR UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION campaign_saved();
CREATE TRIGGER campaign_saved AFTER INSERT OR UPDATE ON jobs_over FOR EACH ROW EXECUTE FUNCTION campaign_saved();
CREATE TRIGGER campaign_claimed AFTER INSERT OR UPDATE OR DELETE ON job_runs FOR EACH ROW EXECUTE FUNCTION campaign_claimed();
";

/// Begins to write changes down.
pub(super) async fn begin(database: &PostgresServer) {
    database.execute(DATABASE, TRIGGERS).await;
}

/// Everything that was written down, oldest first.
pub(super) async fn changes(database: &PostgresServer) -> io::Result<Vec<Change>> {
    let sql = "SELECT kind, job, account, revision, status, epoch FROM campaign_audit ORDER BY seq";
    let rows = database.query(DATABASE, sql).await;
    rows.iter().map(|row| change(row)).collect()
}

fn change(row: &[String]) -> io::Result<Change> {
    let [kind, job, account, revision, status, epoch] = row else {
        return Err(io::Error::other(format!("{row:?} is no change")));
    };
    let number = |text: &String| text.parse::<i64>().map_err(io::Error::other);
    let (job, account) = (job.clone(), account.clone());
    Ok(match kind.as_str() {
        "saved" => Change::Saved {
            job,
            revision: number(revision)?,
            status: status.clone(),
            epoch: number(epoch)?,
        },
        "claimed" => Change::Claimed {
            job,
            account,
            epoch: number(epoch)?,
        },
        _ => Change::Left { job, account },
    })
}

/// The generations that ended without a handle of the partner's, each with when that was: nobody could ask after their tasks any more.
pub(super) async fn given_up(database: &PostgresServer) -> io::Result<HashMap<String, Instant>> {
    let sql =
        "SELECT replace(id::text, '-', ''), settled_at FROM generations WHERE accepted_at IS NULL";
    let rows = database.query(DATABASE, sql).await;
    let (now, time) = (Instant::now(), SystemTime::now());
    let given_up = |row: &Vec<String>| {
        let micros = row[1].parse().map_err(io::Error::other)?;
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(micros);
        let ago = time.duration_since(at).unwrap_or_default();
        let at = now
            .checked_sub(ago)
            .ok_or("it ended before the machine began");
        Ok((row[0].clone(), at.map_err(io::Error::other)?))
    };
    rows.iter().map(given_up).collect()
}

/// What calls were billed.
pub(super) async fn bills(database: &PostgresServer) -> io::Result<Vec<Bill>> {
    // A bill takes cents away; credits that were granted add some.
    let sql = "SELECT replace(cause::text, '-', ''), -amount_cents FROM ledger WHERE amount_cents < 0 ORDER BY account, seq";
    let rows = database.query(DATABASE, sql).await;
    let bill = |row: &Vec<String>| {
        Ok(Bill {
            generation: row[0].clone(),
            cents: row[1].parse().map_err(io::Error::other)?,
        })
    };
    rows.iter().map(bill).collect()
}

/// How many claims were lost with their workers.
pub(super) async fn lost_claims(database: &PostgresServer) -> u64 {
    let sql = "SELECT coalesce(sum(lost_claims), 0) FROM (SELECT lost_claims FROM jobs UNION ALL SELECT lost_claims FROM jobs_over) AS all_jobs";
    let rows = database.query(DATABASE, sql).await;
    rows.first()
        .and_then(|row| row.first()?.parse().ok())
        .unwrap_or(0)
}
