//! What jobs make: rows of the job, records of the account and holds, in one transaction.

use std::collections::{HashMap, HashSet};

use accounts::AccountId;
use asset_store::{AssetQuery, FilePath};
use deadpool_postgres::Transaction;
use workflow_core::{Job, JobId, JobOutput, NewOutput, OutputName, SaveJob};

use super::rows::Row;
use super::save::NextState;
use super::{documents, records};
use crate::DatabaseError;
use crate::records::rows::{find, lock_accounts, next_number};
use crate::statements::{execute, whole};

/// The names that a transaction gives to outputs, and the bytes that they take.
pub(super) struct Names {
    given: HashSet<(AccountId, FilePath)>,
    stored_bytes: HashMap<AccountId, u64>,
}

impl Names {
    /// Locks the accounts whose records the saves may change.
    pub(super) async fn of(
        transaction: &Transaction<'_>,
        saves: &[SaveJob],
        known: &HashMap<JobId, Row>,
    ) -> Result<Self, DatabaseError> {
        let counts = saves.iter().filter(|save| {
            let row = known.get(&save.job.id);
            row.is_some_and(|row| save.follows(&row.job))
        });
        let mut accounts = Vec::new();
        for save in counts {
            let account = &save.job.account;
            if save.has_new_outputs()
                || (save.job.status.is_terminal() && !save.job.outputs.is_empty())
            {
                accounts.push(account);
            }
        }
        Ok(Self {
            given: HashSet::new(),
            stored_bytes: locked(transaction, &accounts).await?,
        })
    }

    /// What an account has stored, with what the transaction adds.
    pub(super) fn stored_bytes(&self, account: &AccountId) -> u64 {
        self.stored_bytes.get(account).copied().unwrap_or(0)
    }

    /// An output with its name: a counted one is the next that no live record of the account has.
    pub(super) async fn named(
        &mut self,
        transaction: &Transaction<'_>,
        job: &Job,
        output: NewOutput,
    ) -> Result<JobOutput, DatabaseError> {
        let account = &job.account;
        let path = loop {
            let number = match &output.name {
                OutputName::Counted { counter, .. } => {
                    next_number(transaction, account, counter).await?
                }
                OutputName::Fixed(_) => 0,
            };
            let path = output.name.path(number);
            let path = path.expect("a sink refuses a name that is no path");
            let given = (account.clone(), path);
            if number == 0 {
                break given;
            }
            let is_taken = self.given.contains(&given) || {
                let query = AssetQuery::Path(given.1.clone());
                let found = find(transaction, account, &query, job.updated_at).await?;
                found.is_some()
            };
            if !is_taken {
                break given;
            }
        };
        *self.stored_bytes.entry(account.clone()).or_default() += output.size_bytes;
        self.given.insert(path.clone());
        Ok(output.committed(path.1))
    }
}

/// Keeps the new outputs of jobs, the last ones of each, and makes their records.
pub(super) async fn put(
    transaction: &Transaction<'_>,
    next: &[NextState],
) -> Result<(), DatabaseError> {
    let (mut jobs, mut numbers, mut texts, mut outputs) = (vec![], vec![], vec![], vec![]);
    for state in next {
        let (job, new) = (&state.row.job, state.outputs());
        let first = job.outputs.len() - new.len();
        for (place, output) in (first..).zip(new) {
            jobs.push(job.id.0);
            numbers.push(whole(place));
            texts.push(documents::write_output(output));
            outputs.push((job, output));
        }
    }
    if outputs.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO job_outputs (job, number, document)
        SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[])";
    execute(transaction, sql, &[&jobs, &numbers, &texts]).await?;
    records::put_outputs(transaction, &outputs).await
}

/// Locks what accounts have stored whose jobs end with outputs: their records will change.
pub(super) async fn lock_ends(
    transaction: &Transaction<'_>,
    next: &[NextState],
) -> Result<(), DatabaseError> {
    let jobs = next.iter().map(|state| &state.row.job);
    let ended = jobs.filter(|job| job.status.is_terminal() && !job.outputs.is_empty());
    let accounts: Vec<&AccountId> = ended.map(|job| &job.account).collect();
    locked(transaction, &accounts).await?;
    Ok(())
}

async fn locked(
    transaction: &Transaction<'_>,
    accounts: &[&AccountId],
) -> Result<HashMap<AccountId, u64>, DatabaseError> {
    match accounts.is_empty() {
        true => Ok(HashMap::new()),
        false => lock_accounts(transaction, accounts).await,
    }
}
