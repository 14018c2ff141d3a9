//! What a row of counts looks like, in a few figures.

/// Figures of one function's requests per minute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FunctionFigures {
    /// Requests in all.
    pub requests: u64,
    /// Their mean per minute.
    pub per_minute: f64,
    /// Part of the minutes without a request.
    pub idle_share: f64,
    /// Variance of the counts over their mean: one for a Poisson process, more for bursts,
    /// less for clockwork. Zero without requests.
    pub dispersion: f64,
    /// The fullest minute over the mean one.
    pub peak_to_mean: f64,
    /// Correlation of the counts with those [`FunctionFigures::LAGS`] minutes later; zero
    /// where the counts never change.
    pub autocorrelation: [f64; 3],
}

impl FunctionFigures {
    /// Minutes between the counts whose correlation is measured.
    pub const LAGS: [usize; 3] = [1, 10, 60];

    /// Measures one function.
    pub fn of(counts: &[u32]) -> Self {
        let minutes = counts.len().max(1) as f64;
        let requests: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        let mean = requests as f64 / minutes;
        let squares: f64 = counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum();
        let over_mean = |value: f64| if mean > 0.0 { value / mean } else { 0.0 };
        let idle = counts.iter().filter(|count| **count == 0).count();
        Self {
            requests,
            per_minute: mean,
            idle_share: idle as f64 / minutes,
            dispersion: over_mean(squares / minutes),
            peak_to_mean: over_mean(f64::from(counts.iter().copied().max().unwrap_or(0))),
            autocorrelation: Self::LAGS.map(|lag| {
                let later = counts.iter().skip(lag);
                let products = counts
                    .iter()
                    .zip(later)
                    .map(|(count, later)| (f64::from(*count) - mean) * (f64::from(*later) - mean));
                let sum: f64 = products.sum();
                if squares > 0.0 { sum / squares } else { 0.0 }
            }),
        }
    }
}
