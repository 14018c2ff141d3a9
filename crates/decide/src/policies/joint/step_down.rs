//! Whether a step down is why the SLO was violated.
//!
//! A violation that is answered at once ends before the utilisation target could be learned from it,
//! and the same step would be tried and taken back for ever. So a violation soon after replicas
//! became fewer or smaller, under an unchanged load, is proof enough. Whether the load has changed is
//! known some time later: utilisation lags behind a burst.

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

/// The last observation, and what is watched.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct StepDown {
    last: Option<Observed>,
    watched: Option<Watched>,
    violated: Option<Violated>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Observed {
    /// Cores that replicas are to request together.
    requested: f64,
    /// Cores that those that serve use together.
    load: f64,
    is_met: bool,
}

/// A step down while the SLO was met.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Watched {
    at: SimTime,
    /// Cores used together before it.
    load: f64,
}

/// A violation soon after a step down.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Violated {
    at: SimTime,
    /// Cores used together before the step.
    load: f64,
    /// How full replicas were, as a part of their request.
    used: f64,
}

impl StepDown {
    /// How full replicas were when a step down violated the SLO, once that is sure. Latency is
    /// given as a part of the threshold, use as a part of the request.
    pub(super) fn observe(&mut self, obs: &Observation, part: f64, used: f64) -> Option<f64> {
        let load = obs.mean_cpu_cores()? * f64::from(obs.serving());
        // As many as are asked for: a replica that is missing for a moment, as in a rollout, is no step.
        let requested = obs.mean_request()?.cores() * f64::from(obs.allocation.replicas);
        let observed = Observed { requested, load, is_met: part <= 1.0 };
        let before = self.last.replace(observed);
        let now = obs.now;
        let stepped =
            |before: &Observed| before.is_met && observed.requested < before.requested * WENT_DOWN;
        if let Some(before) = before.filter(stepped) {
            self.watched = Some(Watched { at: now, load: before.load });
        }
        self.watched = self.watched.filter(|watched| now <= watched.at + WATCH);
        if let Some(violated) = self.violated {
            if now < violated.at + TOLD_AFTER {
                return None;
            }
            self.violated = None;
            return (load <= violated.load * SAME_LOAD).then_some(violated.used);
        }
        if !observed.is_met {
            let violated = |Watched { load, .. }| Violated { at: now, load, used };
            self.violated = self.watched.take().map(violated);
        }
        None
    }
}

impl Persist for StepDown {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let last = self.last.map(|observed| {
            vec![observed.requested, observed.load, f64::from(u8::from(observed.is_met))]
        });
        out.put_f64(&format!("{name}/last"), last.unwrap_or_default());
        let times = [self.watched.map(|it| it.at), self.violated.map(|it| it.at)];
        // Nothing happens at the beginning of time, so zero stands for none.
        out.put_u64(&format!("{name}/times"), times.map(|at| at.map_or(0, SimTime::nanos)));
        let watched = self.watched.map_or(0.0, |it| it.load);
        let (load, used) = self.violated.map_or((0.0, 0.0), |it| (it.load, it.used));
        out.put_f64(&format!("{name}/figures"), [watched, load, used]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.last = match *from.any_f64s(&format!("{name}/last"))? {
            [requested, load, is_met] => Some(Observed { requested, load, is_met: is_met != 0.0 }),
            _ => None,
        };
        let times = from.u64s(&format!("{name}/times"), 2)?;
        let at = |place: usize| Some(SimTime::from_nanos(times[place])).filter(|at| at.nanos() > 0);
        let figures = from.f64s(&format!("{name}/figures"), 3)?;
        self.watched = at(0).map(|at| Watched { at, load: figures[0] });
        self.violated = at(1).map(|at| Violated { at, load: figures[1], used: figures[2] });
        Ok(())
    }
}
