//! Log-probabilities of a group of choices.

use std::ops::Range;

use super::elementwise::exp_of_nonpositive;
use super::lanes::{LANES, Lanes};

/// For each row of `width` logits, these columns become a distribution.
#[inline(always)]
pub(super) unsafe fn log_softmax<V: Lanes>(
    logits: &[f32],
    width: usize,
    columns: Range<usize>,
    log_probs: &mut [f32],
    probs: &mut [f32],
) {
    let Range { start: from, end: to } = columns;
    assert!(from < to && to <= width, "a group of choices lies inside its row");
    assert!(log_probs.len() >= logits.len() && probs.len() >= logits.len(), "rows are missing");
    for start in (0..logits.len() / width).map(|row| row * width) {
        let group = start + from..start + to;
        let logits = &logits[group.clone()];
        let log_probs = &mut log_probs[group.clone()];
        let probs = &mut probs[group];
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut total = 0.0;
        for ((logits, log_probs), probs) in
            logits.chunks(LANES).zip(log_probs.chunks_mut(LANES)).zip(probs.chunks_mut(LANES))
        {
            let n = logits.len();
            // SAFETY: the three chunks hold `n <= 16` numbers each.
            unsafe {
                let below = V::load_first(n, logits.as_ptr()).sub(V::splat(largest));
                below.store_first(n, log_probs.as_mut_ptr());
                let exp = exp_of_nonpositive(below);
                exp.store_first(n, probs.as_mut_ptr());
                total += probs.iter().sum::<f32>();
            }
        }
        let log_total = total.ln();
        let inverse = 1.0 / total;
        for (log_prob, prob) in log_probs.iter_mut().zip(probs) {
            *log_prob -= log_total;
            *prob *= inverse;
        }
    }
}
