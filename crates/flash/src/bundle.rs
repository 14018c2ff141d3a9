//! What the meta learner reads of one pair, and the data buffers that choose it.

use std::collections::VecDeque;

use homeostat_core::{Persist, Snapshot};

use crate::config::{BufferConfig, Selection};
use crate::standardizer::Standardizer;
use crate::{Error, Result};

/// Sequences of rows of one width, all of one pair.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bundle {
    /// The rows of each sequence, one after the other.
    sequences: Vec<Vec<f32>>,
    width: usize,
}

impl Bundle {
    /// Sequences of rows of `width` numbers. Empty sequences are left out.
    pub fn new(width: usize, sequences: Vec<Vec<f32>>) -> Result<Self> {
        for sequence in &sequences {
            if width == 0 || !sequence.len().is_multiple_of(width) {
                let found = if width == 0 { 0 } else { sequence.len() % width };
                return Err(Error::Width { what: "a row of a sequence", found, expected: width });
            }
            finite("a number of a sequence", sequence)?;
        }
        let sequences = sequences.into_iter().filter(|sequence| !sequence.is_empty()).collect();
        Ok(Self { sequences, width })
    }

    /// Numbers of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The same with standardised rows.
    pub(crate) fn standardised(&self, standardizer: &Standardizer) -> Self {
        let standard = |rows: &Vec<f32>| {
            rows.chunks_exact(self.width).flat_map(|row| standardizer.apply(row)).collect()
        };
        Self { sequences: self.sequences.iter().map(standard).collect(), width: self.width }
    }

    /// The sequences.
    pub fn sequences(&self) -> &[Vec<f32>] {
        &self.sequences
    }
}

/// An error for the first number that is not finite.
pub(crate) fn finite(what: &'static str, numbers: &[f32]) -> Result<()> {
    match numbers.iter().find(|number| !number.is_finite()) {
        None => Ok(()),
        Some(number) => Err(Error::Number {
            what: what.to_owned(),
            value: f64::from(*number),
            expected: "a finite number is needed",
        }),
    }
}

/// The data buffer of one pair: what a base learner observed of it.
pub trait DataBuffer {
    /// What a base learner inserts.
    type Item;

    /// An empty buffer for rows of `width` numbers.
    fn new(config: BufferConfig, width: usize) -> Self;

    /// Takes in what a base learner observed.
    fn insert(&mut self, item: Self::Item) -> Result<()>;

    /// What the meta learner reads.
    fn bundle(&self) -> Bundle;
}

/// Labelled samples of a supervised base learner: the latest ones, as one sequence.
#[derive(Debug, Clone)]
pub struct SampleBuffer {
    capacity: usize,
    width: usize,
    rows: VecDeque<Vec<f32>>,
}

impl DataBuffer for SampleBuffer {
    /// The features of a sample, then its label.
    type Item = Vec<f32>;

    fn new(config: BufferConfig, width: usize) -> Self {
        Self { capacity: config.capacity, width, rows: VecDeque::new() }
    }

    fn insert(&mut self, row: Vec<f32>) -> Result<()> {
        if row.len() != self.width {
            return Err(Error::Width { what: "a sample", found: row.len(), expected: self.width });
        }
        finite("a number of a sample", &row)?;
        self.rows.push_back(row);
        while self.rows.len() > self.capacity {
            self.rows.pop_front();
        }
        Ok(())
    }

    fn bundle(&self) -> Bundle {
        let rows: Vec<f32> = self.rows.iter().flatten().copied().collect();
        let sequences = if rows.is_empty() { Vec::new() } else { vec![rows] };
        Bundle { sequences, width: self.width }
    }
}

/// One episode of a reinforcement-learning base learner.
#[derive(Debug, Clone, PartialEq)]
pub struct Trajectory {
    /// For each time step the state, the action and the reward.
    pub rows: Vec<f32>,
    /// The sum of its rewards.
    pub total_reward: f64,
}

#[derive(Debug, Clone)]
struct Stored {
    trajectory: Trajectory,
    /// Place among all that were inserted.
    number: usize,
    /// Time steps of the pair at its end.
    end: u64,
}

/// Trajectories of a reinforcement-learning base learner, of which the meta learner reads the best
/// and the worst.
#[derive(Debug, Clone)]
pub struct TrajectoryBuffer {
    config: BufferConfig,
    width: usize,
    stored: Vec<Stored>,
    inserted: usize,
    /// Time steps so far.
    steps: u64,
}

impl TrajectoryBuffer {
    /// Those that the meta learner may read, by return; of equal ones the older first.
    fn by_return(&self) -> Vec<&Stored> {
        let is_current = |stored: &&Stored| {
            let age = self.steps - stored.end;
            self.config.expiration.is_none_or(|expiration| age <= expiration)
        };
        let current: Vec<&Stored> = self.stored.iter().filter(is_current).collect();
        let has_learnt = |stored: &&&Stored| stored.number >= self.config.warm_up;
        let mut chosen: Vec<&Stored> = current.iter().filter(has_learnt).copied().collect();
        // A pair without later trajectories is read from the early ones rather than not at all.
        if chosen.is_empty() {
            chosen = current;
        }
        chosen.sort_by(|a, b| {
            let order = a.trajectory.total_reward.total_cmp(&b.trajectory.total_reward);
            order.then(a.number.cmp(&b.number))
        });
        chosen
    }

    fn chosen(&self) -> Vec<&Stored> {
        let sorted = self.by_return();
        let capacity = self.config.capacity;
        if sorted.len() <= capacity {
            return sorted;
        }
        let worst = match self.config.selection {
            Selection::BestAndWorst => capacity / 2,
            Selection::Best => 0,
        };
        let best = &sorted[sorted.len() - (capacity - worst)..];
        sorted[..worst].iter().chain(best).copied().collect()
    }
}

impl DataBuffer for TrajectoryBuffer {
    type Item = Trajectory;

    fn new(config: BufferConfig, width: usize) -> Self {
        Self { config, width, stored: Vec::new(), inserted: 0, steps: 0 }
    }

    fn insert(&mut self, trajectory: Trajectory) -> Result<()> {
        let length = trajectory.rows.len();
        if length == 0 || !length.is_multiple_of(self.width) {
            let found = length % self.width;
            return Err(Error::Width {
                what: "a step of a trajectory",
                found,
                expected: self.width,
            });
        }
        finite("a number of a trajectory", &trajectory.rows)?;
        if !trajectory.total_reward.is_finite() {
            return Err(Error::Number {
                what: "the return of a trajectory".to_owned(),
                value: trajectory.total_reward,
                expected: "a finite number is needed",
            });
        }
        self.steps += (length / self.width) as u64;
        self.stored.push(Stored { trajectory, number: self.inserted, end: self.steps });
        self.inserted += 1;
        // Only what may still be read is kept, and early ones as long as there are no others.
        let read: Vec<usize> = self.chosen().iter().map(|stored| stored.number).collect();
        self.stored.retain(|stored| read.contains(&stored.number));
        Ok(())
    }

    fn bundle(&self) -> Bundle {
        let mut chosen = self.chosen();
        chosen.sort_by_key(|stored| stored.number);
        let sequences = chosen.iter().map(|stored| stored.trajectory.rows.clone()).collect();
        Bundle { sequences, width: self.width }
    }
}

impl Persist for TrajectoryBuffer {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(
            &format!("{name}/progress"),
            [self.inserted as u64, self.steps, self.stored.len() as u64],
        );
        for (place, stored) in self.stored.iter().enumerate() {
            let Stored { trajectory, number, end } = stored;
            let facts = [*number as u64, *end, trajectory.total_reward.to_bits()];
            out.put_u64(&format!("{name}/{place}/facts"), facts);
            out.put_f32(&format!("{name}/{place}/rows"), trajectory.rows.as_slice());
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let progress = from.u64s(&format!("{name}/progress"), 3)?;
        let (inserted, steps, count) = (progress[0] as usize, progress[1], progress[2]);
        let stored = |place: u64| {
            let facts = from.u64s(&format!("{name}/{place}/facts"), 3)?;
            let rows = from.any_f32s(&format!("{name}/{place}/rows"))?.to_vec();
            let trajectory = Trajectory { rows, total_reward: f64::from_bits(facts[2]) };
            Ok(Stored { trajectory, number: facts[0] as usize, end: facts[1] })
        };
        self.stored = (0..count).map(stored).collect::<homeostat_core::Result<_>>()?;
        (self.inserted, self.steps) = (inserted, steps);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MetaLearnerConfig;

    fn returns(config: BufferConfig, inserted: &[f32]) -> Vec<f32> {
        let mut buffer = TrajectoryBuffer::new(config, 3);
        for reward in inserted {
            let total_reward = f64::from(*reward);
            let trajectory = Trajectory { rows: vec![0.0, 1.0, *reward], total_reward };
            buffer.insert(trajectory).unwrap();
        }
        buffer.bundle().sequences().iter().map(|rows| rows[2]).collect()
    }

    #[test]
    fn flash_reads_the_best_and_the_worst_without_early_ones() {
        let config = BufferConfig { capacity: 4, warm_up: 2, ..MetaLearnerConfig::flash().buffer };
        // -9 and -8 are early: the worst of those after them are 1 and 2.
        let inserted = [-9.0, -8.0, 5.0, 1.0, 7.0, 2.0, 6.0, 3.0, 4.0];
        assert_eq!(returns(config, &inserted), [1.0, 7.0, 2.0, 6.0]);
    }

    #[test]
    fn aware_reads_the_best_alone() {
        let config = BufferConfig { capacity: 3, ..MetaLearnerConfig::aware().buffer };
        assert_eq!(returns(config, &[5.0, 1.0, 7.0, 2.0, 6.0]), [5.0, 7.0, 6.0]);
    }

    #[test]
    fn a_trajectory_expires() {
        let config = BufferConfig {
            capacity: 8,
            warm_up: 0,
            expiration: Some(2),
            ..MetaLearnerConfig::flash().buffer
        };
        assert_eq!(returns(config, &[1.0, 2.0, 3.0, 4.0, 5.0]), [3.0, 4.0, 5.0]);
    }

    #[test]
    fn early_trajectories_are_read_while_there_are_no_others() {
        let config = BufferConfig { capacity: 4, warm_up: 3, ..MetaLearnerConfig::flash().buffer };
        assert_eq!(returns(config, &[1.0, 2.0]), [1.0, 2.0]);
        assert_eq!(returns(config, &[1.0, 2.0, 3.0, 4.0]), [4.0]);
    }

    #[test]
    fn samples_are_the_latest_in_order() {
        let config = BufferConfig { capacity: 2, ..MetaLearnerConfig::flash().buffer };
        let mut buffer = SampleBuffer::new(config, 2);
        for label in 0..3 {
            buffer.insert(vec![0.5, label as f32]).unwrap();
        }
        assert_eq!(buffer.bundle().sequences(), [vec![0.5, 1.0, 0.5, 2.0]]);
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_changes_nothing() {
        let config = MetaLearnerConfig::flash().buffer;
        let mut samples = SampleBuffer::new(config, 2);
        let error = samples.insert(vec![1.0]).unwrap_err().to_string();
        assert_eq!(error, "a sample has 1 numbers, 2 are needed");
        assert!(samples.insert(vec![1.0, f32::NAN]).is_err());
        assert!(samples.bundle().sequences().is_empty());
        let mut trajectories = TrajectoryBuffer::new(config, 3);
        for rows in [vec![], vec![1.0; 4], vec![1.0, f32::INFINITY, 0.0]] {
            assert!(trajectories.insert(Trajectory { rows, total_reward: 0.0 }).is_err());
        }
        let nan = Trajectory { rows: vec![0.0; 3], total_reward: f64::NAN };
        assert!(trajectories.insert(nan).is_err());
        assert!(trajectories.bundle().sequences().is_empty());
    }
}
