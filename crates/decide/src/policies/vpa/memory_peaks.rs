//! Memory is about peaks: of each replica, the largest use in a window counts once.

use homeostat_core::{Bytes, SimDuration, SimTime};

use super::decaying_histogram::DecayingHistogram;

/// Windows of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct MemoryPeaks {
    /// End of the present window; none before the first sample.
    pub(super) window_end: Option<SimTime>,
    /// Largest use seen in the window.
    pub(super) peak: Bytes,
    /// Largest need derived from a kill in the window.
    pub(super) oom_peak: Bytes,
}

impl MemoryPeaks {
    /// The larger of both peaks.
    pub(super) fn largest(&self) -> Bytes {
        self.peak.max(self.oom_peak)
    }

    /// Takes in a use.
    pub(super) fn add_usage(
        &mut self,
        into: &mut DecayingHistogram,
        at: SimTime,
        interval: SimDuration,
        usage: Bytes,
    ) {
        if self.raises_peak(into, at, interval, usage) {
            self.peak = usage;
        }
    }

    /// Takes in what a killed replica would have needed.
    pub(super) fn add_oom_need(
        &mut self,
        into: &mut DecayingHistogram,
        at: SimTime,
        interval: SimDuration,
        need: Bytes,
    ) {
        if self.raises_peak(into, at, interval, need) {
            self.oom_peak = need;
        }
    }

    /// Moves the histogram to the new peak, if it is one. Peaks are dated to the end of their
    /// window, so that a raised one can take the old one back exactly.
    fn raises_peak(
        &mut self,
        into: &mut DecayingHistogram,
        at: SimTime,
        interval: SimDuration,
        usage: Bytes,
    ) -> bool {
        let end = self.window_end.unwrap_or(at);
        if at < end {
            let old = self.largest();
            if old == Bytes::ZERO || usage <= old {
                return false;
            }
            into.subtract(old.bytes() as f64, 1.0, end);
            into.add(usage.bytes() as f64, 1.0, end);
            return true;
        }
        let windows = at.saturating_since(end).nanos() / interval.nanos() + 1;
        let end = end + interval * windows;
        *self = Self { window_end: Some(end), peak: Bytes::ZERO, oom_peak: Bytes::ZERO };
        into.add(usage.bytes() as f64, 1.0, end);
        true
    }
}
