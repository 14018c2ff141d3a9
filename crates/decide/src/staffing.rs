//! Replicas by square-root staffing: enough for the load, and a square root of it to spare.

use std::collections::VecDeque;

use homeostat_core::{Persist, Result, Snapshot};

use crate::Reason;

/// Staffs a target for its load. More is granted at once; less only when the last few
/// observations agree: a single quiet window proves nothing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Staffing {
    /// Observations that have to agree.
    patience: usize,
    /// Replicas needed in the latest observations.
    needs: VecDeque<u64>,
}

impl Staffing {
    pub(crate) fn new(patience: u32) -> Self {
        Self { patience: patience as usize, needs: VecDeque::new() }
    }

    /// Replicas for `load`, the mean number of requests in service if nobody waits: `load`
    /// and `spare` times its root, or what is there now while it was needed recently. Without a
    /// load that is a number everything stays.
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
        // More than is there is never kept for what was needed earlier, only what is there.
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
