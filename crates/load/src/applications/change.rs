//! The seven scenarios in which a workload changes while its policy serves (dissertation, Section
//! 5.2.3): six of payload sizes, one of the load.

use serde::{Deserialize, Serialize};

use super::Application;
use super::segment::Payload;

/// What changes. A change of the load goes from one half of the Azure population to the other:
/// more than 100 000 requests a day, or fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Nothing.
    None,
    /// Files of I/O and compression services: 128-384 KiB to 512-1024 KiB.
    FileSize,
    /// The table that is scanned: 1024 to 10 240 items.
    TableSize,
    /// Floating-point operations: 10^8 to 2 x 10^8.
    FloatOperations,
    /// Images: 40 x 40 to 160 x 160 pixels.
    ImageSize,
    /// Texts: 250-1000 to 2000-5000 bytes.
    TextSize,
    /// Matrices of served models: dimension 50 to 150.
    ModelSize,
    /// The load: from the high half to the low one, or back.
    Load,
}

impl Change {
    /// The seven scenarios.
    pub const SCENARIOS: [Self; 7] = [
        Self::FileSize,
        Self::TableSize,
        Self::FloatOperations,
        Self::ImageSize,
        Self::TextSize,
        Self::ModelSize,
        Self::Load,
    ];

    /// The payload that it changes, if it changes one.
    pub fn payload(self) -> Option<Payload> {
        match self {
            Self::None | Self::Load => None,
            Self::FileSize => Some(Payload::File),
            Self::TableSize => Some(Payload::Table),
            Self::FloatOperations => Some(Payload::FloatOperations),
            Self::ImageSize => Some(Payload::Image),
            Self::TextSize => Some(Payload::Text),
            Self::ModelSize => Some(Payload::Matrix),
        }
    }

    /// Whether an application notices it.
    pub fn affects(self, application: &Application) -> bool {
        self == Self::Load || self.payload().is_some_and(|payload| application.has(payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::{ApplicationPool, Part};

    #[test]
    fn every_scenario_affects_a_good_part_of_the_pool() {
        let pool = ApplicationPool::generate(1);
        let applications = pool.part(Part::Test);
        for change in Change::SCENARIOS {
            let affected = applications.iter().filter(|one| change.affects(one)).count();
            assert!(affected >= 20, "{change:?} affects {affected} of 200");
        }
        assert!(!applications.iter().any(|one| Change::None.affects(one)));
    }

    #[test]
    fn payloads_grow_by_less_than_the_operations_they_stand_for() {
        // Requests have fixed costs: 27 times the multiplications are not 27 times the CPU time.
        for change in Change::SCENARIOS {
            let Some(payload) = change.payload() else { continue };
            for application in ApplicationPool::generate(2).part(Part::Train) {
                let after = application.with_change(payload).mean_cpu().seconds();
                let ratio = after / application.mean_cpu().seconds();
                let expect = if change.affects(application) { 1.0..12.0 } else { 1.0..1.0 + 1e-9 };
                assert!(expect.contains(&ratio), "{change:?} {}: {ratio}", application.name());
            }
        }
    }
}
