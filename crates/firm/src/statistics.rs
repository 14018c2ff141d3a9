//! Order statistics of samples. Values that are not finite are left out.

/// Linear interpolation between order statistics; none without a finite sample.
pub fn quantile(samples: &[f64], q: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let place = q.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

/// The middle sample.
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_and_leave_out_what_is_not_finite() {
        let check = |samples: &[f64], q: f64, expect: Option<f64>| {
            assert_eq!(quantile(samples, q), expect);
        };
        check(&[4.0, 1.0, 3.0, 2.0], 0.5, Some(2.5));
        check(&[1.0, f64::NAN, 3.0], 1.0, Some(3.0));
        check(&[5.0], 0.99, Some(5.0));
        check(&[], 0.5, None);
        check(&[f64::INFINITY], 0.5, None);
    }
}
