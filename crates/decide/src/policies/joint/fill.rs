//! How full replicas may be: the target of use that the objective allows.

use homeostat_core::{Fraction, Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use crate::{Error, Observation, Reason, Result};

/// Settings of the fill level. It moves between `least` and `most`, fast down and slowly up, as
/// TCP probes a link: what is too full shows at once, what is too empty costs a little only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FillConfig {
    /// Use of CPU, as a part of the request, to begin with. Also the level without an objective.
    pub start: Fraction,
    /// Lowest level.
    pub least: Fraction,
    /// Highest level.
    pub most: Fraction,
    /// Latency above this part of the objective's threshold cuts the level.
    pub near: Fraction,
    /// Latency below this part of the threshold lets it rise.
    pub comfortable: Fraction,
    /// What a cut leaves of the level.
    pub cut: Fraction,
    /// After a cut, this long for new replicas to take effect before the next one.
    pub settle: SimDuration,
    /// Time in which the level rises by a hundredth.
    pub rise: SimDuration,
}

impl Default for FillConfig {
    fn default() -> Self {
        Self {
            start: Fraction::from_percent(70),
            least: Fraction::from_percent(30),
            most: Fraction::from_percent(90),
            near: Fraction::from_percent(90),
            comfortable: Fraction::from_percent(70),
            cut: Fraction::from_percent(85),
            settle: SimDuration::from_secs(30),
            rise: SimDuration::from_secs(20),
        }
    }
}

impl FillConfig {
    pub(super) fn validate(&self) -> Result<()> {
        let Self { start, least, most, near, comfortable, cut, rise, .. } = *self;
        if !(Fraction::ZERO < least && least <= start && start <= most && most <= Fraction::ONE) {
            let value = format!("{least}, {start}, {most}");
            let need = "least, start, most in rising order above 0% up to 100%";
            return Err(Error::setting("fill levels", need, value));
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
        Ok(())
    }
}

/// The level, and when it was cut last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FillLevel {
    level: f64,
    cut_at: Option<SimTime>,
}

impl FillLevel {
    pub(super) fn new(config: &FillConfig) -> Self {
        Self { level: config.start.ratio(), cut_at: None }
    }

    /// The level.
    pub(super) fn level(&self) -> f64 {
        self.level
    }

    /// The level in whole percent, as the horizontal calculation takes it.
    pub(super) fn percent(&self) -> u32 {
        ((self.level * 100.0).round() as u32).max(1)
    }

    /// Moves the level as the observed latency asks.
    pub(super) fn observe(&mut self, config: &FillConfig, obs: &Observation) -> Reason {
        let Some(latency) = obs.latency else { return Reason::NoRequests };
        let part = latency.seconds() / obs.slo.threshold().seconds();
        if part > config.near.ratio() {
            let is_settled = self.cut_at.is_none_or(|at| at + config.settle <= obs.now);
            if is_settled {
                self.level = (self.level * config.cut.ratio()).max(config.least.ratio());
                self.cut_at = Some(obs.now);
            }
        } else if part < config.comfortable.ratio() {
            let rise = 0.01 * obs.window.seconds() / config.rise.seconds();
            self.level = (self.level + rise).min(config.most.ratio());
        }
        Reason::Latency { latency, slo: obs.slo }
    }
}

impl Persist for FillLevel {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f64(&format!("{name}/level"), [self.level]);
        let cut_at = self.cut_at.map(SimTime::nanos);
        out.put_u64(&format!("{name}/cut_at"), cut_at.into_iter().collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.level = from.f64s(&format!("{name}/level"), 1)?[0];
        let cut_at = from.any_u64s(&format!("{name}/cut_at"))?;
        self.cut_at = cut_at.first().copied().map(SimTime::from_nanos);
        Ok(())
    }
}
