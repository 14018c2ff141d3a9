//! Governors of GPU clocks: MIAD (Alg. 6.3 of the dissertation) and constant clocks.

use homeostat_core::{Persist, Snapshot};
use homeostat_decide::{
    ClockProposal, ClockReason, GpuClock, GpuObservation, Megahertz, MetricsStatus, ModelLatency,
    Policy, Propose,
};

use crate::{Error, Result};

/// Settings of [`Miad`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MiadConfig {
    /// The clock is multiplied by this if any model has too little slack.
    pub factor: f64,
    /// MHz by which it is lowered.
    pub step: f64,
    /// Slack, as a part of the SLO, that is always kept.
    pub margin: f64,
    /// Which models must have headroom for a step down.
    pub step_down: StepDown,
}

/// Which models must have headroom for a step down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepDown {
    /// One is enough, if none asks for a higher clock: Alg. 6.3 as printed, where a later model does
    /// not take back what an earlier one decided.
    Any,
    /// Every model with requests.
    Every,
}

impl Default for MiadConfig {
    /// Doubling and a margin of 0.05 are the dissertation's. Deviation: it does not say how large a
    /// step is, and asks one model for headroom; here a step is four of the device's, and all models
    /// must have headroom, because the slowest to recover decides how long an SLO stays violated.
    fn default() -> Self {
        Self { factor: 2.0, step: 60.0, margin: 0.05, step_down: StepDown::Every }
    }
}

impl MiadConfig {
    /// The governor. Refuses a factor that lowers the clock and a step that raises it.
    pub fn build(self) -> Result<Miad> {
        let refused = |what: &'static str, value: f64, expected: &'static str| {
            Err(Error::OutOfRange { what, value, expected })
        };
        if !self.factor.is_finite() || self.factor <= 1.0 {
            return refused("factor", self.factor, "a number above 1");
        }
        if !self.step.is_finite() || self.step <= 0.0 {
            return refused("step", self.step, "MHz above zero");
        }
        if !(0.0..1.0).contains(&self.margin) {
            return refused("margin", self.margin, "from 0 to below 1");
        }
        Ok(Miad { config: self })
    }
}

/// Multiplicative increase, additive decrease: raises the clock quickly when an SLO is near, and lowers
/// it slowly when all have slack.
#[derive(Debug, Clone)]
pub struct Miad {
    config: MiadConfig,
}

impl Miad {
    /// What a step down is expected to cost a model, as a part of its SLO: time is in proportion to
    /// 1 / clock.
    fn cost(&self, model: &ModelLatency, clock: f64) -> f64 {
        let latency = model.latency.map_or(0.0, |latency| latency.seconds());
        model.weight * latency * self.config.step / clock / model.slo.seconds()
    }
}

impl Policy<GpuClock> for Miad {
    fn name(&self) -> &str {
        "miad"
    }

    fn propose(&mut self, obs: &GpuObservation) -> ClockProposal {
        let clock = f64::from(obs.clock.0);
        let MiadConfig { factor, step, margin, step_down } = self.config;
        let served = || obs.models.iter().filter_map(|model| Some((model, model.slack()?)));
        let least = served().min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((tightest, slack)) = least else {
            return ClockProposal {
                mhz: (clock - step).max(0.0),
                reasons: vec![ClockReason::Idle],
            };
        };
        if slack < margin {
            let model = tightest.model.clone();
            let reasons = vec![ClockReason::LittleSlack { model, slack }];
            return ClockProposal { mhz: clock * factor, reasons };
        }
        let has_headroom =
            |(model, slack): &(&ModelLatency, f64)| self.cost(model, clock) < slack - margin;
        let goes_down = match step_down {
            StepDown::Any => served().any(|served| has_headroom(&served)),
            StepDown::Every => served().all(|served| has_headroom(&served)),
        };
        if !goes_down {
            let kept = ClockProposal::keep(&obs.clock);
            return ClockProposal { reasons: vec![ClockReason::Balanced], ..kept };
        }
        let model = tightest.model.clone();
        let cost = self.cost(tightest, clock);
        let reasons = vec![ClockReason::Headroom { model, slack, cost }];
        ClockProposal { mhz: (clock - step).max(0.0), reasons }
    }
}

impl Persist for Miad {
    fn save(&self, _name: &str, _out: &mut Snapshot) {}

    fn load(&mut self, _name: &str, _from: &Snapshot) -> homeostat_core::Result<()> {
        Ok(())
    }
}

/// A governor that proposes the highest clock while latencies are unknown. The guard against stale
/// metrics asks it only after it has held the clock for a while.
#[derive(Debug, Clone)]
pub struct HighestWithoutLatency<P> {
    /// Decides while latencies are known.
    pub governor: P,
    /// The highest clock.
    pub highest: Megahertz,
}

impl<P: Policy<GpuClock>> Policy<GpuClock> for HighestWithoutLatency<P> {
    fn name(&self) -> &str {
        self.governor.name()
    }

    fn propose(&mut self, obs: &GpuObservation) -> ClockProposal {
        match obs.metrics {
            MetricsStatus::Complete => self.governor.propose(obs),
            MetricsStatus::UtilizationOnly | MetricsStatus::Missing => ClockProposal {
                mhz: f64::from(self.highest.0),
                reasons: vec![ClockReason::LatencyUnknown],
            },
        }
    }
}

impl<P: Persist> Persist for HighestWithoutLatency<P> {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.governor.save(name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.governor.load(name, from)
    }
}

/// A clock that never changes.
#[derive(Debug, Clone, Copy)]
pub struct ConstantClock(pub Megahertz);

impl Policy<GpuClock> for ConstantClock {
    fn name(&self) -> &str {
        "constant"
    }

    fn propose(&mut self, _obs: &GpuObservation) -> ClockProposal {
        ClockProposal { mhz: f64::from(self.0.0), reasons: vec![ClockReason::Constant] }
    }
}

impl Persist for ConstantClock {
    fn save(&self, _name: &str, _out: &mut Snapshot) {}

    fn load(&mut self, _name: &str, _from: &Snapshot) -> homeostat_core::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::{Bounds, SimDuration, SimTime};
    use homeostat_decide::{ClockBounds, Guards, GuardsConfig, decide};

    use super::*;

    fn observation(clock: u32, millis: &[Option<u64>]) -> GpuObservation {
        let model = |(place, millis): (usize, &Option<u64>)| ModelLatency {
            model: format!("m{place}"),
            slo: SimDuration::from_millis(1000),
            latency: millis.map(SimDuration::from_millis),
            weight: 1.0,
        };
        GpuObservation {
            models: millis.iter().enumerate().map(model).collect(),
            busy: 0.5,
            ..GpuObservation::new(SimTime::ZERO, Megahertz(clock))
        }
    }

    fn proposed(step_down: StepDown, clock: u32, millis: &[Option<u64>]) -> f64 {
        let mut miad = MiadConfig { step_down, ..MiadConfig::default() }.build().unwrap();
        miad.propose(&observation(clock, millis)).mhz
    }

    #[test]
    fn the_clock_doubles_if_any_model_is_near_its_slo() {
        assert_eq!(proposed(StepDown::Every, 600, &[Some(100), Some(951)]), 1200.0);
        assert_eq!(proposed(StepDown::Any, 600, &[Some(951), Some(100)]), 1200.0);
    }

    #[test]
    fn a_step_down_needs_more_slack_than_it_costs() {
        // At 600 MHz a step of 60 costs a tenth of the latency.
        assert_eq!(proposed(StepDown::Every, 600, &[Some(860)]), 540.0);
        assert_eq!(proposed(StepDown::Every, 600, &[Some(870)]), 600.0);
        assert_eq!(proposed(StepDown::Every, 600, &[Some(100), Some(870)]), 600.0);
        assert_eq!(proposed(StepDown::Any, 600, &[Some(100), Some(870)]), 540.0);
        assert_eq!(proposed(StepDown::Every, 600, &[None]), 540.0);
    }

    #[test]
    fn decide_keeps_the_clock_inside_the_bounds_and_says_why() {
        let range = Bounds::try_new(Megahertz(200), Megahertz(1380)).unwrap();
        let config = GuardsConfig::<GpuClock>::bounds_only(ClockBounds { range, step: 15 });
        let mut guards = Guards::try_new(config).unwrap();
        let mut miad = MiadConfig::default().build().unwrap();
        let decision = decide(&mut miad, &mut guards, &observation(900, &[Some(1200)]));
        assert_eq!((decision.proposed().0, decision.applied().0), (1800, 1380));
        assert_eq!(
            decision.to_string(),
            "t+0ns: 900 MHz -> 1380 MHz: m0 is 20 % beyond its SLO; clamped to at most an SM clock of 1380 MHz"
        );
    }

    #[test]
    fn lost_latencies_hold_the_clock_and_then_raise_it_to_the_highest() {
        let range = Bounds::try_new(Megahertz(200), Megahertz(1380)).unwrap();
        let mut guards = Guards::try_new(GuardsConfig::<GpuClock> {
            stale_metrics_hold: SimDuration::from_secs(5),
            ..GuardsConfig::bounds_only(ClockBounds { range, step: 15 })
        })
        .unwrap();
        let governor = MiadConfig::default().build().unwrap();
        let mut governor = HighestWithoutLatency { governor, highest: range.high() };
        let mut at = |seconds, metrics| {
            let now = SimTime::ZERO + SimDuration::from_secs(seconds);
            let obs = GpuObservation { now, metrics, ..observation(900, &[Some(500)]) };
            let decision = decide(&mut governor, &mut guards, &obs);
            let kinds: Vec<&str> = decision.reasons().iter().map(ClockReason::kind).collect();
            (decision.applied().0, kinds)
        };
        assert_eq!(at(0, MetricsStatus::Complete), (840, vec!["headroom"]));
        assert_eq!(at(1, MetricsStatus::UtilizationOnly), (900, vec!["metrics_stale"]));
        assert_eq!(
            at(6, MetricsStatus::UtilizationOnly),
            (1380, vec!["latency_unknown", "scale_down_uncertain"])
        );
        assert_eq!(at(7, MetricsStatus::Complete), (840, vec!["headroom"]));
    }

    #[test]
    fn settings_that_never_raise_the_clock_are_refused() {
        let error = MiadConfig { factor: 1.0, ..MiadConfig::default() }.build().unwrap_err();
        assert_eq!(error.to_string(), "use 1 as factor; a number above 1");
    }
}
