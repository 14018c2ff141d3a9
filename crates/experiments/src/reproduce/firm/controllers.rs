//! What controls every service of a simulated application: FIRM, and the rules that it is compared with.

use std::collections::BTreeSet;

use homeostat_core::{SeedTree, SimDuration};
use homeostat_decide::{
    ContainerScaling, Guards, GuardsConfig, LimitAimdConfig, MeasuredPlant, Plant, PodRule, Policy,
    PolicyConfig, decide,
};
use homeostat_firm::{Extractor, path_components};
use homeostat_lab::Result;
use homeostat_rl::{LearnedLimits, Sampling};
use homeostat_sim_mesh::{MeshPlan, MeshPlant, SpanRecord};

use super::refused;
use super::traced_windows::store_of_answered;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Arm {
    Nothing,
    Aimd,
    /// Kubernetes' horizontal autoscaler in its period of 15 s.
    Hpa,
    /// The same, asked every second.
    HpaEverySecond,
    Firm,
}

impl Arm {
    pub(super) const ALL: [Self; 5] =
        [Self::Firm, Self::Aimd, Self::Hpa, Self::HpaEverySecond, Self::Nothing];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Aimd => "aimd",
            Self::Hpa => "hpa",
            Self::HpaEverySecond => "hpa-1s",
            Self::Firm => "firm",
        }
    }
}

/// The two models of FIRM.
#[derive(Clone)]
pub(super) struct FirmModels {
    pub(super) extractor: Extractor,
    pub(super) agent: homeostat_rl::Policy,
}

type Controller = (Box<dyn Policy<ContainerScaling>>, Guards<ContainerScaling>);

/// One controller for each service.
pub(super) struct Controllers {
    services: Vec<Controller>,
    /// Who tells an agent that its service is at fault.
    locator: Option<Locator>,
}

impl Controllers {
    pub(super) fn new(arm: Arm, plant: &mut MeshPlant, models: &FirmModels) -> Result<Self> {
        let mut services = Vec::new();
        let hpa = || Ok::<_, homeostat_lab::Error>(PolicyConfig::by_name("hpa")?.build()?);
        for service in 0..plant.targets() {
            let bounds = plant.bounds(service);
            let rng = SeedTree::new(0).stream("greedy");
            let agent = &models.agent;
            let policy: Box<dyn Policy<ContainerScaling>> = match arm {
                Arm::Nothing => continue,
                Arm::Aimd => Box::new(LimitAimdConfig::default().build()?),
                Arm::Hpa => Box::new(PodRule::new(hpa()?)),
                Arm::HpaEverySecond => {
                    let second = SimDuration::from_secs(1);
                    Box::new(PodRule::new(hpa()?).with_period(arm.name(), second)?)
                }
                Arm::Firm => {
                    Box::new(LearnedLimits::new("firm", agent, bounds, Sampling::Greedy, rng)?)
                }
            };
            services.push((policy, Guards::try_new(GuardsConfig::bounds_only(bounds))?));
        }
        let locator = (arm == Arm::Firm).then(|| Locator::new(models.extractor.clone(), plant));
        Ok(Self { services, locator })
    }

    /// Decides on every service after a window.
    pub(super) fn step(&mut self, plant: &mut MeshPlant, plan: &MeshPlan) -> Result<()> {
        let culprits = match &mut self.locator {
            Some(locator) => Some(locator.culprits(plant, plan)?),
            None => None,
        };
        for (service, (policy, guards)) in self.services.iter_mut().enumerate() {
            let mut seen = plant.observe(service).clone();
            if culprits.as_ref().is_some_and(|culprits| !culprits.contains(&service)) {
                // An agent that is told nothing assumes that its SLO is met (3.2.4).
                seen.slo_maintenance = 1.0;
            }
            let decision = decide(policy.as_mut(), guards, &seen);
            plant.apply(service, &decision)?;
        }
        Ok(())
    }
}

/// Spans of the last seconds, and the extractor that reads them when an SLO is violated.
struct Locator {
    extractor: Extractor,
    spans: Vec<SpanRecord>,
}

/// Spans of so many seconds are read: in one second, a type of requests has too few for a p99.
const MEMORY: SimDuration = SimDuration::from_secs(5);
const MIN_REQUESTS: usize = 10;

impl Locator {
    fn new(extractor: Extractor, plant: &mut MeshPlant) -> Self {
        plant.mesh_mut().record_every(1);
        Self { extractor, spans: Vec::new() }
    }

    /// The services at fault; none while every SLO is met.
    fn culprits(&mut self, plant: &mut MeshPlant, plan: &MeshPlan) -> Result<BTreeSet<usize>> {
        self.spans.extend(plant.mesh_mut().take_spans());
        let now = plant.mesh().now();
        self.spans.retain(|span| span.answered + MEMORY >= now);
        let topology = plan.topology();
        let mut violated = BTreeSet::new();
        for (kind, (window, slo)) in plant.windows().iter().zip(plan.slos()).enumerate() {
            let late = window.latency.count_above(slo.threshold()) + window.failed;
            let settled = window.latency.count() + window.failed;
            if late as f64 > 0.01 * settled as f64 {
                violated.insert(topology.entry(kind));
            }
        }
        if violated.is_empty() {
            return Ok(BTreeSet::new());
        }
        let (mut store, _) = store_of_answered(plant.mesh(), self.spans.clone());
        let (mut components, _) = path_components(&mut store, MIN_REQUESTS);
        components.retain(|one| violated.contains(&(one.root.0.as_str(), one.root.1.as_str())));
        let scores = self.extractor.instances(&components).map_err(refused)?;
        let most = scores.values().copied().fold(f64::NEG_INFINITY, f64::max);
        // Something is at fault: if no instance passes, the first one is taken.
        let at_fault = scores.iter().filter(|(_, score)| **score > 0.0 || **score >= most);
        let services = at_fault.filter_map(|(instance, _)| {
            instance.rsplit_once('-').and_then(|(service, _)| topology.service(service))
        });
        Ok(services.collect())
    }
}
