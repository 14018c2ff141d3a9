//! What a recurrent network should compute, in double precision and one sequence at a
//! time, in loops that read like the formulas.

use homeostat_nn::{Cell, RecurrentConfig};

/// Outputs and last hidden states of one sequence.
pub(crate) struct Trace {
    /// `[step][direction * hidden]`
    pub(crate) output: Vec<Vec<f64>>,
    /// `[layer * direction][hidden]`
    pub(crate) last: Vec<Vec<f64>>,
}

/// Parameters of one direction of one layer, as PyTorch orders them.
struct Parameters<'a> {
    weight_ih: &'a [f64],
    weight_hh: &'a [f64],
    bias_ih: &'a [f64],
    bias_hh: &'a [f64],
}

/// Runs the steps `x` of one sequence. `dropout[layer][step]` are the factors on the
/// outputs of a layer for the next, if any are dropped.
pub(crate) fn forward(
    config: &RecurrentConfig,
    mut parameters: &[f64],
    x: &[Vec<f64>],
    initial: &[Vec<f64>],
    dropout: Option<&[Vec<Vec<f64>>]>,
) -> Trace {
    let gates = if config.cell == Cell::Gru { 3 } else { 1 };
    let hidden = config.hidden;
    let directions = if config.bidirectional { 2 } else { 1 };
    let mut take = |count: usize| {
        let (taken, rest) = parameters.split_at(count);
        parameters = rest;
        taken
    };
    let mut rows = x.to_vec();
    let mut last = Vec::new();
    for layer in 0..config.layers {
        let inputs = rows[0].len();
        let mut output = vec![Vec::new(); rows.len()];
        for direction in 0..directions {
            let parameters = Parameters {
                weight_ih: take(gates * hidden * inputs),
                weight_hh: take(gates * hidden * hidden),
                bias_ih: take(gates * hidden),
                bias_hh: take(gates * hidden),
            };
            let mut h = initial[layer * directions + direction].clone();
            for step in 0..rows.len() {
                let step = if direction == 0 { step } else { rows.len() - 1 - step };
                h = next(config.cell, &parameters, &rows[step], &h);
                output[step].extend(&h);
            }
            last.push(h);
        }
        if let Some(factors) = dropout
            && layer + 1 < config.layers
        {
            for step in 0..rows.len() {
                for unit in 0..directions * hidden {
                    output[step][unit] *= factors[layer][step][unit];
                }
            }
        }
        rows = output;
    }
    Trace { output: rows, last }
}

fn next(cell: Cell, parameters: &Parameters<'_>, x: &[f64], h: &[f64]) -> Vec<f64> {
    let hidden = h.len();
    let of_input = |row: usize| parameters.bias_ih[row] + dot(parameters.weight_ih, row, x);
    let of_hidden = |row: usize| parameters.bias_hh[row] + dot(parameters.weight_hh, row, h);
    let mut next = vec![0.0; hidden];
    for unit in 0..hidden {
        next[unit] = match cell {
            Cell::Elman => (of_input(unit) + of_hidden(unit)).tanh(),
            Cell::Gru => {
                let reset = logistic(of_input(unit) + of_hidden(unit));
                let update = logistic(of_input(hidden + unit) + of_hidden(hidden + unit));
                let candidate =
                    (of_input(2 * hidden + unit) + reset * of_hidden(2 * hidden + unit)).tanh();
                (1.0 - update) * candidate + update * h[unit]
            }
        };
    }
    next
}

fn dot(weights: &[f64], row: usize, x: &[f64]) -> f64 {
    let mut sum = 0.0;
    for column in 0..x.len() {
        sum += weights[row * x.len() + column] * x[column];
    }
    sum
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
