//! Compiles a pattern into the instructions that the matcher runs.
//!
//! Counted repetitions are written out, so the length of a program says what one character of a text can cost.

use std::collections::HashMap;

use fancy_regex::{Assertion, Expr, LookAround};

use super::PatternError;
use super::set::CharSet;
use super::shape::{Width, groups_in, may_be_empty};

/// Instructions that a program may have.
pub(super) const MAX_INSTRUCTIONS: usize = 1 << 17;

/// Parts of a pattern that are visited to make them: one that makes no instruction may be repeated too.
const MAX_VISITS: usize = 8 * MAX_INSTRUCTIONS;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) code: Vec<Instruction>,
    /// Groups, group 0 included.
    pub(super) groups: usize,
    pub(super) sets: Vec<CharSet>,
    /// What counts as a letter of a word, where the pattern asks for its boundaries.
    pub(super) words: Option<CharSet>,
    /// Two for each group, group 0 included, then one for each loop whose body may match nothing.
    pub(super) slots: usize,
    /// The `Split`s in it.
    pub(super) splits: usize,
    /// Whether what follows an instruction depends on its position alone: nothing refers back to what a group matched.
    pub(super) is_regular: bool,
    /// Whether a loop whose body may match nothing has a group in it, which then notes an empty match at last.
    pub(super) has_empty_groups: bool,
}

/// What the matcher does next; numbers of instructions are absolute.
#[derive(Debug)]
pub(super) enum Instruction {
    /// Takes this character.
    Char(char),
    /// Takes a character of a set.
    Set(usize),
    /// Takes any character.
    Any,
    /// Takes any character but a line feed.
    NotLineFeed,
    /// Goes on at a place only.
    At(Anchor),
    /// Tries one instruction, then the other. `number` counts the splits.
    Split {
        first: usize,
        second: usize,
        number: usize,
    },
    Jump(usize),
    /// Notes the position in a slot.
    Save(usize),
    /// Leaves a loop, if its body took nothing since the position in the slot.
    Progress {
        slot: usize,
        exit: usize,
    },
    /// Takes what a group matched, once more.
    Backref {
        group: usize,
        any_case: bool,
    },
    /// Goes on elsewhere, if a group matched nothing yet.
    IfGroup {
        group: usize,
        otherwise: usize,
    },
    /// Looks whether the body that follows matches, `back` characters before, and goes on behind it.
    Look {
        back: usize,
        negative: bool,
        after: usize,
    },
    /// Takes what the body that follows matches first, and nothing else in its place.
    Atomic {
        after: usize,
    },
    /// The end of the pattern, or of a body.
    Found,
}

/// A place in a text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    /// The end, or before a line feed that is the last character.
    End,
    LineStart,
    LineEnd,
    WordBoundary,
    NotWordBoundary,
}

impl Program {
    /// Compiles what the parser made of a pattern.
    ///
    /// # Errors
    /// If Python refuses it, or it is too long once its repetitions are written out.
    pub(super) fn new(pattern: &Expr) -> Result<Self, PatternError> {
        let groups = 1 + groups_in(pattern);
        let mut compiler = Compiler {
            code: Vec::new(),
            sets: Vec::new(),
            known_sets: HashMap::new(),
            open: Vec::new(),
            closed: HashMap::new(),
            next_group: 1,
            groups,
            slots: 2 * groups,
            splits: 0,
            visits: 0,
            is_regular: true,
            has_empty_groups: false,
            words: None,
        };
        compiler.visit(pattern)?;
        compiler.emit(Instruction::Found)?;
        Ok(Self {
            code: compiler.code,
            groups,
            sets: compiler.sets,
            words: compiler.words,
            slots: compiler.slots,
            splits: compiler.splits,
            is_regular: compiler.is_regular,
            has_empty_groups: compiler.has_empty_groups,
        })
    }
}

struct Compiler {
    code: Vec<Instruction>,
    sets: Vec<CharSet>,
    known_sets: HashMap<(String, bool), usize>,
    /// Groups around the place that is compiled.
    open: Vec<usize>,
    /// Groups before it.
    closed: HashMap<usize, Width>,
    next_group: usize,
    /// Groups of the pattern, group 0 included.
    groups: usize,
    slots: usize,
    splits: usize,
    visits: usize,
    is_regular: bool,
    has_empty_groups: bool,
    words: Option<CharSet>,
}

impl Compiler {
    fn emit(&mut self, instruction: Instruction) -> Result<usize, PatternError> {
        if self.code.len() == MAX_INSTRUCTIONS {
            return Err(PatternError::TooManyInstructions);
        }
        self.code.push(instruction);
        Ok(self.code.len() - 1)
    }

    /// A split whose targets are set later.
    fn split(&mut self) -> Result<usize, PatternError> {
        let number = self.splits;
        self.splits += 1;
        self.emit(Instruction::Split {
            first: 0,
            second: 0,
            number,
        })
    }

    /// Sets the targets of a split: the preferred one first.
    fn aim(&mut self, at: usize, preferred: usize, other: usize) {
        if let Instruction::Split { first, second, .. } = &mut self.code[at] {
            (*first, *second) = (preferred, other);
        }
    }

    fn visit(&mut self, expression: &Expr) -> Result<Width, PatternError> {
        self.visits += 1;
        if self.visits > MAX_VISITS {
            return Err(PatternError::TooManyInstructions);
        }
        match expression {
            Expr::Empty | Expr::BackrefExistsCondition(_) => Ok(Width::default()),
            Expr::Any { newline } => {
                self.emit(match newline {
                    true => Instruction::Any,
                    false => Instruction::NotLineFeed,
                })?;
                Ok(Width::ONE)
            }
            Expr::Assertion(assertion) => self.assertion(*assertion),
            Expr::Literal { val, casei } => self.literal(val, *casei),
            Expr::Delegate { inner, casei, .. } => {
                let set = self.set((inner.clone(), *casei), |class| {
                    CharSet::parsed(&class.0, class.1)
                })?;
                self.emit(Instruction::Set(set))?;
                Ok(Width::ONE)
            }
            Expr::Concat(parts) => {
                let mut width = Width::default();
                for part in parts {
                    width = width.then(self.visit(part)?);
                }
                Ok(width)
            }
            Expr::Alt(branches) => self.branches(branches),
            Expr::Group(body) => self.group(body),
            Expr::Repeat {
                child,
                lo,
                hi,
                greedy,
            } => self.repeat(child, *lo, *hi, *greedy),
            Expr::LookAround(body, direction) => self.look(body, *direction),
            Expr::AtomicGroup(body) => {
                let at = self.emit(Instruction::Atomic { after: 0 })?;
                let width = self.visit(body)?;
                self.emit(Instruction::Found)?;
                let behind = self.code.len();
                if let Instruction::Atomic { after } = &mut self.code[at] {
                    *after = behind;
                }
                Ok(width)
            }
            Expr::Backref { group, casei } => {
                let width = self.referred(*group)?;
                self.is_regular = false;
                self.emit(Instruction::Backref {
                    group: *group,
                    any_case: *casei,
                })?;
                Ok(width)
            }
            Expr::Conditional {
                condition,
                true_branch,
                false_branch,
            } => self.conditional(condition, true_branch, false_branch),
            Expr::KeepOut
            | Expr::ContinueFromPreviousMatchEnd
            | Expr::BackrefWithRelativeRecursionLevel { .. }
            | Expr::SubroutineCall(_)
            | Expr::UnresolvedNamedSubroutineCall { .. } => Err(broken("unknown extension")),
        }
    }

    fn assertion(&mut self, assertion: Assertion) -> Result<Width, PatternError> {
        let place = match assertion {
            Assertion::StartText => Anchor::Start,
            Assertion::EndText => Anchor::End,
            Assertion::StartLine { .. } => Anchor::LineStart,
            Assertion::EndLine { .. } => Anchor::LineEnd,
            Assertion::WordBoundary => Anchor::WordBoundary,
            Assertion::NotWordBoundary => Anchor::NotWordBoundary,
            Assertion::LeftWordBoundary
            | Assertion::LeftWordHalfBoundary
            | Assertion::RightWordBoundary
            | Assertion::RightWordHalfBoundary => return Err(broken("bad escape")),
        };
        if matches!(place, Anchor::WordBoundary | Anchor::NotWordBoundary) {
            self.words.get_or_insert_with(CharSet::words);
        }
        self.emit(Instruction::At(place))?;
        Ok(Width::default())
    }

    fn literal(&mut self, text: &str, any_case: bool) -> Result<Width, PatternError> {
        let mut width = Width::default();
        for letter in text.chars() {
            width = width.then(Width::ONE);
            let folded = any_case.then(|| CharSet::any_case(letter)).flatten();
            let Some(folded) = folded else {
                self.emit(Instruction::Char(letter))?;
                continue;
            };
            // No class is spelled as one character, so the key is free.
            let set = self.set((letter.to_string(), true), |_| Ok(folded))?;
            self.emit(Instruction::Set(set))?;
        }
        Ok(width)
    }

    fn set(
        &mut self,
        key: (String, bool),
        make: impl FnOnce(&(String, bool)) -> Result<CharSet, PatternError>,
    ) -> Result<usize, PatternError> {
        if let Some(&known) = self.known_sets.get(&key) {
            return Ok(known);
        }
        self.sets.push(make(&key)?);
        self.known_sets.insert(key, self.sets.len() - 1);
        Ok(self.sets.len() - 1)
    }

    fn branches(&mut self, branches: &[Expr]) -> Result<Width, PatternError> {
        let mut width: Option<Width> = None;
        let mut jumps = Vec::new();
        for (number, branch) in branches.iter().enumerate() {
            let is_last = number + 1 == branches.len();
            let split = if is_last { None } else { Some(self.split()?) };
            let this = self.visit(branch)?;
            width = Some(width.map_or(this, |width| width.or(this)));
            if let Some(split) = split {
                jumps.push(self.emit(Instruction::Jump(0))?);
                let next = self.code.len();
                self.aim(split, split + 1, next);
            }
        }
        self.land(&jumps);
        Ok(width.unwrap_or_default())
    }

    /// Has jumps end here.
    fn land(&mut self, jumps: &[usize]) {
        let here = self.code.len();
        for &jump in jumps {
            if let Instruction::Jump(to) = &mut self.code[jump] {
                *to = here;
            }
        }
    }

    fn group(&mut self, body: &Expr) -> Result<Width, PatternError> {
        let group = self.next_group;
        self.next_group += 1;
        self.open.push(group);
        self.emit(Instruction::Save(2 * group))?;
        let width = self.visit(body)?;
        self.emit(Instruction::Save(2 * group + 1))?;
        self.open.pop();
        self.closed.insert(group, width);
        Ok(width)
    }

    fn repeat(
        &mut self,
        body: &Expr,
        least: usize,
        most: usize,
        greedy: bool,
    ) -> Result<Width, PatternError> {
        if least > most {
            return Err(broken("min repeat greater than max repeat"));
        }
        let first_group = self.next_group;
        let may_be_empty = may_be_empty(body);
        self.has_empty_groups |= may_be_empty && groups_in(body) > 0;
        let mut once = None;
        for _ in 0..least {
            self.next_group = first_group;
            once = Some(self.visit(body)?);
        }
        let mut exits = Vec::new();
        let optional = if most == usize::MAX { 1 } else { most - least };
        for _ in 0..optional {
            self.next_group = first_group;
            let split = self.split()?;
            let slot = self.slots;
            if may_be_empty {
                self.slots += 1;
                self.emit(Instruction::Save(slot))?;
            }
            once = Some(self.visit(body)?);
            let progress = match may_be_empty {
                true => Some(self.emit(Instruction::Progress { slot, exit: 0 })?),
                false => None,
            };
            exits.push((split, progress));
            if most == usize::MAX {
                self.emit(Instruction::Jump(split))?;
            }
        }
        let exit = self.code.len();
        for (split, progress) in exits {
            match greedy {
                true => self.aim(split, split + 1, exit),
                false => self.aim(split, exit, split + 1),
            }
            if let Some(Instruction::Progress { exit: to, .. }) =
                progress.map(|progress| &mut self.code[progress])
            {
                *to = exit;
            }
        }
        let Some(once) = once else {
            for group in first_group..first_group + groups_in(body) {
                self.closed.insert(group, Width::UNKNOWN);
                self.next_group = group + 1;
            }
            return Ok(Width::default());
        };
        Ok(Width {
            least: once.least.saturating_mul(least),
            most: once.most.saturating_mul(most),
        })
    }

    fn look(&mut self, body: &Expr, direction: LookAround) -> Result<Width, PatternError> {
        let (behind, negative) = match direction {
            LookAround::LookAhead => (false, false),
            LookAround::LookAheadNeg => (false, true),
            LookAround::LookBehind => (true, false),
            LookAround::LookBehindNeg => (true, true),
        };
        let at = self.emit(Instruction::Found)?;
        let width = self.visit(body)?;
        if behind && width.least != width.most {
            return Err(broken("look-behind requires fixed-width pattern"));
        }
        self.emit(Instruction::Found)?;
        self.code[at] = Instruction::Look {
            back: if behind { width.least } else { 0 },
            negative,
            after: self.code.len(),
        };
        Ok(Width::default())
    }

    fn conditional(
        &mut self,
        condition: &Expr,
        given: &Expr,
        missing: &Expr,
    ) -> Result<Width, PatternError> {
        let Expr::BackrefExistsCondition(group) = condition else {
            return Err(broken("bad character in group name"));
        };
        // Python asks only that there is such a group, wherever it stands.
        if *group >= self.groups {
            return Err(broken(&format!("invalid group reference {group}")));
        }
        self.is_regular = false;
        let at = self.emit(Instruction::Found)?;
        let width = self.visit(given)?;
        let jump = self.emit(Instruction::Jump(0))?;
        self.code[at] = Instruction::IfGroup {
            group: *group,
            otherwise: self.code.len(),
        };
        let other = self.visit(missing)?;
        self.land(&[jump]);
        Ok(width.or(other))
    }

    /// What a group takes that is complete before this place.
    fn referred(&self, group: usize) -> Result<Width, PatternError> {
        if self.open.contains(&group) {
            return Err(broken("cannot refer to an open group"));
        }
        let width = self.closed.get(&group).copied();
        width.ok_or_else(|| broken(&format!("invalid group reference {group}")))
    }
}

fn broken(what: &str) -> PatternError {
    PatternError::Broken(what.to_owned())
}
