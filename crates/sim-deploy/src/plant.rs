//! Deployments of a plan under control: the plant of simulations and environments.

use homeostat_core::{Bytes, Fraction, SeedTree, SimDuration, SimTime, Stream};
use homeostat_decide::{
    Allocation, AllocationBounds, Decision, Error, Features, HpaVpaConfig, JointConfig,
    Observation, Plant, PlantSource, PolicyConfig, Result, ScaledBy, SimulatedPlant, TargetTotals,
    TargetWindow, VpaConfig,
};

use crate::{Change, Cluster, DeployPlan, DeploymentSetup};

/// Deployments on one cluster, played window by window: a controller sees what monitoring
/// reported of a window, and decides at its end.
pub struct DeployPlant {
    plan: DeployPlan,
    cluster: Cluster,
    seeds: SeedTree,
    deployments: Vec<Controlled>,
    /// Changes that have happened, and the present one.
    changes: usize,
    present: Change,
    noise: Stream,
}

struct Controlled {
    /// The number of its application.
    number: usize,
    name: String,
    seen: Observation,
    features: Features,
    encoded: [f32; Features::COUNT],
    window: Option<TargetWindow>,
}

impl DeployPlant {
    /// A cluster with a Deployment for each of these numbers.
    pub fn new(plan: &DeployPlan, numbers: &[usize], seeds: &SeedTree) -> Self {
        let mut cluster = Cluster::new(plan.cluster().clone());
        let mut first = seeds.stream("first allocations");
        let mut deployments = Vec::new();
        for (place, number) in numbers.iter().enumerate() {
            let application = plan.application(*number).clone();
            let own = seeds.child(&format!("deployment/{place}"));
            let (slo, name) = (plan.slo(&application), application.name().to_owned());
            let allocation = plan.first_allocation(&application, &mut first);
            cluster.add(DeploymentSetup {
                slo,
                allocation,
                source: plan.source(&application, false, &own),
                needs: own.stream("needs"),
                application,
            });
            let seen = cluster.close_window(place).observation;
            let mut features = Features::new(*plan.bounds());
            let encoded = features.observe(&seen);
            let (number, window) = (*number, None);
            deployments.push(Controlled { number, name, seen, features, encoded, window });
        }
        Self {
            plan: plan.clone(),
            cluster,
            seeds: seeds.clone(),
            deployments,
            changes: 0,
            present: Change::None,
            noise: seeds.stream("monitoring"),
        }
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The features of a Deployment's last window.
    pub(crate) fn features(&self, target: usize) -> &[f32; Features::COUNT] {
        &self.deployments[target].encoded
    }

    fn run_until(&mut self, end: SimTime) {
        while let Some((at, change)) = self.plan.changes.get(self.changes).copied() {
            let at = SimTime::ZERO + at;
            if at > end {
                break;
            }
            self.cluster.run_until(at);
            self.changes += 1;
            self.change(change);
        }
        self.cluster.run_until(end);
    }

    fn change(&mut self, change: Change) {
        let before = std::mem::replace(&mut self.present, change);
        for (place, deployment) in self.deployments.iter().enumerate() {
            let application = self.plan.application(deployment.number);
            if before.payload().is_some() || change.payload().is_some() {
                let application = match change.payload() {
                    Some(payload) => application.with_change(payload),
                    None => application.clone(),
                };
                self.cluster.replace_application(place, application);
            }
            if (before == Change::Load) != (change == Change::Load) {
                let own = self.seeds.child(&format!("deployment/{place}"));
                let source = self.plan.source(application, change == Change::Load, &own);
                self.cluster.replace_source(place, source);
            }
        }
    }
}

impl Plant for DeployPlant {
    type Error = Error;

    fn targets(&self) -> usize {
        self.deployments.len()
    }

    fn advance(&mut self) -> Result<()> {
        let end = self.cluster.now() + self.plan.window;
        let seen_at = self.cluster.now() + (self.plan.window - self.plan.delay);
        self.run_until(seen_at);
        for (place, deployment) in self.deployments.iter_mut().enumerate() {
            let window = self.cluster.close_window(place);
            deployment.seen = blur(&window.observation, self.plan.noise, &mut self.noise);
            deployment.encoded = deployment.features.observe(&deployment.seen);
            deployment.window = Some(window);
        }
        self.run_until(end);
        Ok(())
    }

    fn observe(&self, target: usize) -> &Observation {
        &self.deployments[target].seen
    }

    fn apply(&mut self, target: usize, decision: &Decision) -> Result<Allocation> {
        Ok(self.cluster.apply(target, decision))
    }
}

impl SimulatedPlant for DeployPlant {
    fn name(&self, target: usize) -> &str {
        &self.deployments[target].name
    }

    fn bounds(&self) -> &AllocationBounds {
        self.plan.bounds()
    }

    /// VPA's history decays by half in ten windows instead of a day, since episodes last minutes.
    fn heuristic(&self, name: &str, _target: usize) -> Result<PolicyConfig> {
        const DAY_S: f64 = 86_400.0;
        let vpa = || VpaConfig::scaled(DAY_S / (10.0 * self.plan.window.seconds()));
        Ok(match PolicyConfig::by_name(name)? {
            PolicyConfig::Vpa(_) => PolicyConfig::Vpa(vpa()?),
            PolicyConfig::HpaVpa(config) => {
                PolicyConfig::HpaVpa(HpaVpaConfig { vpa: vpa()?, ..config })
            }
            PolicyConfig::Joint(config) => {
                PolicyConfig::Joint(JointConfig { vpa: vpa()?, ..config })
            }
            other => other,
        })
    }

    fn reward(&self, target: usize) -> f64 {
        let deployment = &self.deployments[target];
        let reward = self.plan.config().reward;
        reward.of(&deployment.encoded, &deployment.seen, self.plan.bounds())
    }

    fn window(&self, target: usize) -> Option<&TargetWindow> {
        self.deployments[target].window.as_ref()
    }

    fn totals(&mut self, target: usize, quantiles: &[Fraction]) -> TargetTotals {
        // The part of a window that no controller has seen yet.
        self.cluster.close_window(target);
        let slo = self.deployments[target].seen.slo;
        let totals = self.cluster.totals(target);
        TargetTotals {
            slo,
            requests: totals.completed + totals.timed_out + totals.failed,
            slo_violations: totals.slo_violations,
            slo_latency: totals.latency.quantile(slo.percentile()),
            latency: quantiles.iter().map(|part| totals.latency.quantile(*part)).collect(),
            cpu_s: totals.cpu_s,
            container_s: totals.pod_s,
            memory_gib_s: totals.memory_gib_s,
            cold_starts: totals.started,
            oom_kills: totals.oom_kills,
        }
    }

    fn cores(&self) -> f64 {
        let cluster = self.plan.cluster();
        cluster.cores * cluster.nodes as f64
    }
}

impl PlantSource for DeployPlan {
    fn targets(&self) -> usize {
        self.config().deployments
    }

    fn window(&self) -> SimDuration {
        self.window
    }

    fn load(&self) -> String {
        let name = toml::Value::try_from(self.config().load).ok();
        name.as_ref().and_then(toml::Value::as_str).unwrap_or_default().to_owned()
    }

    fn make(
        &self,
        targets: &[usize],
        seeds: &SeedTree,
        scaled_by: ScaledBy,
    ) -> Result<Box<dyn SimulatedPlant>> {
        if scaled_by == ScaledBy::Itself {
            return Err(Error::plant("a Deployment does not scale itself: choose another policy"));
        }
        Ok(Box::new(DeployPlant::new(self, targets, seeds)))
    }
}

/// What monitoring makes of a window: every measured figure is off by a little.
fn blur(truth: &Observation, noise: f64, rng: &mut Stream) -> Observation {
    let mut seen = truth.clone();
    if noise == 0.0 {
        return seen;
    }
    // As many draws for every window, whatever is in it.
    let [late, arrivals, concurrency, cpu, memory] =
        std::array::from_fn(|_| (1.0 + noise * rng.normal()).max(0.0));
    seen.latency =
        seen.latency.map(|at| SimDuration::from_nanos((at.nanos() as f64 * late) as u64));
    seen.arrivals_per_s *= arrivals;
    seen.concurrency *= concurrency;
    for replica in &mut seen.replicas {
        replica.cpu_cores = replica.cpu_cores.map(|cores| cores * cpu);
        let scaled = |used: Bytes| Bytes::new((used.bytes() as f64 * memory) as u64);
        replica.memory = replica.memory.map(scaled);
    }
    seen
}
