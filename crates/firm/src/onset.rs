//! When a fault began, if it was detected late.
//!
//! Samples between the fault and its detection spoil the reference. The onset is the split of
//! the reference where the mean deviation over all metrics changes most; what follows it belongs
//! to the window.

use crate::statistics::quantile;

/// Index into the reference from which samples belong to the fault, or the length of the
/// reference where nothing changes. All series have one length; only the last half is searched.
pub fn estimate_onset(reference: &[Vec<f64>]) -> usize {
    let length = reference.iter().map(Vec::len).min().unwrap_or(0);
    if length < 2 * MIN_SEGMENT {
        return length;
    }
    let deviations = mean_deviations(reference, length);
    let total: f64 = deviations.iter().sum();
    let mut best = (0.0, length);
    let mut before = 0.0;
    for split in 1..=length - MIN_SEGMENT {
        before += deviations[split - 1];
        if split < length / 2 {
            continue;
        }
        let (left, right) = (split as f64, (length - split) as f64);
        let step = (total - before) / right - before / left;
        let strength = step * (left * right / length as f64).sqrt();
        if strength > best.0 {
            best = (strength, split);
        }
    }
    let split = best.1;
    if split == length {
        return length;
    }
    let step = mean(&deviations[split..]) - mean(&deviations[..split]);
    let spread = quantile(&deviations[..split], 0.99).unwrap_or(0.0);
    if step > spread { split } else { length }
}

/// Samples that a segment needs.
const MIN_SEGMENT: usize = 5;

/// One metric that explodes must not hide the others.
const MAX_DEVIATION: f64 = 10.0;

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// Per sample, the mean over metrics of the distance from the median in interquartile ranges.
fn mean_deviations(reference: &[Vec<f64>], length: usize) -> Vec<f64> {
    let mut sums = vec![0.0; length];
    for series in reference {
        let [Some(low), Some(median), Some(high)] = [0.25, 0.5, 0.75].map(|q| quantile(series, q))
        else {
            continue;
        };
        let scale = high - low + 0.05 * median.abs();
        if scale <= 0.0 {
            continue;
        }
        for (sum, sample) in sums.iter_mut().zip(series) {
            let deviation = ((sample - median) / scale).abs();
            if deviation.is_finite() {
                *sum += deviation.min(MAX_DEVIATION);
            }
        }
    }
    let metrics = reference.len().max(1) as f64;
    sums.iter().map(|sum| sum / metrics).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(change_at: usize) -> Vec<Vec<f64>> {
        let noise = |t: usize, k: usize| ((t * 7 + k * 3) % 5) as f64;
        (0..4)
            .map(|k| {
                let step = |t: usize| if t >= change_at && k < 2 { 100.0 } else { 0.0 };
                (0..200).map(|t| 50.0 + noise(t, k) + step(t)).collect()
            })
            .collect()
    }

    #[test]
    fn a_late_detection_is_traced_back_to_the_change() {
        assert_eq!(estimate_onset(&series(150)), 150);
    }

    #[test]
    fn a_reference_without_a_change_is_kept_whole() {
        assert_eq!(estimate_onset(&series(1000)), 200);
        assert_eq!(estimate_onset(&[]), 0);
        assert_eq!(estimate_onset(&[vec![f64::NAN; 40]]), 40);
    }
}
