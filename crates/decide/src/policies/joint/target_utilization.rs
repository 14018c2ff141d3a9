//! The utilisation target: how full replicas may be, learned from the SLO.

use homeostat_core::{
    Fraction, Persist, Result as CoreResult, SimDuration, SimTime, Slo, Snapshot,
};

use super::step_down::StepDown;
use crate::{Error, Observation, Result};

/// Settings of the learned target utilisation. It moves between `least` and `most`: down when
/// replicas at or below the target are slow, for a while or right after a step down; slowly up
/// while replicas at the target are fast. Only utilisations that occurred count: a quiet night does
/// not raise it, and a burst that scaling followed too late does not lower it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetUtilizationConfig {
    /// Use of CPU, as a part of the request, to begin with. Also the level without an SLO.
    pub start: Fraction,
    /// Lowest level.
    pub least: Fraction,
    /// Highest level.
    pub most: Fraction,
    /// Latency above this part of the SLO's threshold is too near to it.
    pub near: Fraction,
    /// Latency below this part of the threshold leaves room.
    pub comfortable: Fraction,
    /// Use may be this far above the level, or below it, and still count as the level's.
    pub tolerance: Fraction,
    /// What a cut leaves of the level.
    pub cut: Fraction,
    /// Latency has to stay near the threshold for this long, at a use that the level allows and
    /// without getting better, before the level is cut: a queue that is being worked off is slow
    /// for a while, too, and so is a mean over some minutes.
    pub settle: SimDuration,
    /// Time in which the level rises by a hundredth.
    pub rise: SimDuration,
    /// The same above a level that was proven to be too high, by a step down that violated
    /// the SLO, or by two cuts of the same level: it may be so no longer, but every trial makes
    /// requests slow.
    pub rise_again: SimDuration,
}

impl Default for TargetUtilizationConfig {
    fn default() -> Self {
        Self {
            start: Fraction::from_percent(70),
            least: Fraction::from_percent(30),
            most: Fraction::from_percent(90),
            near: Fraction::from_percent(90),
            comfortable: Fraction::from_percent(70),
            tolerance: Fraction::from_percent(10),
            cut: Fraction::from_percent(85),
            settle: SimDuration::from_secs(60),
            rise: SimDuration::from_secs(20),
            rise_again: SimDuration::from_secs(1800),
        }
    }
}

impl TargetUtilizationConfig {
    pub(super) fn validate(&self) -> Result<()> {
        let Self { start, least, most, near, comfortable, cut, rise, rise_again, .. } = *self;
        if !(Fraction::ZERO < least && least <= start && start <= most && most <= Fraction::ONE) {
            let value = format!("{least}, {start}, {most}");
            let need = "least, start, most in rising order above 0% up to 100%";
            return Err(Error::setting("target_utilization", need, value));
        }
        if comfortable > near {
            let value = format!("{comfortable} and {near}");
            return Err(Error::setting("comfortable", "at most near", value));
        }
        if cut == Fraction::ZERO || cut >= Fraction::ONE {
            return Err(Error::setting("cut", "above 0% and below 100%", cut));
        }
        if rise == SimDuration::ZERO {
            return Err(Error::setting("rise", "above 0", rise));
        }
        if rise_again < rise {
            return Err(Error::setting("rise_again", "at least rise", rise_again));
        }
        Ok(())
    }
}

/// After this many windows without an observation, a slow period counts as a new one.
const MAX_WINDOWS: u64 = 2;
/// Latency that falls below this part of the least that it was gets better.
const GETS_BETTER: f64 = 0.98;

/// Two levels that differ by no more than this part are the same.
const SAME_LEVEL: f64 = 0.05;

/// The level, and since when it has seemed too high.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TargetUtilization {
    level: f64,
    /// The SLO that it was learnt from.
    slo: Option<Slo>,
    /// What is above this has been proven to be too high; one if nothing has.
    proven: f64,
    /// The level that was cut last.
    cut: Option<f64>,
    looked: Option<SimTime>,
    strain: Option<Strain>,
    step_down: StepDown,
}

/// Latency near the threshold at a use that the level allows.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Strain {
    since: SimTime,
    /// The last observation of it.
    seen: SimTime,
    /// The least latency since then, as a part of the threshold: what goes up and down does not
    /// get better.
    least: f64,
}

impl TargetUtilization {
    pub(super) fn new(config: &TargetUtilizationConfig) -> Self {
        let step_down = StepDown::default();
        let level = config.start.ratio();
        Self { level, slo: None, proven: 1.0, cut: None, looked: None, strain: None, step_down }
    }

    pub(super) fn level(&self) -> f64 {
        self.level
    }

    /// The level in whole percent, as the horizontal calculation takes it.
    pub(super) fn percent(&self) -> u32 {
        ((self.level * 100.0).round() as u32).max(1)
    }

    /// Cuts a level that is too high; for longer, if that is proven.
    fn cut(&mut self, config: &TargetUtilizationConfig, too_high: f64, is_proven: bool) {
        self.cut = Some(too_high);
        self.level = (too_high * config.cut.ratio()).max(config.least.ratio());
        if is_proven {
            self.proven = self.level;
        }
    }

    /// Whether replicas are fuller than the level allows: just then the number, which is computed
    /// with whole percent, rounded down, asks for more of them. Between the two nothing would be
    /// done about an SLO that is violated.
    fn is_exceeded(&self, used: f64, tolerance: f64) -> bool {
        (used * 100.0 + 1e-9).floor() > f64::from(self.percent()) * (1.0 + tolerance) + 1e-9
    }

    /// Moves the level as latency, given as a part of the threshold, asks at the present use,
    /// given as a part of the request.
    pub(super) fn observe(
        &mut self,
        config: &TargetUtilizationConfig,
        obs: &Observation,
        part: f64,
        used: f64,
    ) {
        if self.slo.replace(obs.slo).is_some_and(|slo| slo != obs.slo) {
            // What was learnt of another SLO says nothing of this one.
            *self = Self { slo: Some(obs.slo), ..Self::new(config) };
        }
        let (now, tolerance) = (obs.now, config.tolerance.ratio());
        let violated_at = self.step_down.observe(obs, part, used);
        if let Some(used) = violated_at.filter(|used| !self.is_exceeded(*used, tolerance)) {
            self.cut(config, self.level.min(used), true);
            self.strain = None;
        }
        // Observations come early or late: none proves more than its time.
        let last = self.looked.replace(now);
        let passed = last.map_or(obs.window, |last| now.saturating_since(last).min(obs.window));
        if part <= config.near.ratio() || self.is_exceeded(used, tolerance) {
            self.strain = None;
        } else {
            // A gap in the observations, or an improvement, starts a new period.
            let goes_on = |strain: &Strain| {
                now <= strain.seen + obs.window * MAX_WINDOWS && part >= strain.least * GETS_BETTER
            };
            let strain = self.strain.filter(goes_on);
            let since = strain.map_or(now, |strain| strain.since);
            let is_settled = since + config.settle <= now;
            if is_settled {
                // Once it may have been something else, such as a database that was slow for all.
                // Then the level ends at its least, and is cut there again and again.
                let is_same = |cut: f64| (cut / self.level - 1.0).abs() <= SAME_LEVEL;
                let is_proven = self.level > config.least.ratio() && self.cut.is_some_and(is_same);
                self.cut(config, self.level, is_proven);
            }
            let (since, least) = match strain.filter(|_| !is_settled) {
                Some(strain) => (since, strain.least.min(part)),
                None => (now, part),
            };
            self.strain = Some(Strain { since, seen: now, least });
        }
        if part < config.comfortable.ratio() && used >= self.level * (1.0 - tolerance) {
            let is_proven = self.level < self.proven;
            let time = if is_proven { config.rise } else { config.rise_again };
            let rise = 0.01 * passed.seconds() / time.seconds();
            self.level = (self.level + rise).min(config.most.ratio());
            if !is_proven {
                self.proven = self.level;
            }
        }
    }
}

impl Persist for TargetUtilization {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f64(&format!("{name}/level"), [self.level, self.proven]);
        let slo = self.slo.map(|slo| [slo.percentile().ratio().to_bits(), slo.threshold().nanos()]);
        out.put_u64(&format!("{name}/slo"), slo.into_iter().flatten().collect::<Vec<_>>());
        out.put_f64(&format!("{name}/cut"), self.cut.into_iter().collect::<Vec<_>>());
        let looked = self.looked.map(SimTime::nanos);
        out.put_u64(&format!("{name}/looked"), looked.into_iter().collect::<Vec<_>>());
        let times = self.strain.map(|strain| [strain.since.nanos(), strain.seen.nanos()]);
        out.put_u64(&format!("{name}/strain"), times.into_iter().flatten().collect::<Vec<_>>());
        let least = self.strain.map(|strain| strain.least);
        out.put_f64(&format!("{name}/strain_least"), least.into_iter().collect::<Vec<_>>());
        self.step_down.save(&format!("{name}/step_down"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        let levels = from.f64s(&format!("{name}/level"), 2)?;
        (self.level, self.proven) = (levels[0], levels[1]);
        self.slo = match *from.any_u64s(&format!("{name}/slo"))? {
            [percentile, threshold] => {
                let percentile = Fraction::from_ratio(f64::from_bits(percentile))?;
                Some(Slo::try_new(percentile, SimDuration::from_nanos(threshold))?)
            }
            _ => None,
        };
        self.cut = from.any_f64s(&format!("{name}/cut"))?.first().copied();
        let looked = from.any_u64s(&format!("{name}/looked"))?;
        self.looked = looked.first().copied().map(SimTime::from_nanos);
        let times = from.any_u64s(&format!("{name}/strain"))?;
        let least = from.any_f64s(&format!("{name}/strain_least"))?;
        self.strain = match (times, least) {
            (&[since, seen], &[least]) => Some(Strain {
                since: SimTime::from_nanos(since),
                seen: SimTime::from_nanos(seen),
                least,
            }),
            _ => None,
        };
        self.step_down.load(&format!("{name}/step_down"), from)
    }
}
