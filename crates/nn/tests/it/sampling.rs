//! Draws follow their distribution, and the mode is its most probable action.

use homeostat_core::Stream;
use homeostat_nn::{Head, HeadScratch, Kernel};
use proptest::prelude::*;

use crate::closeness::assert_same_bits;
use crate::examples::{HeadBatch, head_batches, widen};
use crate::reference::{log_prob, probabilities};

const DRAWS: usize = 40_000;

/// Actions for `DRAWS` copies of the rows in `outputs`.
fn draw(kernel: Kernel, head: &Head, outputs: &[f32], extra: &[f32]) -> Vec<Vec<f32>> {
    let outputs = outputs.repeat(DRAWS);
    let mut actions = vec![f32::NAN; outputs.len() / head.outputs() * head.action_len()];
    let mut rng = Stream::from_seed(7);
    let mut scratch = HeadScratch::default();
    head.sample(kernel, &outputs, extra, &mut rng, &mut actions, &mut scratch);
    actions.chunks_exact(head.action_len()).map(<[f32]>::to_vec).collect()
}

/// The counts are as far from their expectation as chance makes them: the statistic
/// lies within five of its standard deviations. Seeds are fixed, so this either
/// holds or does not.
fn assert_frequencies(what: &str, counts: &[u32], probabilities: &[f64]) {
    let total = f64::from(counts.iter().sum::<u32>());
    let mut chi_square = 0.0;
    for (count, probability) in counts.iter().zip(probabilities) {
        let expect = total * probability;
        chi_square += (f64::from(*count) - expect).powi(2) / expect;
    }
    let freedom = (counts.len() - 1) as f64;
    let bound = freedom + 5.0 * (2.0 * freedom).sqrt();
    assert!(
        chi_square <= bound,
        "{what}: chi-square {chi_square:.1} above {bound:.1} for {counts:?}"
    );
}

#[test]
fn choices_come_as_often_as_they_are_probable() {
    let logits: Vec<f32> = (0..21).map(|choice| (choice as f32 * 1.7).sin()).collect();
    let head = Head::Categorical(vec![logits.len()]);
    for kernel in Kernel::available() {
        let mut counts = vec![0; logits.len()];
        for action in draw(kernel, &head, &logits, &[]) {
            counts[action[0] as usize] += 1;
        }
        assert_frequencies(&kernel.to_string(), &counts, &probabilities(&widen(&logits)));
    }
}

#[test]
fn answers_to_several_questions_are_independent() {
    let logits = [0.3, -0.8, 1.1, 0.0, -1.0, 0.5, 0.2];
    let head = Head::Categorical(vec![3, 4]);
    let (first, second) =
        (probabilities(&widen(&logits[..3])), probabilities(&widen(&logits[3..])));
    let joint: Vec<f64> = first.iter().flat_map(|p| second.iter().map(move |q| p * q)).collect();
    for kernel in Kernel::available() {
        let mut counts = vec![0; joint.len()];
        for action in draw(kernel, &head, &logits, &[]) {
            counts[action[0] as usize * 4 + action[1] as usize] += 1;
        }
        assert_frequencies(&kernel.to_string(), &counts, &joint);
    }
}

#[test]
fn every_row_is_drawn_from_its_own_distribution() {
    let rows = [[2.0, 0.0, -1.0], [-1.0, 1.5, 0.5]];
    let head = Head::Categorical(vec![3]);
    for kernel in Kernel::available() {
        let actions = draw(kernel, &head, &rows.concat(), &[]);
        for (row, logits) in rows.iter().enumerate() {
            let mut counts = vec![0; logits.len()];
            for action in actions.iter().skip(row).step_by(rows.len()) {
                counts[action[0] as usize] += 1;
            }
            assert_frequencies(
                &format!("{kernel} row {row}"),
                &counts,
                &probabilities(&widen(logits)),
            );
        }
    }
}

#[test]
fn what_is_all_but_impossible_is_never_drawn() {
    let head = Head::Categorical(vec![4]);
    for kernel in Kernel::available() {
        for action in draw(kernel, &head, &[-1e9, 0.0, -1e9, -1e9], &[]) {
            assert_eq!(action, [1.0]);
        }
    }
}

#[test]
fn continuous_actions_have_the_moments_of_their_distribution() {
    let (means, log_stds) = ([0.7, -1.3], [-0.4f32, 0.6]);
    let count = DRAWS as f64;
    let average = |values: &[f64]| values.iter().sum::<f64>() / count;
    for kernel in Kernel::available() {
        let actions = draw(kernel, &Head::Gaussian(2), &means, &log_stds);
        let standardised = |i: usize| -> Vec<f64> {
            let (mean, deviation) = (f64::from(means[i]), f64::from(log_stds[i]).exp());
            actions.iter().map(|action| (f64::from(action[i]) - mean) / deviation).collect()
        };
        let (first, second) = (standardised(0), standardised(1));
        let product =
            |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a * b).collect() };
        // Five standard errors of each moment.
        for z in [&first, &second] {
            assert!(average(z).abs() < 5.0 / count.sqrt(), "{kernel} mean");
            let variance = average(&product(z, z));
            assert!((variance - 1.0).abs() < 5.0 * (2.0 / count).sqrt(), "{kernel} variance");
        }
        assert!(
            average(&product(&first, &second)).abs() < 5.0 / count.sqrt(),
            "{kernel} covariance"
        );
    }
}

#[test]
fn of_equally_probable_choices_the_mode_is_the_first() {
    let mut action = [f32::NAN; 2];
    Head::Categorical(vec![3, 2]).mode(&[0.0, 1.0, 1.0, 2.0, 2.0], &mut action);
    assert_eq!(action, [1.0, 0.0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_action_is_more_probable_than_the_mode(batch in head_batches()) {
        let HeadBatch { head, outputs, extra, actions, .. } = &batch;
        let extra = widen(extra);
        let actions = actions.chunks_exact(head.action_len());
        let rows = outputs.chunks_exact(head.outputs()).zip(actions);
        for (row, other) in rows {
            let mut mode = vec![f32::NAN; head.action_len()];
            head.mode(row, &mut mode);
            let score = |action: &[f32]| log_prob(head, &widen(row), &extra, &widen(action));
            // Changing one part at a time is enough: the parts are independent.
            for part in 0..mode.len() {
                let alternatives: Vec<f32> = match head {
                    Head::Categorical(choices) => {
                        (0..choices[part]).map(|choice| choice as f32).collect()
                    }
                    Head::Gaussian(_) => vec![other[part], mode[part] + 1e-3, mode[part] - 1e-3],
                };
                for alternative in alternatives {
                    let mut changed = mode.clone();
                    changed[part] = alternative;
                    prop_assert!(score(&changed) <= score(&mode), "{:?} beats {:?}", changed, mode);
                }
            }
        }
    }

    #[test]
    fn a_draw_is_scored_as_if_it_were_given(batch in head_batches(), seed in any::<u64>()) {
        let HeadBatch { head, outputs, extra, actions, .. } = &batch;
        for kernel in Kernel::available() {
            let mut rng = Stream::from_seed(seed);
            let mut drawn = vec![f32::NAN; actions.len()];
            let (mut by_sample, mut by_evaluate) = (HeadScratch::default(), HeadScratch::default());
            head.sample(kernel, outputs, extra, &mut rng, &mut drawn, &mut by_sample);
            head.evaluate(kernel, outputs, extra, &drawn, &mut by_evaluate);
            assert_same_bits("log-probability", &by_sample.log_prob, &by_evaluate.log_prob);
            assert_same_bits("entropy", &by_sample.entropy, &by_evaluate.entropy);
        }
    }
}
