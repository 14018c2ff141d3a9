//! Settings of a meta learner: those of FLASH and those of AWARE are two sets of values.

use homeostat_nn::Cell;
use serde::{Deserialize, Serialize};

/// Which trajectories of a pair the meta learner reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// Half of them with the highest returns and half with the lowest (Section 5.6.1).
    BestAndWorst,
    /// Those with the highest returns (Section 5.3.2).
    Best,
}

/// Settings of the data buffer of one pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferConfig {
    /// Samples or trajectories that the meta learner reads at most.
    pub capacity: usize,
    /// Time steps after which a trajectory is no longer read; never, if absent.
    pub expiration: Option<u64>,
    /// First trajectories of a pair that are left out: the policy had not learnt yet.
    pub warm_up: usize,
    /// Which trajectories are read.
    pub selection: Selection,
}

/// Settings of a meta learner.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetaLearnerConfig {
    /// The recurrent cell.
    pub cell: Cell,
    /// Width to which the input layer maps a sample.
    pub input: usize,
    /// Hidden units of each recurrent layer and direction.
    pub hidden: usize,
    /// Recurrent layers.
    pub layers: usize,
    /// Probability that training drops an output between recurrent layers.
    pub dropout: f32,
    /// Numbers of an embedding.
    pub embedding: usize,
    /// Learning rate of Adam.
    pub learning_rate: f32,
    /// What it reads of a pair.
    pub buffer: BufferConfig,
}

impl MetaLearnerConfig {
    /// FLASH (Table A.1): a bidirectional GRU of two layers.
    pub fn flash() -> Self {
        Self {
            cell: Cell::Gru,
            input: 256,
            hidden: 256,
            layers: 2,
            dropout: 0.05,
            embedding: 32,
            learning_rate: 3e-4,
            buffer: BufferConfig {
                capacity: 32,
                expiration: Some(300),
                // The text leaves early trajectories out and does not say how many.
                warm_up: 8,
                selection: Selection::BestAndWorst,
            },
        }
    }

    /// AWARE (Sections 5.3.2 and 5.4.3): a plain RNN that reads the best 20 trajectories.
    pub fn aware() -> Self {
        let flash = Self::flash();
        Self {
            cell: Cell::Elman,
            embedding: 64,
            buffer: BufferConfig {
                capacity: 20,
                expiration: None,
                warm_up: 0,
                selection: Selection::Best,
            },
            ..flash
        }
    }
}

/// How a base learner meets a pair that it was not trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adaptation {
    /// It serves as it is.
    Plain,
    /// Its weights are trained further on the samples of the pair (transfer learning, TL).
    Transfer,
    /// It reads the pair's embedding.
    Flash,
    /// It is told the pair's true parameters: what an embedding can achieve at best. For reinforcement learning alone.
    Oracle,
    /// A recurrent policy that remembers what it did and what came of it (RL²). For reinforcement learning alone.
    Rl2,
}

impl Adaptation {
    /// Whether the base learner reads an embedding.
    pub fn reads_embedding(self) -> bool {
        self == Self::Flash
    }

    /// Whether the base learner does better in a pair after it was observed.
    pub fn observes(self) -> bool {
        matches!(self, Self::Flash | Self::Rl2)
    }
}
