//! The two features of a component on a critical path (3.2.3, Alg. 3.2).

use crate::statistics::quantile;

/// Relative importance: Pearson correlation of a component's latencies with those of the
/// critical path, request by request. Zero where either does not vary, or lengths differ.
pub fn relative_importance(component: &[f64], critical_path: &[f64]) -> f64 {
    let n = component.len() as f64;
    if component.len() != critical_path.len() || component.len() < 2 {
        return 0.0;
    }
    let mean = |samples: &[f64]| samples.iter().sum::<f64>() / n;
    let (mean_x, mean_y) = (mean(component), mean(critical_path));
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in component.iter().zip(critical_path) {
        let (dx, dy) = (x - mean_x, y - mean_y);
        xy += dx * dy;
        xx += dx * dx;
        yy += dy * dy;
    }
    let correlation = xy / (xx * yy).sqrt();
    if correlation.is_finite() { correlation.clamp(-1.0, 1.0) } else { 0.0 }
}

/// Congestion intensity: 99th percentile of a component's latencies over their median. One where
/// the median is zero or there are no samples: nothing says that requests queue.
pub fn congestion_intensity(component: &[f64]) -> f64 {
    match (quantile(component, 0.99), quantile(component, 0.5)) {
        (Some(p99), Some(p50)) if p50 > 0.0 => p99 / p50,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_component_that_moves_with_the_path_is_the_important_one() {
        let path = [10.0, 20.0, 30.0, 15.0];
        assert!((relative_importance(&[1.0, 11.0, 21.0, 6.0], &path) - 1.0).abs() < 1e-12);
        assert_eq!(relative_importance(&[5.0; 4], &path), 0.0);
        assert_eq!(relative_importance(&[1.0], &[1.0]), 0.0);
        assert_eq!(relative_importance(&[1.0, f64::NAN], &[1.0, 2.0]), 0.0);
    }

    #[test]
    fn a_long_tail_is_congestion() {
        let mut latencies = vec![2.0; 97];
        latencies.extend([20.0; 3]);
        assert_eq!(congestion_intensity(&latencies), 10.0);
        assert_eq!(congestion_intensity(&[2.0; 50]), 1.0);
        assert_eq!(congestion_intensity(&[]), 1.0);
    }

    proptest! {
        #[test]
        fn features_stay_in_their_ranges(samples in prop::collection::vec((0.0..1e9f64, 0.0..1e9f64), 0..50)) {
            let (x, y): (Vec<f64>, Vec<f64>) = samples.into_iter().unzip();
            prop_assert!((-1.0..=1.0).contains(&relative_importance(&x, &y)));
            prop_assert!(congestion_intensity(&x) >= 1.0);
        }
    }
}
