//! Applications measured in several configurations, and what a base learner is asked about them.

use homeostat_core::Stream;

use crate::{Episode, Error, Pair, Query, Result, SampleShape};

/// What was measured in one configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// The configuration, for example the logarithm of a memory size.
    pub configuration: Vec<f32>,
    /// What monitoring reports beside the time.
    pub metrics: Vec<f32>,
    /// Execution time, in any unit.
    pub time: f64,
}

/// A pair with what was measured of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The application and its environment.
    pub pair: Pair,
    /// One measurement for each configuration.
    pub measurements: Vec<Measurement>,
}

/// Which samples of a pair the meta learner reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Samples of all configurations, also of those that are asked for: what Section 5.6.1
    /// describes. The embedding then knows the answers.
    Printed,
    /// Samples of the configurations alone that the base learner reads too.
    Strict,
}

impl Measurement {
    /// What a base learner or a meta learner reads: configuration, metrics, time.
    pub fn row(&self) -> Vec<f32> {
        let mut row = self.configuration.clone();
        row.extend(&self.metrics);
        row.push(self.time.ln() as f32);
        row
    }
}

impl Profile {
    /// The widths of episodes of this profile in which `shots` configurations are known.
    pub fn shape(&self, shots: usize) -> SampleShape {
        let first = self.measurements.first();
        let (row, configuration) =
            first.map_or((0, 0), |first| (first.row().len(), first.configuration.len()));
        SampleShape { features: shots * row + configuration, context: row }
    }

    /// `shots` measurements drawn at random are known; what are the times in the other
    /// configurations?
    pub fn draw(&self, shots: usize, protocol: Protocol, rng: &mut Stream) -> Result<Episode> {
        let mut measured = self.measurements.clone();
        if shots == 0 || measured.len() <= shots {
            return Err(Error::Setting {
                name: "shots",
                value: shots.to_string(),
                expected: "at least one, and fewer than there are measurements of a pair",
            });
        }
        rng.shuffle(&mut measured);
        let (known, asked) = measured.split_at(shots);
        let mut episode = ask(known, known, asked);
        if protocol == Protocol::Printed {
            episode.context = measured.iter().map(Measurement::row).collect();
        }
        Ok(episode)
    }
}

/// The times of `asked`, for a base learner that reads `read` and a meta learner that reads
/// `known`. Times are relative to the geometric mean of those that the base learner reads.
pub(crate) fn ask(known: &[Measurement], read: &[Measurement], asked: &[Measurement]) -> Episode {
    let logs: f64 = read.iter().map(|one| one.time.ln()).sum();
    let reference = (logs / read.len() as f64).exp();
    let features: Vec<f32> = read.iter().flat_map(Measurement::row).collect();
    let query = |target: &Measurement| Query {
        features: [&features[..], &target.configuration].concat(),
        reference,
        label: target.time,
    };
    Episode {
        context: known.iter().map(Measurement::row).collect(),
        queries: asked.iter().map(query).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let measurement = |place: u8| Measurement {
            configuration: vec![f32::from(place)],
            metrics: vec![0.5, 0.25],
            time: f64::from(1 + place),
        };
        Profile {
            pair: Pair::new("function", "platform"),
            measurements: (0..5).map(measurement).collect(),
        }
    }

    #[test]
    fn a_strict_context_never_holds_a_time_that_is_asked_for() {
        let mut rng = Stream::from_seed(1);
        for shots in 1..=4 {
            for _ in 0..20 {
                let strict = profile().draw(shots, Protocol::Strict, &mut rng).unwrap();
                assert_eq!((strict.context.len(), strict.queries.len()), (shots, 5 - shots));
                for query in &strict.queries {
                    let time = query.label.ln() as f32;
                    assert!(strict.context.iter().all(|row| row[3] != time));
                    assert_eq!(query.features.len(), profile().shape(shots).features);
                }
                let printed = profile().draw(shots, Protocol::Printed, &mut rng).unwrap();
                assert_eq!((printed.context.len(), printed.queries.len()), (5, 5 - shots));
            }
        }
    }

    #[test]
    fn at_least_one_measurement_must_be_left_to_ask_for() {
        for shots in [0, 5, 6] {
            let refused = profile().draw(shots, Protocol::Strict, &mut Stream::from_seed(1));
            assert!(refused.unwrap_err().to_string().starts_with("shots is"));
        }
    }
}
