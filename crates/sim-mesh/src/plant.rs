//! The cluster as a plant for `decide()`: a target is a service, its setting the replicas and the five limits of each.

use homeostat_core::{SeedTree, SimTime, Stream};
use homeostat_decide::{
    ContainerLimits, ContainerObservation, ContainerScaling, Decision, Plant, SloStatus,
};

use crate::{Error, Mesh, MeshPlan, RequestWindow};

/// A cluster that is observed and controlled window by window.
#[derive(Debug, Clone)]
pub struct MeshPlant {
    plan: MeshPlan,
    mesh: Mesh,
    observations: Vec<ContainerObservation>,
    windows: Vec<RequestWindow>,
    noise: Stream,
}

impl MeshPlant {
    /// A cluster at time zero.
    pub fn new(plan: &MeshPlan, seeds: &SeedTree) -> crate::Result<Self> {
        let mesh = Mesh::new(plan.setup(), seeds)?;
        let types = plan.topology().request_types().count();
        let idle = |service| ContainerObservation {
            now: SimTime::ZERO,
            window: plan.window,
            setting: *plan.limits(service),
            slo_maintenance: 1.0,
            slo_status: SloStatus::Unknown,
            arrivals_per_s: 0.0,
            workload_change: 1.0,
            request_mix: vec![1.0 / types as f64; types],
            usage: [0.0; 5],
        };
        Ok(Self {
            observations: (0..plan.topology().services().len()).map(idle).collect(),
            windows: Vec::new(),
            noise: seeds.stream("telemetry noise"),
            plan: plan.clone(),
            mesh,
        })
    }

    /// The cluster.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The cluster, to inject anomalies into it.
    pub fn mesh_mut(&mut self) -> &mut Mesh {
        &mut self.mesh
    }

    /// The requests of the last window, by type.
    pub fn windows(&self) -> &[RequestWindow] {
        &self.windows
    }

    /// SLO over measured p99 of a type in a window, at most one; none without requests.
    fn maintenance(&self, kind: usize, window: &mut RequestWindow) -> Option<f64> {
        let slo = &self.plan.slos()[kind];
        let threshold = slo.threshold().seconds();
        let measured = match window.latency.quantile(slo.percentile()) {
            Some(latency) => latency.seconds(),
            None if window.arrived == 0 && window.dropped == 0 => return None,
            // Nothing was answered for a window.
            None => threshold + self.plan.window.seconds(),
        };
        // A request that failed has no latency; it violates the SLO like one that is answered too late.
        let is_late = window.dropped as f64 > 0.01 * window.arrived as f64;
        let measured = if is_late { measured.max(2.0 * threshold) } else { measured };
        Some((threshold / measured.max(1e-9)).min(1.0))
    }

    fn noisy(&mut self, value: f64) -> f64 {
        let config = self.plan.config();
        if config.oracle {
            value
        } else {
            value * (1.0 + config.telemetry_noise * self.noise.normal()).max(0.0)
        }
    }
}

impl Plant<ContainerScaling> for MeshPlant {
    type Error = Error;

    fn targets(&self) -> usize {
        self.observations.len()
    }

    fn advance(&mut self) -> Result<(), Error> {
        let window = self.plan.window;
        let end = self.mesh.now() + window;
        self.mesh.run_until(end);
        let mut windows = self.mesh.close_request_windows();
        let services = self.mesh.close_service_windows(window);
        let arrived: u64 = windows.iter().map(|window| window.arrived).sum();
        let mix: Vec<f64> =
            windows.iter().map(|window| window.arrived as f64 / arrived.max(1) as f64).collect();
        let maintenance: Vec<Option<f64>> = windows
            .iter_mut()
            .enumerate()
            .map(|(kind, window)| self.maintenance(kind, window))
            .collect();
        for (service, seen) in services.into_iter().enumerate() {
            let needs = self.plan.topology().needs(service);
            let worst = needs.filter_map(|kind| maintenance[kind]).reduce(f64::min);
            let rate = seen.arrived as f64 / window.seconds();
            let slo_maintenance = self.noisy(worst.unwrap_or(1.0)).min(1.0);
            let usage = seen.usage.map(|amount| self.noisy(amount));
            let before = self.observations[service].arrivals_per_s;
            let setting = ContainerLimits {
                replicas: self.mesh.replicas_of(service),
                limits: self.mesh.limits_of(service),
            };
            self.observations[service] = ContainerObservation {
                now: end,
                window,
                setting,
                slo_maintenance,
                slo_status: match worst {
                    None => SloStatus::Unknown,
                    Some(worst) if worst < 1.0 => SloStatus::Violated,
                    Some(_) => SloStatus::Met,
                },
                arrivals_per_s: rate,
                workload_change: if before > 0.0 && rate > 0.0 { rate / before } else { 1.0 },
                request_mix: mix.clone(),
                usage,
            };
        }
        self.windows = windows;
        Ok(())
    }

    fn observe(&self, target: usize) -> &ContainerObservation {
        &self.observations[target]
    }

    fn apply(
        &mut self,
        target: usize,
        decision: &Decision<ContainerScaling>,
    ) -> Result<ContainerLimits, Error> {
        let granted = self.mesh.apply(target, decision);
        self.observations[target].setting = granted;
        Ok(granted)
    }
}
