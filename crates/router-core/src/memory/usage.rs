//! Reading what was called, from memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};

use super::{MemoryCalls, Row, Rows};
use crate::{
    CallRecord, CallsError, GenerationId, GenerationUsage, ModelTotal, Usage, UsageCursor,
    UsageQuery, UsageRow,
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

    async fn totals(&self, query: &UsageQuery) -> Result<Vec<ModelTotal>, CallsError> {
        let rows = self.rows();
        let mut totals = BTreeMap::new();
        for call in rows.matching(query) {
            let Some(model) = &call.model else { continue };
            let total = totals
                .entry((call.account.clone(), model.clone()))
                .or_insert_with(|| ModelTotal {
                    account: call.account.clone(),
                    model: model.clone(),
                    calls: 0,
                    succeeded: 0,
                    generations: 0,
                    charge_cents: 0,
                });
            total.calls += 1;
            total.succeeded += u64::from(call.bucket.is_none());
            if let Some(row) = rows.generations.get(&GenerationId::from(call.request)) {
                total.generations += 1;
                total.charge_cents += row.end.as_ref().map_or(0, |end| end.charge_cents);
            }
        }
        Ok(totals.into_values().collect())
    }

    fn export(&self, query: UsageQuery) -> BoxStream<'static, Result<UsageRow, CallsError>> {
        let rows = self.rows();
        let all: Vec<_> = rows
            .matching(&query)
            .map(|call| Ok(rows.with_generation(call)))
            .collect();
        stream::iter(all).boxed()
    }
}

impl Rows {
    fn matching(&self, query: &UsageQuery) -> impl DoubleEndedIterator<Item = &CallRecord> {
        let query = query.clone();
        self.calls.values().filter(move |call| {
            query
                .account
                .as_ref()
                .is_none_or(|account| call.account == *account)
                && query.from.is_none_or(|from| call.received_at >= from)
                && query.until.is_none_or(|until| call.received_at < until)
        })
    }

    fn with_generation(&self, call: &CallRecord) -> UsageRow {
        let row = call.generation.and_then(|id| self.generations.get(&id));
        UsageRow {
            call: call.clone(),
            generation: row.map(Row::usage),
        }
    }
}

impl Row {
    fn usage(&self) -> GenerationUsage {
        GenerationUsage {
            task_id: self.task_id.clone(),
            dispatched_at: self.generation.dispatched_at,
            accepted_at: self.accepted.as_ref().map(|accepted| accepted.at),
            settled_at: self.end.as_ref().map(|end| end.at),
            bucket: self.end.as_ref().and_then(|end| end.bucket),
            hold_cents: self.generation.hold_cents,
            charge_cents: self.end.as_ref().map(|end| end.charge_cents),
        }
    }
}
