//! The network of the meta learner (Figure A.1): input layer, recurrent layers, embedding layer.
//!
//! Every bundle starts from hidden states of zero. So the state is reset wherever the pair of
//! application and environment changes, and an embedding does not depend on pairs read before.

use std::sync::Arc;

use homeostat_core::{Persist, SeedTree, Snapshot, Stream};
use homeostat_nn::{
    Activation, Adam, AdamConfig, Init, InputRows, Kernel, MlpShape, Network, RecurrentConfig,
    RecurrentGradients, RecurrentInput, RecurrentNetwork, RecurrentShape, RecurrentTape,
    SequenceBatch, Tape, clip_factor,
};

use crate::{Bundle, Error, MetaLearnerConfig, Result};

/// Gradients beyond this norm are scaled down to it.
const MAX_NORM: f32 = 1.0;

/// A meta learner: from bundles of sequences to embeddings.
#[derive(Debug, Clone)]
pub struct MetaLearner {
    config: MetaLearnerConfig,
    input: Network,
    recurrent: RecurrentNetwork,
    embedding: Network,
    optimisers: [Adam; 3],
    dropout: Stream,
    is_updating: bool,
    updates: u64,
}

/// What a forward pass leaves for the backward pass, and the storage of both.
#[derive(Debug, Clone, Default)]
pub struct MetaTape {
    batch: SequenceBatch,
    lengths: Vec<usize>,
    /// The bundle of each sequence, and one over the sequences of that bundle.
    bundles: Vec<(usize, f32)>,
    bundle_count: usize,
    x: Vec<f32>,
    mapped: Vec<f32>,
    input: Tape,
    recurrent: RecurrentTape,
    pooled: Vec<f32>,
    embedding: Tape,
    d_pooled: Vec<f32>,
    d_last: Vec<f32>,
    d_output: Vec<f32>,
    d_mapped: Vec<f32>,
    gradients: [Vec<f32>; 3],
}

impl MetaLearner {
    /// A meta learner with fresh weights for rows of `width` numbers.
    pub fn new(config: MetaLearnerConfig, width: usize, seeds: &SeedTree) -> Result<Self> {
        if config.buffer.capacity == 0 {
            return Err(Error::Setting {
                name: "buffer.capacity",
                value: "0".to_owned(),
                expected: "at least 1",
            });
        }
        if !(config.learning_rate.is_finite() && config.learning_rate > 0.0) {
            return Err(Error::Setting {
                name: "learning_rate",
                value: config.learning_rate.to_string(),
                expected: "a number above zero",
            });
        }
        let MetaLearnerConfig { cell, input, hidden, layers, dropout, .. } = config;
        let recurrent = RecurrentShape::new(RecurrentConfig {
            cell,
            inputs: input,
            hidden,
            layers,
            bidirectional: true,
            dropout,
        })?;
        let relu = Activation::Relu;
        let input = MlpShape::new(&[width, input], relu, relu)?;
        // Deviation: no ReLU after the last layer. With one, half of the numbers of an embedding
        // stay at zero, and no two embeddings can point in opposite directions.
        let widths = [recurrent.outputs(), hidden, config.embedding];
        let embedding = MlpShape::new(&widths, relu, Activation::Identity)?;
        let mut rng = seeds.stream("meta weights");
        let init = Init::UniformFanIn;
        let input = Network::new(Arc::new(input), 0, init, &mut rng);
        let recurrent = RecurrentNetwork::new(Arc::new(recurrent), &mut rng);
        let embedding = Network::new(Arc::new(embedding), 0, init, &mut rng);
        let counts = [input.params().len(), recurrent.params().len(), embedding.params().len()];
        Ok(Self {
            config,
            input,
            recurrent,
            embedding,
            optimisers: counts.map(|count| Adam::new(AdamConfig::default(), count)),
            dropout: seeds.stream("meta dropout"),
            is_updating: true,
            updates: 0,
        })
    }

    /// The settings.
    pub fn config(&self) -> &MetaLearnerConfig {
        &self.config
    }

    /// Numbers of a row of a sequence.
    pub fn width(&self) -> usize {
        self.input.shape().inputs()
    }

    /// Switches updates of the weights on or off; without updates nothing is dropped either.
    pub fn set_updates(&mut self, is_updating: bool) {
        self.is_updating = is_updating;
    }

    /// Whether updates are switched on.
    pub fn is_updating(&self) -> bool {
        self.is_updating
    }

    /// The embeddings of these bundles, one row each, as they are served: nothing is dropped.
    pub fn embed<'t>(
        &self,
        kernel: Kernel,
        bundles: &[&Bundle],
        tape: &'t mut MetaTape,
    ) -> Result<&'t [f32]> {
        self.forward(kernel, bundles, None, tape)
    }

    /// The embeddings of these bundles as training sees them, with outputs dropped.
    pub fn embed_in_training<'t>(
        &mut self,
        kernel: Kernel,
        bundles: &[&Bundle],
        tape: &'t mut MetaTape,
    ) -> Result<&'t [f32]> {
        let mut dropout = self.is_updating.then(|| self.dropout.clone());
        self.forward(kernel, bundles, dropout.as_mut(), tape)?;
        if let Some(dropout) = dropout {
            self.dropout = dropout;
        }
        Ok(tape.embedding.output(self.embedding.shape(), tape.bundle_count))
    }

    fn forward<'t>(
        &self,
        kernel: Kernel,
        bundles: &[&Bundle],
        dropout: Option<&mut Stream>,
        tape: &'t mut MetaTape,
    ) -> Result<&'t [f32]> {
        tape.read(self.width(), bundles)?;
        let MetaTape { batch, lengths, bundles: of, x, mapped, input, recurrent, .. } = tape;
        let rows = batch.padded_rows();
        mapped.clear();
        mapped.extend_from_slice(self.input.forward(kernel, x, rows, input));
        let operand = RecurrentInput { x: mapped, batch, initial: None };
        self.recurrent.forward(kernel, operand, dropout, recurrent);
        // The mean over the sequences of a bundle of the last states of both directions.
        let outputs = self.recurrent.shape().outputs();
        let (hidden, sequences) = (self.config.hidden, lengths.len());
        tape.pooled.clear();
        tape.pooled.resize(bundles.len() * outputs, 0.0);
        let top = &recurrent.last()[top_states(&self.recurrent, sequences)..];
        for (direction, states) in top.chunks_exact(sequences * hidden).enumerate() {
            for ((bundle, share), state) in of.iter().zip(states.chunks_exact(hidden)) {
                let pooled = &mut tape.pooled[bundle * outputs + direction * hidden..][..hidden];
                for (pooled, state) in pooled.iter_mut().zip(state) {
                    *pooled += share * state;
                }
            }
        }
        Ok(self.embedding.forward(kernel, &tape.pooled, bundles.len(), &mut tape.embedding))
    }

    /// The gradient of a loss by every weight, from `d_embedding`, its gradient by the embeddings
    /// of the forward pass that `tape` holds.
    pub fn backward(&self, kernel: Kernel, d_embedding: &[f32], tape: &mut MetaTape) {
        let MetaTape { batch, lengths, bundles, x, mapped, pooled, gradients, .. } = tape;
        let networks = [self.input.params(), self.recurrent.params(), self.embedding.params()];
        for (gradient, params) in gradients.iter_mut().zip(networks) {
            gradient.resize(params.len(), 0.0);
        }
        let [of_input, of_recurrent, of_embedding] = gradients;
        let shape = self.embedding.shape();
        tape.d_pooled.resize(pooled.len(), 0.0);
        shape.backward(
            kernel,
            self.embedding.params(),
            InputRows { x: pooled, rows: tape.bundle_count },
            &mut tape.embedding,
            d_embedding,
            Some(of_embedding),
            Some(&mut tape.d_pooled),
        );
        let shape = self.recurrent.shape();
        let (hidden, sequences, outputs) = (self.config.hidden, lengths.len(), shape.outputs());
        tape.d_last.clear();
        tape.d_last.resize(sequences * shape.state_len(), 0.0);
        let top = &mut tape.d_last[top_states(&self.recurrent, sequences)..];
        for (direction, states) in top.chunks_exact_mut(sequences * hidden).enumerate() {
            for ((bundle, share), state) in bundles.iter().zip(states.chunks_exact_mut(hidden)) {
                let pooled = &tape.d_pooled[bundle * outputs + direction * hidden..][..hidden];
                for (state, pooled) in state.iter_mut().zip(pooled) {
                    *state = share * pooled;
                }
            }
        }
        tape.d_output.clear();
        tape.d_output.resize(batch.padded_rows() * outputs, 0.0);
        tape.d_mapped.resize(mapped.len(), 0.0);
        shape.backward(
            kernel,
            self.recurrent.params(),
            RecurrentInput { x: mapped, batch, initial: None },
            &mut tape.recurrent,
            &tape.d_output,
            Some(&tape.d_last),
            RecurrentGradients {
                params: Some(of_recurrent),
                x: Some(&mut tape.d_mapped),
                initial: None,
            },
        );
        self.input.shape().backward(
            kernel,
            self.input.params(),
            InputRows { x, rows: batch.padded_rows() },
            &mut tape.input,
            &tape.d_mapped,
            Some(of_input),
            None,
        );
    }

    /// Moves the weights against the gradients of the last backward pass, unless updates are
    /// switched off.
    pub fn step(&mut self, kernel: Kernel, tape: &MetaTape) -> Result<()> {
        if !self.is_updating {
            return Ok(());
        }
        self.updates += 1;
        let [of_input, of_recurrent, of_embedding] = &tape.gradients;
        let factor = clip_factor(kernel, MAX_NORM, &[of_input, of_recurrent, of_embedding]);
        let params =
            [self.input.params_mut(), self.recurrent.params_mut(), self.embedding.params_mut()];
        let rate = self.config.learning_rate;
        let mut is_finite = true;
        for ((adam, gradient), params) in
            self.optimisers.iter_mut().zip(&tape.gradients).zip(params)
        {
            is_finite &= adam.step(kernel, rate, factor, gradient, params);
        }
        if is_finite {
            return Ok(());
        }
        Err(Error::NotFinite { what: "gradient of the meta learner", update: self.updates })
    }

    /// All weights, network by network; a test moves them one at a time.
    #[cfg(test)]
    pub(crate) fn params_mut(&mut self) -> [&mut [f32]; 3] {
        [self.input.params_mut(), self.recurrent.params_mut(), self.embedding.params_mut()]
    }
}

/// Where the states of the top layer start among those of all layers.
fn top_states(network: &RecurrentNetwork, sequences: usize) -> usize {
    let shape = network.shape();
    sequences * (shape.state_len() - shape.outputs())
}

impl MetaTape {
    /// Lays the sequences of all bundles side by side.
    fn read(&mut self, width: usize, bundles: &[&Bundle]) -> Result<()> {
        self.lengths.clear();
        self.bundles.clear();
        self.bundle_count = bundles.len();
        for (place, bundle) in bundles.iter().enumerate() {
            let found = bundle.width();
            if found != width {
                return Err(Error::Width { what: "a row of a bundle", found, expected: width });
            }
            let share = 1.0 / bundle.sequences().len() as f32;
            for sequence in bundle.sequences() {
                self.lengths.push(sequence.len() / width);
                self.bundles.push((place, share));
            }
        }
        self.batch.set(&self.lengths)?;
        let count = self.lengths.len();
        self.x.clear();
        self.x.resize(self.batch.padded_rows() * width, 0.0);
        let sequences = bundles.iter().flat_map(|bundle| bundle.sequences());
        for (sequence, rows) in sequences.enumerate() {
            for (step, row) in rows.chunks_exact(width).enumerate() {
                self.x[(step * count + sequence) * width..][..width].copy_from_slice(row);
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn gradients(&self) -> &[Vec<f32>; 3] {
        &self.gradients
    }
}

impl Persist for MetaLearner {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.input.save(&format!("{name}/input"), out);
        self.recurrent.save(&format!("{name}/recurrent"), out);
        self.embedding.save(&format!("{name}/embedding"), out);
        for (place, adam) in self.optimisers.iter().enumerate() {
            adam.save(&format!("{name}/adam/{place}"), out);
        }
        self.dropout.save(&format!("{name}/dropout"), out);
        out.put_u64(&format!("{name}/progress"), [u64::from(self.is_updating), self.updates]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.input.load(&format!("{name}/input"), from)?;
        self.recurrent.load(&format!("{name}/recurrent"), from)?;
        self.embedding.load(&format!("{name}/embedding"), from)?;
        for (place, adam) in self.optimisers.iter_mut().enumerate() {
            adam.load(&format!("{name}/adam/{place}"), from)?;
        }
        self.dropout.load(&format!("{name}/dropout"), from)?;
        let progress = from.u64s(&format!("{name}/progress"), 2)?;
        (self.is_updating, self.updates) = (progress[0] == 1, progress[1]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_nn::Cell;

    fn config(cell: Cell) -> MetaLearnerConfig {
        MetaLearnerConfig { cell, input: 5, hidden: 4, embedding: 3, ..MetaLearnerConfig::flash() }
    }

    fn bundle(rng: &mut Stream, lengths: &[usize]) -> Bundle {
        let mut draw = |steps: usize| (0..2 * steps).map(|_| rng.range(-1.0, 1.0) as f32).collect();
        Bundle::new(2, lengths.iter().map(|steps| draw(*steps)).collect()).unwrap()
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_loss() {
        for cell in [Cell::Gru, Cell::Elman] {
            let mut meta = MetaLearner::new(config(cell), 2, &SeedTree::new(1)).unwrap();
            let mut rng = Stream::from_seed(2);
            let (one, two) = (bundle(&mut rng, &[3, 1]), bundle(&mut rng, &[2]));
            let bundles = [&one, &two];
            let slope: Vec<f32> = (0..6).map(|_| rng.range(-1.0, 1.0) as f32).collect();
            let (kernel, mut tape) = (Kernel::best(), MetaTape::default());
            let loss = |meta: &MetaLearner, tape: &mut MetaTape| -> f64 {
                let embeddings = meta.embed(kernel, &bundles, tape).unwrap();
                embeddings.iter().zip(&slope).map(|(e, s)| f64::from(e * s)).sum()
            };
            loss(&meta, &mut tape);
            meta.backward(kernel, &slope, &mut tape);
            let gradients = tape.gradients().clone();
            let mut compared = 0;
            for (network, gradient) in gradients.iter().enumerate() {
                for place in (0..gradient.len()).step_by(3) {
                    let step = 1e-2;
                    let mut moved = |by: f32| {
                        meta.params_mut()[network][place] += by;
                        let loss = loss(&meta, &mut tape);
                        meta.params_mut()[network][place] -= by;
                        loss
                    };
                    let expect = (moved(step) - moved(-step)) / f64::from(2.0 * step);
                    let found = f64::from(gradient[place]);
                    let error = (found - expect).abs();
                    // Single precision and the kinks of ReLU limit the agreement.
                    assert!(error < 3e-3, "{cell:?} {network}/{place}: {found}, not {expect}");
                    compared += usize::from(expect.abs() > 1e-3);
                }
            }
            assert!(compared > 50, "{compared} slopes are not zero");
        }
    }

    #[test]
    fn an_embedding_does_not_depend_on_pairs_beside_or_before_it() {
        let meta = MetaLearner::new(config(Cell::Gru), 2, &SeedTree::new(1)).unwrap();
        let mut rng = Stream::from_seed(3);
        let (one, two) = (bundle(&mut rng, &[4, 2]), bundle(&mut rng, &[3]));
        let (kernel, mut tape) = (Kernel::best(), MetaTape::default());
        let alone = meta.embed(kernel, &[&two], &mut MetaTape::default()).unwrap().to_vec();
        meta.embed(kernel, &[&one], &mut tape).unwrap();
        assert_eq!(meta.embed(kernel, &[&two], &mut tape).unwrap(), alone, "after another");
        let beside = meta.embed(kernel, &[&one, &two], &mut tape).unwrap();
        for (beside, alone) in beside[3..].iter().zip(&alone) {
            assert!((beside - alone).abs() < 1e-6);
        }
    }

    #[test]
    fn a_frozen_meta_learner_does_not_change() {
        let mut meta = MetaLearner::new(config(Cell::Gru), 2, &SeedTree::new(1)).unwrap();
        let pair = bundle(&mut Stream::from_seed(4), &[3]);
        let (kernel, mut tape) = (Kernel::best(), MetaTape::default());
        let before = meta.embed(kernel, &[&pair], &mut tape).unwrap().to_vec();
        let mut update = |meta: &mut MetaLearner| {
            meta.embed_in_training(kernel, &[&pair], &mut tape).unwrap();
            meta.backward(kernel, &[1.0; 3], &mut tape);
            meta.step(kernel, &tape).unwrap();
            meta.embed(kernel, &[&pair], &mut tape).unwrap().to_vec()
        };
        meta.set_updates(false);
        assert_eq!(update(&mut meta), before);
        meta.set_updates(true);
        assert_ne!(update(&mut meta), before);
    }

    #[test]
    fn impossible_settings_are_refused() {
        let check = |config: MetaLearnerConfig, expect: &str| {
            let error = MetaLearner::new(config, 2, &SeedTree::new(1)).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(MetaLearnerConfig { embedding: 0, ..config(Cell::Gru) }, "empty layer");
        check(MetaLearnerConfig { dropout: 1.0, ..config(Cell::Gru) }, "dropout is 1");
        check(
            MetaLearnerConfig { learning_rate: f32::NAN, ..config(Cell::Gru) },
            "learning_rate is NaN",
        );
        let mut none = config(Cell::Gru);
        none.buffer.capacity = 0;
        check(none, "buffer.capacity is 0");
    }
}
