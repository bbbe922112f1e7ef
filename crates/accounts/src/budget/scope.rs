//! Budgets of a part of what an account spends: the calls of one API key, or those with one label.
//!
//! They hold beside those of the account. Which of them a call counts against is settled when credits are set aside for it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Budgets, InvalidBudgets};
use crate::{AccountId, CreditBalance, Credits, KeyId, Label, Labels};

/// A part of what an account spends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BudgetScope {
    /// The calls that an API key makes.
    Key(KeyId),
    /// The calls with a label.
    Label(Label),
}

/// Which parts of what an account spends have budgets of their own. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopedBudgets(Option<Arc<BTreeMap<BudgetScope, Budgets>>>);

/// The budgets of a scope as an operator sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopedBudgetView {
    /// The scope.
    pub scope: BudgetScope,
    /// Its budgets.
    pub budgets: Budgets,
    /// What is held and was charged in it. Holds that lapsed a moment ago may still be in it.
    pub credits: Credits,
}

/// Who pays, and against which budgets of its own parts the call counts.
#[derive(Clone, Copy, Debug)]
pub struct Payer<'a> {
    /// The account.
    pub account: &'a AccountId,
    /// Those of the call's scopes that may have budgets.
    pub scopes: &'a [BudgetScope],
}

/// The text is no list of budgets of keys and labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("budgets of keys and labels are lines such as 500/hour label:project=posters")]
pub struct InvalidScopedBudgets;

/// The text is no scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scope of a budget is key:ID, or label:KEY=VALUE such as label:project=posters")]
pub struct InvalidBudgetScope;

impl ScopedBudgets {
    /// None.
    pub const NONE: Self = Self(None);

    /// Most of an account.
    pub const MOST: usize = 100;

    /// With other budgets of a scope; none take them away.
    #[must_use]
    pub fn with(&self, scope: BudgetScope, budgets: Budgets) -> Self {
        let mut all = self.0.as_deref().cloned().unwrap_or_default();
        match budgets == Budgets::default() {
            true => all.remove(&scope),
            false => all.insert(scope, budgets),
        };
        Self((!all.is_empty()).then(|| Arc::new(all)))
    }

    /// The budgets of a scope.
    #[must_use]
    pub fn get(&self, scope: &BudgetScope) -> Option<Budgets> {
        self.0.as_ref()?.get(scope).copied()
    }

    /// How many scopes have budgets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |all| all.len())
    }

    /// Whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// All of them, keys first.
    pub fn iter(&self) -> impl Iterator<Item = (&BudgetScope, Budgets)> {
        let all = self.0.iter().flat_map(|all| all.iter());
        all.map(|(scope, budgets)| (scope, *budgets))
    }

    /// The scopes of a call that have budgets: those that it counts against.
    #[must_use]
    pub fn of_call(&self, key: Option<&KeyId>, labels: &Labels) -> Vec<BudgetScope> {
        let Some(all) = &self.0 else {
            return Vec::new();
        };
        let key = key.map(|key| BudgetScope::Key(key.clone()));
        let labels = labels.iter().cloned().map(BudgetScope::Label);
        let scopes = key.into_iter().chain(labels);
        scopes.filter(|scope| all.contains_key(scope)).collect()
    }

    /// Those of these scopes.
    #[must_use]
    pub fn of_scopes(&self, scopes: &[BudgetScope]) -> Vec<(BudgetScope, Budgets)> {
        let scopes = scopes.iter();
        scopes
            .filter_map(|scope| Some((scope.clone(), self.get(scope)?)))
            .collect()
    }

    /// All of them, with what is held and was charged in each scope.
    #[must_use]
    pub fn views(&self, balance: &CreditBalance) -> Vec<ScopedBudgetView> {
        let views = self.iter().map(|(scope, budgets)| ScopedBudgetView {
            scope: scope.clone(),
            budgets,
            credits: balance.last_scope_credits(scope),
        });
        views.collect()
    }

    /// As a store keeps them: a line each; `None` if there are none.
    #[must_use]
    pub fn write(&self) -> Option<String> {
        let lines = self.0.as_ref()?.iter();
        let lines = lines.map(|(scope, budgets)| format!("{budgets} {scope}"));
        Some(lines.collect::<Vec<_>>().join("\n"))
    }
}

impl<'a> From<&'a AccountId> for Payer<'a> {
    /// The account, against no budgets but its own.
    fn from(account: &'a AccountId) -> Self {
        Self {
            account,
            scopes: &[],
        }
    }
}

impl FromStr for ScopedBudgets {
    type Err = InvalidScopedBudgets;

    /// What [`ScopedBudgets::write`] wrote.
    fn from_str(text: &str) -> Result<Self, InvalidScopedBudgets> {
        let mut all = BTreeMap::new();
        for line in text.split('\n') {
            let (budgets, scope) = line.split_once(' ').ok_or(InvalidScopedBudgets)?;
            let budgets = budgets
                .parse()
                .map_err(|_: InvalidBudgets| InvalidScopedBudgets)?;
            let scope = scope.parse().map_err(|_| InvalidScopedBudgets)?;
            all.insert(scope, budgets);
        }
        Ok(Self(Some(Arc::new(all))))
    }
}

impl FromStr for BudgetScope {
    type Err = InvalidBudgetScope;

    fn from_str(text: &str) -> Result<Self, InvalidBudgetScope> {
        let (kind, name) = text.split_once(':').ok_or(InvalidBudgetScope)?;
        match kind {
            "key" => name.parse().map(Self::Key).map_err(|_| InvalidBudgetScope),
            "label" => name
                .parse()
                .map(Self::Label)
                .map_err(|_| InvalidBudgetScope),
            _ => Err(InvalidBudgetScope),
        }
    }
}

impl fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "key:{}", id.as_str()),
            Self::Label(label) => write!(f, "label:{label}"),
        }
    }
}
