//! What a scenario has to reach, and whether a measured value does.

/// Which values are good ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The larger the better.
    Higher,
    /// The smaller the better.
    Lower,
}

/// The figure of one scenario before it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Its name, as in reports.
    pub name: &'static str,
    /// What is measured, in words.
    pub what: &'static str,
    /// The unit of the value.
    pub unit: &'static str,
    /// Which values are good.
    pub better: Better,
    /// Without this the work is not done.
    pub gate: Option<f64>,
    /// What to be proud of.
    pub aim: Option<f64>,
}

impl Claim {
    /// Whether a value passes the gate; `None` without one.
    #[must_use]
    pub fn passes(&self, value: f64) -> Option<bool> {
        self.gate.map(|gate| self.reaches(value, gate))
    }

    /// Whether a value reaches the aim; `None` without one.
    #[must_use]
    pub fn is_aimed(&self, value: f64) -> Option<bool> {
        self.aim.map(|aim| self.reaches(value, aim))
    }

    fn reaches(&self, value: f64, bound: f64) -> bool {
        match self.better {
            Better::Higher => value >= bound,
            Better::Lower => value <= bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_itself_is_enough() {
        let claim = |better| Claim {
            name: "a",
            what: "",
            unit: "ms",
            better,
            gate: Some(2.0),
            aim: None,
        };
        let passes = |better, value| claim(better).passes(value);
        assert_eq!(passes(Better::Lower, 2.0), Some(true));
        assert_eq!(passes(Better::Lower, 2.1), Some(false));
        assert_eq!(passes(Better::Higher, 2.0), Some(true));
        assert_eq!(passes(Better::Higher, 1.9), Some(false));
        assert_eq!(claim(Better::Lower).is_aimed(1.0), None);
    }
}
