//! What contention costs each category of functions on one node.

use homeostat_des::ContentionCost;

use crate::profile::Category;
use crate::{Error, Result};

/// The cost of contention by category, as extra CPU time for the same work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contention {
    strains: [ContentionCost; 4],
}

impl Contention {
    /// Sharing that costs nothing: one end of a sweep, never a default.
    pub const IDEAL: Self = Self { strains: [ContentionCost { shared: 0.0, overload: 0.0 }; 4] };

    /// As `homeostat calibrate node` measured it on an idle machine (two cores of an AMD EPYC,
    /// Zen 4, Linux 6.18, five repetitions), what came out below zero as zero. Standard errors
    /// are 0.005 for compute and I/O, 0.04 and 0.006 for data, 0.09 and 0.014 for memory.
    pub const MEASURED: Self = Self {
        strains: [
            ContentionCost { shared: 0.006, overload: 0.0 },
            ContentionCost { shared: 0.401, overload: 0.031 },
            ContentionCost { shared: 0.0, overload: 0.001 },
            ContentionCost { shared: 0.004, overload: 0.025 },
        ],
    };

    /// Coefficients in the order of [`Category::ALL`].
    pub fn new(strains: [ContentionCost; 4]) -> Result<Self> {
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
        let scale = |strain: ContentionCost| ContentionCost {
            shared: strain.shared * factor,
            overload: strain.overload * factor,
        };
        Self::new(self.strains.map(scale))
    }

    /// In the order of [`Category::ALL`].
    pub(crate) fn strains(&self) -> [ContentionCost; 4] {
        self.strains
    }

    /// The cost for functions of this category.
    pub fn strain(&self, category: Category) -> ContentionCost {
        self.strains[category as usize]
    }
}
