//! The cluster as a plant for `decide()`: a target is a service, its setting the replicas and the five limits of each.

use std::sync::Arc;

use homeostat_anomalies::{Campaign, Injection, Injections};
use homeostat_core::{Fraction, SeedTree, SimDuration, SimTime, Stream};
use homeostat_decide::{
    ContainerBounds, ContainerLimits, ContainerObservation, ContainerScaling, Decision, Figure,
    MeasuredPlant, MeasuredSource, Plant, SloStatus,
};

use crate::totals::{InjectedNow, ServiceFigures, ServiceTotals, SystemTotals};
use crate::{AnomalyId, Mesh, MeshPlan, RequestWindow, ServiceWindow};

/// A cluster that is observed and controlled window by window.
#[derive(Debug, Clone)]
pub struct MeshPlant {
    plan: MeshPlan,
    mesh: Mesh,
    observations: Vec<ContainerObservation>,
    windows: Vec<RequestWindow>,
    noise: Stream,
    /// What a campaign still injects.
    injections: Option<Injections>,
    injected: InjectedNow,
    services: Vec<ServiceTotals>,
    totals: SystemTotals,
}

impl MeshPlant {
    /// A cluster at time zero.
    pub fn new(plan: &MeshPlan, seeds: &SeedTree) -> crate::Result<Self> {
        let mesh = Mesh::new(plan.setup(), seeds)?;
        let types = plan.topology().request_types().count();
        let idle = |service| ContainerObservation {
            request_mix: vec![1.0 / types as f64; types],
            ..ContainerObservation::new(SimTime::ZERO, plan.window, *plan.limits(service))
        };
        let services = plan.topology().services().len();
        Ok(Self {
            observations: (0..services).map(idle).collect(),
            injections: None,
            injected: InjectedNow::default(),
            services: vec![ServiceTotals::default(); services],
            totals: SystemTotals::default(),
            windows: Vec::new(),
            noise: seeds.stream("telemetry noise"),
            plan: plan.clone(),
            mesh,
        })
    }

    /// The same with the injections of a campaign, each at its time.
    pub fn with_injections(self, injections: Injections) -> Self {
        Self { injections: Some(injections), ..self }
    }

    /// Injects an anomaly now. None where no replica serves.
    pub fn inject(&mut self, injection: &Injection) -> Option<AnomalyId> {
        let Injection { kind, service, intensity, duration, .. } = *injection;
        let replicas = self.mesh.ready_replicas(service);
        let replica = replicas[injection.replica(replicas.len())?];
        let id = self.mesh.inject(kind, replica, intensity, duration);
        self.injected.add(*injection, self.mesh.now());
        Some(id.expect("campaigns are checked"))
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

    /// Plays until `end`, and injects what is due on the way.
    fn play(&mut self, end: SimTime) {
        self.injected.begin_window(self.mesh.now());
        while let Some(injection) = self.injections.as_mut().and_then(|all| all.due(end)) {
            self.mesh.run_until(injection.at);
            self.inject(&injection);
        }
        self.mesh.run_until(end);
    }

    /// Adds the requests of a window to the totals.
    fn count(&mut self, windows: &[RequestWindow], maintenance: &[Option<f64>]) {
        let totals = &mut self.totals;
        for (window, slo) in windows.iter().zip(self.plan.slos()) {
            let (answered, dropped) = (window.latency.count() as f64, window.dropped as f64);
            // One that is answered after the client gave up has a latency, and it is later than the SLO.
            let late = window.latency.count_above(slo.threshold()) as f64;
            totals.requests += answered + window.failed as f64;
            totals.dropped += dropped;
            totals.violations += late + window.failed as f64;
        }
        let is_violated = |met: &Option<f64>| met.is_some_and(|met| met < 1.0);
        totals.windows += 1.0;
        totals.violated += f64::from(maintenance.iter().any(is_violated));
    }

    fn count_service(&mut self, service: usize, window: &ServiceWindow) {
        let obs = &self.observations[service];
        let replicas = f64::from(obs.setting.replicas);
        self.services[service].add(ServiceFigures {
            windows: 1.0,
            calls: window.arrived as f64,
            refused: window.refused as f64,
            violated: f64::from(obs.slo_status == SloStatus::Violated),
            cpu_used: window.usage[0] / 1e3,
            cpu_limit: replicas * obs.setting.limits[0] as f64 / 1e3,
            replicas,
        });
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
    type Error = homeostat_decide::Error;

    fn targets(&self) -> usize {
        self.observations.len()
    }

    fn advance(&mut self) -> homeostat_decide::Result<()> {
        let window = self.plan.window;
        let end = self.mesh.now() + window;
        self.play(end);
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
        self.count(&windows, &maintenance);
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
            self.count_service(service, &seen);
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
    ) -> homeostat_decide::Result<ContainerLimits> {
        let granted = self.mesh.apply(target, decision);
        self.observations[target].setting = granted;
        Ok(granted)
    }
}

impl MeasuredPlant<ContainerScaling> for MeshPlant {
    fn name(&self, target: usize) -> &str {
        &self.plan.topology().services()[target].name
    }

    fn bounds(&self, target: usize) -> ContainerBounds {
        *self.plan.bounds(target)
    }

    fn window(&self, target: usize) -> Vec<Figure> {
        let mut figures = self.services[target].window.figures();
        figures.push(("slo_maintenance", self.observations[target].slo_maintenance));
        figures.extend(self.injected.figures(target, self.mesh.now(), self.plan.window));
        figures
    }

    fn totals(&mut self, target: usize) -> Vec<Figure> {
        self.services[target].sum().figures()
    }

    fn system_totals(&mut self) -> Vec<Figure> {
        let over_slo = self.plan.slos().iter().enumerate().filter_map(|(kind, slo)| {
            let p99 = self.mesh.totals(kind).latency.quantile(Fraction::from_percent(99))?;
            Some(p99.seconds() / slo.threshold().seconds())
        });
        let worst = over_slo.fold(0.0, f64::max);
        self.totals.figures(&self.services, worst)
    }
}

impl MeasuredSource<ContainerScaling> for MeshPlan {
    fn targets(&self) -> usize {
        self.topology().services().len()
    }

    fn window(&self) -> SimDuration {
        self.window
    }

    fn load(&self) -> String {
        self.config().load.name().to_owned()
    }

    fn with_campaign(
        &self,
        text: &str,
    ) -> homeostat_decide::Result<Arc<dyn MeasuredSource<ContainerScaling>>> {
        let campaign = Campaign::parse(text).map_err(homeostat_decide::Error::plant)?;
        // A service that does not exist is refused now, not by the first seed.
        let check = campaign.injections(&self.service_names(), &SeedTree::new(0));
        check.map_err(homeostat_decide::Error::plant)?;
        let mut plan = self.clone();
        plan.campaign = Arc::new(campaign);
        Ok(Arc::new(plan))
    }

    fn make(
        &self,
        seeds: &SeedTree,
    ) -> homeostat_decide::Result<Box<dyn MeasuredPlant<ContainerScaling>>> {
        let injections = self.campaign.injections(&self.service_names(), seeds);
        let injections = injections.map_err(homeostat_decide::Error::plant)?;
        Ok(Box::new(MeshPlant::new(self, seeds)?.with_injections(injections)))
    }
}
