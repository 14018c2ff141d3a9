//! What crowding costs each kind of function on one node.

use homeostat_des::Strain;

use crate::profile::Category;
use crate::{Error, Result};

/// The cost of crowding by category, as extra CPU time for the same work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contention {
    strains: [Strain; 4],
}

impl Contention {
    /// Sharing that costs nothing: one end of a sweep, never a default.
    pub const IDEAL: Self = Self { strains: [Strain { shared: 0.0, overload: 0.0 }; 4] };

    /// As `homeostat calibrate node` measured it.
    pub const MEASURED: Self = Self {
        strains: [
            Strain { shared: 0.0, overload: 0.01 },
            Strain { shared: 0.3, overload: 0.05 },
            Strain { shared: 0.0, overload: 0.05 },
            Strain { shared: 0.1, overload: 0.10 },
        ],
    };

    /// Coefficients in the order of [`Category::ALL`].
    pub fn new(strains: [Strain; 4]) -> Result<Self> {
        for strain in strains {
            for (name, value) in [("shared", strain.shared), ("overload", strain.overload)] {
                if !value.is_finite() || !(0.0..=100.0).contains(&value) {
                    return Err(Error::OutOfRange {
                        what: format!("contention {name}"),
                        value: value.to_string(),
                        expected: "it must lie from 0 to 100".to_owned(),
                    });
                }
            }
        }
        Ok(Self { strains })
    }

    /// The same with every cost multiplied, for sweeps.
    pub fn scaled(self, factor: f64) -> Result<Self> {
        let scale = |strain: Strain| Strain {
            shared: strain.shared * factor,
            overload: strain.overload * factor,
        };
        Self::new(self.strains.map(scale))
    }

    /// What a function of this category feels.
    pub fn strain(&self, category: Category) -> Strain {
        self.strains[category as usize]
    }
}
