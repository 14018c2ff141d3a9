//! A change downwards after which the objective broke is taken back, once, and nothing goes
//! down for a while.

use homeostat_core::{Bytes, Millicores};
use homeostat_core::{Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};
use homeostat_decide::Allocation;

/// How long a change is watched, and how long nothing goes down after one that hurt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerConfig {
    /// A change is watched for this long; zero for no breaker.
    pub watch: SimDuration,
    /// Nothing goes down for this long after one was taken back.
    pub hold: SimDuration,
}

/// Why the breaker changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The objective broke so long after a change downwards, which is taken back.
    TakenBack {
        /// How long after it.
        after: SimDuration,
    },
    /// Nothing goes down for a while.
    Held {
        /// For how long still.
        remaining: SimDuration,
    },
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TakenBack { after } => write!(
                f,
                "taken back: the objective broke {:.0}s after the last step down",
                after.seconds()
            ),
            Self::Held { remaining } => write!(
                f,
                "held: nothing goes down for another {:.0}s after a step that was taken back",
                remaining.seconds()
            ),
        }
    }
}

/// The change that is watched.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Breaker {
    /// When the last step down was, and what there was before it.
    watched: Option<(SimTime, Allocation)>,
    hold_until: Option<SimTime>,
}

impl Breaker {
    /// What is left of a change from `from` to `to`. `is_kept` says whether the objective is
    /// kept; none if it is not known, which is no reason to take anything back.
    pub fn review(
        &mut self,
        config: &BreakerConfig,
        now: SimTime,
        is_kept: Option<bool>,
        from: &Allocation,
        to: &Allocation,
    ) -> (Allocation, Option<Broken>) {
        self.forget(config, now);
        if is_kept == Some(false)
            && let Some((at, before)) = self.watched.take()
        {
            self.hold_until = Some(now + config.hold);
            let after = now.saturating_since(at);
            return (largest(&largest(from, to), &before), Some(Broken::TakenBack { after }));
        }
        if let Some(until) = self.hold_until {
            let held = largest(from, to);
            let remaining = until.saturating_since(now);
            return (held, (held != *to).then_some(Broken::Held { remaining }));
        }
        let goes_down = largest(from, to) != *to;
        // A step that goes on from a broken objective cannot be blamed for breaking it.
        if goes_down && is_kept == Some(true) && config.watch > SimDuration::ZERO {
            let before = self.watched.map_or(*from, |(_, before)| largest(&before, from));
            self.watched = Some((now, before));
        }
        (*to, None)
    }

    fn forget(&mut self, config: &BreakerConfig, now: SimTime) {
        self.watched = self.watched.filter(|(at, _)| now <= *at + config.watch);
        self.hold_until = self.hold_until.filter(|until| now < *until);
    }
}

fn largest(a: &Allocation, b: &Allocation) -> Allocation {
    Allocation {
        replicas: a.replicas.max(b.replicas),
        cpu: a.cpu.max(b.cpu),
        memory: a.memory.max(b.memory),
    }
}

impl Persist for Breaker {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let watched = self.watched.map(|(at, before)| {
            let Allocation { replicas, cpu, memory } = before;
            [at.nanos(), replicas.into(), cpu.millicores(), memory.bytes()]
        });
        out.put_u64(&format!("{name}/watched"), watched.into_iter().flatten().collect::<Vec<_>>());
        let until = self.hold_until.map(SimTime::nanos);
        out.put_u64(&format!("{name}/hold_until"), until.into_iter().collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        let watched = from.any_u64s(&format!("{name}/watched"))?;
        self.watched = match watched {
            [at, replicas, millicores, bytes] => Some((
                SimTime::from_nanos(*at),
                Allocation {
                    replicas: u32::try_from(*replicas).unwrap_or(u32::MAX),
                    cpu: Millicores::new(*millicores),
                    memory: Bytes::new(*bytes),
                },
            )),
            _ => None,
        };
        let until = from.any_u64s(&format!("{name}/hold_until"))?;
        self.hold_until = until.first().copied().map(SimTime::from_nanos);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: BreakerConfig =
        BreakerConfig { watch: SimDuration::from_secs(300), hold: SimDuration::from_secs(1800) };

    fn replicas(replicas: u32) -> Allocation {
        Allocation { replicas, cpu: Millicores::new(500), memory: Bytes::from_mib(512) }
    }

    fn at(seconds: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(seconds)
    }

    /// Reviews a step and says how many replicas are left of it.
    fn review(breaker: &mut Breaker, seconds: u64, is_kept: bool, from: u32, to: u32) -> u32 {
        let (from, to) = (replicas(from), replicas(to));
        breaker.review(&CONFIG, at(seconds), Some(is_kept), &from, &to).0.replicas
    }

    #[test]
    fn a_step_down_that_breaks_the_objective_is_taken_back_and_held() {
        let mut breaker = Breaker::default();
        assert_eq!(review(&mut breaker, 0, true, 8, 5), 5);
        assert_eq!(review(&mut breaker, 60, true, 5, 4), 4);
        assert_eq!(review(&mut breaker, 120, false, 4, 4), 8);
        assert_eq!(review(&mut breaker, 180, true, 8, 4), 8);
        assert_eq!(review(&mut breaker, 180, true, 8, 10), 10);
        assert_eq!(review(&mut breaker, 120 + 1800, true, 8, 4), 4);
    }

    #[test]
    fn what_breaks_long_after_a_step_or_without_one_is_not_taken_back() {
        let mut breaker = Breaker::default();
        assert_eq!(review(&mut breaker, 0, false, 8, 8), 8);
        assert_eq!(review(&mut breaker, 60, true, 8, 5), 5);
        assert_eq!(review(&mut breaker, 361, false, 5, 6), 6);
    }

    #[test]
    fn silence_about_the_objective_takes_nothing_back() {
        let mut breaker = Breaker::default();
        assert_eq!(review(&mut breaker, 0, true, 8, 5), 5);
        let (kept, why) = breaker.review(&CONFIG, at(60), None, &replicas(5), &replicas(5));
        assert_eq!((kept, why), (replicas(5), None));
    }

    #[test]
    fn a_restored_breaker_still_watches() {
        let mut breaker = Breaker::default();
        review(&mut breaker, 0, true, 8, 5);
        let mut snapshot = Snapshot::default();
        breaker.save("breaker", &mut snapshot);
        let mut restored = Breaker::default();
        restored.load("breaker", &snapshot).expect("just saved");
        assert_eq!(restored, breaker);
        assert_eq!(review(&mut restored, 60, false, 5, 5), 8);
    }
}
