//! A thousand unique applications (dissertation, Section 5.5.1): segments drawn with replacement.

use std::collections::BTreeSet;

use homeostat_core::SeedTree;
use serde::{Deserialize, Serialize};

use super::Application;
use super::segment::SEGMENTS;

/// The applications of a pool, each a different combination of segments.
#[derive(Debug, Clone)]
pub struct ApplicationPool {
    applications: Vec<Application>,
}

/// One of the two parts of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The 800 applications that a learner may see.
    Train,
    /// The 200 on which it is judged.
    Test,
}

impl ApplicationPool {
    /// Applications of a pool.
    pub const SIZE: usize = 1000;
    /// Those of them to learn on.
    pub const TRAIN: usize = 800;
    /// Segments of an application, at most. The dissertation does not state it; four give 4844
    /// combinations.
    pub const MAX_SEGMENTS: usize = 4;

    /// The pool of this seed.
    pub fn generate(seed: u64) -> Self {
        let mut rng = SeedTree::new(seed).stream("applications");
        let mut seen = BTreeSet::new();
        let mut applications = Vec::with_capacity(Self::SIZE);
        while applications.len() < Self::SIZE {
            let count = 1 + rng.below(Self::MAX_SEGMENTS);
            let segments = (0..count).map(|_| &SEGMENTS[rng.below(SEGMENTS.len())]).collect();
            let application = Application::new(segments).expect("it has a segment");
            if seen.insert(application.name().to_owned()) {
                applications.push(application);
            }
        }
        Self { applications }
    }

    /// The applications of a part, in the order in which they were drawn.
    pub fn part(&self, part: Part) -> &[Application] {
        let (train, test) = self.applications.split_at(Self::TRAIN);
        match part {
            Part::Train => train,
            Part::Test => test,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_applications_differ_and_are_split_eight_to_two() {
        let pool = ApplicationPool::generate(1);
        let (train, test) = (pool.part(Part::Train), pool.part(Part::Test));
        assert_eq!((train.len(), test.len()), (800, 200));
        let names: BTreeSet<_> = train.iter().chain(test).map(Application::name).collect();
        assert_eq!(names.len(), 1000);
    }

    #[test]
    fn the_seed_alone_determines_the_pool() {
        let names = |seed| -> Vec<String> {
            let pool = ApplicationPool::generate(seed);
            pool.part(Part::Train).iter().map(|one| one.name().to_owned()).collect()
        };
        assert_eq!(names(7), names(7));
        assert_ne!(names(7), names(8));
    }

    #[test]
    fn every_segment_is_in_many_applications() {
        let pool = ApplicationPool::generate(1);
        for segment in &SEGMENTS {
            let with = pool.part(Part::Train).iter();
            let count = with.filter(|one| one.segments().iter().any(|s| s.name == segment.name));
            assert!(count.count() > 60, "{}", segment.name);
        }
    }
}
