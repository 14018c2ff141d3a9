//! What is done while numbers cannot be believed: first nothing, then what is safe.
//!
//! Nothing is ever taken away on silence. While a needed number is missing for a short time,
//! the workload is held as it is. After that the fallback goes on with what is left: with use
//! alone if only the objective is silent, upwards only.

use homeostat_core::{Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use super::reading::Problem;

/// How long silence is borne.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustConfig {
    /// A number older than this is not believed.
    pub most_age: SimDuration,
    /// A number may be ahead of our clock by this much.
    pub clock_skew: SimDuration,
    /// After this much silence the fallback goes on.
    pub hold: SimDuration,
}

impl Default for TrustConfig {
    fn default() -> Self {
        Self {
            most_age: SimDuration::from_secs(90),
            clock_skew: SimDuration::from_secs(30),
            hold: SimDuration::from_secs(300),
        }
    }
}

/// What may be done with the numbers of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// All of them are believed.
    Full,
    /// Nothing is changed for the time being.
    Hold {
        /// For how long still.
        remaining: SimDuration,
    },
    /// The objective is silent: use alone decides, and nothing goes down.
    UseOnly,
    /// Use is silent: nothing is changed but what bounds demand.
    Blind,
}

/// Trust, and what is behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// What may be done.
    pub trust: Trust,
    /// What is wrong, worst first.
    pub problems: Vec<(String, Problem)>,
}

/// Since when numbers have been silent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrustMemory {
    silent_since: Option<SimTime>,
}

impl TrustMemory {
    /// Judges the moment. `use_problems` are those of CPU and memory, `other_problems` those
    /// of the objective and of queries.
    pub fn judge(
        &mut self,
        config: &TrustConfig,
        now: SimTime,
        use_problems: Vec<(String, Problem)>,
        other_problems: Vec<(String, Problem)>,
    ) -> Verdict {
        let is_blind = !use_problems.is_empty();
        let problems: Vec<_> = use_problems.into_iter().chain(other_problems).collect();
        if problems.is_empty() {
            self.silent_since = None;
            return Verdict { trust: Trust::Full, problems };
        }
        let since = *self.silent_since.get_or_insert(now);
        let silent = now.saturating_since(since);
        let trust = if silent < config.hold {
            let remaining = (since + config.hold).saturating_since(now);
            Trust::Hold { remaining }
        } else if is_blind {
            Trust::Blind
        } else {
            Trust::UseOnly
        };
        Verdict { trust, problems }
    }
}

impl Persist for TrustMemory {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let since = self.silent_since.map(SimTime::nanos);
        out.put_u64(name, since.into_iter().collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.silent_since = from.any_u64s(name)?.first().copied().map(SimTime::from_nanos);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Source;

    fn missing(name: &str) -> Vec<(String, Problem)> {
        vec![(name.to_owned(), Problem::Missing { source: Source::Prometheus })]
    }

    #[test]
    fn silence_is_held_and_then_fallen_back_from() {
        let config = TrustConfig::default();
        let mut memory = TrustMemory::default();
        let mut at = |seconds: u64, usage: Vec<_>, other: Vec<_>| {
            let now = SimTime::ZERO + SimDuration::from_secs(10_000 + seconds);
            memory.judge(&config, now, usage, other).trust
        };
        let held = |seconds| Trust::Hold { remaining: SimDuration::from_secs(seconds) };
        assert_eq!(at(0, vec![], vec![]), Trust::Full);
        assert_eq!(at(15, vec![], missing("latency")), held(300));
        assert_eq!(at(115, missing("cpu"), missing("latency")), held(200));
        assert_eq!(at(315, vec![], missing("latency")), Trust::UseOnly);
        assert_eq!(at(330, missing("cpu"), vec![]), Trust::Blind);
        // One good look, and silence begins anew.
        assert_eq!(at(345, vec![], vec![]), Trust::Full);
        assert_eq!(at(360, missing("cpu"), vec![]), held(300));
    }
}
