//! One pass of a recurrent network, forward and backward, on work that other stacks can
//! repeat: a bidirectional GRU of two layers of 256 units over 32 sequences of 100 steps,
//! the mean square of its outputs as the loss.

use std::sync::Arc;
use std::time::Instant;

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_nn::{
    Cell, Kernel, RecurrentConfig, RecurrentGradients, RecurrentInput, RecurrentNetwork,
    RecurrentShape, RecurrentTape, SequenceBatch,
};
use serde::Serialize;

use super::learn::{median, symmetric};

const STEPS: usize = 100;
const SEQUENCES: usize = 32;
const CONFIG: RecurrentConfig = RecurrentConfig {
    cell: Cell::Gru,
    inputs: 16,
    hidden: 256,
    layers: 2,
    bidirectional: true,
    dropout: 0.0,
};

/// What was timed.
#[derive(Debug, Clone, Serialize)]
pub struct RecurrentTiming {
    /// Median over the repetitions.
    pub median_ms: f64,
    /// Fastest repetition.
    pub fastest_ms: f64,
    /// The loss.
    pub loss: f64,
    /// Sum of the absolute values of the gradient.
    pub gradient_abs: f64,
}

/// Times the pass with all of rayon's threads.
pub(super) fn time(kernel: Kernel, repetitions: usize) -> anyhow::Result<RecurrentTiming> {
    let shape = Arc::new(RecurrentShape::new(CONFIG)?);
    let network = network(Arc::clone(&shape))?;
    let batch = SequenceBatch::uniform(STEPS, SEQUENCES)?;
    let x: Vec<f32> =
        (0..batch.rows() * CONFIG.inputs).map(|j| symmetric(20, 0, j as u64)).collect();
    let input = RecurrentInput { x: &x, batch: &batch, initial: None };
    let mut tape = RecurrentTape::default();
    let mut d_output = Vec::new();
    let mut gradient = vec![0.0; shape.parameter_count()];
    let mut pass = || {
        let output = network.forward(kernel, input, None, &mut tape);
        let count = output.len() as f32;
        let loss = output.iter().map(|h| f64::from(h * h)).sum::<f64>() / f64::from(count);
        d_output.clear();
        d_output.extend(output.iter().map(|h| 2.0 / count * h));
        let gradients =
            RecurrentGradients { params: Some(&mut gradient), ..RecurrentGradients::default() };
        shape.backward(kernel, network.params(), input, &mut tape, &d_output, None, gradients);
        loss
    };
    let loss = pass();
    let mut times = Vec::new();
    for _ in 0..repetitions {
        let start = Instant::now();
        pass();
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(RecurrentTiming {
        median_ms: median(&mut times),
        fastest_ms: times[0],
        loss,
        gradient_abs: gradient.iter().map(|g| f64::from(g.abs())).sum(),
    })
}

/// The weights of the common work: each direction of each layer has streams of its own,
/// one for each tensor, which fill matrices input by input.
fn network(shape: Arc<RecurrentShape>) -> anyhow::Result<RecurrentNetwork> {
    let scale = 1.0 / (CONFIG.hidden as f32).sqrt();
    let mut network = RecurrentNetwork::new(shape, &mut Stream::from_seed(0));
    let mut arrays = Snapshot::default();
    for (index, (name, dimensions, mut values)) in network.tensors().enumerate() {
        let (direction, stream) = ((index / 4) as u64, (10 + index % 4) as u64);
        let rows = dimensions[0];
        let columns = values.len() / rows;
        for (place, value) in values.iter_mut().enumerate() {
            let (row, column) = (place / columns, place % columns);
            *value = symmetric(stream, direction, (column * rows + row) as u64) * scale;
        }
        arrays.put_f32(&format!("network/{name}"), values);
    }
    network.load("network", &arrays)?;
    Ok(network)
}
