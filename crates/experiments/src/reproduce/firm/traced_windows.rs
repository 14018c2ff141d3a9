//! Windows of a simulated application with known anomalies: its spans, its violated SLOs, and the truth.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_anomalies::AnomalyKind;
use homeostat_core::{Fraction, SeedTree, SimDuration, Stream};
use homeostat_firm::{PathComponent, path_components};
use homeostat_lab::Result;
use homeostat_sim_mesh::{Mesh, MeshPlan, SpanRecord};
use homeostat_spans::{SpanLimits, SpanStore};

use super::refused;

/// Length of a window (3.3.2), and the rest after it in which queues drain.
const WINDOW_S: f64 = 10.0;
const REST_S: f64 = 5.0;

/// Fewer requests have no p99.
const MIN_REQUESTS: usize = 20;

/// One anomaly that lasts for a whole window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Injected {
    pub(super) kind: AnomalyKind,
    pub(super) service: usize,
    pub(super) intensity: f64,
}

/// One window.
#[derive(Debug, Clone)]
pub(super) struct TracedWindow {
    /// Components on the critical paths of the types of requests that violated their SLO.
    pub(super) components: Vec<PathComponent>,
    /// The instances into which anomalies were injected, with the largest intensity of each.
    pub(super) culprits: BTreeMap<String, f64>,
}

impl TracedWindow {
    /// The instances that had to be classified, with the intensity of what was injected; none into those
    /// that were not at fault.
    pub(super) fn instances(&self) -> BTreeMap<&str, Option<f64>> {
        let names = self.components.iter().map(|one| one.instance.as_str());
        names.map(|name| (name, self.culprits.get(name).copied())).collect()
    }
}

/// A cluster that records every request.
pub(super) struct TracedMesh {
    mesh: Mesh,
    plan: MeshPlan,
    /// Spans of requests that are not answered yet.
    open: Vec<SpanRecord>,
}

impl TracedMesh {
    /// A cluster that has run for a while.
    pub(super) fn new(plan: &MeshPlan, seeds: &SeedTree) -> Result<Self> {
        let mut setup = plan.setup();
        setup.record_every = 1;
        let mesh = Mesh::new(setup, seeds).map_err(refused)?;
        let mut this = Self { mesh, plan: plan.clone(), open: Vec::new() };
        this.rest(REST_S);
        Ok(this)
    }

    fn rest(&mut self, seconds: f64) {
        self.mesh.run_for(seconds);
        self.mesh.take_spans();
        self.mesh.close_request_windows();
        self.open.clear();
    }

    /// The components of all requests in a time without anomalies.
    pub(super) fn calm(&mut self, seconds: f64) -> Vec<PathComponent> {
        self.rest(1.0);
        self.mesh.run_for(seconds);
        self.components(&|_| true)
    }

    /// Plays one window with these anomalies, and a rest.
    pub(super) fn window(&mut self, injected: &[Injected]) -> Result<TracedWindow> {
        let length = SimDuration::from_seconds(WINDOW_S).map_err(homeostat_lab::Error::from)?;
        let mut culprits = BTreeMap::new();
        for one in injected {
            let replica = self.mesh.ready_replicas(one.service)[0];
            let intensity: &mut f64 = culprits.entry(self.mesh.replica_name(replica)).or_default();
            *intensity = intensity.max(one.intensity);
            self.mesh.inject(one.kind, replica, one.intensity, length).map_err(refused)?;
        }
        self.mesh.run_for(WINDOW_S);
        let mut violated = BTreeSet::new();
        for (kind, mut window) in self.mesh.close_request_windows().into_iter().enumerate() {
            let slo = &self.plan.slos()[kind];
            let p99 = window.latency.quantile(Fraction::from_percent(99));
            if p99.is_some_and(|p99| p99 > slo.threshold()) || window.dropped > 0 {
                violated.insert(kind);
            }
        }
        let components = self.components(&|kind| violated.contains(&kind));
        self.rest(REST_S);
        Ok(TracedWindow { components, culprits })
    }

    /// The components of the requests of these types that were answered since spans were last taken.
    fn components(&mut self, is_wanted: &dyn Fn(usize) -> bool) -> Vec<PathComponent> {
        let spans = std::mem::take(&mut self.open).into_iter().chain(self.mesh.take_spans());
        let (store, open) = store_of_answered(&self.mesh, spans.collect());
        self.open = open;
        let mut store = store;
        let (mut components, _) = path_components(&mut store, MIN_REQUESTS);
        let topology = self.plan.topology();
        let wanted: BTreeSet<(&str, &str)> = (0..self.plan.slos().len())
            .filter(|kind| is_wanted(*kind))
            .map(|kind| topology.entry(kind))
            .collect();
        components.retain(|one| wanted.contains(&(one.root.0.as_str(), one.root.1.as_str())));
        components
    }
}

/// The spans of requests that were answered, and those of the others.
pub(super) fn store_of_answered(
    mesh: &Mesh,
    spans: Vec<SpanRecord>,
) -> (SpanStore, Vec<SpanRecord>) {
    let roots = spans.iter().filter(|span| span.parent == 0);
    let answered: BTreeSet<u64> = roots.map(|span| span.trace).collect();
    let (whole, open): (Vec<_>, Vec<_>) =
        spans.into_iter().partition(|span| answered.contains(&span.trace));
    let mut store = SpanStore::new(SpanLimits::default());
    mesh.store_spans(&whole, &mut store);
    (store, open)
}

/// One anomaly of a type, somewhere.
pub(super) fn single(kind: AnomalyKind, services: usize, rng: &mut Stream) -> Vec<Injected> {
    vec![Injected { kind, service: rng.below(services), intensity: rng.uniform() }]
}

/// One of each type at once (figure 3.5c), each somewhere.
pub(super) fn several(services: usize, rng: &mut Stream) -> Vec<Injected> {
    AnomalyKind::ALL.iter().flat_map(|kind| single(*kind, services, rng)).collect()
}
