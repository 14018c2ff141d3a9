//! Figures of single objects, for as long as they exist and this copy leads.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::What;
use crate::api::{
    ConditionType, MultidimPodAutoscaler, MultidimPodAutoscalerStatus, PodAllocation, cores,
    memory_bytes,
};

type Key = (String, String);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Info {
    namespace: String,
    name: String,
    mode: String,
    kind: String,
    target: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Figure {
    namespace: String,
    name: String,
    what: &'static str,
}

/// What a figure is of: as it is, as the recommender would have it, what the guardrails left of
/// that, and what Kubernetes' own autoscalers would do.
const WHATS: [&str; 5] = ["current", "proposed", "desired", "hpa", "vpa"];

type Figures = Family<Figure, Gauge<f64, AtomicU64>>;

/// Figures of single objects.
#[derive(Default)]
pub(super) struct Objects {
    info: Family<Info, Gauge>,
    /// A mode that changed is another label: the one before has to go.
    known: Mutex<BTreeMap<Key, Info>>,
    replicas: Figures,
    cpu: Figures,
    memory: Figures,
    decisions: Family<What, Counter>,
}

impl Objects {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("object_info", "Objects with mode and target", self.info.clone());
        let help = "Pods of an object's workload: as it is, proposed, desired, what HPA would do";
        registry.register("object_replicas", help, self.replicas.clone());
        let help =
            "Cores that a pod asks for: as it is, proposed, desired, what VPA would recommend";
        registry.register("object_cpu_cores", help, self.cpu.clone());
        let help =
            "Memory that a pod asks for: as it is, proposed, desired, what VPA would recommend";
        registry.register("object_memory_bytes", help, self.memory.clone());
        let help = "Decisions: changes, limited by a guardrail, or everything stays";
        registry.register("decisions", help, self.decisions.clone());
    }

    /// An object was looked at.
    pub(super) fn looked_at(
        &self,
        key: &Key,
        object: &MultidimPodAutoscaler,
        status: &MultidimPodAutoscalerStatus,
    ) {
        let target = &object.spec.scale_target_ref;
        let info = Info {
            namespace: key.0.clone(),
            name: key.1.clone(),
            mode: format!("{:?}", object.spec.mode),
            kind: target.kind.clone(),
            target: target.name.clone(),
        };
        let mut known = self.known.lock().expect("nobody panics while holding it");
        let before = known.insert(key.clone(), info.clone());
        if let Some(before) = before.filter(|before| *before != info) {
            self.info.remove(&before);
        }
        self.info.get_or_create(&info).set(1);
        drop(known);

        // Of an object that is not worked on nothing holds now that was decided before.
        let ready = ConditionType::Ready.to_string();
        let is_ready = |one: &Condition| one.type_ == ready && one.status == "True";
        let is_ready = status.conditions.iter().any(is_ready);
        let decision = status.decisions.first().filter(|_| is_ready);
        let Some(decision) = decision else {
            self.remove_figures(key);
            return;
        };
        self.set(key, "current", &decision.from);
        self.set(key, "proposed", &decision.proposed);
        self.set(key, "desired", &decision.applied);
        if let Some(alternatives) = &status.alternatives {
            if let Some(replicas) = alternatives.hpa_replicas {
                self.replicas.get_or_create(&figure(key, "hpa")).set(replicas.into());
            }
            let vpa = &alternatives.vpa_target;
            if let Some(cpu) = vpa.cpu.as_ref().and_then(|cpu| cores(cpu).ok()) {
                self.cpu.get_or_create(&figure(key, "vpa")).set(cpu.cores());
            }
            if let Some(memory) = vpa.memory.as_ref().and_then(|memory| memory_bytes(memory).ok()) {
                self.memory.get_or_create(&figure(key, "vpa")).set(memory.bytes() as f64);
            }
        }
        let what = if decision.proposed != decision.applied {
            "limited"
        } else if decision.from != decision.applied {
            "changes"
        } else {
            "stays"
        };
        self.decisions.get_or_create(&What { what }).inc();
    }

    fn set(&self, key: &Key, what: &'static str, allocation: &PodAllocation) {
        let figure = figure(key, what);
        self.replicas.get_or_create(&figure).set(allocation.replicas.into());
        if let Ok(cpu) = cores(&allocation.cpu) {
            self.cpu.get_or_create(&figure).set(cpu.cores());
        }
        if let Ok(memory) = memory_bytes(&allocation.memory) {
            self.memory.get_or_create(&figure).set(memory.bytes() as f64);
        }
    }

    /// An object is gone.
    pub(super) fn forget(&self, key: &Key) {
        let known = self.known.lock().expect("nobody panics while holding it").remove(key);
        if let Some(info) = known {
            self.info.remove(&info);
        }
        self.remove_figures(key);
    }

    fn remove_figures(&self, key: &Key) {
        for what in WHATS {
            let figure = figure(key, what);
            self.replicas.remove(&figure);
            self.cpu.remove(&figure);
            self.memory.remove(&figure);
        }
    }

    /// All objects that are told of.
    pub(super) fn known(&self) -> Vec<Key> {
        self.known.lock().expect("nobody panics while holding it").keys().cloned().collect()
    }
}

fn figure((namespace, name): &Key, what: &'static str) -> Figure {
    Figure { namespace: namespace.clone(), name: name.clone(), what }
}
