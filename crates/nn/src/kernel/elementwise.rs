//! Loops over every number once: activations and their derivatives, the
//! optimiser, norms and blends.

use super::lanes::{LANES, Lanes};
use crate::Activation;

/// The numbers of one Adam step, with the bias corrections already folded in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdamStep {
    /// Learning rate over `1 - beta1^t`.
    pub(crate) rate: f32,
    /// Decay of the mean.
    pub(crate) beta1: f32,
    /// Decay of the mean square.
    pub(crate) beta2: f32,
    /// One over `sqrt(1 - beta2^t)`.
    pub(crate) square_scale: f32,
    /// Added to the denominator.
    pub(crate) epsilon: f32,
    /// Factor on every gradient: below one where the global norm was clipped.
    pub(crate) grad_scale: f32,
}

/// The activation of a vector. NaN stays NaN, so that a broken network is noticed.
#[inline(always)]
pub(super) unsafe fn activate<V: Lanes>(activation: Activation, x: V) -> V {
    // SAFETY: the instruction set is the caller's.
    unsafe {
        match activation {
            Activation::Identity => x,
            // In this order of operands NaN survives: it is the second one.
            Activation::Relu => V::splat(0.0).max_or(x),
            Activation::Tanh => tanh(x),
        }
    }
}

/// `d * activation'`, from the activation's output `h`.
#[inline(always)]
pub(super) unsafe fn derivative<V: Lanes>(activation: Activation, h: V, d: V) -> V {
    // SAFETY: the instruction set is the caller's.
    unsafe {
        match activation {
            Activation::Identity => d,
            Activation::Relu => d.where_positive(h),
            Activation::Tanh => d.sub(d.mul(h).mul(h)),
        }
    }
}

/// Rational approximation of degree 13 over 6, within a few units in the last
/// place on the clamped range; beyond it tanh is one to float precision.
#[inline(always)]
pub(super) unsafe fn tanh<V: Lanes>(x: V) -> V {
    const LIMIT: f32 = 7.905_311;
    const NUMERATOR: [f32; 7] = [
        -2.760_768_5e-16,
        2.000_188e-13,
        -8.604_672e-11,
        5.122_297e-8,
        1.485_722_4e-5,
        6.372_619_3e-4,
        4.893_524_6e-3,
    ];
    const DENOMINATOR: [f32; 4] = [1.198_258_4e-6, 1.185_347_1e-4, 2.268_434_6e-3, 4.893_525e-3];
    // SAFETY: the instruction set is the caller's.
    unsafe {
        let x = V::splat(LIMIT).min_or(x);
        let x = V::splat(-LIMIT).max_or(x);
        let square = x.mul(x);
        let polynomial = |coefficients: &[f32]| {
            let mut sum = V::splat(coefficients[0]);
            for c in &coefficients[1..] {
                sum = sum.mul_add(square, V::splat(*c));
            }
            sum
        };
        x.mul(polynomial(&NUMERATOR)).div(polynomial(&DENOMINATOR))
    }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(super) unsafe fn logistic<V: Lanes>(x: V) -> V {
    // SAFETY: the instruction set is the caller's.
    unsafe {
        let half = V::splat(0.5);
        tanh(x.mul(half)).mul_add(half, half)
    }
}

/// `e^x` for `x <= 0`, down to the smallest normal float.
#[inline(always)]
pub(super) unsafe fn exp_of_nonpositive<V: Lanes>(x: V) -> V {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // The natural logarithm of two in two parts, so that n * LN2_HIGH is exact.
    const LN2_HIGH: f32 = 0.693_145_75;
    const LN2_LOW: f32 = 1.428_606_8e-6;
    const TAYLOR: [f32; 7] = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    // SAFETY: the instruction set is the caller's.
    unsafe {
        let x = V::splat(-87.0).max_or(x);
        let n = x.mul(V::splat(LOG2_E)).round();
        let r = n.mul_add(V::splat(-LN2_HIGH), x);
        let r = n.mul_add(V::splat(-LN2_LOW), r);
        let mut sum = V::splat(TAYLOR[0]);
        for c in &TAYLOR[1..] {
            sum = sum.mul_add(r, V::splat(*c));
        }
        sum.scale_by_power_of_two(n)
    }
}

/// Runs `$full` for whole vectors and `$ragged` (with the lane count) for the rest.
macro_rules! for_vectors {
    ($count:expr, |$i:ident| $full:expr, |$n:ident| $ragged:expr) => {{
        let count = $count;
        let mut $i = 0;
        while $i + LANES <= count {
            $full;
            $i += LANES;
        }
        if $i < count {
            let $n = count - $i;
            $ragged;
        }
    }};
}

#[inline(always)]
pub(super) unsafe fn derive<V: Lanes>(activation: Activation, h: &[f32], d: &mut [f32]) {
    assert!(h.len() >= d.len(), "activations are missing");
    let (h, out) = (h.as_ptr(), d.as_mut_ptr());
    // SAFETY: both slices hold `d.len()` numbers.
    unsafe {
        for_vectors!(
            d.len(),
            |i| derivative(activation, V::load(h.add(i)), V::load(out.add(i))).store(out.add(i)),
            |n| derivative(activation, V::load_first(n, h.add(i)), V::load_first(n, out.add(i)))
                .store_first(n, out.add(i))
        );
    }
}

#[inline(always)]
unsafe fn adam_vector<V: Lanes>(s: &AdamStep, g: V, w: V, m: V, v: V) -> (V, V, V) {
    // SAFETY: the instruction set is the caller's.
    unsafe {
        let g = g.mul(V::splat(s.grad_scale));
        let m = V::splat(1.0 - s.beta1).mul_add(g.sub(m), m);
        let v = V::splat(1.0 - s.beta2).mul_add(g.mul(g).sub(v), v);
        let denominator = v.sqrt().mul_add(V::splat(s.square_scale), V::splat(s.epsilon));
        let w = V::splat(-s.rate).mul(m).div(denominator).add(w);
        (w, m, v)
    }
}

#[inline(always)]
pub(super) unsafe fn adam<V: Lanes>(
    step: &AdamStep,
    grads: &[f32],
    params: &mut [f32],
    mean: &mut [f32],
    square: &mut [f32],
) -> bool {
    let count = params.len();
    assert!(
        grads.len() == count && mean.len() == count && square.len() == count,
        "one moment per parameter"
    );
    let g = grads.as_ptr();
    let (w, m, v) = (params.as_mut_ptr(), mean.as_mut_ptr(), square.as_mut_ptr());
    // SAFETY: all four slices hold `count` numbers.
    unsafe {
        // Zero times a finite number is zero; times NaN or infinity it is NaN.
        let zero = V::splat(0.0);
        let mut finite = zero;
        for_vectors!(
            count,
            |i| {
                let grad = V::load(g.add(i));
                finite = zero.mul_add(grad, finite);
                let next = adam_vector(
                    step,
                    grad,
                    V::load(w.add(i)),
                    V::load(m.add(i)),
                    V::load(v.add(i)),
                );
                next.0.store(w.add(i));
                next.1.store(m.add(i));
                next.2.store(v.add(i));
            },
            |n| {
                let grad = V::load_first(n, g.add(i));
                finite = zero.mul_add(grad, finite);
                let load = |from: *mut f32| V::load_first(n, from.add(i));
                let next = adam_vector(step, grad, load(w), load(m), load(v));
                next.0.store_first(n, w.add(i));
                next.1.store_first(n, m.add(i));
                next.2.store_first(n, v.add(i));
            }
        );
        finite.sum() == 0.0
    }
}

#[inline(always)]
pub(super) unsafe fn sum_of_squares<V: Lanes>(values: &[f32]) -> f32 {
    let from = values.as_ptr();
    // SAFETY: the loop stays inside the slice.
    unsafe {
        let mut sum = V::splat(0.0);
        for_vectors!(
            values.len(),
            |i| {
                let x = V::load(from.add(i));
                sum = x.mul_add(x, sum);
            },
            |n| {
                let x = V::load_first(n, from.add(i));
                sum = x.mul_add(x, sum);
            }
        );
        sum.sum()
    }
}

#[inline(always)]
pub(super) unsafe fn blend<V: Lanes>(rate: f32, source: &[f32], target: &mut [f32]) {
    assert_eq!(source.len(), target.len(), "blended networks have one shape");
    let (from, to) = (source.as_ptr(), target.as_mut_ptr());
    // SAFETY: both slices hold `target.len()` numbers.
    unsafe {
        let rate = V::splat(rate);
        let mix = |source: V, target: V| rate.mul_add(source.sub(target), target);
        for_vectors!(
            target.len(),
            |i| mix(V::load(from.add(i)), V::load(to.add(i))).store(to.add(i)),
            |n| mix(V::load_first(n, from.add(i)), V::load_first(n, to.add(i)))
                .store_first(n, to.add(i))
        );
    }
}
