//! Runs a program over a text: in Python's order of preference, one instruction at a time, with a budget of steps.
//!
//! Where nothing in a pattern refers back to a group, whether an instruction leads to a match depends on the position alone. A
//! split that was tried at a position and failed is then not tried there again, so one search takes at most as many steps as
//! the program has instructions times characters of the text. Elsewhere the matcher backtracks, and the budget ends it.
//!
//! A loop's last turn may match nothing at a position that the turn before has tried already. That changes no match, but what
//! its groups note. Where that can be, a match is made once more without the memory of what was tried.

use super::PatternError;
use super::program::{Anchor, Instruction, Program};
use super::set::CharSet;
use super::visited::Visited;

/// Steps of all searches of one call: about a second. A step is one instruction at one position.
pub(crate) const MAX_STEPS: u64 = 1 << 27;

/// Instructions of a pattern times bytes of a text. A table of one bit for each, at most 32 MiB, says what was tried.
pub(crate) const MAX_STATES: usize = 1 << 28;

/// Steps between two looks at whether the job is to stop: less than a millisecond.
const SLICE_STEPS: u32 = 1 << 16;

/// Places to go back to, and values to set back: 12 bytes each, 48 MiB.
const MAX_FRAMES: usize = 1 << 22;

/// A slot that nothing was noted in.
const UNSET: u32 = u32::MAX;

/// Searches of one text for one pattern; together they have [`MAX_STEPS`].
pub(super) struct Search<'a> {
    program: &'a Program,
    text: &'a str,
    slots: Vec<u32>,
    frames: Vec<Frame>,
    visited: Visited,
    /// Steps until the next look at whether to stop.
    slice: u32,
    slices_left: u64,
    is_stopped: &'a dyn Fn() -> bool,
}

/// What is to be done when an attempt fails.
#[derive(Clone, Copy)]
enum Frame {
    /// Try this.
    Branch { next: u32, at: u32 },
    /// Set a slot back.
    Restore { slot: u32, value: u32 },
}

impl<'a> Search<'a> {
    /// # Errors
    /// If the text is too long for the program.
    pub(super) fn new(
        program: &'a Program,
        text: &'a str,
        is_stopped: &'a dyn Fn() -> bool,
    ) -> Result<Self, PatternError> {
        let states = program.code.len().saturating_mul(text.len() + 1);
        if states > MAX_STATES {
            return Err(PatternError::TooManyStates {
                instructions: program.code.len(),
                bytes: text.len(),
            });
        }
        let rows = if program.is_regular {
            program.splits
        } else {
            0
        };
        Ok(Self {
            program,
            text,
            slots: vec![UNSET; program.slots],
            frames: Vec::new(),
            visited: Visited::new(rows, text.len() + 1),
            slice: SLICE_STEPS,
            slices_left: MAX_STEPS / u64::from(SLICE_STEPS),
            is_stopped,
        })
    }

    /// Looks for the first match from a position on; if `advance` is set, one there must take something.
    ///
    /// # Errors
    /// If the steps are used up or the job is to stop.
    pub(super) fn find(&mut self, from: usize, advance: bool) -> Result<bool, PatternError> {
        self.slots.fill(UNSET);
        self.frames.clear();
        self.visited.clear();
        let refused = advance.then_some(from);
        let mut start = from;
        loop {
            let mut end = self.run(0, start, refused)?;
            if end.is_some() && self.program.has_empty_groups && self.program.is_regular {
                self.slots.fill(UNSET);
                self.frames.clear();
                self.visited.pause(true);
                end = self.run(0, start, refused)?;
                self.visited.pause(false);
            }
            if let Some(end) = end {
                (self.slots[0], self.slots[1]) = (start as u32, end as u32);
                return Ok(true);
            }
            match self.char_at(start) {
                Some((_, next)) => start = next,
                None => return Ok(false),
            }
        }
    }

    /// Where a group matched, if it took part in the match.
    pub(super) fn group(&self, group: usize) -> Option<(usize, usize)> {
        if group >= self.program.groups {
            return None;
        }
        let (start, end) = (self.slots[2 * group], self.slots[2 * group + 1]);
        (start != UNSET && end != UNSET).then_some((start as usize, end as usize))
    }

    /// Follows instructions until the pattern or the body ends; answers where. On failure everything is as before. A match
    /// that ends at `refused` does not count.
    fn run(
        &mut self,
        mut next: usize,
        mut at: usize,
        refused: Option<usize>,
    ) -> Result<Option<usize>, PatternError> {
        let program = self.program;
        let base = self.frames.len();
        loop {
            self.spend(1)?;
            let goes_on = match &program.code[next] {
                Instruction::Char(wanted) => self.take(next, at, |taken| taken == *wanted),
                Instruction::Set(set) => {
                    let set = &program.sets[*set];
                    self.take(next, at, |taken| set.contains(taken))
                }
                Instruction::Any => self.take(next, at, |_| true),
                Instruction::NotLineFeed => self.take(next, at, |taken| taken != '\n'),
                Instruction::At(place) => self.is_at(*place, at).then_some((next + 1, at)),
                Instruction::Split {
                    first,
                    second,
                    number,
                } => match self.visited.insert(*number, at) {
                    true => {
                        self.push(Frame::Branch {
                            next: *second as u32,
                            at: at as u32,
                        })?;
                        Some((*first, at))
                    }
                    false => None,
                },
                Instruction::Jump(to) => Some((*to, at)),
                Instruction::Save(slot) => {
                    self.push(Frame::Restore {
                        slot: *slot as u32,
                        value: self.slots[*slot],
                    })?;
                    self.slots[*slot] = at as u32;
                    Some((next + 1, at))
                }
                Instruction::Progress { slot, exit } => {
                    let took_something = self.slots[*slot] != at as u32;
                    Some((if took_something { next + 1 } else { *exit }, at))
                }
                Instruction::Backref { group, any_case } => self
                    .again(*group, *any_case, at)?
                    .map(|end| (next + 1, end)),
                Instruction::IfGroup { group, otherwise } => {
                    let is_set = self.group(*group).is_some();
                    Some((if is_set { next + 1 } else { *otherwise }, at))
                }
                Instruction::Look {
                    back,
                    negative,
                    after,
                } => {
                    let matches = match self.before(at, *back)? {
                        Some(from) => self.body(next + 1, from, !negative)?.is_some(),
                        None => false,
                    };
                    (matches != *negative).then_some((*after, at))
                }
                Instruction::Atomic { after } => {
                    self.body(next + 1, at, true)?.map(|end| (*after, end))
                }
                Instruction::Found if refused == Some(at) => None,
                Instruction::Found => return Ok(Some(at)),
            };
            match goes_on.or_else(|| self.back_track(base)) {
                Some(place) => (next, at) = place,
                None => return Ok(None),
            }
        }
    }

    /// Matches the body of a look-around or an atomic group. What its groups matched stays only if `keep` is set.
    fn body(&mut self, next: usize, at: usize, keep: bool) -> Result<Option<usize>, PatternError> {
        let base = self.frames.len();
        let mark = self.visited.begin_body();
        let end = self.run(next, at, None)?;
        self.visited.end_body(mark, end.is_some());
        if end.is_none() {
            return Ok(None);
        }
        if !keep {
            while self.frames.len() > base {
                if let Some(Frame::Restore { slot, value }) = self.frames.pop() {
                    self.slots[slot as usize] = value;
                }
            }
            return Ok(end);
        }
        // Another way through the body is not tried; slots are still set back if what follows fails.
        let mut kept = base;
        for from in base..self.frames.len() {
            if matches!(self.frames[from], Frame::Restore { .. }) {
                self.frames[kept] = self.frames[from];
                kept += 1;
            }
        }
        self.frames.truncate(kept);
        Ok(end)
    }

    /// Goes back to the last place with another way to try, not beyond `base`.
    fn back_track(&mut self, base: usize) -> Option<(usize, usize)> {
        while self.frames.len() > base {
            match self.frames.pop()? {
                Frame::Branch { next, at } => return Some((next as usize, at as usize)),
                Frame::Restore { slot, value } => self.slots[slot as usize] = value,
            }
        }
        None
    }

    fn push(&mut self, frame: Frame) -> Result<(), PatternError> {
        if self.frames.len() == MAX_FRAMES {
            return Err(PatternError::TooSlow);
        }
        self.frames.push(frame);
        Ok(())
    }

    /// Counts steps, and looks now and then whether to stop.
    fn spend(&mut self, steps: u32) -> Result<(), PatternError> {
        if let Some(left) = self.slice.checked_sub(steps) {
            self.slice = left;
            return Ok(());
        }
        if (self.is_stopped)() {
            return Err(PatternError::Stopped);
        }
        let slices = 1 + u64::from(steps / SLICE_STEPS);
        let left = self.slices_left.checked_sub(slices);
        self.slices_left = left.ok_or(PatternError::TooSlow)?;
        self.slice = SLICE_STEPS;
        Ok(())
    }

    fn take(
        &self,
        next: usize,
        at: usize,
        matches: impl FnOnce(char) -> bool,
    ) -> Option<(usize, usize)> {
        let (taken, behind) = self.char_at(at)?;
        matches(taken).then_some((next + 1, behind))
    }

    /// The character at a position, and the position behind it.
    fn char_at(&self, at: usize) -> Option<(char, usize)> {
        let byte = *self.text.as_bytes().get(at)?;
        if byte.is_ascii() {
            return Some((char::from(byte), at + 1));
        }
        let character = self.text[at..].chars().next()?;
        Some((character, at + character.len_utf8()))
    }

    fn char_before(&self, at: usize) -> Option<char> {
        self.text[..at].chars().next_back()
    }

    /// The position some characters before another.
    fn before(&mut self, at: usize, characters: usize) -> Result<Option<usize>, PatternError> {
        if characters == 0 {
            return Ok(Some(at));
        }
        self.spend((characters / 16).min(self.text.len()) as u32)?;
        let mut starts = self.text[..at].char_indices().rev();
        Ok(starts.nth(characters - 1).map(|(start, _)| start))
    }

    /// Where the text of a group ends, if it comes again here.
    fn again(
        &mut self,
        group: usize,
        any_case: bool,
        at: usize,
    ) -> Result<Option<usize>, PatternError> {
        let Some((start, end)) = self.group(group) else {
            return Ok(None);
        };
        // Comparing takes its time too.
        self.spend(((end - start) / 16) as u32)?;
        let (wanted, rest) = (&self.text[start..end], &self.text[at..]);
        if !any_case {
            return Ok(rest.starts_with(wanted).then_some(at + wanted.len()));
        }
        let mut found = rest.char_indices();
        let is_same = wanted.chars().all(|wanted| {
            let here = found.next().map(|(_, here)| here);
            here.is_some_and(|here| here == wanted || here.to_lowercase().eq(wanted.to_lowercase()))
        });
        Ok(is_same.then_some(at + found.offset()))
    }

    fn is_at(&self, place: Anchor, at: usize) -> bool {
        let rest = &self.text.as_bytes()[at..];
        match place {
            Anchor::Start => at == 0,
            Anchor::End => rest.is_empty() || rest == b"\n",
            Anchor::LineStart => at == 0 || self.text.as_bytes()[at - 1] == b'\n',
            Anchor::LineEnd => rest.is_empty() || rest[0] == b'\n',
            Anchor::WordBoundary => self.is_boundary(at),
            // An empty text has no place that is none, as Python had it until 3.14.
            Anchor::NotWordBoundary => !self.text.is_empty() && !self.is_boundary(at),
        }
    }

    fn is_boundary(&self, at: usize) -> bool {
        let words: Option<&CharSet> = self.program.words.as_ref();
        let is_word = |character: Option<char>| {
            words
                .zip(character)
                .is_some_and(|(words, character)| words.contains(character))
        };
        let here = self.char_at(at).map(|(character, _)| character);
        is_word(self.char_before(at)) != is_word(here)
    }
}
