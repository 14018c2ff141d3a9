//! The platform as a [`PlantSource`] of simulations.

use homeostat_core::{Fraction, SeedTree, SimDuration};
use homeostat_decide::{
    Allocation, AllocationBounds, Decision, Error, Observation, Plant, PlantSource, PolicyConfig,
    Result, ScaledBy, SimulatedPlant, TargetTotals, TargetWindow,
};

use super::config::FaasPlan;
use super::heuristic;
use super::tenants::Tenants;
use crate::platform::FunctionId;

/// How long a platform that scales itself keeps an idle container: OpenWhisk's default.
pub const KEEP_ALIVE: SimDuration = SimDuration::from_secs(600);

/// Functions on a platform, under control.
pub struct FaasPlant {
    tenants: Tenants,
}

impl FaasPlant {
    /// The functions that have joined.
    pub fn new(tenants: Tenants) -> Self {
        Self { tenants }
    }

    fn id(&self, target: usize) -> FunctionId {
        self.tenants.present[target].id
    }
}

impl Plant for FaasPlant {
    type Error = Error;

    fn targets(&self) -> usize {
        Plant::targets(&self.tenants)
    }

    fn advance(&mut self) -> Result<()> {
        self.tenants.advance();
        Ok(())
    }

    fn observe(&self, target: usize) -> &Observation {
        self.tenants.seen(target)
    }

    fn apply(&mut self, target: usize, decision: &Decision) -> Result<Allocation> {
        self.tenants.apply(target, decision).map_err(Error::plant)
    }
}

impl SimulatedPlant for FaasPlant {
    fn name(&self, target: usize) -> &str {
        self.tenants.platform.name(self.id(target))
    }

    fn bounds(&self) -> &AllocationBounds {
        self.tenants.plan.bounds()
    }

    fn heuristic(&self, name: &str, target: usize) -> Result<PolicyConfig> {
        heuristic(name, &self.tenants.plan, self.tenants.platform.profile(self.id(target)))
    }

    fn reward(&self, target: usize) -> f64 {
        let (plan, tenant) = (&self.tenants.plan, &self.tenants.present[target]);
        plan.config().reward.of(&tenant.obs, &tenant.seen, plan.bounds())
    }

    fn window(&self, target: usize) -> Option<&TargetWindow> {
        self.tenants.window(target)
    }

    fn totals(&mut self, target: usize, quantiles: &[Fraction]) -> TargetTotals {
        let id = self.id(target);
        let slo = self.tenants.platform.slo(id);
        let totals = self.tenants.platform.final_totals(id);
        TargetTotals {
            slo,
            requests: totals.judged(),
            slo_violations: totals.slo_violations,
            slo_latency: totals.latency.quantile(slo.percentile()),
            latency: quantiles.iter().map(|part| totals.latency.quantile(*part)).collect(),
            cpu_s: totals.cpu_s,
            container_s: totals.container_s,
            memory_gib_s: totals.memory_gib_s,
            cold_starts: totals.cold_starts,
            oom_kills: totals.oom_kills,
        }
    }

    fn cores(&self) -> f64 {
        self.tenants.plan.cores()
    }
}

impl FaasPlan {
    /// Cores of the platform.
    pub fn cores(&self) -> f64 {
        self.platform().nodes.iter().map(|node| node.cores).sum()
    }
}

impl PlantSource for FaasPlan {
    fn targets(&self) -> usize {
        self.config().functions
    }

    fn window(&self) -> SimDuration {
        FaasPlan::window(self)
    }

    fn load(&self) -> String {
        let name = toml::Value::try_from(self.config().load).ok();
        name.as_ref().and_then(toml::Value::as_str).unwrap_or_default().to_owned()
    }

    fn mean_load(&self) -> Option<f64> {
        Some(FaasPlan::mean_load(self))
    }

    fn make(
        &self,
        targets: &[usize],
        seeds: &SeedTree,
        scaled_by: ScaledBy,
    ) -> Result<Box<dyn SimulatedPlant>> {
        let mut tenants = Tenants::new(self, seeds.seed("world"));
        for number in targets {
            let function = number % self.functions().count();
            match scaled_by {
                ScaledBy::Controllers => tenants.join(function),
                ScaledBy::Itself => tenants.join_on_demand(function, KEEP_ALIVE),
            }
        }
        Ok(Box::new(FaasPlant::new(tenants)))
    }
}
