//! What busy workers cost each other: work per CPU time against the number of workers.

use std::time::Duration;

use homeostat_lab::{Result, Summary};
use serde::Serialize;

use super::crew::{Crew, Workplace};
use super::fit::{Estimate, Form, StrainFit};
use super::worker::{Count, Kind};

/// Most workers for each core.
const MAX_PER_CORE: usize = 8;

/// Pairs of categories that are measured half and half.
const MIXES: [[Kind; 2]; 2] = [[Kind::Cpu, Kind::Memory], [Kind::Cache, Kind::Io]];

/// Time before a window in which caches fill and the kernel spreads the load.
const WARM_UP: Duration = Duration::from_millis(200);

/// What is measured.
pub(crate) struct ContentionPlan<'a> {
    pub(crate) workplace: &'a Workplace,
    pub(crate) categories: &'a [Kind],
    pub(crate) window: Duration,
    pub(crate) repetitions: usize,
}

/// What contention costs.
#[derive(Debug, Clone, Serialize)]
pub struct ContentionReport {
    /// Cores that workers shared.
    pub cores: usize,
    /// The form that leaves the smaller squares over all categories.
    pub form: Form,
    /// One entry for each category.
    pub categories: Vec<CategoryReport>,
    /// Two categories at once.
    pub mixes: Vec<MixReport>,
}

/// What contention costs one category of work.
#[derive(Debug, Clone, Serialize)]
pub struct CategoryReport {
    /// The category.
    pub category: Kind,
    /// Units of work per CPU second of a worker alone.
    pub units_per_cpu_s: f64,
    /// The capacity of the node against the number of busy workers.
    pub points: Vec<CurvePoint>,
    /// The simulator's form.
    pub linear: StrainFit,
    /// The alternative.
    pub saturating: StrainFit,
}

/// The node with one number of busy workers.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CurvePoint {
    /// Busy workers, each in a group of its own.
    pub busy: usize,
    /// What the node is worth, in cores that a worker has alone: work per CPU time against
    /// that of a worker alone, times the cores that are busy.
    pub capacity: Estimate,
    /// The same by the clock on the wall: what foreign load took is missing here.
    pub throughput: Estimate,
    /// Part of the busy cores' time that the workers received: below one, others took the
    /// rest.
    pub received: f64,
}

/// Two categories, half of the workers each.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MixReport {
    /// The categories.
    pub categories: [Kind; 2],
    /// Busy workers of both.
    pub busy: usize,
    /// What the node is worth, in cores.
    pub capacity: Estimate,
    /// The same by the simulator's rule: each category by its own coefficients, the shared
    /// part in proportion to the workers that are of its kind.
    pub predicted: f64,
    /// CPU time for the same work against alone, of each.
    pub slowdowns: [f64; 2],
}

impl CategoryReport {
    /// The coefficients in one form.
    pub fn fit(&self, form: Form) -> &StrainFit {
        match form {
            Form::Linear => &self.linear,
            Form::Saturating => &self.saturating,
        }
    }
}

impl ContentionReport {
    /// The smallest part of saturated cores that workers received at any point: on a quiet
    /// machine close to one. `io` sleeps now and then by itself and does not count.
    pub fn received(&self) -> Option<f64> {
        let others = self.categories.iter().filter(|report| report.category != Kind::Io);
        let points = others.flat_map(|report| &report.points);
        let saturated = points.filter(|point| point.busy >= self.cores);
        saturated.map(|point| point.received).reduce(f64::min)
    }
}

/// A window with workers of one category.
struct Observation {
    category: Kind,
    busy: usize,
    /// Units per CPU second.
    rate: f64,
    /// Units per second on the wall.
    throughput: f64,
    received: f64,
}

impl ContentionPlan<'_> {
    /// Measures everything in interleaved repetitions, so that drift of the machine becomes
    /// spread rather than bias.
    pub(crate) fn run(
        &self,
        progress: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<ContentionReport> {
        let cores = self.workplace.cores();
        let counts = worker_counts(cores);
        let mut observations = Vec::new();
        let mut mixed = Vec::new();
        for repetition in 0..self.repetitions {
            for category in self.categories {
                progress(&format!(
                    "contention of {category}, repetition {} of {}",
                    repetition + 1,
                    self.repetitions
                ))?;
                // Back and forth: what drifts during a repetition is turned around in the next.
                let mut counts = counts.clone();
                if repetition % 2 == 1 {
                    counts.reverse();
                }
                for busy in counts {
                    let counted = self.measure(&vec![*category; busy])?;
                    observations.push(observation(*category, cores, &counted));
                    progress("")?;
                }
            }
            for (categories, busy) in self.mixes() {
                let [first, second] = categories;
                progress(&format!("a mix of {first} and {second}, {busy} workers"))?;
                let kinds: Vec<_> = (0..busy).map(|index| categories[index % 2]).collect();
                mixed.push((categories, busy, self.measure(&kinds)?));
            }
        }
        let categories: Vec<_> = self
            .categories
            .iter()
            .map(|category| self.category(*category, &counts, &observations))
            .collect::<Result<_>>()?;
        let squares = |form: Form| -> f64 {
            categories.iter().map(|category| category.fit(form).residual_rms.powi(2)).sum()
        };
        let form = if squares(Form::Saturating) < squares(Form::Linear) {
            Form::Saturating
        } else {
            Form::Linear
        };
        let mixes =
            self.mixes().map(|(mix, busy)| mix_report(cores, mix, busy, &categories, &mixed));
        Ok(ContentionReport { cores, form, mixes: mixes.collect(), categories })
    }

    fn measure(&self, kinds: &[Kind]) -> Result<Vec<Count>> {
        Crew::apart(self.workplace, kinds)?.measure(WARM_UP, self.window)
    }

    /// Mixes of categories that are measured alone too, at two and four workers per core.
    fn mixes(&self) -> impl Iterator<Item = ([Kind; 2], usize)> {
        let cores = self.workplace.cores();
        let wanted =
            MIXES.into_iter().filter(|mix| mix.iter().all(|kind| self.categories.contains(kind)));
        wanted.flat_map(move |mix| [2 * cores, 4 * cores].map(|busy| (mix, busy)))
    }

    fn category(
        &self,
        category: Kind,
        counts: &[usize],
        observations: &[Observation],
    ) -> Result<CategoryReport> {
        let cores = self.workplace.cores();
        let own: Vec<_> =
            observations.iter().filter(|observation| observation.category == category).collect();
        let alone: Vec<_> = own.iter().filter(|observation| observation.busy == 1).collect();
        let mean = |value: fn(&Observation) -> f64| {
            alone.iter().map(|observation| value(observation)).sum::<f64>() / alone.len() as f64
        };
        let (rate, throughput) = (mean(|alone| alone.rate), mean(|alone| alone.throughput));
        let points = counts.iter().map(|busy| {
            let at: Vec<_> = own.iter().filter(|observation| observation.busy == *busy).collect();
            let worth = |value: &dyn Fn(&Observation) -> f64| {
                estimate(&at.iter().map(|observation| value(observation)).collect::<Vec<_>>())
            };
            CurvePoint {
                busy: *busy,
                capacity: worth(&|seen| seen.rate / rate * (*busy).min(cores) as f64),
                throughput: worth(&|seen| seen.throughput / throughput),
                received: worth(&|seen| seen.received).value,
            }
        });
        let points = points.collect();
        let pairs: Vec<_> = own.iter().map(|seen| (seen.busy, seen.rate)).collect();
        let fit = |form| {
            StrainFit::new(form, cores, &pairs).ok_or_else(|| homeostat_lab::Error::Calibration {
                reason: format!(
                    "the {category} workers took no measurable CPU time: give more --seconds"
                ),
            })
        };
        Ok(CategoryReport {
            category,
            units_per_cpu_s: rate,
            points,
            linear: fit(Form::Linear)?,
            saturating: fit(Form::Saturating)?,
        })
    }
}

/// One worker, the parts of saturation, saturation itself, and beyond.
pub(crate) fn worker_counts(cores: usize) -> Vec<usize> {
    let below = [1, cores / 4, cores / 2, cores * 3 / 4, cores];
    let beyond = [3, 4, 6, 8, 12, 2 * MAX_PER_CORE].map(|halves| (cores * halves).div_ceil(2));
    let mut counts: Vec<_> = below.into_iter().chain(beyond).filter(|busy| *busy > 0).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn observation(category: Kind, cores: usize, counted: &[Count]) -> Observation {
    let sum = |value: fn(&Count) -> f64| counted.iter().map(value).sum::<f64>();
    let busy = counted.len();
    Observation {
        category,
        busy,
        rate: sum(|count| count.units as f64) / sum(|count| count.cpu_s),
        throughput: sum(|count| count.units as f64 / count.wall_s),
        received: sum(|count| count.cpu_s / count.wall_s) / busy.min(cores) as f64,
    }
}

fn mix_report(
    cores: usize,
    mix: [Kind; 2],
    busy: usize,
    categories: &[CategoryReport],
    mixed: &[([Kind; 2], usize, Vec<Count>)],
) -> MixReport {
    let of = |kind: Kind| {
        categories
            .iter()
            .find(|report| report.category == kind)
            .expect("only mixes of measured categories are measured")
    };
    let both = mix.map(of);
    let seen: Vec<_> =
        mixed.iter().filter(|(kinds, count, _)| (*kinds, *count) == (mix, busy)).collect();
    // CPU time, and the CPU time that the same work takes alone, of each half.
    let halves = |counted: &[Count]| {
        [0, 1].map(|half| {
            let own = counted.iter().skip(half).step_by(2);
            own.fold((0.0, 0.0), |(cpu, alone), count| {
                (cpu + count.cpu_s, alone + count.units as f64 / both[half].units_per_cpu_s)
            })
        })
    };
    let capacities: Vec<_> = seen
        .iter()
        .map(|(_, _, counted)| {
            let [first, second] = halves(counted);
            (first.1 + second.1) / (first.0 + second.0) * busy.min(cores) as f64
        })
        .collect();
    let slowdowns = [0, 1].map(|half| {
        let all: Vec<_> = seen.iter().map(|(_, _, counted)| halves(counted)[half]).collect();
        let sum = all.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        sum.0 / sum.1
    });
    let half = 0.5 * busy.min(cores) as f64;
    let predicted = both.iter().map(|report| half / (1.0 + report.linear.cost(busy, cores, 0.5)));
    MixReport {
        categories: mix,
        busy,
        capacity: estimate(&capacities),
        predicted: predicted.sum(),
        slowdowns,
    }
}

/// Mean and standard error.
pub(crate) fn estimate(values: &[f64]) -> Estimate {
    Summary::of(values).map_or(Estimate { value: f64::NAN, error: f64::NAN }, |summary| Estimate {
        value: summary.mean,
        error: summary.deviation / (summary.count as f64).sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_counted_below_at_and_beyond_saturation() {
        assert_eq!(worker_counts(1), [1, 2, 3, 4, 6, 8]);
        assert_eq!(worker_counts(2), [1, 2, 3, 4, 6, 8, 12, 16]);
        assert_eq!(worker_counts(8), [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64]);
    }
}
