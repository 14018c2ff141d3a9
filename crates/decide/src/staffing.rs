//! Square-root staffing: replicas for the offered load, and a multiple of its square root to spare.

use std::collections::VecDeque;

use homeostat_core::{Persist, Result, Snapshot};

use crate::Reason;

/// Chooses the number of replicas for a load. It scales up at once, and down only when the last few
/// observations agree, because a single quiet window is no evidence.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Staffing {
    /// Number of observations that must agree.
    patience: usize,
    /// Replicas needed in the latest observations.
    needs: VecDeque<u64>,
}

impl Staffing {
    pub(crate) fn new(patience: u32) -> Self {
        Self { patience: patience as usize, needs: VecDeque::new() }
    }

    /// Replicas for `load`, the mean number of requests in service if none had to wait: `load` plus
    /// `spare` times its square root; or the present number while recent windows needed it. Without
    /// a known load the number stays.
    pub(crate) fn replicas(&mut self, load: f64, spare: f64, current: u32) -> (f64, Vec<Reason>) {
        if !load.is_finite() || load < 0.0 {
            let reason = Reason::TelemetryMissing { figure: "arrivals" };
            return (f64::from(current), vec![reason]);
        }
        let need = (load + spare * load.sqrt()).ceil() as u64;
        self.needs.push_back(need);
        if self.needs.len() > self.patience {
            self.needs.pop_front();
        }
        let recent = self.needs.iter().copied().max().unwrap_or(need);
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let mut reasons = vec![Reason::Staffing { load, spare, replicas: count(need) }];
        // An earlier need keeps present replicas, but never adds some.
        let kept = (recent as f64).min(f64::from(current)).max(need as f64);
        if kept > need as f64 {
            reasons.push(Reason::NeededRecently { replicas: count(kept as u64) });
        }
        (kept, reasons)
    }
}

impl Persist for Staffing {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(name, self.needs.iter().copied().collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        self.needs = from.any_u64s(name)?.iter().copied().collect();
        Ok(())
    }
}
