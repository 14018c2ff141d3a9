//! A step down after which the objective broke is taken back, once, and nothing goes down for a
//! while. A step is what happened to the pods: what was only decided, and a maintenance window or
//! a pause held back, has hurt nobody.

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

/// What the breaker is shown of a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look<'a> {
    /// When it is.
    pub now: SimTime,
    /// Whether the objective is kept; none if it is not known, which is no reason to take
    /// anything back.
    pub is_kept: Option<bool>,
    /// What pods have, mean over them.
    pub present: &'a Allocation,
    /// What the change goes from.
    pub from: &'a Allocation,
    /// What it goes to.
    pub to: &'a Allocation,
}

/// Replicas, millicores and bytes.
type Amounts = [u64; 3];
const REPLICAS: usize = 0;

/// What went down, and what is done about it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Breaker {
    /// The last look: when, what there was before anything went down unseen, and whether the
    /// objective was kept.
    last: Option<(SimTime, Amounts, bool)>,
    /// Of each amount, when it last went down and what it was before.
    watched: [Option<(SimTime, u64)>; 3],
    /// Until when nothing goes down, and what there is at least meanwhile.
    hold: Option<(SimTime, Amounts)>,
}

impl Breaker {
    /// What is left of a change.
    pub fn review(
        &mut self,
        config: &BreakerConfig,
        look: &Look<'_>,
    ) -> (Allocation, Option<Broken>) {
        let Look { now, is_kept, present, from, to } = *look;
        self.forget(config, now);
        let reference = self.note(amounts(present), now);
        self.last = Some((now, reference, is_kept == Some(true)));
        let latest = self.watched.iter().flatten().map(|(at, _)| *at).max();
        let wanted = largest(amounts(from), amounts(to));
        if is_kept == Some(false)
            && let Some(at) = latest
        {
            let before = self.watched.map(|watched| watched.map_or(0, |(_, before)| before));
            self.watched = [None; 3];
            self.hold = Some((now + config.hold, before));
            let after = now.saturating_since(at);
            return (allocation(largest(wanted, before)), Some(Broken::TakenBack { after }));
        }
        let Some((until, before)) = self.hold else { return (*to, None) };
        let held = allocation(largest(wanted, before));
        let remaining = until.saturating_since(now);
        (held, (held != *to).then_some(Broken::Held { remaining }))
    }

    /// Begins to watch what went down, and says what the next look is compared with. A step from a
    /// broken objective cannot be blamed for breaking it.
    fn note(&mut self, present: Amounts, now: SimTime) -> Amounts {
        let Some((_, last, true)) = self.last else { return present };
        std::array::from_fn(|place| {
            let (last, present) = (last[place], present[place]);
            // A mean over pods is rounded, and goes down little by little while they change.
            let slack = if place == REPLICAS { 0.0 } else { 0.01 };
            if present as f64 >= last as f64 * (1.0 - slack) {
                return last.max(present);
            }
            let before = self.watched[place].map_or(0, |(_, before)| before);
            self.watched[place] = Some((now, before.max(last)));
            present
        })
    }

    /// Whether nothing goes down for a while, because something was taken back.
    pub fn holds(&self) -> bool {
        self.hold.is_some()
    }

    fn forget(&mut self, config: &BreakerConfig, now: SimTime) {
        let is_watched = |at: SimTime| now <= at + config.watch;
        let watches = config.watch > SimDuration::ZERO;
        self.last = self.last.filter(|(at, ..)| watches && is_watched(*at));
        self.watched = self.watched.map(|watched| watched.filter(|(at, _)| is_watched(*at)));
        self.hold = self.hold.filter(|(until, _)| now < *until);
    }
}

fn amounts(allocation: &Allocation) -> Amounts {
    let Allocation { replicas, cpu, memory } = *allocation;
    [replicas.into(), cpu.millicores(), memory.bytes()]
}

fn allocation([replicas, millicores, bytes]: Amounts) -> Allocation {
    Allocation {
        replicas: u32::try_from(replicas).unwrap_or(u32::MAX),
        cpu: Millicores::new(millicores),
        memory: Bytes::new(bytes),
    }
}

fn largest(a: Amounts, b: Amounts) -> Amounts {
    std::array::from_fn(|place| a[place].max(b[place]))
}

impl Persist for Breaker {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let last = self.last.map(|(at, [replicas, millicores, bytes], kept)| {
            [at.nanos(), replicas, millicores, bytes, u64::from(kept)]
        });
        out.put_u64(&format!("{name}/last"), last.into_iter().flatten().collect::<Vec<_>>());
        // Nothing goes down from zero, so zero before stands for none.
        let watched =
            self.watched.map(|watched| watched.map_or([0, 0], |(at, before)| [at.nanos(), before]));
        out.put_u64(&format!("{name}/watched"), watched.concat());
        let hold = self.hold.map(|(until, [replicas, millicores, bytes])| {
            [until.nanos(), replicas, millicores, bytes]
        });
        out.put_u64(&format!("{name}/hold"), hold.into_iter().flatten().collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.last = match *from.any_u64s(&format!("{name}/last"))? {
            [at, replicas, millicores, bytes, kept] => {
                Some((SimTime::from_nanos(at), [replicas, millicores, bytes], kept != 0))
            }
            _ => None,
        };
        let watched = from.u64s(&format!("{name}/watched"), 6)?;
        self.watched = std::array::from_fn(|place| match watched[2 * place..2 * place + 2] {
            [at, before] if before > 0 => Some((SimTime::from_nanos(at), before)),
            _ => None,
        });
        self.hold = match *from.any_u64s(&format!("{name}/hold"))? {
            [until, replicas, millicores, bytes] => {
                Some((SimTime::from_nanos(until), [replicas, millicores, bytes]))
            }
            _ => None,
        };
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

    /// Reviews a step from what pods have, and says what is left of it.
    fn step(
        breaker: &mut Breaker,
        seconds: u64,
        is_kept: Option<bool>,
        from: &Allocation,
        to: &Allocation,
    ) -> (Allocation, Option<Broken>) {
        breaker.review(&CONFIG, &Look { now: at(seconds), is_kept, present: from, from, to })
    }

    /// Reviews a step and says how many replicas are left of it.
    fn review(breaker: &mut Breaker, seconds: u64, is_kept: bool, from: u32, to: u32) -> u32 {
        step(breaker, seconds, Some(is_kept), &replicas(from), &replicas(to)).0.replicas
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
        let (kept, why) = step(&mut breaker, 60, None, &replicas(5), &replicas(5));
        assert_eq!((kept, why), (replicas(5), None));
    }

    #[test]
    fn a_step_that_was_decided_and_never_taken_is_not_blamed() {
        let mut breaker = Breaker::default();
        for look in 0..100 {
            assert_eq!(review(&mut breaker, look * 15, true, 8, 5), 5);
        }
        assert_eq!(review(&mut breaker, 1500, false, 8, 8), 8);
        assert_eq!(review(&mut breaker, 1515, true, 8, 5), 5);
    }

    #[test]
    fn a_size_that_is_taken_back_stays_so_until_every_pod_has_it() {
        let mut breaker = Breaker::default();
        let size = |millicores| Allocation { cpu: Millicores::new(millicores), ..replicas(4) };
        step(&mut breaker, 0, Some(true), &size(500), &size(300));
        step(&mut breaker, 60, Some(true), &size(300), &size(300));
        let (left, why) = step(&mut breaker, 75, Some(false), &size(300), &size(300));
        assert_eq!(left, size(500));
        assert!(matches!(why, Some(Broken::TakenBack { .. })));
        // Pods have not got it yet, and the recommender sees nothing wrong with what they have.
        for seconds in [90, 600, 1800] {
            assert_eq!(
                step(&mut breaker, seconds, Some(true), &size(300), &size(300)).0,
                size(500)
            );
        }
        assert_eq!(step(&mut breaker, 75 + 1800, Some(true), &size(500), &size(300)).0, size(300));
    }

    #[test]
    fn a_rollout_that_takes_its_time_and_a_single_pod_of_many_are_watched() {
        let mut breaker = Breaker::default();
        let size = |millicores| Allocation { cpu: Millicores::new(millicores), ..replicas(40) };
        for look in 0..8 {
            let mean = size(500 - 3 * look);
            step(&mut breaker, 15 * look, Some(true), &mean, &size(350));
        }
        let (left, why) = step(&mut breaker, 120, Some(false), &size(476), &size(350));
        assert!(matches!(why, Some(Broken::TakenBack { .. })));
        assert_eq!(left.cpu, Millicores::new(500));

        let mut breaker = Breaker::default();
        assert_eq!(review(&mut breaker, 0, true, 150, 149), 149);
        assert_eq!(review(&mut breaker, 15, true, 149, 149), 149);
        assert_eq!(review(&mut breaker, 30, false, 149, 149), 150);
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
