//! The doubly robust estimate (Jiang and Li, 2016): fitted Q, corrected along each recorded
//! trajectory by its errors, weighted by how much more probable the recorded actions are under the
//! policy. It is right if either Q or the probabilities are. Q comes from the other half of the
//! trajectories, so that it did not see the errors that it is corrected by.

use homeostat_core::Stream;
use homeostat_env::Space;

use super::fitted_q::{FittedQ, QFeatures, add_scaled};
use super::linear::{deviation, dot};
use super::{Estimate, EvaluationConfig, Prepared, Step, interval};

pub(super) struct DoublyRobust {
    pub(super) estimate: Estimate,
    pub(super) effective_transitions: f64,
}

/// A fitted Q with the features that it is linear in.
pub(super) struct FeatureQ<'a> {
    pub(super) features: &'a QFeatures,
    pub(super) fitted: &'a FittedQ,
}

/// The estimate of one trajectory is linear in the coefficients of Q: `constant + slope . w`. Both are
/// summed over the trajectories of a block of [`FittedQ`].
struct Block {
    constant: f64,
    slope: Vec<f64>,
    trajectories: f64,
}

/// None unless every recorded action has its probability. The interval comes from resamples in which
/// Q is fitted again, so that it knows how uncertain Q is.
pub(super) fn doubly_robust(
    q: &FeatureQ<'_>,
    prepared: &[Prepared],
    action: &Space,
    config: &EvaluationConfig,
    rng: &mut Stream,
) -> Option<DoublyRobust> {
    let FeatureQ { features, fitted } = q;
    let is_known = |step: &Step| step.probability.is_some_and(|p| p > 0.0 && p.is_finite());
    if !prepared.iter().all(|one| one.steps.iter().all(is_known)) {
        return None;
    }
    let count = fitted.block_count();
    let new = || Block { constant: 0.0, slope: vec![0.0; features.len()], trajectories: 0.0 };
    let mut blocks: Vec<Block> = (0..count).map(|_| new()).collect();
    let (mut ratios, mut squares) = (0.0, 0.0);
    let mut row = Vec::new();
    for (index, trajectory) in prepared.iter().enumerate() {
        let Block { constant, slope, trajectories } = &mut blocks[index % count];
        *trajectories += 1.0;
        let (mut product, mut discount) = (1.0, 1.0);
        for (place, step) in trajectory.steps.iter().enumerate() {
            if place == 0 {
                features.write(&step.state, &step.chosen, &mut row);
                add_scaled(slope, 1.0, &row);
            }
            product = (product * ratio(step, action, config)).min(config.max_ratio);
            if product == 0.0 {
                break;
            }
            ratios += product;
            squares += product * product;
            let weight = discount * product;
            *constant += weight * (1.0 - config.gamma) * step.reward;
            features.write(&step.next.state, &step.next.chosen, &mut row);
            add_scaled(slope, weight * config.gamma * step.next.continues, &row);
            features.write(&step.state, &step.recorded, &mut row);
            add_scaled(slope, -weight, &row);
            discount *= config.gamma;
        }
    }
    let value = |weights: &[f64]| {
        let half = |parity: usize| -> Vec<f64> {
            let places = weights.iter().enumerate();
            places.map(|(block, weight)| if block % 2 == parity { *weight } else { 0.0 }).collect()
        };
        // Each half is corrected with the other's Q.
        let coefficients = [fitted.coefficients(&half(1)), fitted.coefficients(&half(0))];
        let (mut sum, mut trajectories) = (0.0, 0.0);
        for (index, (block, weight)) in blocks.iter().zip(weights).enumerate() {
            sum += weight * (block.constant + dot(&block.slope, &coefficients[index % 2]));
            trajectories += weight * block.trajectories;
        }
        sum / trajectories
    };
    let resampled: Vec<f64> =
        (0..config.resamples).map(|_| value(&fitted.resampled_weights(rng))).collect();
    let spread = deviation(&resampled) * fitted.correction();
    Some(DoublyRobust {
        estimate: interval(value(&vec![1.0; count]), spread, count - 1, config.confidence),
        effective_transitions: if squares > 0.0 { ratios * ratios / squares } else { 0.0 },
    })
}

/// How much more probable the recorded action is under the policy.
fn ratio(step: &Step, action: &Space, config: &EvaluationConfig) -> f64 {
    let probability = step.probability.expect("all are known");
    match action {
        Space::Box { .. } => {
            let width = config.smoothing;
            let densities = step.recorded.iter().zip(&step.chosen).map(|(recorded, chosen)| {
                let z = f64::from(recorded - chosen) / width;
                (-0.5 * z * z).exp() / (width * (2.0 * std::f64::consts::PI).sqrt())
            });
            densities.product::<f64>() / probability
        }
        _ if step.recorded == step.chosen => 1.0 / probability,
        _ => 0.0,
    }
}
