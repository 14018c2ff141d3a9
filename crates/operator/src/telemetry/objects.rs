//! Metrics of single objects, as long as they exist and this replica leads.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use homeostat_autoscaler::api::{
    ConditionType, MultidimPodAutoscaler, MultidimPodAutoscalerStatus, PodAllocation, cores,
    memory_bytes,
};
use homeostat_aware::Stage;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Kind, NOT_POISONED};

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
struct ObjectKind {
    namespace: String,
    name: String,
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ObjectStage {
    namespace: String,
    name: String,
    stage: String,
}

/// Kinds of allocations: the current one, the recommender's proposal, the proposal after the
/// guards, what Kubernetes' own autoscalers would do, and what a policy in shadow mode would.
const KINDS: [&str; 6] = ["current", "proposed", "desired", "hpa", "vpa", "policy"];

type Gauges = Family<ObjectKind, Gauge<f64, AtomicU64>>;

/// Metrics of single objects.
#[derive(Default)]
pub(super) struct Objects {
    info: Family<Info, Gauge>,
    /// A change of the mode is another label set: the one before has to be removed.
    known: Mutex<BTreeMap<Key, Info>>,
    replicas: Gauges,
    cpu: Gauges,
    memory: Gauges,
    decisions: Family<Kind, Counter>,
    stages: Family<ObjectStage, Gauge>,
}

impl Objects {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("object_info", "Objects with mode and target", self.info.clone());
        let help = "Replicas of an object's workload: current, proposed, desired, of HPA, of a policy in shadow";
        registry.register("object_replicas", help, self.replicas.clone());
        let help = "CPU request of a pod in cores: current, proposed, desired, of VPA";
        registry.register("object_cpu_cores", help, self.cpu.clone());
        let help = "Memory request of a pod in bytes: current, proposed, desired, of VPA";
        registry.register("object_memory_bytes", help, self.memory.clone());
        let help = "Decisions: changed, limited by a guard, or unchanged";
        registry.register("decisions", help, self.decisions.clone());
        let help = "Stage of an object's learned policy: 1 for the one it is in, 0 for the others";
        registry.register("object_stage", help, self.stages.clone());
    }

    /// The recommendation of an object was made, or refused.
    pub(super) fn recommended(
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
        let mut known = self.known.lock().expect(NOT_POISONED);
        let before = known.insert(key.clone(), info.clone());
        if let Some(before) = before.filter(|before| *before != info) {
            self.info.remove(&before);
        }
        self.info.get_or_create(&info).set(1);
        drop(known);

        self.set_stage(key, status.learning.as_ref().map(|learning| learning.stage.as_str()));

        // Without a recommendation, earlier decisions are outdated.
        let ready = ConditionType::Ready.to_string();
        let is_ready = |one: &Condition| one.type_ == ready && one.status == "True";
        let is_ready = status.conditions.iter().any(is_ready);
        let decision = status.decisions.first().filter(|_| is_ready);
        let Some(decision) = decision else {
            self.remove_gauges(key);
            return;
        };
        self.set(key, "current", &decision.from);
        self.set(key, "proposed", &decision.proposed);
        self.set(key, "desired", &decision.applied);
        if let Some(alternatives) = &status.alternatives {
            if let Some(policy) = &alternatives.policy {
                self.set(key, "policy", policy);
            }
            if let Some(replicas) = alternatives.hpa_replicas {
                self.replicas.get_or_create(&labels(key, "hpa")).set(replicas.into());
            }
            let vpa = &alternatives.vpa_target;
            if let Some(cpu) = vpa.cpu.as_ref().and_then(|cpu| cores(cpu).ok()) {
                self.cpu.get_or_create(&labels(key, "vpa")).set(cpu.cores());
            }
            if let Some(memory) = vpa.memory.as_ref().and_then(|memory| memory_bytes(memory).ok()) {
                self.memory.get_or_create(&labels(key, "vpa")).set(memory.bytes() as f64);
            }
        }
        let kind = if decision.proposed != decision.applied {
            "limited"
        } else if decision.from != decision.applied {
            "changed"
        } else {
            "unchanged"
        };
        self.decisions.get_or_create(&Kind { kind }).inc();
    }

    /// None for an object that does not learn.
    fn set_stage(&self, (namespace, name): &Key, stage: Option<&str>) {
        for one in Stage::ALL.map(|stage| format!("{stage:?}")) {
            let is_in = stage.map(|stage| stage == one);
            let labels =
                ObjectStage { namespace: namespace.clone(), name: name.clone(), stage: one };
            match is_in {
                Some(is_in) => {
                    self.stages.get_or_create(&labels).set(is_in.into());
                }
                None => {
                    self.stages.remove(&labels);
                }
            }
        }
    }

    fn set(&self, key: &Key, kind: &'static str, allocation: &PodAllocation) {
        let labels = labels(key, kind);
        self.replicas.get_or_create(&labels).set(allocation.replicas.into());
        if let Ok(cpu) = cores(&allocation.cpu) {
            self.cpu.get_or_create(&labels).set(cpu.cores());
        }
        if let Ok(memory) = memory_bytes(&allocation.memory) {
            self.memory.get_or_create(&labels).set(memory.bytes() as f64);
        }
    }

    /// An object was deleted.
    pub(super) fn forget(&self, key: &Key) {
        let known = self.known.lock().expect(NOT_POISONED).remove(key);
        if let Some(info) = known {
            self.info.remove(&info);
        }
        self.set_stage(key, None);
        self.remove_gauges(key);
    }

    fn remove_gauges(&self, key: &Key) {
        for kind in KINDS {
            let labels = labels(key, kind);
            self.replicas.remove(&labels);
            self.cpu.remove(&labels);
            self.memory.remove(&labels);
        }
    }

    /// All objects that have metrics.
    pub(super) fn known(&self) -> Vec<Key> {
        self.known.lock().expect(NOT_POISONED).keys().cloned().collect()
    }
}

fn labels((namespace, name): &Key, kind: &'static str) -> ObjectKind {
    ObjectKind { namespace: namespace.clone(), name: name.clone(), kind }
}
