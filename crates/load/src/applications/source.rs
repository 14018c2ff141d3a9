//! Where the requests of a Deployment come from.

use homeostat_core::{SeedTree, SimDuration, SimTime, Stream};
use serde::{Deserialize, Serialize};

use crate::traffic::{Rhythm, TrafficModel};
use crate::{Arrivals, LoadShape, Result, TraceArrivals};

/// The half of the Azure population that a load is drawn from (Section 5.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Half {
    /// More than 100 000 requests a day.
    High,
    /// Fewer, but at least one a minute: below that there is nothing to scale.
    Low,
}

impl Half {
    const SPLIT_PER_MINUTE: f64 = 1e5 / 1440.0;

    fn contains(self, rhythm: &Rhythm) -> bool {
        let rate = rhythm.per_minute();
        let is_random = matches!(rhythm, Rhythm::Random { .. });
        is_random
            && match self {
                Self::High => rate > Self::SPLIT_PER_MINUTE,
                Self::Low => (1.0..=Self::SPLIT_PER_MINUTE).contains(&rate),
            }
    }

    /// The other half.
    pub fn other(self) -> Self {
        match self {
            Self::High => Self::Low,
            Self::Low => Self::High,
        }
    }
}

/// The arrivals of one Deployment.
#[derive(Debug, Clone)]
pub enum Source {
    /// A rate that people choose.
    Shape(Box<Arrivals>),
    /// Days of one function of the Azure population.
    Azure(Box<AzureDays>),
}

/// Days like those of one function of Azure 2019, one after the other, from a random minute on.
#[derive(Debug, Clone)]
pub struct AzureDays {
    rhythm: Rhythm,
    seeds: SeedTree,
    day: u64,
    /// When the present day began; the first began before time zero.
    began: SimTime,
    minutes: u64,
    replay: TraceArrivals,
}

impl Source {
    /// A load of this shape.
    pub fn shape(shape: &LoadShape, rng: Stream) -> Result<Self> {
        Ok(Self::Shape(Box::new(Arrivals::new(shape, rng)?)))
    }

    /// A load with the rhythm of a function of that half of the population and with this mean rate.
    /// It keeps the function's bunching, spread and correlations.
    pub fn azure(model: &TrafficModel, half: Half, per_second: f64, seeds: &SeedTree) -> Self {
        let mut rng = seeds.stream("rhythm");
        let rhythm = loop {
            let drawn = model.draw(&mut rng).rhythm;
            if half.contains(&drawn) {
                break drawn;
            }
        };
        let rhythm = match rhythm {
            Rhythm::Random {
                bunching,
                clinging,
                spread,
                autocorrelation_1,
                autocorrelation_60,
                ..
            } => {
                let per_minute = per_second * 60.0;
                Rhythm::Random {
                    per_minute,
                    bunching,
                    clinging,
                    spread,
                    autocorrelation_1,
                    autocorrelation_60,
                }
            }
            clock @ Rhythm::Clock { .. } => clock,
        };
        let start = rng.below(AzureDays::MINUTES);
        Self::Azure(Box::new(AzureDays::new(rhythm, seeds.clone(), start)))
    }

    /// The next arrival; none if there are no more.
    pub fn next_arrival(&mut self) -> Option<SimTime> {
        match self {
            Self::Shape(arrivals) => arrivals.next_arrival(),
            Self::Azure(days) => Some(days.next_arrival()),
        }
    }
}

impl AzureDays {
    const MINUTES: usize = 1440;

    fn new(rhythm: Rhythm, seeds: SeedTree, start: usize) -> Self {
        let empty = TraceArrivals::new(Vec::new(), seeds.stream("none"));
        let mut this =
            Self { rhythm, seeds, day: 0, began: SimTime::ZERO, minutes: 0, replay: empty };
        this.begin_day(start);
        this
    }

    fn begin_day(&mut self, from_minute: usize) {
        let seeds = self.seeds.child(&format!("day/{}", self.day));
        self.day += 1;
        self.began += SimDuration::from_secs(60) * self.minutes;
        let counts = self.rhythm.minute_counts(Self::MINUTES, &mut seeds.stream("counts"));
        let counts = counts[from_minute..].to_vec();
        self.minutes = counts.len() as u64;
        self.replay = TraceArrivals::new(counts, seeds.stream("arrivals"));
    }

    fn next_arrival(&mut self) -> SimTime {
        loop {
            if let Some(inside) = self.replay.next_arrival() {
                return self.began + SimDuration::from_nanos(inside.nanos());
            }
            self.begin_day(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn azure_days_follow_each_other_at_the_chosen_rate() {
        let model = TrafficModel::azure_2019();
        for half in [Half::High, Half::Low] {
            let mut source = Source::azure(&model, half, 2.0, &SeedTree::new(5));
            let mut times = Vec::new();
            let end = SimTime::from_nanos(4 * 86_400 * 1_000_000_000);
            while let Some(at) = source.next_arrival().filter(|at| *at < end) {
                times.push(at);
            }
            assert!(times.is_sorted());
            let per_second = times.len() as f64 / end.seconds();
            assert!((1.6..2.4).contains(&per_second), "{half:?}: {per_second}");
        }
    }
}
