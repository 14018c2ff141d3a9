//! What a recurrent network is made of, and where its parameters lie.

use std::ops::Range;
use std::slice::ChunksExact;

use serde::{Deserialize, Serialize};

use crate::mlp::{ALIGNMENT, MAX_PARAMETERS};
use crate::{Error, Result};

/// How a layer gets from one step to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// Gated recurrent unit. The reset gate multiplies the hidden part of the
    /// candidate after its product and bias, as in PyTorch and cuDNN.
    Gru,
    /// `tanh` of the sum of the input's and the hidden state's products.
    Elman,
}

impl Cell {
    /// Rows of a weight matrix for each hidden unit.
    pub(crate) fn gates(self) -> usize {
        match self {
            Self::Gru => 3,
            Self::Elman => 1,
        }
    }

    /// Sums that the backward pass needs for each hidden unit. A GRU has four: the
    /// candidate's input part, reset, update, and the candidate's hidden part. The
    /// input's product fills the first three and the hidden state's the last three,
    /// so both are one product, and the two gates add up in place.
    pub(super) fn blocks(self) -> usize {
        match self {
            Self::Gru => 4,
            Self::Elman => 1,
        }
    }

    /// PyTorch's gate (reset, update, candidate) of each block of columns that the
    /// input's product fills.
    pub(super) fn input_gates(self) -> &'static [usize] {
        match self {
            Self::Gru => &[2, 0, 1],
            Self::Elman => &[0],
        }
    }

    /// The same for the hidden state's product.
    pub(super) fn hidden_gates(self) -> &'static [usize] {
        match self {
            Self::Gru => &[0, 1, 2],
            Self::Elman => &[0],
        }
    }
}

/// Settings of a recurrent network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RecurrentConfig {
    /// The cell of every layer.
    pub cell: Cell,
    /// Numbers of one step of the input.
    pub inputs: usize,
    /// Hidden units of each layer and direction.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Whether each layer also reads every sequence from its end.
    pub bidirectional: bool,
    /// Probability that training drops an output of a layer before the next layer.
    pub dropout: f32,
}

/// The layers of a recurrent network and where their parameters lie in a flat run.
///
/// Two sequences, of three steps and of one, through a bidirectional GRU:
///
/// ```
/// use std::sync::Arc;
///
/// use homeostat_core::Stream;
/// use homeostat_nn::{
///     Cell, Kernel, RecurrentConfig, RecurrentInput, RecurrentNetwork, RecurrentShape,
///     RecurrentTape, SequenceBatch,
/// };
///
/// # fn main() -> homeostat_nn::Result<()> {
/// let config = RecurrentConfig {
///     cell: Cell::Gru,
///     inputs: 4,
///     hidden: 8,
///     layers: 2,
///     bidirectional: true,
///     dropout: 0.1,
/// };
/// let shape = Arc::new(RecurrentShape::new(config)?);
/// let network = RecurrentNetwork::new(Arc::clone(&shape), &mut Stream::from_seed(1));
/// let batch = SequenceBatch::new(&[3, 1])?;
/// let x = vec![0.5; batch.padded_rows() * config.inputs];
/// let input = RecurrentInput { x: &x, batch: &batch, initial: None };
/// let mut tape = RecurrentTape::default();
/// let output = network.forward(Kernel::best(), input, None, &mut tape);
/// assert_eq!(output.len(), 3 * 2 * shape.outputs(), "steps times sequences");
/// assert_eq!(output[3 * shape.outputs()..][..shape.outputs()], [0.0; 16], "padding");
/// assert_eq!(tape.last().len(), 2 * shape.state_len(), "one state for each sequence");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RecurrentShape {
    config: RecurrentConfig,
    /// Layer by layer, forward direction first.
    directions: Vec<DirectionShape>,
}

/// Parameters of one direction of one layer. Weights are input-major; their columns
/// are in the order of [`Cell::input_gates`] and [`Cell::hidden_gates`].
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DirectionShape {
    pub(super) cell: Cell,
    pub(super) inputs: usize,
    pub(super) hidden: usize,
    pub(super) weight_ih: Range<usize>,
    pub(super) weight_hh: Range<usize>,
    pub(super) bias_ih: Range<usize>,
    pub(super) bias_hh: Range<usize>,
    /// All of them, alignment included.
    pub(super) range: Range<usize>,
}

impl RecurrentShape {
    /// The layout of a network with these settings.
    pub fn new(config: RecurrentConfig) -> Result<Self> {
        let RecurrentConfig { cell, inputs, hidden, layers, bidirectional, dropout } = config;
        let shape = || format!("{inputs}-{hidden} x {layers}");
        if inputs == 0 || hidden == 0 || layers == 0 {
            return Err(Error::EmptyLayer { shape: shape() });
        }
        if !(0.0..1.0).contains(&dropout) {
            return Err(Error::Dropout { value: dropout });
        }
        let too_large = || Error::TooLarge { shape: shape(), most: MAX_PARAMETERS };
        // Beyond this a product of widths could wrap around.
        if inputs.max(hidden).max(layers) > MAX_PARAMETERS {
            return Err(too_large());
        }
        let count = 1 + usize::from(bidirectional);
        let mut directions: Vec<DirectionShape> = Vec::new();
        for layer in 0..layers {
            let inputs = if layer == 0 { inputs } else { count * hidden };
            for _ in 0..count {
                let start = directions.last().map_or(0, |below| below.range.end);
                let direction = DirectionShape::new(cell, inputs, hidden, start);
                if direction.range.end > MAX_PARAMETERS {
                    return Err(too_large());
                }
                directions.push(direction);
            }
        }
        Ok(Self { config, directions })
    }

    /// The settings.
    pub fn config(&self) -> &RecurrentConfig {
        &self.config
    }

    /// Numbers of one step of the output: the hidden units of all directions.
    pub fn outputs(&self) -> usize {
        self.direction_count() * self.config.hidden
    }

    /// Numbers of the hidden states of one sequence: all layers and directions.
    pub fn state_len(&self) -> usize {
        self.directions.len() * self.config.hidden
    }

    /// Length of the flat run of parameters, alignment included.
    pub fn parameter_count(&self) -> usize {
        self.directions[self.directions.len() - 1].range.end
    }

    /// One or two.
    pub(super) fn direction_count(&self) -> usize {
        1 + usize::from(self.config.bidirectional)
    }

    /// The directions of each layer.
    pub(super) fn layers(&self) -> ChunksExact<'_, DirectionShape> {
        self.directions.chunks_exact(self.direction_count())
    }

    pub(super) fn directions(&self) -> &[DirectionShape] {
        &self.directions
    }
}

impl DirectionShape {
    fn new(cell: Cell, inputs: usize, hidden: usize, start: usize) -> Self {
        let width = cell.gates() * hidden;
        let mut end = start;
        let mut next = |count: usize| {
            let range = end..end + count;
            end = range.end.next_multiple_of(ALIGNMENT);
            range
        };
        let (weight_ih, weight_hh) = (next(inputs * width), next(hidden * width));
        let (bias_ih, bias_hh) = (next(width), next(width));
        Self { cell, inputs, hidden, weight_ih, weight_hh, bias_ih, bias_hh, range: start..end }
    }

    /// Columns of a weight matrix.
    pub(super) fn width(&self) -> usize {
        self.cell.gates() * self.hidden
    }

    /// Numbers that the tape keeps for each row.
    pub(super) fn sums(&self) -> usize {
        self.cell.blocks() * self.hidden
    }

    /// First sum that the hidden state's product adds to; the input's starts at zero.
    pub(super) fn hidden_start(&self) -> usize {
        self.sums() - self.width()
    }
}
