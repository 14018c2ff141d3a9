//! A supervised base learner, conditioned on embeddings: Sizeless (Tables A.2 and A.3) and its
//! like.
//!
//! The base learner predicts a positive label, such as an execution time, as a reference that is
//! known (the time at another size) times the exponential of its output. Its loss is the mean
//! absolute percentage error (MAPE). With [`Adaptation::Flash`] it reads the embedding of the pair
//! beside the features, and the gradient of its loss trains the meta learner too.

use std::sync::Arc;

use homeostat_core::{Persist, SeedTree, Snapshot, Stream};
use homeostat_nn::{
    Activation, Adam, AdamConfig, Init, InputRows, Kernel, MlpShape, Network, Tape, clip_factor,
};

use crate::bundle::finite;
use crate::standardizer::Standardizer;
use crate::{
    Adaptation, Bundle, Embedding, Error, MetaLearnerConfig, MetaTape, Pair, Result, SampleWidths,
    SupervisedTask,
};

/// Gradients beyond this norm are scaled down to it.
const MAX_NORM: f32 = 1.0;
/// No prediction is further from its reference than this factor, as a logarithm.
const MAX_LOG_RATIO: f32 = 12.0;

/// Settings of a supervised base learner.
#[derive(Debug, Clone, PartialEq)]
pub struct SupervisedConfig {
    /// Neurons of each hidden layer.
    pub hidden: Vec<usize>,
    /// Learning rate of Adam.
    pub learning_rate: f32,
    /// Strength of the L2 penalty, relative to a MAPE in percent.
    pub l2: f32,
    /// Pairs of an update.
    pub pairs_per_update: usize,
    /// Queries of each pair in an update, at most.
    pub queries_per_pair: usize,
    /// Plain, transfer learning or FLASH.
    pub adaptation: Adaptation,
    /// The meta learner of FLASH.
    pub meta: MetaLearnerConfig,
}

impl SupervisedConfig {
    /// Sizeless with the settings that Table A.3 selects.
    pub fn sizeless(adaptation: Adaptation) -> Self {
        Self {
            hidden: vec![256; 4],
            learning_rate: 1e-3,
            l2: 0.01,
            pairs_per_update: 4,
            queries_per_pair: 32,
            adaptation,
            meta: MetaLearnerConfig::flash(),
        }
    }
}

/// What the base learner is asked, and the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Features.
    pub features: Vec<f32>,
    /// What the label is relative to.
    pub reference: f64,
    /// The true label.
    pub label: f64,
}

/// Samples of a pair that the meta learner reads, and queries about the same pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Rows of features and labels; not read without an embedding.
    pub context: Vec<Vec<f32>>,
    /// What the base learner is asked.
    pub queries: Vec<Query>,
}

/// A pair of the pretraining pool.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolPair {
    /// Its name.
    pub pair: Pair,
    /// Different views of it, one of which is drawn for each update.
    pub episodes: Vec<Episode>,
}

/// Widths of what a base learner reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleShape {
    /// Features of a query.
    pub features: usize,
    /// Numbers of a row of the context, label included.
    pub context: usize,
}

/// A base learner with its meta learner.
#[derive(Debug)]
pub struct SupervisedLearner {
    config: SupervisedConfig,
    shape: SampleShape,
    base: Network,
    optimiser: Adam,
    task: SupervisedTask,
    features: Standardizer,
    context: Standardizer,
    draws: Stream,
    order: Vec<u64>,
    updates: u64,
    kernel: Kernel,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    base: Tape,
    meta: MetaTape,
    x: Vec<f32>,
    d_output: Vec<f32>,
    d_x: Vec<f32>,
    d_embedding: Vec<f32>,
    gradient: Vec<f32>,
}

impl SupervisedLearner {
    /// A learner with fresh weights, whose features are standardised over this pool.
    pub fn new(
        config: SupervisedConfig,
        shape: SampleShape,
        pool: &[PoolPair],
        seeds: &SeedTree,
    ) -> Result<Self> {
        for (name, value) in [
            ("pairs_per_update", config.pairs_per_update),
            ("queries_per_pair", config.queries_per_pair),
        ] {
            if value == 0 {
                let value = value.to_string();
                return Err(Error::Setting { name, value, expected: "at least 1" });
            }
        }
        check_pool(pool, shape)?;
        if matches!(config.adaptation, Adaptation::Oracle | Adaptation::Rl2) {
            return Err(Error::Setting {
                name: "adaptation",
                value: format!("{:?}", config.adaptation).to_lowercase(),
                expected: "plain, transfer or flash for a supervised base learner",
            });
        }
        let embedding = if config.adaptation.reads_embedding() { config.meta.embedding } else { 0 };
        let widths = [&[shape.features + embedding], &config.hidden[..], &[1]].concat();
        let base = MlpShape::new(&widths, Activation::Relu, Activation::Identity)?;
        let mut rng = seeds.stream("base weights");
        let base = Network::new(Arc::new(base), 0, Init::orthogonal(0.1), &mut rng);
        let task = SupervisedTask::register_base_learner(
            "supervised",
            SampleWidths { features: shape.context - 1, labels: 1 },
            config.meta,
            seeds,
        )?;
        let episodes = || pool.iter().flat_map(|pair| &pair.episodes);
        let queries = || episodes().flat_map(|episode| &episode.queries);
        let rows = || episodes().flat_map(|episode| &episode.context);
        Ok(Self {
            optimiser: Adam::new(AdamConfig::default(), base.params().len()),
            features: Standardizer::fit(
                shape.features,
                queries().map(|query| query.features.as_slice()),
            ),
            context: if embedding > 0 {
                Standardizer::fit(shape.context, rows().map(Vec::as_slice))
            } else {
                Standardizer::identity(shape.context)
            },
            config,
            shape,
            base,
            task,
            draws: seeds.stream("draws"),
            order: Vec::new(),
            updates: 0,
            kernel: Kernel::best(),
            scratch: Scratch::default(),
        })
    }

    /// The settings.
    pub fn config(&self) -> &SupervisedConfig {
        &self.config
    }

    /// Switches updates of the meta learner on or off (`ToggleMetaModelUpdate`).
    pub fn set_meta_updates(&mut self, is_updating: bool) {
        self.task.set_meta_updates(is_updating);
    }

    /// Updates so far.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Pretrains on the pool and returns the MAPE of the last update. Pairs come in random order,
    /// each as often as the others.
    pub fn pretrain(&mut self, pool: &[PoolPair], updates: u64) -> Result<f64> {
        check_pool(pool, self.shape)?;
        let mut loss = f64::NAN;
        for _ in 0..updates {
            let mut chosen = Vec::with_capacity(self.config.pairs_per_update);
            for _ in 0..self.config.pairs_per_update.min(pool.len()) {
                if self.order.is_empty() {
                    self.order = (0..pool.len() as u64).collect();
                    self.draws.shuffle(&mut self.order);
                }
                let place = self.order.pop().expect("it was just filled") as usize;
                let episodes = &pool[place % pool.len()].episodes;
                chosen.push(&episodes[self.draws.below(episodes.len())]);
            }
            loss = self.update(&chosen)?;
        }
        Ok(loss)
    }

    /// Trains the base learner further on the labelled samples of one pair; the meta learner does
    /// not change (transfer learning, and fine-tuning of FLASH).
    pub fn adapt(&mut self, episode: &Episode, updates: u64) -> Result<f64> {
        check_episode(episode, self.shape)?;
        let was_updating = self.task.meta().is_updating();
        self.task.set_meta_updates(false);
        let mut loss = f64::NAN;
        let outcome = (0..updates).try_for_each(|_| {
            loss = self.update(&[episode])?;
            Ok(())
        });
        self.task.set_meta_updates(was_updating);
        outcome.map(|()| loss)
    }

    /// The label of each query of an episode.
    pub fn predict(&mut self, episode: &Episode) -> Result<Vec<f64>> {
        check_episode(episode, self.shape)?;
        let embedding = match self.config.adaptation.reads_embedding() {
            true => self.embedding(&episode.context)?.0,
            false => Vec::new(),
        };
        let Scratch { x, base, .. } = &mut self.scratch;
        x.clear();
        for query in &episode.queries {
            x.extend(self.features.apply(&query.features));
            x.extend(&embedding);
        }
        let outputs = self.base.forward(self.kernel, x, episode.queries.len(), base);
        let label = |(query, output): (&Query, &f32)| {
            query.reference * f64::from(output.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)).exp()
        };
        Ok(episode.queries.iter().zip(outputs).map(label).collect())
    }

    /// The embedding of a pair of which these samples are known.
    pub fn embedding(&mut self, context: &[Vec<f32>]) -> Result<Embedding> {
        let pair = Pair::new("served", "here");
        self.task.register_pair(pair.clone());
        for row in context {
            check_width("a row of the context", row.len(), self.shape.context)?;
            self.task.insert(&pair, self.context.apply(row).collect())?;
        }
        self.task.embedding(&pair)
    }

    fn update(&mut self, episodes: &[&Episode]) -> Result<f64> {
        let reads_embedding = self.config.adaptation.reads_embedding();
        let size = if reads_embedding { self.config.meta.embedding } else { 0 };
        let Scratch { base, meta, x, d_output, d_x, d_embedding, gradient } = &mut self.scratch;
        if reads_embedding {
            let standard = |episode: &&Episode| {
                let keep = episode.context.len().min(self.config.meta.buffer.capacity);
                let rows = &episode.context[episode.context.len() - keep..];
                let rows = rows.iter().flat_map(|row| self.context.apply(row)).collect();
                Bundle::new(self.shape.context, vec![rows])
            };
            let bundles = episodes.iter().map(standard).collect::<Result<Vec<_>>>()?;
            let bundles: Vec<&Bundle> = bundles.iter().collect();
            let learner = self.task.meta_mut();
            d_embedding.clear();
            d_embedding.extend(learner.embed_in_training(self.kernel, &bundles, meta)?);
        }
        x.clear();
        let mut asked: Vec<(usize, &Query)> = Vec::new();
        for (place, episode) in episodes.iter().enumerate() {
            let mut places: Vec<usize> = (0..episode.queries.len()).collect();
            if places.len() > self.config.queries_per_pair {
                self.draws.shuffle(&mut places);
                places.truncate(self.config.queries_per_pair);
            }
            asked.extend(places.into_iter().map(|query| (place, &episode.queries[query])));
        }
        for (place, query) in &asked {
            x.extend(self.features.apply(&query.features));
            // The embeddings lie where their gradients will.
            x.extend(d_embedding.get(place * size..(place + 1) * size).unwrap_or_default());
        }
        let outputs = self.base.forward(self.kernel, x, asked.len(), base);
        let share = 1.0 / asked.len() as f32;
        let mut loss = 0.0;
        d_output.clear();
        for ((_, query), output) in asked.iter().zip(outputs) {
            let truth = (query.label / query.reference).ln() as f32;
            let ratio = (output - truth).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp();
            loss += f64::from(share * (ratio - 1.0).abs());
            d_output.push(share * (ratio - 1.0).signum() * ratio);
        }
        self.updates += 1;
        if !loss.is_finite() {
            return Err(Error::NotFinite { what: "loss", update: self.updates });
        }
        gradient.resize(self.base.params().len(), 0.0);
        d_x.resize(x.len(), 0.0);
        self.base.shape().backward(
            self.kernel,
            self.base.params(),
            InputRows { x, rows: asked.len() },
            base,
            d_output,
            Some(gradient),
            reads_embedding.then_some(&mut d_x[..]),
        );
        let penalty = 2.0 * self.config.l2 / 100.0;
        for (gradient, weight) in gradient.iter_mut().zip(self.base.params()) {
            *gradient += penalty * weight;
        }
        let factor = clip_factor(self.kernel, MAX_NORM, &[gradient]);
        let rate = self.config.learning_rate;
        if !self.optimiser.step(self.kernel, rate, factor, gradient, self.base.params_mut()) {
            return Err(Error::NotFinite { what: "gradient", update: self.updates });
        }
        if reads_embedding {
            d_embedding.fill(0.0);
            let width = self.shape.features + size;
            for ((place, _), d_row) in asked.iter().zip(d_x.chunks_exact(width)) {
                let d_embedding = &mut d_embedding[place * size..][..size];
                for (sum, d) in d_embedding.iter_mut().zip(&d_row[self.shape.features..]) {
                    *sum += d;
                }
            }
            let learner = self.task.meta_mut();
            if learner.is_updating() {
                learner.backward(self.kernel, d_embedding, meta);
                learner.step(self.kernel, meta)?;
            }
        }
        Ok(loss)
    }
}

fn check_width(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected { Ok(()) } else { Err(Error::Width { what, found, expected }) }
}

fn check_episode(episode: &Episode, shape: SampleShape) -> Result<()> {
    for row in &episode.context {
        check_width("a row of the context", row.len(), shape.context)?;
        finite("a number of the context", row)?;
    }
    for query in &episode.queries {
        check_width("a query", query.features.len(), shape.features)?;
        finite("a feature", &query.features)?;
        for (what, value) in [("the reference", query.reference), ("the label", query.label)] {
            if !(value.is_finite() && value > 0.0) {
                let expected = "a number above zero is needed";
                return Err(Error::Number { what: what.to_owned(), value, expected });
            }
        }
    }
    Ok(())
}

fn check_pool(pool: &[PoolPair], shape: SampleShape) -> Result<()> {
    let too_small = |name: &'static str, value: String| {
        Err(Error::Setting { name, value, expected: "at least one episode with a query" })
    };
    if pool.is_empty() {
        return too_small("pool", "empty".to_owned());
    }
    for pair in pool {
        if pair.episodes.iter().all(|episode| episode.queries.is_empty()) {
            return too_small("pair", pair.pair.to_string());
        }
        pair.episodes.iter().try_for_each(|episode| check_episode(episode, shape))?;
    }
    Ok(())
}

impl Persist for SupervisedLearner {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.base.save(&format!("{name}/base"), out);
        self.optimiser.save(&format!("{name}/adam"), out);
        self.task.meta().save(&format!("{name}/meta"), out);
        self.features.save(&format!("{name}/features"), out);
        self.context.save(&format!("{name}/context"), out);
        self.draws.save(&format!("{name}/draws"), out);
        out.put_u64(&format!("{name}/order"), self.order.clone());
        out.put_u64(&format!("{name}/progress"), [self.updates, self.order.len() as u64]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.base.load(&format!("{name}/base"), from)?;
        self.optimiser.load(&format!("{name}/adam"), from)?;
        self.task.meta_mut().load(&format!("{name}/meta"), from)?;
        self.features.load(&format!("{name}/features"), from)?;
        self.context.load(&format!("{name}/context"), from)?;
        self.draws.load(&format!("{name}/draws"), from)?;
        let progress = from.u64s(&format!("{name}/progress"), 2)?;
        let (updates, left) = (progress[0], progress[1] as usize);
        self.order = from.u64s(&format!("{name}/order"), left)?.to_vec();
        self.updates = updates;
        Ok(())
    }
}
