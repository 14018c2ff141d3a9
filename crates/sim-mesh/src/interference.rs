//! What shared caches and memory bandwidth cost: CPU time stretches while it waits for memory.
//!
//! Caches and memory controllers are looked at every ten milliseconds, as hardware counters are; CPU, disks
//! and network are shared exactly, event by event.

use homeostat_core::SimDuration;

/// How often caches and memory bandwidth are divided again.
pub(crate) const TICK: SimDuration = SimDuration::from_millis(10);

/// Coefficients of memory stalls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interference {
    /// Growth of a stall with the utilisation `u` of a node's memory bandwidth: `1 + queueing * u / (1 - u)`.
    pub queueing: f64,
    /// Growth of a stall when nothing is found in the cache.
    pub miss_penalty: f64,
    /// Growth of traffic when nothing is found in the cache.
    pub miss_traffic: f64,
}

impl Default for Interference {
    fn default() -> Self {
        Self { queueing: 0.5, miss_penalty: 3.0, miss_traffic: 2.0 }
    }
}

/// The utilisation from which memory does not get slower: requests of processors are bounded.
const MAX_UTILIZATION: f64 = 0.95;

impl Interference {
    /// CPU time per CPU time without contention, for a part of it that waits for memory, a share of
    /// accesses that miss the cache because of its size, and a utilisation of memory bandwidth.
    pub fn slowdown(&self, memory_stall: f64, misses: f64, utilization: f64) -> f64 {
        let u = utilization.clamp(0.0, MAX_UTILIZATION);
        let stall = (1.0 + self.miss_penalty * misses) * (1.0 + self.queueing * u / (1.0 - u));
        1.0 - memory_stall + memory_stall * stall
    }

    /// Traffic per traffic without misses.
    pub fn traffic(&self, misses: f64) -> f64 {
        1.0 + self.miss_traffic * misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_without_memory_never_slows_down_and_other_work_more_with_each_cause() {
        let cost = Interference::default();
        assert_eq!(cost.slowdown(0.0, 1.0, 1.0), 1.0);
        assert_eq!(cost.slowdown(0.3, 0.0, 0.0), 1.0);
        let mut last = 1.0;
        for step in 1..=20 {
            let level = f64::from(step) / 20.0;
            let slower = cost.slowdown(0.3, level, level);
            assert!(slower > last || level > MAX_UTILIZATION, "{slower} after {last}");
            last = slower;
        }
    }
}
