//! The axes of curves: what grows, at which sizes it is measured, and the figures of each.

use clap::ValueEnum;

use crate::claim::Claim;
use crate::{router, v2};
use it::load::server::{PROGRAM, Product};

/// What grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Axis {
    /// Jobs that are stored: a look at one and a page of them.
    Stored,
    /// Calls that wait for their partner: memory, and what other calls take.
    Held,
    /// Models of the catalog: a call, a page of models and an estimate.
    Models,
    /// Requests that wait in the queue of the router: a submission, a status and memory.
    Queued,
    /// Accounts: a job and a call, of each in turn.
    Accounts,
}

/// One figure at all sizes of an axis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Series {
    /// Its name, as in lines.
    pub(crate) name: &'static str,
    /// What is measured, in words.
    pub(crate) what: &'static str,
    /// The unit of its values.
    pub(crate) unit: &'static str,
    /// What `v2` and `router` ask of it.
    pub(crate) gate: Option<Gate>,
}

/// A bound of the values of a series.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gate {
    /// At most this.
    Value(f64),
    /// At most so many times the value at the smallest size.
    Growth(f64),
}

impl Gate {
    /// The gate of a claim whose value is in the unit of the series.
    pub(crate) const fn value(claim: &Claim) -> Option<Self> {
        match claim.gate {
            Some(most) => Some(Self::Value(most)),
            None => None,
        }
    }

    /// The gate of a claim that holds the largest size against the smallest.
    pub(crate) const fn growth(claim: &Claim) -> Option<Self> {
        match claim.gate {
            Some(times) => Some(Self::Growth(times)),
            None => None,
        }
    }

    /// The bound in the unit of the values.
    pub(super) fn bound(self, at_smallest: f64) -> f64 {
        match self {
            Self::Value(most) => most,
            Self::Growth(times) => times * at_smallest,
        }
    }
}

impl Axis {
    /// Those that are named; all of them if none is.
    pub(super) fn chosen(only: &[Self]) -> impl Iterator<Item = Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(move |axis| only.is_empty() || only.contains(axis))
    }

    /// As options and files name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Held => "held",
            Self::Models => "models",
            Self::Queued => "queued",
            Self::Accounts => "accounts",
        }
    }

    /// What is counted along it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Stored => "stored jobs",
            Self::Held => "calls in flight",
            Self::Models => "models",
            Self::Queued => "queued requests",
            Self::Accounts => "accounts",
        }
    }

    /// Where it is measured, the smallest size first.
    pub(super) fn sizes(self) -> &'static [u64] {
        match self {
            Self::Stored => &[1_000, 10_000, 100_000, 1_000_000],
            Self::Held => &[0, 1_000, 3_000, 9_000],
            Self::Models => &[10, 100, 1_000, 10_000],
            Self::Queued => &[10, 1_000, 10_000, 100_000],
            Self::Accounts => &[1, 100, 10_000],
        }
    }

    /// Its figures.
    pub(super) fn series(self) -> &'static [Series] {
        match self {
            Self::Stored => &v2::curves::STORED,
            Self::Held => &router::curves::HELD,
            Self::Models => &router::curves::MODELS,
            Self::Queued => &router::curves::QUEUED,
            Self::Accounts => &router::curves::ACCOUNTS,
        }
    }

    /// Whether a figure of this name is one of its own.
    pub(super) fn has(self, name: &str) -> bool {
        self.series().iter().any(|series| series.name == name)
    }

    /// The program that is measured: the router alone, as its gates are for, where it can do what is asked.
    pub(super) fn product(self) -> Product {
        match self {
            Self::Stored | Self::Accounts => Product::program(PROGRAM),
            Self::Held | Self::Models | Self::Queued => Product::program("router-server"),
        }
    }
}
