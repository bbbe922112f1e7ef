//! What jobs make: rows of the job, records of the account and holds, in one transaction.

use std::collections::{BTreeMap, HashMap, HashSet};

use accounts::AccountId;
use asset_store::FilePath;
use deadpool_postgres::GenericClient;
use workflow_core::{Job, JobId, NewOutput, OutputName, SaveJob};

use super::rows::Row;
use super::save::NextState;
use super::{documents, records};
use crate::DatabaseError;
use crate::records::rows::{lock_accounts, next_numbers, taken};
use crate::statements::{execute, whole};

/// The names that a transaction gives to outputs, and the bytes that they take.
pub(super) struct Names {
    given: HashSet<(AccountId, FilePath)>,
    stored_bytes: HashMap<AccountId, u64>,
}

impl Names {
    /// Locks the accounts whose records the saves may change.
    pub(super) async fn of(
        transaction: &impl GenericClient,
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

    /// Counts the bytes of an output that will be kept.
    pub(super) fn count(&mut self, account: &AccountId, output: &NewOutput) {
        *self.stored_bytes.entry(account.clone()).or_default() += output.size_bytes;
    }

    /// The names of outputs that will be kept, in their order. Usually this is one change for each counter and one look for all of
    /// them.
    pub(super) async fn give(
        &mut self,
        transaction: &impl GenericClient,
        outputs: &[(&Job, &NewOutput)],
    ) -> Result<Vec<FilePath>, DatabaseError> {
        let mut paths = vec![None; outputs.len()];
        let mut counted: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        for (place, (job, output)) in outputs.iter().enumerate() {
            if let OutputName::Counted { counter, .. } = &output.name {
                let of_counter = counted.entry((job.account.as_str(), counter));
                of_counter.or_default().push(place);
            } else {
                let path = path(output, 0);
                self.given.insert((job.account.clone(), path.clone()));
                paths[place] = Some(path);
            }
        }
        let asked = counted.iter();
        let asked = asked.map(|((account, counter), of)| (*account, *counter, whole(of.len())));
        let first = next_numbers(transaction, &asked.collect::<Vec<_>>()).await?;
        let mut wanted = Vec::new();
        for (of, first) in counted.values().zip(&first) {
            for (place, number) in of.iter().zip(*first..) {
                let (job, output) = outputs[*place];
                wanted.push((&job.account, path(output, number), job.updated_at));
            }
        }
        let taken = taken(transaction, &wanted).await?;
        // Of each counter: numbers that are not used up, and whether the look was for the next of them.
        let mut left = HashMap::new();
        for ((counter, of), first) in counted.iter().zip(first) {
            left.insert(*counter, (first..first + of.len() as u64, true));
        }
        // In their order, in which they avoid each other's names.
        for (place, (job, output)) in outputs.iter().enumerate() {
            let OutputName::Counted { counter, .. } = &output.name else {
                continue;
            };
            let counter = (job.account.as_str(), counter.as_str());
            let (numbers, is_looked_up) = left.get_mut(&counter).expect("it was counted");
            paths[place] = loop {
                let number = match numbers.next() {
                    Some(number) => number,
                    None => next_numbers(transaction, &[(counter.0, counter.1, 1)]).await?[0],
                };
                let path = path(output, number);
                let name = (job.account.clone(), path);
                let is_taken = match *is_looked_up {
                    true => taken.contains(&name),
                    false => is_taken(transaction, job, &name.1).await?,
                };
                if !is_taken && self.given.insert(name.clone()) {
                    break Some(name.1);
                }
                // From here on the numbers are those of other outputs, so that outputs keep their order.
                *is_looked_up = false;
            };
        }
        Ok(paths.into_iter().flatten().collect())
    }
}

fn path(output: &NewOutput, number: u64) -> FilePath {
    let path = output.name.path(number);
    path.expect("a sink refuses a name that is no path")
}

async fn is_taken(
    transaction: &impl GenericClient,
    job: &Job,
    path: &FilePath,
) -> Result<bool, DatabaseError> {
    let wanted = [(&job.account, path.clone(), job.updated_at)];
    Ok(!taken(transaction, &wanted).await?.is_empty())
}

/// Keeps the new outputs of jobs, the last ones of each, and makes their records.
pub(super) async fn put(
    transaction: &impl GenericClient,
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
    transaction: &impl GenericClient,
    next: &[NextState],
) -> Result<(), DatabaseError> {
    let jobs = next.iter().map(|state| &state.row.job);
    let ended = jobs.filter(|job| job.status.is_terminal() && !job.outputs.is_empty());
    let accounts: Vec<&AccountId> = ended.map(|job| &job.account).collect();
    locked(transaction, &accounts).await?;
    Ok(())
}

async fn locked(
    transaction: &impl GenericClient,
    accounts: &[&AccountId],
) -> Result<HashMap<AccountId, u64>, DatabaseError> {
    match accounts.is_empty() {
        true => Ok(HashMap::new()),
        false => lock_accounts(transaction, accounts).await,
    }
}
