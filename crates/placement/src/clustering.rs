//! Operator clustering (Alg. 6.1): neighbours of similar sensitivity stay together.
//!
//! Deviation: as printed, the head of the model is added twice, the last cluster is never appended and
//! the bracket of `abs(score - clusterScore < THRES)` is misplaced. Here every operator is in exactly
//! one cluster, and the absolute difference is compared.

use std::ops::Range;

/// Divides a chain of operators with these scores. An operator joins the cluster before it if its score
/// differs from the mean of the cluster by less than the threshold.
pub fn cluster_operators(scores: &[f64], threshold: f64) -> Vec<Range<usize>> {
    let mut clusters = Vec::new();
    let (mut start, mut sum) = (0, 0.0);
    for (place, score) in scores.iter().enumerate() {
        let members = (place - start) as f64;
        if place > start && (score - sum / members).abs() >= threshold {
            clusters.push(start..place);
            (start, sum) = (place, 0.0);
        }
        sum += score;
    }
    if start < scores.len() {
        clusters.push(start..scores.len());
    }
    clusters
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_of_similar_sensitivity_stay_together() {
        let check = |scores: &[f64], threshold: f64, expect: &[Range<usize>]| {
            assert_eq!(cluster_operators(scores, threshold), expect);
        };
        check(&[], 0.5, &[]);
        check(&[1.0, 1.2], 0.5, &[Range { start: 0, end: 2 }]);
        check(&[0.1, 0.2, 1.5, 1.4, 0.1], 0.5, &[0..2, 2..4, 4..5]);
        check(&[0.1, 0.2, 1.5], 0.0, &[0..1, 1..2, 2..3]);
        // The mean of the cluster moves along: 0.4 is compared with 0.15.
        check(&[0.0, 0.3, 0.4, 0.9], 0.5, &[0..3, 3..4]);
        // The last operator has a cluster, too.
        check(&[1.0, 1.0, 0.0], 0.5, &[0..2, 2..3]);
    }

    proptest! {
        #[test]
        fn clusters_divide_the_chain(
            scores in prop::collection::vec(0.0..2.0_f64, 0..60),
            threshold in 0.0..2.5_f64,
        ) {
            let clusters = cluster_operators(&scores, threshold);
            let flat: Vec<usize> = clusters.iter().cloned().flatten().collect();
            prop_assert_eq!(flat, (0..scores.len()).collect::<Vec<_>>());
            prop_assert!(clusters.iter().all(|cluster| !cluster.is_empty()));
            if threshold > 2.0 {
                prop_assert!(clusters.len() <= 1);
            }
        }
    }
}
