//! Rows of changes: of one change each, or of several jobs with what their runs reported.

use accounts::AccountId;
use deadpool_postgres::GenericClient;
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;
use uuid::Uuid;
use workflow_core::{Change, ChangeKind, Job, JobId, JobStatus, Report};

use super::documents::ReportDocument;
use super::reports::Passed;
use crate::DatabaseError;
use crate::columns::{parse, unreadable, unsigned};
use crate::jobs::documents;
use crate::statements::{execute, whole};

/// How large a packed row grows: one that is larger would be compressed and stored apart.
const ROW_BYTES: usize = 1_800;

/// How large the reports of a job in a row are together, where they are more than one.
const DOCUMENT_BYTES: usize = 64 << 10;

/// A change whose status is none.
#[derive(Debug, thiserror::Error)]
#[error("a change has a status or a report")]
struct UnknownChange;

/// News of a job that are written together.
pub(super) struct JobNews<'a> {
    pub(super) job: JobId,
    pub(super) account: &'a AccountId,
    /// What its run reported,
    pub(super) reports: Vec<&'a Passed>,
    /// and what was saved after that: the revision and its status.
    pub(super) saved: Option<(u64, JobStatus)>,
}

/// The same in a packed row: the job, its account, what was saved, what was reported.
#[derive(Serialize, Deserialize)]
struct JobNewsDocument<R>(Uuid, String, Option<(u64, String)>, Vec<R>);

/// Columns of rows that are to be added.
#[derive(Default)]
struct Rows<'a> {
    jobs: Vec<Uuid>,
    accounts: Vec<&'a str>,
    revisions: Vec<Option<i64>>,
    statuses: Vec<Option<&'static str>>,
    reports: Vec<Option<String>>,
}

impl<'a> JobNews<'a> {
    /// A revision of a job, after the reports of its run that came before it. Of reports of progress only the newest stays.
    pub(super) fn saved(job: &'a Job, reports: &'a [Passed]) -> Self {
        let newest = reports.iter().rposition(|report| report.is_progress);
        let reports = reports.iter().enumerate();
        let reports = reports.filter(|(n, report)| !report.is_progress || Some(*n) == newest);
        Self {
            job: job.id,
            account: &job.account,
            reports: reports.map(|(_, report)| report).collect(),
            saved: Some((job.revision, job.status)),
        }
    }

    /// One document, or several where the reports are large.
    fn documents(&self) -> Vec<String> {
        let (mut all, mut list) = (Vec::new(), String::new());
        for report in &self.reports {
            if !list.is_empty() && list.len() + report.text.len() > DOCUMENT_BYTES {
                all.push(self.document(&std::mem::take(&mut list), None));
            }
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(&report.text);
        }
        all.push(self.document(&list, self.saved));
        all
    }

    /// A document with this list of reports, which are documents already.
    fn document(&self, reports: &str, saved: Option<(u64, JobStatus)>) -> String {
        let saved = saved.map(|(revision, status)| (revision, status.name().to_owned()));
        let account = self.account.as_str().to_owned();
        let mut text = documents::write(&JobNewsDocument::<()>(self.job.0, account, saved, vec![]));
        // In place of the empty list.
        text.truncate(text.len() - "]]".len());
        text + reports + "]]"
    }
}

impl<'a> Rows<'a> {
    fn push(
        &mut self,
        (job, account): (Uuid, &'a str),
        saved: Option<(u64, JobStatus)>,
        report: Option<String>,
    ) {
        self.jobs.push(job);
        self.accounts.push(account);
        self.revisions
            .push(saved.map(|(revision, _)| whole(revision)));
        self.statuses.push(saved.map(|(_, status)| status.name()));
        self.reports.push(report);
    }

    /// One change in a row.
    fn single(told: &'a [JobNews<'a>]) -> Self {
        let mut rows = Self::default();
        for one in told {
            let whose = (one.job.0, one.account.as_str());
            for report in &one.reports {
                rows.push(whose, None, Some(report.text.clone()));
            }
            if one.saved.is_some() {
                rows.push(whose, one.saved, None);
            }
        }
        rows
    }

    /// As many changes in a row as fit.
    fn packed(told: &[JobNews<'_>]) -> Self {
        let (mut rows, mut text) = (Self::default(), String::new());
        for document in told.iter().flat_map(JobNews::documents) {
            if !text.is_empty() && text.len() + document.len() > ROW_BYTES {
                rows.push((Uuid::nil(), ""), None, Some(text + "]"));
                text = String::new();
            }
            text.push(if text.is_empty() { '[' } else { ',' });
            text.push_str(&document);
        }
        if !text.is_empty() {
            rows.push((Uuid::nil(), ""), None, Some(text + "]"));
        }
        rows
    }
}

/// Adds news of a replica to the changes, in their order and in this form.
pub(super) async fn write(
    transaction: &impl GenericClient,
    replica: Uuid,
    is_packed: bool,
    told: &[JobNews<'_>],
) -> Result<(), DatabaseError> {
    let rows = match is_packed {
        true => Rows::packed(told),
        false => Rows::single(told),
    };
    // Numbered in this order.
    let sql = "INSERT INTO job_changes (replica, job, account, revision, status, report)
        SELECT $1::uuid, n.*
        FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::text[]) AS n";
    execute(
        transaction,
        sql,
        &[
            &replica,
            &rows.jobs,
            &rows.accounts,
            &rows.revisions,
            &rows.statuses,
            &rows.reports,
        ],
    )
    .await?;
    Ok(())
}

/// The changes of a row that was read from its third column on: job, account, revision, status and report.
pub(super) fn read(row: &Row) -> Result<Vec<Change>, DatabaseError> {
    let job: Uuid = row.try_get(4)?;
    let (revision, status): (Option<i64>, Option<&str>) = (row.try_get(6)?, row.try_get(7)?);
    let report: Option<&str> = row.try_get(8)?;
    if let (true, Some(text)) = (job.is_nil(), report) {
        return unpack(text);
    }
    let status = status.and_then(JobStatus::from_name);
    let kind = match (revision, status, report) {
        (Some(revision), Some(status), _) => ChangeKind::Saved {
            revision: unsigned(revision)?,
            status,
        },
        (_, _, Some(report)) => {
            let report: ReportDocument = documents::read(report)?;
            ChangeKind::Reported(Report::from(report))
        }
        _ => return Err(unreadable(UnknownChange)),
    };
    Ok(vec![Change {
        job: JobId(job),
        account: parse(row.try_get(5)?)?,
        kind,
    }])
}

fn unpack(text: &str) -> Result<Vec<Change>, DatabaseError> {
    let documents: Vec<JobNewsDocument<ReportDocument>> = documents::read(text)?;
    let mut changes = Vec::with_capacity(documents.len());
    for JobNewsDocument(job, account, saved, reports) in documents {
        let account: AccountId = parse(&account)?;
        let mut add = |kind| {
            changes.push(Change {
                job: JobId(job),
                account: account.clone(),
                kind,
            });
        };
        for report in reports {
            add(ChangeKind::Reported(Report::from(report)));
        }
        if let Some((revision, status)) = saved {
            let status = JobStatus::from_name(&status);
            let status = status.ok_or_else(|| unreadable(UnknownChange))?;
            add(ChangeKind::Saved { revision, status });
        }
    }
    Ok(changes)
}
