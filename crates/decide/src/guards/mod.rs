//! Guards limit proposals. Each is one file and implements [`Guard`]; [`Guards`] runs them inside
//! [`decide`](crate::decide()), always in the same order.

mod auto_rollback;
mod bounds;
mod canary;
mod cool_down;
mod hold_while_violated;
mod last_decision;
mod pause;
mod rate_limit;
mod reason;
mod stale_metrics;
mod step_limit;

use homeostat_core::{Persist, Result as CoreResult, SimDuration, Snapshot};

use auto_rollback::AutoRollback;
pub use auto_rollback::AutoRollbackConfig;
use bounds::BoundsGuard;
use canary::Canary;
pub use canary::{CanaryConfig, Share};
use cool_down::CoolDown;
pub use cool_down::CoolDownConfig;
use hold_while_violated::HoldWhileViolated;
pub use pause::Pause;
use pause::PauseGuard;
use rate_limit::RateLimit;
pub use rate_limit::RateLimitConfig;
pub use reason::GuardReason;
pub use stale_metrics::MetricsTrust;
use stale_metrics::StaleMetrics;
use step_limit::StepLimitGuard;
pub use step_limit::{StepLimit, StepSize};

use crate::{Domain, Error, Observe, PodScaling, Result, Setting, SettingBounds};

/// One limit on decisions, which no policy can bypass.
///
/// A guard of your own runs after the common ones. This one keeps the number of replicas even:
///
/// ```
/// use homeostat_core::{
///     Bounds, Bytes, Fraction, Millicores, Persist, SimDuration, SimTime, Slo, Snapshot,
/// };
/// use homeostat_decide::{
///     Allocation, AllocationBounds, Guard, GuardContext, GuardsConfig, Observation, PodScaling,
///     PreparedProposal, Proposal, Reason, decide,
/// };
///
/// struct EvenReplicas;
///
/// impl Guard<PodScaling> for EvenReplicas {
///     fn name(&self) -> &'static str {
///         "even-replicas"
///     }
///
///     fn limit(
///         &mut self,
///         _context: &GuardContext<'_, PodScaling>,
///         setting: Allocation,
///         _reasons: &mut Vec<Reason>,
///     ) -> Allocation {
///         Allocation { replicas: setting.replicas.next_multiple_of(2), ..setting }
///     }
/// }
///
/// impl Persist for EvenReplicas {
///     fn save(&self, _name: &str, _out: &mut Snapshot) {}
///
///     fn load(&mut self, _name: &str, _from: &Snapshot) -> homeostat_core::Result<()> {
///         Ok(())
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (cpu, memory) = (Millicores::new(500), Bytes::from_mib(256));
/// let bounds = AllocationBounds {
///     replicas: Bounds::try_new(2, 8)?,
///     cpu: Bounds::try_new(cpu, cpu)?,
///     memory: Bounds::try_new(memory, memory)?,
/// };
/// let mut guards = GuardsConfig::bounds_only(bounds).build()?.with(Box::new(EvenReplicas));
/// let slo = Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(250))?;
/// let present = Allocation { replicas: 4, cpu, memory };
/// let obs = Observation::new(SimTime::ZERO, present, slo);
/// let proposal = Proposal { replicas: 5.0, ..Proposal::keep(&present) };
/// let decision = decide(&mut PreparedProposal::new(proposal), &mut guards, &obs);
/// assert_eq!((decision.proposed().replicas, decision.applied().replicas), (5, 6));
/// # Ok(())
/// # }
/// ```
pub trait Guard<D: Domain>: Persist + Send {
    /// Its name, under which its state is saved.
    fn name(&self) -> &'static str;

    /// Whether it is configured. A guard that is off does nothing and saves nothing.
    fn is_on(&self) -> bool {
        true
    }

    /// Whether the policy may be asked.
    fn admit(&mut self, _obs: &D::Observation) -> Admission {
        Admission::Ask
    }

    /// The setting that this guard allows instead of `wanted`. A guard that changes it adds a
    /// reason.
    fn limit(
        &mut self,
        context: &GuardContext<'_, D>,
        wanted: D::Setting,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting;

    /// Records the setting that all guards together allow.
    fn note(&mut self, _situation: &GuardContext<'_, D>, _applied: &D::Setting) {}
}

/// Whether a policy is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// The policy is asked.
    Ask,
    /// The policy is not asked, so that stale metrics do not enter its state; the setting is held.
    Hold(GuardReason),
}

/// The input of a guard.
pub struct GuardContext<'a, D: Domain> {
    obs: &'a D::Observation,
    from: D::Setting,
    proposed: D::Setting,
    bounds: &'a D::Bounds,
}

impl<'a, D: Domain> GuardContext<'a, D> {
    pub(crate) fn new(
        obs: &'a D::Observation,
        proposed: D::Setting,
        bounds: &'a D::Bounds,
    ) -> Self {
        Self { obs, from: obs.setting(), proposed, bounds }
    }

    /// The observation.
    pub fn obs(&self) -> &D::Observation {
        self.obs
    }

    /// The target's present setting.
    pub fn from(&self) -> D::Setting {
        self.from
    }

    /// The policy's proposal.
    pub fn proposed(&self) -> D::Setting {
        self.proposed
    }

    /// The present setting clamped to the bounds: steps are measured from there.
    pub fn base(&self) -> D::Setting {
        self.clamp(self.from)
    }

    /// The nearest setting inside the bounds. A dimension that is not set, and that the policy does
    /// not set, stays unset.
    pub fn clamp(&self, setting: D::Setting) -> D::Setting {
        let inside = self.bounds.clamp(&setting);
        (0..D::Setting::DIMENSIONS.len())
            .filter(|dimension| {
                let is_zero = |setting: &D::Setting| setting.amount(*dimension) == 0;
                D::Setting::may_be_unset(*dimension)
                    && is_zero(&self.from)
                    && is_zero(&self.proposed)
            })
            .fold(inside, |setting, dimension| setting.with_amount(dimension, 0))
    }
}

/// Settings of [`Guards`].
#[derive(Debug, Clone, PartialEq)]
pub struct GuardsConfig<D: Domain = PodScaling> {
    /// The allowed settings.
    pub bounds: D::Bounds,
    /// Without complete metrics nothing changes for this long; then the remaining metrics decide.
    pub stale_metrics_hold: SimDuration,
    /// How long a dimension is held after a change.
    pub cool_down: CoolDownConfig,
    /// How many changes are allowed in a period; none for no limit.
    pub rate_limit: Option<RateLimitConfig>,
    /// Whether scaling down is held while the SLO is violated.
    pub hold_while_violated: bool,
    /// Automatic rollback of a step down after which the SLO is violated; none for off.
    pub auto_rollback: Option<AutoRollbackConfig>,
    /// The largest step of each dimension; further dimensions have no limit.
    pub steps: Vec<StepLimit>,
    /// Canary for steps down; none for off.
    pub canary: Option<CanaryConfig>,
    /// The direction that is paused, by annotation or by hand.
    pub pause: Option<Pause>,
}

impl<D: Domain> GuardsConfig<D> {
    /// Bounds and no other guard.
    pub fn bounds_only(bounds: D::Bounds) -> Self {
        Self {
            bounds,
            stale_metrics_hold: SimDuration::ZERO,
            cool_down: CoolDownConfig::default(),
            rate_limit: None,
            hold_while_violated: false,
            auto_rollback: None,
            steps: Vec::new(),
            canary: None,
            pause: None,
        }
    }

    /// An error for limits that allow no change at all.
    pub fn validate(&self) -> Result<()> {
        self.steps.iter().try_for_each(StepLimit::validate)?;
        self.rate_limit.iter().try_for_each(RateLimitConfig::validate)?;
        if self.steps.len() > D::Setting::DIMENSIONS.len() {
            let need = "at most one for each dimension of the setting";
            return Err(Error::setting("steps", need, self.steps.len()));
        }
        let dimensions = D::Setting::DIMENSIONS.len();
        if let Some(canary) = self.canary.filter(|canary| canary.dimension >= dimensions) {
            let need = "the index of a dimension of the setting";
            return Err(Error::setting("canary.dimension", need, canary.dimension));
        }
        Ok(())
    }
}

impl GuardsConfig<PodScaling> {
    /// New guards. An error for limits that allow no change at all, and for bounds that allow a
    /// replica without CPU or memory.
    pub fn build(self) -> Result<Guards<PodScaling>> {
        self.bounds.validate()?;
        Guards::try_new(self)
    }
}

/// All guards of one target, with their state.
pub struct Guards<D: Domain = PodScaling> {
    stale_metrics: StaleMetrics,
    bounds: BoundsGuard<D>,
    cool_down: CoolDown,
    rate_limit: RateLimit,
    hold_while_violated: HoldWhileViolated,
    auto_rollback: AutoRollback,
    step_limit: StepLimitGuard,
    canary: Canary,
    pause: PauseGuard,
    /// Guards of one domain. They run after the common ones and before the pause.
    further: Vec<Box<dyn Guard<D>>>,
    refusals: u64,
}

impl Guards<PodScaling> {
    /// Bounds and no other guard.
    pub fn bounds_only(bounds: crate::AllocationBounds) -> Result<Self> {
        GuardsConfig::bounds_only(bounds).build()
    }
}

impl<D: Domain> Guards<D> {
    /// New guards. An error for limits that allow no change at all.
    pub fn try_new(config: GuardsConfig<D>) -> Result<Self> {
        config.validate()?;
        Ok(Self {
            stale_metrics: StaleMetrics::new(config.stale_metrics_hold),
            bounds: BoundsGuard::new(config.bounds),
            cool_down: CoolDown::new(config.cool_down),
            rate_limit: RateLimit::new(config.rate_limit),
            hold_while_violated: HoldWhileViolated { is_on: config.hold_while_violated },
            auto_rollback: AutoRollback::new(config.auto_rollback),
            step_limit: StepLimitGuard { steps: config.steps },
            canary: Canary::new(config.canary),
            pause: PauseGuard { pause: config.pause },
            further: Vec::new(),
            refusals: 0,
        })
    }

    /// Adds a guard of this domain.
    pub fn with(mut self, guard: Box<dyn Guard<D>>) -> Self {
        self.further.push(guard);
        self
    }

    /// Changes the configuration and keeps the state.
    pub fn reconfigure(&mut self, config: GuardsConfig<D>) -> Result<()> {
        config.validate()?;
        self.stale_metrics.set_hold(config.stale_metrics_hold);
        self.bounds = BoundsGuard::new(config.bounds);
        self.cool_down.set_config(config.cool_down);
        self.rate_limit.set_config(config.rate_limit);
        self.hold_while_violated.is_on = config.hold_while_violated;
        self.auto_rollback.set_config(config.auto_rollback);
        self.step_limit.steps = config.steps;
        self.canary.set_config(config.canary);
        self.pause.pause = config.pause;
        Ok(())
    }

    /// The allowed settings.
    pub fn bounds(&self) -> &D::Bounds {
        self.bounds.bounds()
    }

    /// Number of proposals rejected because a number was negative or not finite.
    pub fn refusals(&self) -> u64 {
        self.refusals
    }

    /// How far the metrics of the last decision were trusted.
    pub fn metrics_trust(&self) -> MetricsTrust {
        self.stale_metrics.trust()
    }

    /// Whether scaling down is held after a rollback.
    pub fn holds_after_rollback(&self) -> bool {
        self.auto_rollback.holds()
    }

    pub(crate) fn count_refusal(&mut self) {
        self.refusals += 1;
    }

    pub(crate) fn admit(&mut self, obs: &D::Observation) -> Admission {
        let mut admission = Admission::Ask;
        self.for_each(|guard| match guard.admit(obs) {
            Admission::Ask => {}
            hold if admission == Admission::Ask => admission = hold,
            Admission::Hold(_) => {}
        });
        admission
    }

    pub(crate) fn apply(
        &mut self,
        context: &GuardContext<'_, D>,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting {
        let mut wanted = context.proposed();
        self.for_each(|guard| wanted = guard.limit(context, wanted, reasons));
        self.for_each(|guard| guard.note(context, &wanted));
        wanted
    }

    /// Runs the guards that are on, in their order. Stale metrics come before bounds, and bounds
    /// before the guards that measure steps from an allowed setting. A rollback ignores cool-downs
    /// but respects step limits. The pause is last: it may hold a target outside of its bounds.
    fn for_each(&mut self, mut run: impl FnMut(&mut dyn Guard<D>)) {
        let common: [&mut dyn Guard<D>; 8] = [
            &mut self.stale_metrics,
            &mut self.bounds,
            &mut self.cool_down,
            &mut self.rate_limit,
            &mut self.hold_while_violated,
            &mut self.auto_rollback,
            &mut self.step_limit,
            &mut self.canary,
        ];
        for guard in common {
            if guard.is_on() {
                run(guard);
            }
        }
        self.further.iter_mut().for_each(|guard| run(guard.as_mut()));
        run(&mut self.pause);
    }

    /// The guards that have state to save.
    fn remembering(&self) -> impl Iterator<Item = &dyn Guard<D>> {
        let common: [&dyn Guard<D>; 6] = [
            &self.stale_metrics,
            &self.cool_down,
            &self.rate_limit,
            &self.hold_while_violated,
            &self.auto_rollback,
            &self.canary,
        ];
        let further = self.further.iter().map(|guard| guard.as_ref() as &dyn Guard<D>);
        common.into_iter().filter(|guard| guard.is_on()).chain(further)
    }
}

/// A guard that was off when the state was saved starts without state.
impl<D: Domain> Persist for Guards<D> {
    fn save(&self, name: &str, out: &mut Snapshot) {
        if self.refusals > 0 {
            out.put_u64(&format!("{name}/refusals"), [self.refusals]);
        }
        for guard in self.remembering() {
            guard.save(&format!("{name}/{}", guard.name()), out);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        let or_fresh = |loaded: CoreResult<()>| match loaded {
            Err(homeostat_core::Error::SnapshotMissing { .. }) => Ok(()),
            other => other,
        };
        let refusals = from.u64s(&format!("{name}/refusals"), 1);
        self.refusals = refusals.as_ref().map_or(0, |refusals| refusals[0]);
        or_fresh(refusals.map(drop))?;
        let mut loaded = Ok(());
        self.for_each(|guard| {
            if loaded.is_ok() {
                loaded = or_fresh(guard.load(&format!("{name}/{}", guard.name()), from));
            }
        });
        loaded
    }
}

/// [`Persist`] of a guard without state.
macro_rules! remembers_nothing {
    ($guard:ident $(<$domain:ident>)?) => {
        impl $(<$domain: crate::Domain>)? homeostat_core::Persist for $guard $(<$domain>)? {
            fn save(&self, _name: &str, _out: &mut homeostat_core::Snapshot) {}

            fn load(
                &mut self,
                _name: &str,
                _from: &homeostat_core::Snapshot,
            ) -> homeostat_core::Result<()> {
                Ok(())
            }
        }
    };
}
use remembers_nothing;
