//! Multi-head self-attention.

use super::linear::Linear;
use crate::kernel::Kernel;

/// Self-attention: the states of all tokens enter each token's next state.
#[derive(Debug, Clone)]
pub(super) struct Attention {
    pub(super) heads: usize,
    pub(super) query: Linear,
    pub(super) key: Linear,
    pub(super) value: Linear,
    pub(super) output: Linear,
}

impl Attention {
    /// One row per row of states.
    pub(super) fn attend(&self, kernel: Kernel, states: &[f32]) -> Vec<f32> {
        let [query, key, value] =
            [&self.query, &self.key, &self.value].map(|layer| layer.apply(kernel, states));
        let width = self.query.outputs();
        let head_width = width / self.heads;
        let scale = 1.0 / (head_width as f32).sqrt();
        let mut mixed = vec![0.0; query.len()];
        let mut scores = vec![0.0; query.len() / width];
        for head in 0..self.heads {
            let part = head * head_width..(head + 1) * head_width;
            let rows = query.chunks_exact(width).zip(mixed.chunks_exact_mut(width));
            for (query, mixed) in rows {
                let query = &query[part.clone()];
                for (score, key) in scores.iter_mut().zip(key.chunks_exact(width)) {
                    let product = query.iter().zip(&key[part.clone()]).map(|(a, b)| a * b);
                    *score = scale * product.sum::<f32>();
                }
                softmax(&mut scores);
                let mixed = &mut mixed[part.clone()];
                for (score, value) in scores.iter().zip(value.chunks_exact(width)) {
                    let terms = mixed.iter_mut().zip(&value[part.clone()]);
                    terms.for_each(|(mixed, value)| *mixed += score * value);
                }
            }
        }
        self.output.apply(kernel, &mixed)
    }
}

fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|score| *score = (*score - largest).exp());
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
}
