//! The peak rate of multiply-adds, for benchmarks.

use super::lanes::{LANES, Lanes};

/// Runs `rounds` rounds of `R * C` independent multiply-adds on registers alone, and
/// returns how many single ones that was.
#[inline(always)]
pub(super) unsafe fn multiply_add<V: Lanes, const R: usize, const C: usize>(rounds: u64) -> u64 {
    // SAFETY: the instruction set is the caller's; nothing is loaded or stored.
    unsafe {
        let factor = V::splat(std::hint::black_box(0.999));
        let addend = V::splat(std::hint::black_box(0.001));
        let mut sums = [[addend; C]; R];
        for _ in 0..rounds {
            for sum in sums.as_flattened_mut() {
                *sum = sum.mul_add(factor, addend);
            }
        }
        // The sum must be used, or the compiler removes the loop.
        let total = sums.as_flattened().iter().fold(V::splat(0.0), |total, sum| total.add(*sum));
        std::hint::black_box(total.sum());
    }
    rounds * (R * C * LANES) as u64
}
