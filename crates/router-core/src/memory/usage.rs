//! Reading what was called, from memory.

use std::collections::BTreeMap;

use accounts::{AccountId, KeyId, Labels};
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use jiff::Timestamp;
use uuid::Uuid;

use super::{MemoryCalls, Row, Rows};
use crate::{
    Breakdown, CallRecord, CallsError, Generation, GenerationId, GenerationUsage, ModelId,
    ModelTotal, RequestId, Unfinished, Usage, UsageCursor, UsageQuery, UsageRow,
};

#[async_trait]
impl Usage for MemoryCalls {
    async fn page(
        &self,
        query: &UsageQuery,
        after: Option<UsageCursor>,
        limit: usize,
    ) -> Result<Vec<UsageRow>, CallsError> {
        let rows = self.rows();
        let behind = |call: &&CallRecord| {
            after.is_none_or(|after| {
                (call.received_at, call.request) < (after.received_at, after.request)
            })
        };
        let newest = rows.matching(query).rev().filter(behind).take(limit);
        Ok(newest.map(|call| rows.with_generation(call)).collect())
    }

    async fn totals(
        &self,
        query: &UsageQuery,
        by: Breakdown<'_>,
    ) -> Result<Vec<ModelTotal>, CallsError> {
        let rows = self.rows();
        let mut totals = BTreeMap::new();
        for call in rows.matching(query) {
            let Some(model) = &call.model else { continue };
            let parts = parts_of(call.api_key.as_ref(), &call.labels, by);
            let total = total_of(&mut totals, &call.account, model, parts);
            total.calls += 1;
            total.succeeded += u64::from(rows.has_result(call));
            if let Some(row) = rows.generations.get(&GenerationId::from(call.request)) {
                total.generations += 1;
                total.charge_cents += row.end.as_ref().map_or(0, |end| end.charge_cents);
            }
        }
        for row in rows.unrecorded(query) {
            let Generation {
                account,
                model,
                api_key,
                labels,
                ..
            } = &row.generation;
            let parts = parts_of(api_key.as_ref(), labels, by);
            let total = total_of(&mut totals, account, model, parts);
            total.generations += 1;
            total.charge_cents += row.end.as_ref().map_or(0, |end| end.charge_cents);
        }
        Ok(totals.into_values().collect())
    }

    fn export(&self, query: UsageQuery) -> BoxStream<'static, Result<UsageRow, CallsError>> {
        let rows = self.rows();
        let calls = rows.matching(&query);
        let calls = calls.map(|call| rows.with_generation(call));
        let others = rows.unrecorded(&query).map(Row::stands_for_its_call);
        let all: Vec<_> = calls.chain(others).map(Ok).collect();
        stream::iter(all).boxed()
    }

    async fn find(
        &self,
        request: RequestId,
        (from, until): (Timestamp, Timestamp),
    ) -> Result<Option<UsageRow>, CallsError> {
        let rows = self.rows();
        let came = (from, RequestId(Uuid::nil()))..(until, RequestId(Uuid::nil()));
        let mut calls = rows.calls.range(came);
        let call = calls.find(|((_, id), _)| *id == request);
        if let Some((_, call)) = call {
            return Ok(Some(rows.with_generation(call)));
        }
        let row = rows.generations.get(&GenerationId::from(request));
        Ok(row.map(Row::stands_for_its_call))
    }

    async fn unfinished(&self) -> Result<Vec<Unfinished>, CallsError> {
        Ok(self.rows().unfinished())
    }
}

/// What has a line of its own in totals: an API key, and a value of the label.
type Parts = (Option<KeyId>, Option<String>);

type Totals = BTreeMap<(AccountId, ModelId, Parts), ModelTotal>;

fn parts_of(api_key: Option<&KeyId>, labels: &Labels, by: Breakdown<'_>) -> Parts {
    let value = by.label.and_then(|key| labels.get(key));
    (
        api_key.filter(|_| by.by_key).cloned(),
        value.map(str::to_owned),
    )
}

fn total_of<'a>(
    totals: &'a mut Totals,
    account: &AccountId,
    model: &ModelId,
    parts: Parts,
) -> &'a mut ModelTotal {
    let (api_key, label) = parts.clone();
    let entry = totals.entry((account.clone(), model.clone(), parts));
    entry.or_insert_with(|| ModelTotal {
        account: account.clone(),
        model: model.clone(),
        api_key,
        label,
        calls: 0,
        succeeded: 0,
        generations: 0,
        charge_cents: 0,
    })
}

fn fits(query: &UsageQuery, account: &AccountId, received_at: Timestamp) -> bool {
    query
        .account
        .as_ref()
        .is_none_or(|wanted| account == wanted)
        && query.from.is_none_or(|from| received_at >= from)
        && query.until.is_none_or(|until| received_at < until)
}

impl Rows {
    /// The generations that have ended and whose call is not on record.
    fn unrecorded(&self, query: &UsageQuery) -> impl Iterator<Item = &Row> {
        self.generations.values().filter(move |row| {
            let Generation {
                id,
                account,
                received_at,
                ..
            } = &row.generation;
            let place = (*received_at, RequestId(id.0));
            let is_recorded = self.calls.contains_key(&place);
            row.end.is_some() && !is_recorded && fits(query, account, *received_at)
        })
    }

    fn matching(&self, query: &UsageQuery) -> impl DoubleEndedIterator<Item = &CallRecord> {
        let query = query.clone();
        let calls = self.calls.values();
        calls.filter(move |call| fits(&query, &call.account, call.received_at))
    }

    /// Whether a call ended with a result. A submission to the queue is answered without one.
    fn has_result(&self, call: &CallRecord) -> bool {
        let row = call.generation.and_then(|id| self.generations.get(&id));
        let end = row.and_then(|row| row.end.as_ref());
        call.bucket.is_none() && end.is_some_and(|end| end.bucket.is_none())
    }

    fn with_generation(&self, call: &CallRecord) -> UsageRow {
        let row = call.generation.and_then(|id| self.generations.get(&id));
        UsageRow {
            call: call.clone(),
            generation: row.map(Row::usage),
            is_recorded: true,
        }
    }
}

impl Row {
    fn stands_for_its_call(&self) -> UsageRow {
        let Generation {
            id,
            account,
            model,
            received_at,
            api_key,
            labels,
            ..
        } = self.generation.clone();
        let call = (received_at, api_key, labels);
        UsageRow::of_generation(id, account, model, call, self.usage())
    }

    fn usage(&self) -> GenerationUsage {
        GenerationUsage {
            task_id: self.task_id.clone(),
            dispatched_at: self.generation.dispatched_at,
            accepted_at: self.accepted.as_ref().map(|accepted| accepted.at),
            settled_at: self.end.as_ref().map(|end| end.at),
            bucket: self.end.as_ref().and_then(|end| end.bucket),
            hold_cents: self.generation.hold_cents,
            charge_cents: self.end.as_ref().map(|end| end.charge_cents),
            serving: self.generation.serving.clone(),
        }
    }
}
