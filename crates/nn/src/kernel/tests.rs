//! Every kernel computes the same: against plain loops in double precision, and
//! the two with fused arithmetic against each other bit for bit.

use proptest::prelude::*;

use super::*;

fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut rng = homeostat_core::Stream::from_seed(seed);
    (0..len).map(|_| rng.range(-2.0, 2.0) as f32).collect()
}

/// Runs `compute` on every kernel; results must be near `expect`, and equal
/// between the fused kernels.
fn check(expect: &[f64], compute: impl Fn(Kernel) -> Vec<f32>) {
    let mut fused: Option<Vec<f32>> = None;
    for kernel in Kernel::available() {
        let got = compute(kernel);
        assert_eq!(got.len(), expect.len());
        for (i, (got, expect)) in got.iter().zip(expect).enumerate() {
            let tolerance = 2e-5 * (1.0 + expect.abs());
            assert!(
                (f64::from(*got) - expect).abs() < tolerance,
                "{kernel} [{i}]: {got} against {expect}"
            );
        }
        if kernel != Kernel::PORTABLE {
            let first = fused.get_or_insert_with(|| got.clone());
            assert_eq!(first, &got, "{kernel} rounds differently");
        }
    }
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::Tanh => x.tanh(),
    }
}

fn slope(activation: Activation, h: f64) -> f64 {
    match activation {
        Activation::Identity => 1.0,
        Activation::Relu => f64::from(u8::from(h > 0.0)),
        Activation::Tanh => 1.0 - h * h,
    }
}

fn activations() -> impl Strategy<Value = Activation> {
    prop_oneof![Just(Activation::Identity), Just(Activation::Relu), Just(Activation::Tanh)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn products_with_bias_and_activation(
        rows in 1usize..14, inputs in 1usize..70, outputs in 1usize..140, activation in activations(), seed in any::<u64>(),
    ) {
        let (x, w, bias) = (numbers(rows * inputs, seed), numbers(inputs * outputs, !seed), numbers(outputs, seed ^ 5));
        let sum = |row: usize, o: usize, weight: &dyn Fn(usize) -> f32| {
            let dot: f64 = (0..inputs).map(|k| f64::from(x[row * inputs + k]) * f64::from(weight(k))).sum();
            activate(activation, dot + f64::from(bias[o]))
        };
        let cells = || (0..rows).flat_map(|row| (0..outputs).map(move |o| (row, o)));
        let product = ProductOperands { x: &x, w: &w, rows, inputs, outputs };
        let expect: Vec<f64> = cells().map(|(row, o)| sum(row, o, &|k| w[k * outputs + o])).collect();
        check(&expect, |kernel| {
            let mut y = vec![0.0; rows * outputs];
            kernel.multiply_activate(product, &bias, activation, &mut y);
            y
        });
        if outputs <= 16 {
            let expect: Vec<f64> = cells().map(|(row, o)| sum(row, o, &|k| w[o * inputs + k])).collect();
            check(&expect, |kernel| {
                let mut y = vec![0.0; rows * outputs];
                kernel.dots_activate(product, &bias, activation, &mut y);
                y
            });
        }
    }

    #[test]
    fn products_with_the_derivative_below(
        rows in 1usize..14, inputs in 1usize..40, outputs in 1usize..90, activation in activations(), seed in any::<u64>(),
    ) {
        let (x, w) = (numbers(rows * inputs, seed), numbers(inputs * outputs, !seed));
        let h: Vec<f32> = numbers(rows * outputs, seed ^ 9).iter().map(|h| h / 2.0).collect();
        let mut expect = Vec::new();
        for row in 0..rows {
            for o in 0..outputs {
                let dot: f64 = (0..inputs).map(|k| f64::from(x[row * inputs + k]) * f64::from(w[k * outputs + o])).sum();
                expect.push(dot * slope(activation, f64::from(h[row * outputs + o])));
            }
        }
        check(&expect, |kernel| {
            let mut y = vec![0.0; rows * outputs];
            kernel.multiply_derive(ProductOperands { x: &x, w: &w, rows, inputs, outputs }, activation, &h, &mut y);
            y
        });
    }

    #[test]
    fn gradients_sums_and_transposes(rows in 1usize..14, a in 1usize..50, b in 1usize..90, seed in any::<u64>()) {
        let (left, right) = (numbers(rows * a, seed), numbers(rows * b, !seed));
        let mut expect = Vec::new();
        for i in 0..a {
            for j in 0..b {
                expect.push((0..rows).map(|r| f64::from(left[r * a + i]) * f64::from(right[r * b + j])).sum());
            }
        }
        check(&expect, |kernel| {
            let mut g = vec![0.0; a * b];
            kernel.outer_product(GradientOperands { a: &left, b: &right, rows, width_a: a, width_b: b }, &mut g);
            g
        });
        let expect: Vec<f64> = (0..b).map(|j| (0..rows).map(|r| f64::from(right[r * b + j])).sum()).collect();
        check(&expect, |kernel| {
            let mut sums = vec![0.0; b];
            kernel.column_sums(&right, rows, &mut sums);
            sums
        });
        let expect: Vec<f64> = (0..b).flat_map(|j| (0..rows).map(move |r| (r, j))).map(|(r, j)| f64::from(right[r * b + j])).collect();
        check(&expect, |kernel| {
            let mut t = vec![0.0; rows * b];
            kernel.transpose(&right, rows, b, &mut t);
            t
        });
    }

    #[test]
    fn products_with_packed_matrices(
        rows in 1usize..30, depth in prop_oneof![1usize..40, 250usize..270], columns in 1usize..80,
        gaps in (0usize..4, 0usize..4), seed in any::<u64>(),
    ) {
        let (stride, y_stride) = (depth + gaps.0, columns + gaps.1);
        let (x, bias) = (numbers(rows * stride, seed), numbers(columns, seed ^ 5));
        // Small weights, so that rounding stays small where long sums cancel.
        let w: Vec<f32> = numbers(depth * y_stride, !seed).iter().map(|w| w / 16.0).collect();
        let before = numbers(rows * y_stride, seed ^ 6);
        for start in [Start::Zero, Start::Bias(&bias), Start::Result] {
            let mut expect: Vec<f64> = before.iter().copied().map(f64::from).collect();
            for row in 0..rows {
                for column in 0..columns {
                    let cell = &mut expect[row * y_stride + column];
                    let from = match start {
                        Start::Zero => 0.0,
                        Start::Bias(bias) => f64::from(bias[column]),
                        Start::Result => *cell,
                    };
                    let products = (0..depth).map(|k| {
                        f64::from(x[row * stride + k]) * f64::from(w[k * y_stride + column])
                    });
                    *cell = from + products.sum::<f64>();
                }
            }
            check(&expect, |kernel| {
                let mut packed = vec![f32::NAN; packed_len(depth, columns)];
                kernel.pack(&w, y_stride, depth, columns, &mut packed);
                let mut y = before.clone();
                let product =
                    PackedProduct { x: &x, stride, rows, depth, packed: &packed, columns, start };
                kernel.multiply_packed(product, &mut y, y_stride);
                y
            });
        }
    }

    #[test]
    fn softmax_of_each_group(rows in 1usize..6, left in 1usize..20, right in 1usize..20, scale in 0.1f32..30.0, seed in any::<u64>()) {
        let width = left + right;
        let logits: Vec<f32> = numbers(rows * width, seed).iter().map(|x| x * scale).collect();
        let mut expect = Vec::new();
        for row in logits.chunks(width) {
            for group in [&row[..left], &row[left..]] {
                let largest = group.iter().copied().fold(f32::MIN, f32::max);
                let total: f64 = group.iter().map(|x| f64::from(x - largest).exp()).sum();
                expect.extend(group.iter().map(|x| f64::from(x - largest) - total.ln()));
            }
        }
        check(&expect, |kernel| {
            let (mut log_probs, mut probs) = (vec![0.0; logits.len()], vec![0.0; logits.len()]);
            for group in [0..left, left..width] {
                kernel.log_softmax(&logits, width, group, &mut log_probs, &mut probs);
            }
            for row in probs.chunks(width) {
                assert!((row.iter().sum::<f32>() - 2.0).abs() < 1e-5);
            }
            log_probs
        });
    }

    #[test]
    fn adam_moves_by_the_book(count in 1usize..70, seed in any::<u64>()) {
        let step = AdamStep { rate: 0.01, beta1: 0.9, beta2: 0.999, square_scale: 3.0, epsilon: 1e-5, grad_scale: 0.5 };
        let (w, g, m) = (numbers(count, seed), numbers(count, !seed), numbers(count, seed ^ 3));
        let v: Vec<f32> = numbers(count, seed ^ 4).iter().map(|v| v * v).collect();
        let expect: Vec<f64> = (0..count).map(|i| {
            let [w, g, m, v] = [w[i], g[i] * 0.5, m[i], v[i]].map(f64::from);
            let m = 0.9 * m + 0.1 * g;
            let v = 0.999 * v + 0.001 * g * g;
            w - 0.01 * m / (v.sqrt() * 3.0 + 1e-5)
        }).collect();
        check(&expect, |kernel| {
            let (mut w, mut m, mut v) = (w.clone(), m.clone(), v.clone());
            assert!(kernel.adam(&step, &g, &mut w, &mut m, &mut v));
            w
        });
    }

    #[test]
    fn a_gradient_that_is_not_finite_is_noticed(count in 1usize..70, place in any::<prop::sample::Index>(), seed in any::<u64>()) {
        let step = AdamStep { rate: 0.01, beta1: 0.9, beta2: 0.999, square_scale: 1.0, epsilon: 1e-5, grad_scale: 1.0 };
        for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut g = numbers(count, seed);
            g[place.index(count)] = poison;
            for kernel in Kernel::available() {
                let (mut w, mut m, mut v) = (vec![0.0; count], vec![0.0; count], vec![0.0; count]);
                prop_assert!(!kernel.adam(&step, &g, &mut w, &mut m, &mut v), "{} missed {}", kernel, poison);
            }
        }
    }

    #[test]
    fn norms_and_blends(count in 1usize..70, rate in 0.0f32..1.0, seed in any::<u64>()) {
        let (source, target) = (numbers(count, seed), numbers(count, !seed));
        let expect = [source.iter().map(|x| f64::from(*x) * f64::from(*x)).sum()];
        check(&expect, |kernel| vec![kernel.sum_of_squares(&source)]);
        let expect: Vec<f64> = source.iter().zip(&target)
            .map(|(s, t)| f64::from(*t) + f64::from(rate) * (f64::from(*s) - f64::from(*t))).collect();
        check(&expect, |kernel| {
            let mut target = target.clone();
            kernel.blend(rate, &source, &mut target);
            target
        });
    }
}

#[test]
fn nan_survives_every_activation() {
    for kernel in Kernel::available() {
        for activation in [Activation::Identity, Activation::Relu, Activation::Tanh] {
            let product =
                ProductOperands { x: &[f32::NAN], w: &[1.0; 20], rows: 1, inputs: 1, outputs: 20 };
            let mut y = [0.0; 20];
            kernel.multiply_activate(product, &[0.0; 20], activation, &mut y);
            assert!(y.iter().all(|y| y.is_nan()), "{kernel} {activation:?}");
        }
    }
}
