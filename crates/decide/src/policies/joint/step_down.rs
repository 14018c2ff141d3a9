//! Whether a step down is why the objective broke.
//!
//! A break that is answered at once is over before it could prove anything of the level (`fill`),
//! and the same step would be tried and taken back for ever. So one soon after replicas became
//! fewer or smaller, under a load that has stayed what it was, is proof enough. Whether it has
//! is known some time later: figures of use lag behind a burst.

use homeostat_core::{Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use crate::Observation;

/// A step down is watched for this long.
const WATCH: SimDuration = SimDuration::from_secs(300);
/// Figures of use that are this much later tell of a burst: they are means over a minute, and up to
/// a minute old.
const TOLD_AFTER: SimDuration = SimDuration::from_secs(120);
/// What replicas request together has gone down if it is below this part of what it was.
const WENT_DOWN: f64 = 0.99;
/// A load up to this many times what it was has stayed what it was.
const SAME_LOAD: f64 = 1.1;

/// The last look, and what is watched.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct StepDown {
    last: Option<Look>,
    watched: Option<Watched>,
    broken: Option<Broken>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Look {
    /// Cores that replicas are to request together.
    requested: f64,
    /// Cores that those that serve use together.
    load: f64,
    is_kept: bool,
}

/// A step down from a kept objective.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Watched {
    at: SimTime,
    /// Cores used together before it.
    load: f64,
}

/// A break soon after a step down.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Broken {
    at: SimTime,
    /// Cores used together before the step.
    load: f64,
    /// How full replicas were, as a part of their request.
    used: f64,
}

impl StepDown {
    /// How full replicas were when a step down broke the objective, once that is sure. Latency is
    /// given as a part of the threshold, use as a part of the request.
    pub(super) fn observe(&mut self, obs: &Observation, part: f64, used: f64) -> Option<f64> {
        let load = obs.mean_cpu_cores()? * f64::from(obs.serving());
        // As many as are asked for: who is away for a moment, as in a new release, is no step.
        let requested = obs.mean_request()?.cores() * f64::from(obs.allocation.replicas);
        let look = Look { requested, load, is_kept: part <= 1.0 };
        let before = self.last.replace(look);
        let now = obs.now;
        let stepped =
            |before: &Look| before.is_kept && look.requested < before.requested * WENT_DOWN;
        if let Some(before) = before.filter(stepped) {
            self.watched = Some(Watched { at: now, load: before.load });
        }
        self.watched = self.watched.filter(|watched| now <= watched.at + WATCH);
        if let Some(broken) = self.broken {
            if now < broken.at + TOLD_AFTER {
                return None;
            }
            self.broken = None;
            return (load <= broken.load * SAME_LOAD).then_some(broken.used);
        }
        if !look.is_kept {
            let broken = |Watched { load, .. }| Broken { at: now, load, used };
            self.broken = self.watched.take().map(broken);
        }
        None
    }
}

impl Persist for StepDown {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let last = self
            .last
            .map(|look| vec![look.requested, look.load, f64::from(u8::from(look.is_kept))]);
        out.put_f64(&format!("{name}/last"), last.unwrap_or_default());
        let times = [self.watched.map(|it| it.at), self.broken.map(|it| it.at)];
        // Nothing happens at the beginning of time, so zero stands for none.
        out.put_u64(&format!("{name}/times"), times.map(|at| at.map_or(0, SimTime::nanos)));
        let watched = self.watched.map_or(0.0, |it| it.load);
        let (load, used) = self.broken.map_or((0.0, 0.0), |it| (it.load, it.used));
        out.put_f64(&format!("{name}/figures"), [watched, load, used]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.last = match *from.any_f64s(&format!("{name}/last"))? {
            [requested, load, is_kept] => Some(Look { requested, load, is_kept: is_kept != 0.0 }),
            _ => None,
        };
        let times = from.u64s(&format!("{name}/times"), 2)?;
        let at = |place: usize| Some(SimTime::from_nanos(times[place])).filter(|at| at.nanos() > 0);
        let figures = from.f64s(&format!("{name}/figures"), 3)?;
        self.watched = at(0).map(|at| Watched { at, load: figures[0] });
        self.broken = at(1).map(|at| Broken { at, load: figures[1], used: figures[2] });
        Ok(())
    }
}
