//! The bytes of one file: what the disk has for certain, and every state since then.
//!
//! A page that was written and not synced has a list of states. The page cache of a kernel may have written any of them to the
//! disk, and the disk may have finished any sector of it; so a cut finds one state per page or per sector, never a later write
//! without the earlier ones to the same sector. The size has a list of states of its own: a file may grow without its bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fate::{Fate, SECTOR_BYTES};

/// Bytes of a page of the page cache.
pub(super) const PAGE_BYTES: usize = 4096;

/// States of one page that are remembered; beyond them one in the middle is forgotten, which only makes a cut milder.
const MOST_STATES: usize = 32;

type Page = Arc<[u8; PAGE_BYTES]>;

/// What a page was changed to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    page: Page,
    /// For what a truncation took: which of the later sizes it made, counted from 1. A truncation is one change, so a cut that
    /// finds an earlier size finds the bytes, too: file systems free blocks no earlier than they note the size.
    truncated_to: Option<usize>,
}

/// The bytes of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Pages on the disk; what is missing is zeros.
    durable: BTreeMap<u64, Page>,
    durable_size: u64,
    /// The later states of pages, the oldest first.
    states: BTreeMap<u64, Vec<State>>,
    /// The later sizes, the oldest first.
    sizes: Vec<u64>,
}

impl Content {
    /// The size that programs see.
    pub(super) fn size(&self) -> u64 {
        self.sizes.last().copied().unwrap_or(self.durable_size)
    }

    /// The bytes that programs see; fewer at the end of the file.
    pub(super) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = self.size().min(offset.saturating_add(length as u64));
        let mut bytes = Vec::with_capacity(length);
        for piece in pieces(offset, end) {
            match self.page(piece.page) {
                Some(page) => bytes.extend_from_slice(&page[piece.from..piece.to]),
                None => bytes.resize(bytes.len() + piece.to - piece.from, 0),
            }
        }
        bytes
    }

    /// Writes bytes, which no cut has to spare before the next [`Content::sync`].
    pub(super) fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        for piece in pieces(offset, end) {
            let (now, rest) = bytes.split_at(piece.to - piece.from);
            self.change_page(piece.page, None, |page| {
                page[piece.from..piece.to].copy_from_slice(now);
            });
            bytes = rest;
        }
        if end > self.size() {
            self.sizes.push(end);
        }
    }

    /// Cuts the file, or lets it grow by zeros.
    pub(super) fn resize(&mut self, size: u64) {
        if size < self.size() {
            let first = size / PAGE_BYTES as u64;
            let kept = usize::try_from(size % PAGE_BYTES as u64).unwrap_or(0);
            let there = self.durable.range(first..).map(|(number, _)| *number);
            let mut behind: Vec<u64> = there.collect();
            behind.extend(self.states.range(first..).map(|(number, _)| *number));
            behind.sort_unstable();
            behind.dedup();
            for number in behind {
                let from = if number == first { kept } else { 0 };
                let made = Some(self.sizes.len() + 1);
                self.change_page(number, made, |page| page[from..].fill(0));
            }
        }
        if size != self.size() {
            self.sizes.push(size);
        }
    }

    /// Makes everything durable.
    pub(super) fn sync(&mut self) {
        for (number, states) in std::mem::take(&mut self.states) {
            self.durable
                .extend(states.last().map(|state| (number, Arc::clone(&state.page))));
        }
        self.durable_size = self.size();
        self.sizes.clear();
        self.drop_behind_the_end();
    }

    /// Whether something of it would be in doubt at a cut.
    pub(super) fn is_synced(&self) -> bool {
        self.states.is_empty() && self.sizes.is_empty()
    }

    /// The power is cut: one of the possible states is what the disk has.
    pub(super) fn cut(&mut self, fate: &mut Fate) {
        let sized = fate.state(self.sizes.len());
        let size = match sized {
            0 => self.durable_size,
            state => self.sizes[state - 1],
        };
        for (number, states) in std::mem::take(&mut self.states) {
            let later = states
                .into_iter()
                .take_while(|state| state.truncated_to.is_none_or(|made| made <= sized));
            let states: Vec<Page> = later.map(|state| state.page).collect();
            let found = self.found(number, &states, fate);
            self.durable.insert(number, found);
        }
        self.sizes.clear();
        self.durable_size = size;
        self.drop_behind_the_end();
    }

    /// The state of a page that a cut finds.
    fn found(&self, number: u64, states: &[Page], fate: &mut Fate) -> Page {
        let durable = self.durable.get(&number);
        let whole = (!fate.tears()).then(|| fate.state(states.len()));
        let mut found = [0; PAGE_BYTES];
        for (index, sector) in found.chunks_exact_mut(SECTOR_BYTES).enumerate() {
            let from = index * SECTOR_BYTES;
            let part = from..from + SECTOR_BYTES;
            let at = number * PAGE_BYTES as u64 + from as u64;
            let state = whole.unwrap_or_else(|| fate.state(states.len()));
            match (state, durable) {
                (0, Some(page)) => sector.copy_from_slice(&page[part]),
                // Only what a program wrote beyond the end can be rubbish there: a hole is zeros.
                (0, None) if at >= self.durable_size && is_written(states, &part) => {
                    sector.copy_from_slice(&fate.unwritten());
                }
                (0, None) => {}
                (state, _) => sector.copy_from_slice(&states[state - 1][part]),
            }
        }
        Arc::new(found)
    }

    /// The page that programs see; `None` where it is zeros.
    fn page(&self, number: u64) -> Option<&Page> {
        let newest = self.states.get(&number).and_then(|states| states.last());
        newest
            .map(|state| &state.page)
            .or_else(|| self.durable.get(&number))
    }

    fn change_page(
        &mut self,
        number: u64,
        truncated_to: Option<usize>,
        change: impl FnOnce(&mut [u8; PAGE_BYTES]),
    ) {
        let mut page = self.page(number).map_or([0; PAGE_BYTES], |page| **page);
        change(&mut page);
        let states = self.states.entry(number).or_default();
        if states.len() >= MOST_STATES {
            states.remove(states.len() / 2);
        }
        states.push(State {
            page: Arc::new(page),
            truncated_to,
        });
    }

    /// What lies behind the end reads as zeros when the file grows again.
    fn drop_behind_the_end(&mut self) {
        let kept = usize::try_from(self.durable_size % PAGE_BYTES as u64).unwrap_or(0);
        let first = self.durable_size / PAGE_BYTES as u64;
        let mut behind = self.durable.split_off(&first);
        if let Some(page) = behind.get_mut(&first).filter(|_| kept > 0) {
            let mut cut = **page;
            cut[kept..].fill(0);
            self.durable.insert(first, Arc::new(cut));
        }
    }
}

/// Whether any state has something there.
fn is_written(states: &[Page], part: &std::ops::Range<usize>) -> bool {
    let mut parts = states.iter().map(|page| &page[part.clone()]);
    parts.any(|bytes| bytes.iter().any(|byte| *byte != 0))
}

/// A part of a page.
struct Piece {
    page: u64,
    from: usize,
    to: usize,
}

/// The pages between two places of a file.
fn pieces(offset: u64, end: u64) -> impl Iterator<Item = Piece> {
    let page_bytes = PAGE_BYTES as u64;
    let within = |place: u64| usize::try_from(place).unwrap_or(PAGE_BYTES).min(PAGE_BYTES);
    let pages = match offset < end {
        true => offset / page_bytes..end.div_ceil(page_bytes),
        false => 0..0,
    };
    pages.map(move |page| {
        let start = page * page_bytes;
        Piece {
            page,
            from: within(offset.saturating_sub(start)),
            to: within(end - start),
        }
    })
}

#[cfg(test)]
mod tests;
