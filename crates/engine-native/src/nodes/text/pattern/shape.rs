//! What can be said of a part of a pattern before it is compiled: its groups, and how much it takes.

use fancy_regex::Expr;

/// How many characters something takes.
#[derive(Clone, Copy, Default)]
pub(super) struct Width {
    pub(super) least: usize,
    pub(super) most: usize,
}

impl Width {
    pub(super) const ONE: Self = Self { least: 1, most: 1 };
    pub(super) const UNKNOWN: Self = Self {
        least: 0,
        most: usize::MAX,
    };

    pub(super) fn then(self, next: Self) -> Self {
        Self {
            least: self.least.saturating_add(next.least),
            most: self.most.saturating_add(next.most),
        }
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
        }
    }
}

/// The groups in an expression.
pub(super) fn groups_in(expression: &Expr) -> usize {
    match expression {
        Expr::Group(body) => 1 + groups_in(body),
        Expr::LookAround(body, _) | Expr::AtomicGroup(body) => groups_in(body),
        Expr::Repeat { child, .. } => groups_in(child),
        Expr::Concat(parts) | Expr::Alt(parts) => parts.iter().map(groups_in).sum(),
        Expr::Conditional {
            condition,
            true_branch,
            false_branch,
        } => groups_in(condition) + groups_in(true_branch) + groups_in(false_branch),
        Expr::Empty
        | Expr::Any { .. }
        | Expr::Assertion(_)
        | Expr::Literal { .. }
        | Expr::Delegate { .. }
        | Expr::Backref { .. }
        | Expr::BackrefWithRelativeRecursionLevel { .. }
        | Expr::KeepOut
        | Expr::ContinueFromPreviousMatchEnd
        | Expr::BackrefExistsCondition(_)
        | Expr::SubroutineCall(_)
        | Expr::UnresolvedNamedSubroutineCall { .. } => 0,
    }
}

/// Whether an expression may match without taking a character; in doubt it may.
pub(super) fn may_be_empty(expression: &Expr) -> bool {
    match expression {
        Expr::Any { .. } | Expr::Literal { .. } | Expr::Delegate { .. } => false,
        Expr::Group(body) | Expr::AtomicGroup(body) => may_be_empty(body),
        Expr::Repeat { child, lo, .. } => *lo == 0 || may_be_empty(child),
        Expr::Concat(parts) => parts.iter().all(may_be_empty),
        Expr::Alt(parts) => parts.iter().any(may_be_empty),
        Expr::Conditional {
            true_branch,
            false_branch,
            ..
        } => may_be_empty(true_branch) || may_be_empty(false_branch),
        Expr::Empty
        | Expr::Assertion(_)
        | Expr::LookAround(..)
        | Expr::Backref { .. }
        | Expr::BackrefWithRelativeRecursionLevel { .. }
        | Expr::KeepOut
        | Expr::ContinueFromPreviousMatchEnd
        | Expr::BackrefExistsCondition(_)
        | Expr::SubroutineCall(_)
        | Expr::UnresolvedNamedSubroutineCall { .. } => true,
    }
}
