//! What a recurrent cell does with its sums, number by number.

use super::elementwise::{logistic, tanh};
use super::lanes::{LANES, Lanes};

/// Forward pass of a GRU's gates over rows of four blocks of `hidden` numbers: the
/// input's part of the candidate, the sums of the reset and update gates, and the
/// hidden part of the candidate. The first three become their activations in place;
/// `h` is the new hidden state.
#[inline(always)]
pub(super) unsafe fn gru<V: Lanes>(
    hidden: usize,
    gates: &mut [f32],
    previous: &[f32],
    h: &mut [f32],
) {
    assert!(previous.len() >= h.len(), "hidden states are missing");
    let rows = gates.chunks_exact_mut(4 * hidden).zip(previous.chunks_exact(hidden));
    for ((gates, previous), h) in rows.zip(h.chunks_exact_mut(hidden)) {
        let (gates, previous, h) = (gates.as_mut_ptr(), previous.as_ptr(), h.as_mut_ptr());
        for j in (0..hidden).step_by(LANES) {
            let n = LANES.min(hidden - j);
            // SAFETY: `n` numbers from `j` exist in each block and in both states.
            unsafe {
                let block = |b: usize| gates.add(b * hidden + j);
                let load = |b: usize| V::load_first(n, block(b));
                let reset = logistic(load(1));
                let update = logistic(load(2));
                let candidate = tanh(reset.mul_add(load(3), load(0)));
                let previous = V::load_first(n, previous.add(j));
                candidate.store_first(n, block(0));
                reset.store_first(n, block(1));
                update.store_first(n, block(2));
                update.mul_add(previous.sub(candidate), candidate).store_first(n, h.add(j));
            }
        }
    }
}

/// Backward pass of [`gru`]: from the gradient with respect to `h` that with respect
/// to the four blocks of sums, and in place of the first what passes straight to the
/// previous hidden state.
#[inline(always)]
pub(super) unsafe fn gru_backward<V: Lanes>(
    hidden: usize,
    gates: &[f32],
    previous: &[f32],
    d_h: &mut [f32],
    d_sums: &mut [f32],
) {
    let rows = gates.chunks_exact(4 * hidden).zip(d_sums.chunks_exact_mut(4 * hidden));
    let states = previous.chunks_exact(hidden).zip(d_h.chunks_exact_mut(hidden));
    for ((gates, d_sums), (previous, d_h)) in rows.zip(states) {
        let (gates, previous) = (gates.as_ptr(), previous.as_ptr());
        let (d_sums, d_h) = (d_sums.as_mut_ptr(), d_h.as_mut_ptr());
        for j in (0..hidden).step_by(LANES) {
            let n = LANES.min(hidden - j);
            // SAFETY: `n` numbers from `j` exist in each block and in both states.
            unsafe {
                let one = V::splat(1.0);
                let load = |b: usize| V::load_first(n, gates.add(b * hidden + j));
                let store = |b: usize, d: V| d.store_first(n, d_sums.add(b * hidden + j));
                let (candidate, reset, update) = (load(0), load(1), load(2));
                let previous = V::load_first(n, previous.add(j));
                let d = V::load_first(n, d_h.add(j));
                let d_candidate = d.mul(one.sub(update)).mul(one.sub(candidate.mul(candidate)));
                let d_update = d.mul(previous.sub(candidate)).mul(update).mul(one.sub(update));
                let d_reset = d_candidate.mul(load(3)).mul(reset).mul(one.sub(reset));
                store(0, d_candidate);
                store(1, d_reset);
                store(2, d_update);
                store(3, d_candidate.mul(reset));
                d.mul(update).store_first(n, d_h.add(j));
            }
        }
    }
}

/// `values = tanh(values)`.
#[inline(always)]
pub(super) unsafe fn tanh_in_place<V: Lanes>(values: &mut [f32]) {
    for values in values.chunks_mut(LANES) {
        let (n, values) = (values.len(), values.as_mut_ptr());
        // SAFETY: the chunk has `n <= 16` numbers.
        unsafe { tanh(V::load_first(n, values)).store_first(n, values) }
    }
}

/// `sums += row` for every row of `a`.
#[inline(always)]
pub(super) unsafe fn add_rows<V: Lanes>(a: &[f32], sums: &mut [f32]) {
    for row in a.chunks_exact(sums.len()) {
        for (sums, row) in sums.chunks_mut(LANES).zip(row.chunks(LANES)) {
            let (n, sums) = (row.len(), sums.as_mut_ptr());
            // SAFETY: both chunks have `n <= 16` numbers, since rows are as long as `sums`.
            unsafe {
                V::load_first(n, sums).add(V::load_first(n, row.as_ptr())).store_first(n, sums);
            }
        }
    }
}
