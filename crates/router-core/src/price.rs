//! What a call costs, in whole US cents.

mod term;

pub use term::{Function, Operator, PricedMember, Term};

/// The price of a call as far as it is known before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// Known to the cent.
    Exact {
        /// The price.
        cents: u64,
    },
    /// Known within bounds.
    Estimated {
        /// At least this.
        min_cents: u64,
        /// At most this; not below `min_cents`.
        max_cents: u64,
    },
    /// Known only afterwards.
    Unknown {
        /// What is held meanwhile (`unknown_hold_cents`).
        hold_cents: u64,
    },
}

/// What a call turned out to cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// What was held for it: the partner named no amount.
    AsHeld,
    /// This; it may be more or less than what was held.
    Cents(u64),
}

impl Price {
    /// What is held while the call is in flight: the most it is expected to cost.
    #[must_use]
    pub fn hold_cents(self) -> u64 {
        match self {
            Self::Exact { cents } => cents,
            Self::Estimated {
                min_cents,
                max_cents,
            } => max_cents.max(min_cents),
            Self::Unknown { hold_cents } => hold_cents,
        }
    }
}

impl Charge {
    /// The amount, given what was held.
    #[must_use]
    pub fn cents(self, held_cents: u64) -> u64 {
        match self {
            Self::AsHeld => held_cents,
            Self::Cents(cents) => cents,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hold_is_the_most_a_call_is_expected_to_cost() {
        assert_eq!(Price::Exact { cents: 4 }.hold_cents(), 4);
        let estimated = Price::Estimated {
            min_cents: 2,
            max_cents: 9,
        };
        assert_eq!(estimated.hold_cents(), 9);
        assert_eq!(Price::Unknown { hold_cents: 50 }.hold_cents(), 50);
    }

    #[test]
    fn a_charge_without_an_amount_is_what_was_held() {
        assert_eq!(Charge::AsHeld.cents(9), 9);
        assert_eq!(Charge::Cents(3).cents(9), 3);
        assert_eq!(Charge::Cents(12).cents(9), 12);
    }
}
