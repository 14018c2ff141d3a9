//! CPU usage that drops to zero in every pod at once: more often a failure of the metrics than of the
//! load.

use homeostat_core::{Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use super::reading::Problem;

/// Whether pods have used CPU, and since when none of them does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SuddenZero {
    has_used: bool,
    since: Option<SimTime>,
}

impl SuddenZero {
    /// The problem with a usage of exactly zero. For a workload that has used CPU before, zero is
    /// trusted only after it has lasted for `hold`. `is_zero` is none if the usage is not known.
    pub fn judge(
        &mut self,
        now: SimTime,
        hold: SimDuration,
        is_zero: Option<bool>,
    ) -> Option<Problem> {
        if !is_zero? {
            *self = Self { has_used: true, since: None };
            return None;
        }
        let since = *self.since.get_or_insert(now);
        let why = "every pod stopped using CPU at the same time, which is not trusted yet";
        let is_sudden = self.has_used && now.saturating_since(since) < hold;
        is_sudden.then_some(Problem::Contradictory { why })
    }
}

impl Persist for SuddenZero {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(&format!("{name}/has_used"), [u64::from(self.has_used)]);
        let since = self.since.map(SimTime::nanos);
        out.put_u64(&format!("{name}/since"), since.into_iter().collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.has_used = from.u64s(&format!("{name}/has_used"), 1)?[0] != 0;
        let since = from.any_u64s(&format!("{name}/since"))?;
        self.since = since.first().copied().map(SimTime::from_nanos);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_after_load_is_trusted_when_it_lasts() {
        let hold = SimDuration::from_secs(300);
        let mut zero = SuddenZero::default();
        let judge = |zero: &mut SuddenZero, seconds: u64, is_zero: Option<bool>| {
            let now = SimTime::ZERO + SimDuration::from_secs(10_000 + seconds);
            zero.judge(now, hold, is_zero).is_none()
        };
        // A workload that never used any is just idle.
        assert!(judge(&mut zero, 0, Some(true)));
        assert!(judge(&mut zero, 15, Some(false)));
        assert!(!judge(&mut zero, 30, Some(true)));
        let mut snapshot = Snapshot::default();
        zero.save("zero", &mut snapshot);
        let mut zero = SuddenZero::default();
        zero.load("zero", &snapshot).expect("just saved");
        // Missing metrics in between do not matter.
        assert!(judge(&mut zero, 45, None));
        assert!(!judge(&mut zero, 329, Some(true)));
        assert!(judge(&mut zero, 330, Some(true)));
    }
}
