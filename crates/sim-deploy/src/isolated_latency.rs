//! Latency of an application that is alone.

use homeostat_core::{Fraction, SeedTree, SimDuration};
use homeostat_des::Histogram;

use crate::Application;

/// The 99th percentile of latency alone, on a whole core with full caches.
pub(crate) fn isolated_latency(application: &Application) -> SimDuration {
    let mut rng = SeedTree::new(0).stream("profile");
    let mut latency = Histogram::default();
    for _ in 0..4000 {
        let need = application.draw(&mut rng);
        latency.record(need.cpu + need.io);
    }
    latency.quantile(Fraction::from_percent(99)).expect("thousands were recorded")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Payload;

    #[test]
    fn a_larger_payload_takes_longer() {
        let app = Application::parse("image-resize+json-parse").unwrap();
        assert!(isolated_latency(&app.with_change(Payload::Image)) > isolated_latency(&app));
    }
}
