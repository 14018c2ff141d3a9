//! What was measured.

use std::time::Duration;

use serde_json::{Value, json};

/// What was measured.
pub(crate) struct Figures {
    pub(crate) objects: u32,
    pub(crate) pods: u32,
    /// From the change of an object to its status update, one for each change.
    pub(crate) reconcile_seconds: Vec<f64>,
    /// The duration of every resync.
    pub(crate) resync_seconds: Vec<f64>,
    pub(crate) rss_mb: f64,
    pub(crate) requests: f64,
    pub(crate) watched: Duration,
}

impl Figures {
    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let minutes = self.watched.as_secs_f64() / 60.0;
        // The first writes the first status of every object, and all checkpoints at once.
        let later = self.resync_seconds.get(1..).unwrap_or_default();
        json!({
            "objects": self.objects,
            "pods": self.pods,
            "reconcile_p50_s": quantile(&self.reconcile_seconds, 0.5),
            "reconcile_p99_s": quantile(&self.reconcile_seconds, 0.99),
            "reconciles_timed": self.reconcile_seconds.len(),
            "first_resync_s": self.resync_seconds.first(),
            "resync_s": quantile(later, 1.0),
            "resyncs": self.resync_seconds.len(),
            "rss_mb": self.rss_mb,
            "api_requests_per_object_minute": self.requests / f64::from(self.objects) / minutes,
            "watched_s": self.watched.as_secs_f64(),
        })
    }

    /// Aligned columns.
    pub(crate) fn table(&self) -> String {
        let json = self.json();
        let figures = json.as_object().expect("it is an object");
        let width = figures.keys().map(String::len).max().unwrap_or(0);
        figures.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
    }
}

/// The value below which this part of them lies; none of none.
fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).map(|value| (value * 1e4).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 0.99), Some(99.0));
        assert_eq!(quantile(&values, 0.5), Some(50.0));
        assert_eq!(quantile(&values, 1.0), Some(100.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
