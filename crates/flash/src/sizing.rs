//! The execution time of a function at memory sizes at which it was not measured, with prediction
//! intervals: what `homeostat size` prints.
//!
//! The meta learner reads all sizes at which the function was measured, however many, and the base
//! learner one of them. Several learners are trained, each without one part of the functions. Their
//! errors on the functions that they did not see give the intervals (cross-conformal prediction).

use homeostat_core::SeedTree;
use homeostat_nn::Cell;

use crate::profile::ask;
use crate::{
    Adaptation, EmbeddingPool, Error, Measurement, MetaLearnerConfig, Pair, PoolPair, Profile,
    Result, SupervisedConfig, SupervisedLearner,
};

/// Learners, each of which leaves out one part of the functions.
const FOLDS: usize = 4;
/// Views of a function: which sizes are known, and which of them the base learner reads.
const VIEWS: usize = 24;
/// At most this many sizes are known in a view.
const MAX_SHOTS: usize = 3;
/// Part of the functions left out that count as outside the training functions.
const OUTSIDE: f64 = 0.02;
/// The part of the true times that a prediction interval holds.
pub const COVERAGE: f64 = 0.9;

/// One function at one memory size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeMeasurement {
    /// Memory size in MB.
    pub memory_mb: f64,
    /// Mean execution time.
    pub duration_ms: f64,
    /// User CPU time of an execution.
    pub user_cpu_ms: f64,
    /// System CPU time of an execution.
    pub system_cpu_ms: f64,
    /// Heap in use.
    pub heap_used_mb: f64,
}

/// A function with its measurements, one for each memory size.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionSizes {
    /// Its name.
    pub name: String,
    /// What was measured.
    pub measurements: Vec<SizeMeasurement>,
}

/// The execution time at one memory size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizePrediction {
    /// Memory size in MB.
    pub memory_mb: f64,
    /// Execution time; the measured one, if there is one.
    pub duration_ms: f64,
    /// Where it lies with a probability of [`COVERAGE`], for a function like those of the training.
    pub interval_ms: (f64, f64),
    /// Whether it was measured.
    pub is_measured: bool,
}

/// What is known of a function after its measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct SizedFunction {
    /// Its name.
    pub name: String,
    /// Every size that was asked for, smallest first.
    pub predictions: Vec<SizePrediction>,
    /// Why the intervals may be too narrow; empty for a function like those of the training.
    pub warnings: Vec<String>,
}

/// Predicts execution times.
#[derive(Debug)]
pub struct SizeEstimator {
    learners: Vec<SupervisedLearner>,
    /// For each learner the embeddings of the functions that it was trained on.
    pools: Vec<EmbeddingPool>,
    /// Errors of held-out functions by the distance of the sizes, sorted.
    errors: Vec<Vec<f64>>,
}

impl SizeMeasurement {
    fn measurement(&self) -> Measurement {
        let log = |value: f64| value.max(1e-3).ln() as f32;
        let cpu = self.user_cpu_ms + self.system_cpu_ms;
        Measurement {
            configuration: vec![self.memory_mb.log2() as f32],
            metrics: vec![
                log(self.user_cpu_ms),
                log(self.system_cpu_ms),
                log(self.heap_used_mb),
                // How much of a core an execution had: what tells waiting from computing.
                log(cpu / self.duration_ms),
            ],
            time: self.duration_ms,
        }
    }

    fn check(&self, function: &str) -> Result<()> {
        let fields = [
            ("memory_mb", self.memory_mb, true),
            ("duration_ms", self.duration_ms, true),
            ("user_cpu_ms", self.user_cpu_ms, false),
            ("system_cpu_ms", self.system_cpu_ms, false),
            ("heap_used_mb", self.heap_used_mb, false),
        ];
        for (name, value, is_positive) in fields {
            if !value.is_finite() || value < 0.0 || (is_positive && value == 0.0) {
                let what = format!("{name} of function `{function}`");
                let expected =
                    if is_positive { "it must be above zero" } else { "it must not be negative" };
                return Err(Error::Number { what, value, expected });
            }
        }
        Ok(())
    }
}

impl FunctionSizes {
    fn profile(&self) -> Result<Profile> {
        let mut sizes: Vec<f64> = Vec::new();
        for one in &self.measurements {
            one.check(&self.name)?;
            if sizes.contains(&one.memory_mb) {
                return Err(Error::Number {
                    what: format!("memory_mb of function `{}`", self.name),
                    value: one.memory_mb,
                    expected: "it must not be there twice",
                });
            }
            sizes.push(one.memory_mb);
        }
        Ok(Profile {
            pair: Pair::new(&self.name, "memory size"),
            measurements: self.measurements.iter().map(SizeMeasurement::measurement).collect(),
        })
    }
}

fn config() -> SupervisedConfig {
    SupervisedConfig {
        hidden: vec![48; 2],
        l2: 0.0,
        queries_per_pair: 8,
        pairs_per_update: 8,
        meta: MetaLearnerConfig {
            cell: Cell::Gru,
            input: 16,
            hidden: 16,
            layers: 1,
            embedding: 8,
            learning_rate: 1e-3,
            ..MetaLearnerConfig::flash()
        },
        ..SupervisedConfig::sizeless(Adaptation::Flash)
    }
}

/// Steps of half an octave between two sizes.
fn distance(one: f64, other: f64) -> usize {
    (2.0 * (one / other).log2().abs()).round() as usize
}

impl SizeEstimator {
    /// Updates of each learner.
    pub const UPDATES: u64 = 10_000;

    /// Trains on functions that were measured at two sizes or more.
    pub fn train(
        functions: &[FunctionSizes],
        updates: u64,
        seeds: &SeedTree,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self> {
        if functions.len() < 3 * FOLDS {
            return Err(Error::Setting {
                name: "functions",
                value: functions.len().to_string(),
                expected: "at least 12 functions to train on",
            });
        }
        let mut order: Vec<usize> = (0..functions.len()).collect();
        seeds.stream("folds").shuffle(&mut order);
        let mut views = seeds.stream("views");
        let mut pool = Vec::with_capacity(functions.len());
        for place in &order {
            let function = &functions[*place];
            let profile = function.profile()?;
            let most = MAX_SHOTS.min(profile.measurements.len().saturating_sub(1));
            if most == 0 {
                return Err(Error::Setting {
                    name: "sizes",
                    value: format!("1 for `{}`", function.name),
                    expected: "functions that were measured at two memory sizes or more",
                });
            }
            let episodes = (0..VIEWS).map(|_| {
                let mut measured = profile.measurements.clone();
                views.shuffle(&mut measured);
                let (known, asked) = measured.split_at(1 + views.below(most));
                ask(known, &known[..1], asked)
            });
            pool.push(PoolPair { pair: profile.pair.clone(), episodes: episodes.collect() });
        }
        let shape = functions[0].profile()?.shape(1);
        let mut this = Self { learners: Vec::new(), pools: Vec::new(), errors: Vec::new() };
        for fold in 0..FOLDS {
            progress(fold, FOLDS);
            let is_held_out = |place: &usize| place % FOLDS == fold;
            let part = |held_out: bool| -> Vec<PoolPair> {
                let places = (0..pool.len()).filter(|place| is_held_out(place) == held_out);
                places.map(|place| pool[place].clone()).collect()
            };
            let (train, test) = (part(false), part(true));
            let seeds = seeds.child(&format!("fold {fold}"));
            let mut learner = SupervisedLearner::new(config(), shape, &train, &seeds)?;
            learner.pretrain(&train, updates)?;
            for pair in &test {
                for episode in &pair.episodes {
                    let base = f64::from(episode.queries[0].features[0]);
                    for (query, found) in episode.queries.iter().zip(learner.predict(episode)?) {
                        let target = query.features.last().copied().unwrap_or_default();
                        let apart = distance(base.exp2(), f64::from(target).exp2());
                        if this.errors.len() <= apart {
                            this.errors.resize(apart + 1, Vec::new());
                        }
                        this.errors[apart].push((found / query.label).ln().abs());
                    }
                }
            }
            let embeddings = train
                .iter()
                .map(|pair| Ok(learner.embedding(&pair.episodes[0].context)?.0))
                .collect::<Result<_>>()?;
            this.pools.push(EmbeddingPool::new(embeddings, OUTSIDE)?);
            this.learners.push(learner);
        }
        this.errors.iter_mut().for_each(|errors| errors.sort_by(f64::total_cmp));
        Ok(this)
    }

    /// The times of a function at these memory sizes in MB, and at those at which it was measured.
    pub fn predict(&mut self, function: &FunctionSizes, sizes_mb: &[f64]) -> Result<SizedFunction> {
        let profile = function.profile()?;
        if profile.measurements.is_empty() {
            return Err(Error::NoSamples { pair: profile.pair.to_string() });
        }
        let mut sizes: Vec<f64> = sizes_mb.to_vec();
        sizes.extend(function.measurements.iter().map(|one| one.memory_mb));
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        let mut predictions = Vec::with_capacity(sizes.len());
        for memory_mb in sizes {
            let measured = function.measurements.iter().find(|one| one.memory_mb == memory_mb);
            predictions.push(match measured {
                Some(one) => SizePrediction {
                    memory_mb,
                    duration_ms: one.duration_ms,
                    interval_ms: (one.duration_ms, one.duration_ms),
                    is_measured: true,
                },
                None => self.at(&function.measurements, memory_mb)?,
            });
        }
        Ok(SizedFunction {
            name: function.name.clone(),
            predictions,
            warnings: self.warnings(function)?,
        })
    }

    /// The time at a size at which the function was not measured, from the nearest measured one.
    fn at(&mut self, measured: &[SizeMeasurement], memory_mb: f64) -> Result<SizePrediction> {
        let apart = |one: &&SizeMeasurement| (one.memory_mb / memory_mb).log2().abs();
        let nearest = measured.iter().min_by(|a, b| apart(a).total_cmp(&apart(b)));
        let nearest = nearest.expect("the caller has checked that there is one");
        let known: Vec<Measurement> = measured.iter().map(SizeMeasurement::measurement).collect();
        let asked = SizeMeasurement { memory_mb, ..*nearest }.measurement();
        let episode = ask(&known, &[nearest.measurement()], &[asked]);
        let mut logs = Vec::with_capacity(self.learners.len());
        for learner in &mut self.learners {
            logs.push(learner.predict(&episode)?[0].ln());
        }
        let middle = logs.iter().sum::<f64>() / logs.len() as f64;
        let error = self.error(distance(nearest.memory_mb, memory_mb));
        Ok(SizePrediction {
            memory_mb,
            duration_ms: middle.exp(),
            interval_ms: ((middle - error).exp(), (middle + error).exp()),
            is_measured: false,
        })
    }

    /// The error of a logarithm that held-out functions exceed with a probability of one less
    /// [`COVERAGE`], at this distance or less: further sizes are never said to be better known.
    fn error(&self, apart: usize) -> f64 {
        let known = self.errors.iter().take(apart + 1).filter(|errors| !errors.is_empty());
        let quantile = |errors: &Vec<f64>| {
            let rank = (COVERAGE * (errors.len() + 1) as f64).ceil() as usize;
            errors[rank.clamp(1, errors.len()) - 1]
        };
        let within = known.map(quantile).fold(0.0, f64::max);
        // Distances that training never had are at least as uncertain as the largest it had.
        if within > 0.0 {
            return within;
        }
        self.errors.iter().filter(|errors| !errors.is_empty()).map(quantile).fold(0.0, f64::max)
    }

    fn warnings(&mut self, function: &FunctionSizes) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let context: Vec<Vec<f32>> =
            function.measurements.iter().map(|one| one.measurement().row()).collect();
        let (mut outside, mut similarity) = (0, 0.0);
        for (learner, pool) in self.learners.iter_mut().zip(&self.pools) {
            let found = pool.locate(&learner.embedding(&context)?.0)?;
            outside += usize::from(found.is_outside);
            similarity += found.similarity / FOLDS as f64;
        }
        if 2 * outside > self.learners.len() {
            warnings.push(format!(
                "out of distribution: the most similar function of the training has a similarity of \
                 {similarity:.2}, less than {:.0} % of its own functions have",
                100.0 * (1.0 - OUTSIDE)
            ));
        }
        for (place, one) in function.measurements.iter().enumerate() {
            let mut others = function.measurements.clone();
            others.remove(place);
            if others.is_empty() {
                break;
            }
            let found = self.at(&others, one.memory_mb)?;
            let (low, high) = found.interval_ms;
            // Twice the interval: one size in ten lies outside of the simple one.
            let margin = high / found.duration_ms;
            if one.duration_ms < low / margin || one.duration_ms > high * margin {
                warnings.push(format!(
                    "out of distribution: {:.4} ms at {} MB were measured, {:.4} to {:.4} ms were expected \
                     from the other sizes",
                    one.duration_ms, one.memory_mb, low, high
                ));
            }
        }
        Ok(warnings)
    }
}
