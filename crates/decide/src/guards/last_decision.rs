//! The last decision, for guards that count changes.

use homeostat_core::{Error, Persist, Result as CoreResult, Snapshot};

use crate::Setting;

/// The amounts that were decided last; none before the first decision.
///
/// A change takes time: pods are replaced one by one, and a maintenance window or a mode that only
/// recommends may hold it for days. Until it is carried out, every observation has the old setting,
/// and the same change is decided again. It is one change, and so is a smaller part of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LastDecision {
    amounts: Vec<u64>,
}

impl LastDecision {
    /// The nearest amount to `wanted` in a dimension that is no new change: between the present
    /// amount and the one decided last.
    pub(super) fn nearest(&self, dimension: usize, present: u64, wanted: u64) -> u64 {
        let decided = self.amounts.get(dimension).copied().unwrap_or(present);
        wanted.clamp(present.min(decided), present.max(decided))
    }

    /// The nearest setting to `wanted` that is no new change.
    pub(super) fn nearest_setting<S: Setting>(&self, present: S, wanted: S) -> S {
        (0..S::DIMENSIONS.len()).fold(wanted, |setting, dimension| {
            let (has, wants) = (present.amount(dimension), wanted.amount(dimension));
            setting.with_amount(dimension, self.nearest(dimension, has, wants))
        })
    }

    /// Notes a decision.
    pub(super) fn note<S: Setting>(&mut self, applied: &S) {
        self.amounts.clear();
        let dimensions = 0..S::DIMENSIONS.len();
        self.amounts.extend(dimensions.map(|dimension| applied.amount(dimension)));
    }
}

impl Persist for LastDecision {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(name, self.amounts.clone());
    }

    /// Checkpoints of earlier versions have none.
    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.amounts = match from.any_u64s(name) {
            Err(Error::SnapshotMissing { .. }) => Vec::new(),
            amounts => amounts?.to_vec(),
        };
        Ok(())
    }
}
