//! Guards: what stands between a proposal and what is carried out. Each is one file and
//! implements [`Guard`]; [`Guards`] runs them inside [`decide`](crate::decide()), always in the
//! same order.

mod auto_rollback;
mod bounds;
mod canary;
mod cool_down;
mod hold_while_violated;
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

/// One limit that no policy gets around.
pub trait Guard<D: Domain>: Persist + Send {
    /// Its name: what it saves is kept under it.
    fn name(&self) -> &'static str;

    /// Whether its settings ask for anything. A guard that is off does nothing and saves nothing.
    fn is_on(&self) -> bool {
        true
    }

    /// Whether the policy may be asked at all.
    fn admit(&mut self, _obs: &D::Observation) -> Admission {
        Admission::Ask
    }

    /// What is left of `wanted`. A guard that changes it adds a reason.
    fn limit(
        &mut self,
        situation: &Situation<'_, D>,
        wanted: D::Setting,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting;

    /// Takes note of what is carried out in the end.
    fn note(&mut self, _situation: &Situation<'_, D>, _applied: &D::Setting) {}
}

/// Whether a policy is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// It is.
    Ask,
    /// It is not, so that it learns nothing from figures that are wrong; the setting is held.
    Hold(GuardReason),
}

/// What a guard judges.
pub struct Situation<'a, D: Domain> {
    obs: &'a D::Observation,
    from: D::Setting,
    proposed: D::Setting,
    bounds: &'a D::Bounds,
}

impl<'a, D: Domain> Situation<'a, D> {
    pub(crate) fn new(
        obs: &'a D::Observation,
        proposed: D::Setting,
        bounds: &'a D::Bounds,
    ) -> Self {
        Self { obs, from: obs.setting(), proposed, bounds }
    }

    /// What was observed.
    pub fn obs(&self) -> &D::Observation {
        self.obs
    }

    /// What the target is given now.
    pub fn from(&self) -> D::Setting {
        self.from
    }

    /// What the policy proposed.
    pub fn proposed(&self) -> D::Setting {
        self.proposed
    }

    /// What the target is given now, moved inside the bounds: steps count from there.
    pub fn base(&self) -> D::Setting {
        self.clamp(self.from)
    }

    /// The nearest setting inside the bounds. A dimension that is not set and that the policy does
    /// not ask for stays so.
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
    /// What is allowed at all.
    pub bounds: D::Bounds,
    /// Without complete metrics nothing changes for this long; then what is left of them counts.
    pub stale_metrics_hold: SimDuration,
    /// How long a dimension rests after it moved.
    pub cool_down: CoolDownConfig,
    /// How often anything may change; none for no limit.
    pub rate_limit: Option<RateLimitConfig>,
    /// Whether nothing is made smaller while the SLO is violated.
    pub hold_while_violated: bool,
    /// Whether a step down that violates the SLO is undone; none for no.
    pub auto_rollback: Option<AutoRollbackConfig>,
    /// Largest steps, one for each dimension of the setting; dimensions beyond the last have none.
    pub steps: Vec<StepLimit>,
    /// Whether a step down is tried on a part first; none for no.
    pub canary: Option<CanaryConfig>,
    /// What people paused.
    pub pause: Option<Pause>,
}

impl<D: Domain> GuardsConfig<D> {
    /// Bounds, and no other limit.
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

    /// Refuses limits under which nothing could ever move.
    pub fn validate(&self) -> Result<()> {
        self.steps.iter().try_for_each(StepLimit::validate)?;
        self.rate_limit.iter().try_for_each(RateLimitConfig::validate)?;
        if self.steps.len() > D::Setting::DIMENSIONS.len() {
            let need = "no more of them than the setting has dimensions";
            return Err(Error::setting("steps", need, self.steps.len()));
        }
        Ok(())
    }
}

impl GuardsConfig<PodScaling> {
    /// Guards that have seen nothing. Refuses limits under which nothing could ever move, and
    /// bounds that allow a replica without CPU or memory.
    pub fn build(self) -> Result<Guards<PodScaling>> {
        self.bounds.validate()?;
        Guards::try_new(self)
    }
}

/// Every guard of one target, with what it remembers.
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
    /// Guards of one domain alone. They run after the common ones, before the pause.
    further: Vec<Box<dyn Guard<D>>>,
    refusals: u64,
}

impl Guards<PodScaling> {
    /// Bounds, and no other limit.
    pub fn bounds_only(bounds: crate::AllocationBounds) -> Result<Self> {
        GuardsConfig::bounds_only(bounds).build()
    }
}

impl<D: Domain> Guards<D> {
    /// Guards that have seen nothing.
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

    /// The same with a guard of this domain alone.
    pub fn with(mut self, guard: Box<dyn Guard<D>>) -> Self {
        self.further.push(guard);
        self
    }

    /// Goes on with other settings and the same memory.
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

    /// What is allowed at all.
    pub fn bounds(&self) -> &D::Bounds {
        self.bounds.bounds()
    }

    /// Proposals refused so far because a number was negative or not finite.
    pub fn refusals(&self) -> u64 {
        self.refusals
    }

    /// How far the figures of the last decision were trusted.
    pub fn metrics_trust(&self) -> MetricsTrust {
        self.stale_metrics.trust()
    }

    /// Whether a step down was undone and nothing goes down for now.
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
        situation: &Situation<'_, D>,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting {
        let mut wanted = situation.proposed();
        self.for_each(|guard| wanted = guard.limit(situation, wanted, reasons));
        self.for_each(|guard| guard.note(situation, &wanted));
        wanted
    }

    /// Runs those that are on, in their order. What the figures are worth comes before bounds, and
    /// bounds before everything that counts from what is allowed. Undoing a step that did harm
    /// waits for no cool-down, but comes no faster than any other step up. A pause has the last
    /// word: people may hold a target outside of its bounds.
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

    /// Those that have something to save.
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

/// What a guard saved while it was on is restored into one that is on; a guard that was off then
/// begins with an empty memory.
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

/// A guard that remembers nothing has nothing to save.
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
