//! Learners that read more than an observation: the embedding of the pair of application and environment that they
//! act in (FLASH, dissertation section 5.6.1).
//!
//! The embedding of a pair changes while a learner learns. So a transition is kept with the place of its pair in a
//! table, and the embedding is looked up whenever a network reads the transition. The gradient of the learner's
//! losses by each embedding is added up, for whoever computes the embeddings to learn from.

use homeostat_core::Snapshot;
use homeostat_nn::{AlignedBuffer, Network};

use crate::{Encoder, Learner, Policy, Result};

/// Embeddings by pair, which environment belongs to which pair, and gradients.
#[derive(Debug, Clone)]
pub struct EmbeddingTable {
    width: usize,
    pairs: usize,
    embeddings: Vec<f32>,
    gradients: Vec<f32>,
    /// The pair of each environment.
    pair_of: Vec<usize>,
    /// Minibatches since the gradients were taken.
    minibatches: u32,
}

impl EmbeddingTable {
    /// Embeddings of zero for `pairs` pairs; every environment belongs to the first one. A width of zero is allowed:
    /// the learner keeps pairs apart and reads nothing of them.
    pub fn new(pairs: usize, width: usize, num_envs: usize) -> Self {
        let embeddings = vec![0.0; pairs * width];
        let pair_of = vec![0; num_envs];
        Self { width, pairs, gradients: embeddings.clone(), embeddings, pair_of, minibatches: 0 }
    }

    /// Numbers of an embedding.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The embedding of a pair.
    pub fn get(&self, pair: usize) -> &[f32] {
        &self.embeddings[pair * self.width..][..self.width]
    }

    /// Replaces the embedding of a pair.
    pub fn set(&mut self, pair: usize, embedding: &[f32]) {
        self.embeddings[pair * self.width..][..self.width].copy_from_slice(embedding);
    }

    /// The pair that an environment belongs to.
    pub fn pair_of(&self, env: usize) -> usize {
        self.pair_of[env]
    }

    /// From now on, this environment belongs to this pair.
    pub fn assign(&mut self, env: usize, pair: usize) {
        self.pair_of[env] = pair;
    }

    /// Writes the gradient of the losses by the embedding of a pair, as the mean over the minibatches since
    /// [`EmbeddingTable::clear_gradients`].
    pub fn gradient(&self, pair: usize, out: &mut [f32]) {
        let share = 1.0 / self.minibatches.max(1) as f32;
        let gradient = &self.gradients[pair * self.width..][..self.width];
        out.iter_mut().zip(gradient).for_each(|(out, gradient)| *out = share * gradient);
    }

    /// Forgets all gradients.
    pub fn clear_gradients(&mut self) {
        self.gradients.fill(0.0);
        self.minibatches = 0;
    }
}

/// A learner whose networks read the embedding of a pair behind the observation.
pub trait ConditionedLearner: Learner + Sync {
    /// The embeddings that it reads.
    fn embeddings(&self) -> &EmbeddingTable;

    /// The same, to be changed between two updates.
    fn embeddings_mut(&mut self) -> &mut EmbeddingTable;

    /// The policy for the present embedding of a pair: an ordinary policy, since a constant input is a part of the
    /// first layer's bias.
    fn policy_of(&self, pair: usize) -> Policy;

    /// Writes the weights of all networks, without optimisers and memory.
    fn save_networks(&self, out: &mut Snapshot);

    /// Takes over the weights of another learner of the same shape, which starts from them.
    fn load_networks(&mut self, from: &Snapshot) -> Result<()>;
}

/// What networks read of an observation. What is kept of one is its features and, if the learner is conditioned, the
/// place of its pair.
#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    encoder: Encoder,
    table: Option<EmbeddingTable>,
    /// Whether gradients by embeddings are added up now.
    collects: bool,
}

impl Inputs {
    pub(crate) fn new(encoder: Encoder, table: Option<EmbeddingTable>) -> Self {
        Self { encoder, table, collects: true }
    }

    /// Switches the sum of gradients on or off.
    pub(crate) fn collect_gradients(&mut self, collects: bool) {
        self.collects = collects;
    }

    /// Numbers that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.encoder.features() + usize::from(self.table.is_some())
    }

    /// Numbers that networks read.
    pub(crate) fn width(&self) -> usize {
        self.encoder.features() + self.table.as_ref().map_or(0, EmbeddingTable::width)
    }

    /// Writes what is kept of an observation in this environment.
    pub(crate) fn keep(&self, env: usize, obs: &[f32], kept: &mut [f32]) {
        let (features, pair) = kept.split_at_mut(self.encoder.features());
        self.encoder.encode(obs, features);
        if let Some(table) = &self.table {
            pair[0] = table.pair_of[env] as f32;
        }
    }

    /// The rows that networks read for these rows that were kept.
    pub(crate) fn read<'a>(&self, kept: &'a [f32], buffer: &'a mut AlignedBuffer) -> &'a [f32] {
        let Some(table) = &self.table else { return kept };
        let (from, to) = (self.kept(), self.width());
        let rows = buffer.at_least(kept.len() / from * to);
        for (kept, row) in kept.chunks_exact(from).zip(rows.chunks_exact_mut(to)) {
            let (features, pair) = kept.split_at(from - 1);
            let (own, embedding) = row.split_at_mut(from - 1);
            own.copy_from_slice(features);
            embedding.copy_from_slice(table.get(pair[0] as usize));
        }
        rows
    }

    /// Adds the gradient by embeddings. `d_rows` are gradients by rows of networks, each `stride` apart, for these
    /// rows that were kept.
    pub(crate) fn add_gradient(&mut self, kept: &[f32], d_rows: &[f32], stride: usize) {
        let (from, start) = (self.kept(), self.encoder.features());
        let Some(table) = self.table.as_mut().filter(|table| table.width > 0 && self.collects)
        else {
            return;
        };
        let width = table.width;
        for (kept, d_row) in kept.chunks_exact(from).zip(d_rows.chunks_exact(stride)) {
            let sum = &mut table.gradients[kept[start] as usize * width..][..width];
            for (sum, d) in sum.iter_mut().zip(&d_row[start..start + width]) {
                *sum += d;
            }
        }
    }

    /// Counts a minibatch whose gradients were added.
    pub(crate) fn end_minibatch(&mut self) {
        if let Some(table) = self.table.as_mut().filter(|_| self.collects) {
            table.minibatches += 1;
        }
    }

    /// Whether gradients by embeddings are wanted.
    pub(crate) fn wants_gradient(&self) -> bool {
        self.collects && self.table.as_ref().is_some_and(|table| table.width > 0)
    }

    /// A network that reads an observation alone, for the present embedding of a pair.
    pub(crate) fn unconditioned(&self, network: &Network, pair: usize) -> Network {
        match &self.table {
            Some(table) if table.width > 0 => network.with_last_inputs_fixed(table.get(pair)),
            _ => network.clone(),
        }
    }

    /// The pair that an environment belongs to.
    pub(crate) fn pair_of(&self, env: usize) -> usize {
        self.table.as_ref().map_or(0, |table| table.pair_of[env])
    }

    /// Pairs that the learner acts in now.
    pub(crate) fn present_pairs(&self) -> &[usize] {
        self.table.as_ref().map_or(&[0], |table| &table.pair_of)
    }

    /// The table of a learner that was built with one.
    pub(crate) fn expect_table(&self) -> &EmbeddingTable {
        self.table.as_ref().expect("a conditioned learner is built with a table")
    }

    /// The same, to be changed.
    pub(crate) fn expect_table_mut(&mut self) -> &mut EmbeddingTable {
        self.table.as_mut().expect("a conditioned learner is built with a table")
    }

    /// Pairs whose transitions are kept apart.
    pub(crate) fn pairs(&self) -> usize {
        self.table.as_ref().map_or(1, |table| table.pairs)
    }
}
