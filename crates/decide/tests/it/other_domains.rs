//! Domains other than pod scaling fit without a change to `decide`: a GPU clock with one
//! dimension, and a container with five.

use std::fmt;

use homeostat_core::{SimDuration, SimTime};
use homeostat_decide::{
    AutoRollbackConfig, CanaryConfig, CoolDownConfig, Dimension, Domain, GuardReason, Guards,
    GuardsConfig, Observe, Pause, PreparedProposal, Propose, Setting, SettingBounds, Share,
    SloStatus, StepLimit, StepSize, decide,
};

/// A setting of `N` numbers, wanted as plain numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Numbers<const N: usize>([u64; N]);

#[derive(Debug, Clone, PartialEq)]
struct NumbersBounds<const N: usize>(Numbers<N>, Numbers<N>);

#[derive(Debug, Clone)]
struct Wanted<const N: usize>([f64; N]);

#[derive(Debug, Clone, PartialEq)]
struct Seen<const N: usize> {
    seconds: u64,
    has: Numbers<N>,
    slo: SloStatus,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Tuned<const N: usize>;

const MEGAHERTZ: Dimension = Dimension {
    name: "clock",
    quantity: |megahertz| format!("{megahertz}MHz"),
    phrase: |megahertz| format!("a clock of {megahertz}MHz"),
};
const PLAIN: Dimension = Dimension {
    name: "resource",
    quantity: |amount| amount.to_string(),
    phrase: |amount| format!("{amount} of a resource"),
};

impl<const N: usize> Domain for Tuned<N> {
    type Observation = Seen<N>;
    type Setting = Numbers<N>;
    type Bounds = NumbersBounds<N>;
    type Proposal = Wanted<N>;
    type Reason = GuardReason;
}

impl<const N: usize> Setting for Numbers<N> {
    const DIMENSIONS: &'static [Dimension] =
        if N == 1 { &[MEGAHERTZ] } else { &[PLAIN, PLAIN, PLAIN, PLAIN, PLAIN] };

    fn amount(&self, dimension: usize) -> u64 {
        self.0[dimension]
    }

    fn with_amount(mut self, dimension: usize, amount: u64) -> Self {
        self.0[dimension] = amount;
        self
    }
}

impl<const N: usize> fmt::Display for Numbers<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<const N: usize> SettingBounds for NumbersBounds<N> {
    type Setting = Numbers<N>;

    fn clamp(&self, setting: &Numbers<N>) -> Numbers<N> {
        let ends = self.0.0.iter().zip(self.1.0);
        let mut inside = *setting;
        for (amount, (low, high)) in inside.0.iter_mut().zip(ends) {
            *amount = (*amount).clamp(*low, high);
        }
        inside
    }
}

impl<const N: usize> Observe for Seen<N> {
    type Setting = Numbers<N>;

    fn now(&self) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(1000 + self.seconds)
    }

    fn setting(&self) -> Numbers<N> {
        self.has
    }

    fn slo_status(&self) -> SloStatus {
        self.slo
    }
}

impl<const N: usize> Propose for Wanted<N> {
    type Setting = Numbers<N>;
    type Reason = GuardReason;

    fn keep(setting: &Numbers<N>) -> Self {
        Self(setting.0.map(|amount| amount as f64))
    }

    fn setting(&self) -> Result<Numbers<N>, GuardReason> {
        let dimension = Numbers::<N>::DIMENSIONS[0];
        match self.0.iter().find(|value| !value.is_finite() || **value < 0.0) {
            Some(value) => Err(GuardReason::Refused { dimension, value: *value }),
            None => Ok(Numbers(self.0.map(|value| value.round() as u64))),
        }
    }

    fn into_reasons(self) -> Vec<GuardReason> {
        Vec::new()
    }
}

fn secs(seconds: u64) -> SimDuration {
    SimDuration::from_secs(seconds)
}

#[test]
fn every_guard_works_for_a_gpu_clock() {
    let config = GuardsConfig::<Tuned<1>> {
        cool_down: CoolDownConfig { up: SimDuration::ZERO, down: secs(10) },
        hold_while_violated: true,
        auto_rollback: Some(AutoRollbackConfig { watch: secs(30), hold: secs(100) }),
        steps: vec![StepLimit { up: None, down: Some(StepSize::absolute(300)) }],
        canary: Some(CanaryConfig { dimension: 0, share: Share::Count(200), watch: secs(5) }),
        ..GuardsConfig::bounds_only(NumbersBounds(Numbers([345]), Numbers([1980])))
    };
    let mut guards = Guards::try_new(config.clone()).unwrap();
    let mut clock = |seconds, slo, has, wanted: f64| {
        let obs = Seen { seconds, has: Numbers([has]), slo };
        let decision = decide(&mut PreparedProposal::new(Wanted([wanted])), &mut guards, &obs);
        (decision.applied().0[0], decision.to_string())
    };
    use SloStatus::{Met, Violated};
    assert_eq!(clock(0, Met, 1980, 9000.0).0, 1980);
    // The step is cut to 300 and the canary to 200.
    let (applied, words) = clock(20, Met, 1980, 900.0);
    assert_eq!(applied, 1780);
    assert!(words.contains("step down limited to a clock of 300MHz"), "{words}");
    assert!(words.contains("canary: a clock of 200MHz first"), "{words}");
    // The cool-down holds, and then the SLO is violated: back to what it was.
    assert_eq!(clock(25, Met, 1780, 900.0).0, 1780);
    let (applied, words) = clock(40, Violated, 1780, 900.0);
    assert_eq!(applied, 1980);
    assert!(words.contains("rolled back: the SLO was violated 15s after"), "{words}");
    assert_eq!(clock(60, Met, 1980, 900.0).0, 1980);
    assert_eq!(clock(61, Met, 1980, f64::NAN).0, 1980);

    let paused = GuardsConfig { pause: Some(Pause::All), ..config };
    let mut guards = Guards::try_new(paused).unwrap();
    let obs = Seen { seconds: 0, has: Numbers([2000]), slo: Met };
    let decision = decide(&mut PreparedProposal::new(Wanted([500.0])), &mut guards, &obs);
    assert_eq!(decision.applied().0, [2000]);
}

#[test]
fn five_resources_are_bounded_and_stepped_each_by_itself() {
    let steps = [None, Some(10), None, Some(5), None]
        .map(|size| StepLimit { up: size.map(StepSize::absolute), down: None });
    let config = GuardsConfig::<Tuned<5>> {
        steps: steps.to_vec(),
        ..GuardsConfig::bounds_only(NumbersBounds(Numbers([1; 5]), Numbers([100; 5])))
    };
    let obs = Seen { seconds: 0, has: Numbers([50; 5]), slo: SloStatus::Met };
    let mut policy = PreparedProposal::new(Wanted([0.0, 90.0, 900.0, 90.0, 51.0]));
    let decision = decide(&mut policy, &mut Guards::try_new(config).unwrap(), &obs);
    assert_eq!(decision.applied().0, [1, 60, 100, 55, 51]);
    assert!(decision.is_limited());
}
