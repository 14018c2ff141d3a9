//! Metrics of the operator for Prometheus, and the log messages that go with them.

mod objects;

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::{Duration, Instant};

use homeostat_autoscaler::api::{
    ConditionType, MultidimPodAutoscaler, MultidimPodAutoscalerStatus,
};
use homeostat_autoscaler::recommend::Outage;
use homeostat_autoscaler::update::PodStep;
use homeostat_aware::StageChange;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use self::objects::Objects;
use crate::cluster::TargetError;
use crate::learn::SpoolStatus;
use crate::supervisor::Task;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Direction {
    direction: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StageName {
    stage: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TaskName {
    task: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Method {
    method: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ObjectCondition {
    namespace: String,
    name: String,
    condition: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ObjectReason {
    condition: String,
    reason: String,
}

/// An API server that has not answered for this long is unavailable. The leader election sends a
/// request every one or two seconds.
pub const SILENT_AFTER: Duration = Duration::from_secs(6);

struct LastAnswer {
    at: Instant,
    outage: Option<Outage>,
}

const NOT_POISONED: &str = "no code panics while it holds this lock";

/// Metrics of one process.
pub struct Telemetry {
    registry: Registry,
    resyncs: Counter<u64, AtomicU64>,
    objects: Gauge<i64, AtomicI64>,
    resync_seconds: Histogram,
    reconcile_seconds: Histogram,
    server_errors: Family<Kind, Counter>,
    watch_errors: Family<Kind, Counter>,
    panics: Counter<u64, AtomicU64>,
    rescales: Family<Direction, Counter>,
    rescale_conflicts: Counter<u64, AtomicU64>,
    resizes: Family<Kind, Counter>,
    admissions: Family<Kind, Counter>,
    api_requests: Family<Method, Counter>,
    stage_changes: Family<StageName, Counter>,
    recorded_decisions: Counter<u64, AtomicU64>,
    lost_decisions: Counter<u64, AtomicU64>,
    spool_bytes: Gauge<i64, AtomicI64>,
    of_objects: Objects,
    conditions: Family<ObjectCondition, Gauge>,
    condition_reasons: Family<ObjectReason, Counter>,
    leads: Gauge<i64, AtomicI64>,
    silence: Gauge<f64, AtomicU64>,
    outages: Counter<u64, AtomicU64>,
    last_answer: Mutex<LastAnswer>,
    certificate_expiry: Gauge<i64, AtomicI64>,
    task_progress: Family<TaskName, Gauge<f64, AtomicU64>>,
}

impl Default for Telemetry {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let mut this = Self {
            registry: Registry::with_prefix("homeostat_operator"),
            resyncs: Counter::default(),
            objects: Gauge::default(),
            resync_seconds: seconds(),
            reconcile_seconds: seconds(),
            server_errors: Family::default(),
            watch_errors: Family::default(),
            panics: Counter::default(),
            rescales: Family::default(),
            rescale_conflicts: Counter::default(),
            resizes: Family::default(),
            admissions: Family::default(),
            api_requests: Family::default(),
            stage_changes: Family::default(),
            recorded_decisions: Counter::default(),
            lost_decisions: Counter::default(),
            spool_bytes: Gauge::default(),
            of_objects: Objects::default(),
            conditions: Family::default(),
            condition_reasons: Family::default(),
            leads: Gauge::default(),
            silence: Gauge::default(),
            outages: Counter::default(),
            last_answer: Mutex::new(LastAnswer { at: Instant::now(), outage: None }),
            certificate_expiry: Gauge::default(),
            task_progress: Family::default(),
        };
        this.register();
        this
    }
}

impl Telemetry {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("resyncs", "Resyncs of all objects", self.resyncs.clone());
        registry.register("objects", "Objects at the last resync", self.objects.clone());
        registry.register("resync_seconds", "Duration of a resync", self.resync_seconds.clone());
        let help = "Duration of the reconcile of one object";
        registry.register("reconcile_seconds", help, self.reconcile_seconds.clone());
        let help = "Requests that the API server rejected or did not answer, by kind";
        registry.register("server_errors", help, self.server_errors.clone());
        let help = "Watches that failed and were restarted, by kind of object";
        registry.register("watch_errors", help, self.watch_errors.clone());
        registry.register("panics", "Reconciles and updates that panicked", self.panics.clone());
        let help = "Changes of the number of replicas, by direction";
        registry.register("rescales", help, self.rescales.clone());
        let help = "Changes of the number of replicas that another client's change prevented";
        registry.register("rescale_conflicts", help, self.rescale_conflicts.clone());
        registry.register("resizes", "Pods resized or evicted, by kind", self.resizes.clone());
        let help = "Pods reviewed by the webhook, by kind of answer";
        registry.register("admissions", help, self.admissions.clone());
        let help = "Conditions of objects: 1 true, 0 false, -1 unknown";
        registry.register("object_condition", help, self.conditions.clone());
        let help = "Changes of conditions, by reason";
        registry.register("condition_changes", help, self.condition_reasons.clone());
        registry.register("leads", "Whether this replica leads", self.leads.clone());
        let help = "Time since the API server last answered";
        registry.register("server_silence_seconds", help, self.silence.clone());
        let help = "Outages of the API server";
        registry.register("server_outages", help, self.outages.clone());
        let help = "When the webhook's certificate expires, in seconds since 1970";
        registry.register("certificate_expiry_seconds", help, self.certificate_expiry.clone());
        let help = "When a task of the process last made progress, in seconds since 1970";
        let name = "task_last_progress_timestamp_seconds";
        registry.register(name, help, self.task_progress.clone());
        let help = "Requests to the API server, by method";
        registry.register("api_requests", help, self.api_requests.clone());
        let help = "Changes of the stage of learned policies, by the stage that begins";
        registry.register("stage_changes", help, self.stage_changes.clone());
        let help = "Decisions that were recorded for learning";
        registry.register("recorded_decisions", help, self.recorded_decisions.clone());
        let help = "Decisions that were not or no longer recorded: a full spool, or one that fails";
        registry.register("lost_decisions", help, self.lost_decisions.clone());
        let help = "Bytes of recorded decisions that no store has taken yet";
        registry.register("spool_bytes", help, self.spool_bytes.clone());
        self.of_objects.register(registry);
    }

    /// All metrics in the text format of Prometheus.
    pub fn text(&self) -> String {
        self.silence.set(self.silence().as_secs_f64());
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes everything");
        text
    }

    /// The time of the last progress of a task, in seconds since 1970.
    pub fn task_progress(&self, task: Task) -> Gauge<f64, AtomicU64> {
        self.task_progress.get_or_create_owned(&TaskName { task: task.name() })
    }

    /// A resync of all objects has ended.
    pub fn resynced(&self, objects: usize, took: Duration) {
        self.resyncs.inc();
        self.objects.set(i64::try_from(objects).unwrap_or(i64::MAX));
        self.resync_seconds.observe(took.as_secs_f64());
        tracing::debug!(objects, seconds = took.as_secs_f64(), "resync");
    }

    /// One object was reconciled.
    pub fn reconciled(&self, took: Duration) {
        self.reconcile_seconds.observe(took.as_secs_f64());
    }

    /// A request to the API server failed.
    pub fn server_error(&self, kind: &'static str, error: &kube::Error) {
        self.server_errors.get_or_create(&Kind { kind }).inc();
        tracing::warn!(kind, %error, "a request to the API server failed");
    }

    /// The API server did not answer in time.
    pub fn server_timed_out(&self, kind: &'static str, waited: Duration) {
        self.server_errors.get_or_create(&Kind { kind }).inc();
        tracing::warn!(kind, seconds = waited.as_secs_f64(), "the API server did not answer");
    }

    /// The API server answered.
    pub fn server_answered(&self) {
        let mut last = self.last_answer.lock().expect(NOT_POISONED);
        let lasted = last.at.elapsed();
        last.at = Instant::now();
        if lasted > SILENT_AFTER {
            last.outage = Some(Outage { ended: Timestamp::now(), lasted });
            self.outages.inc();
            tracing::warn!(seconds = lasted.as_secs_f64(), "the API server answers again");
        }
    }

    /// Time since the API server last answered.
    pub fn silence(&self) -> Duration {
        self.last_answer.lock().expect(NOT_POISONED).at.elapsed()
    }

    /// The last outage that has ended.
    pub fn outage(&self) -> Option<Outage> {
        self.last_answer.lock().expect(NOT_POISONED).outage
    }

    /// A workload could not be scaled.
    pub fn target_error(&self, error: &TargetError) {
        self.server_errors.get_or_create(&Kind { kind: "scale" }).inc();
        tracing::warn!(%error, "failed to scale a workload");
    }

    /// A watch failed and is restarted.
    pub fn watch_error(&self, kind: &'static str, error: &kube::runtime::watcher::Error) {
        self.watch_errors.get_or_create(&Kind { kind }).inc();
        tracing::warn!(kind, %error, "a watch failed and is restarted");
    }

    /// A reconcile or an update panicked.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// The number of replicas was not changed, because another client had changed it meanwhile.
    pub fn rescale_conflict(&self) {
        self.rescale_conflicts.inc();
    }

    /// The number of replicas was changed.
    pub fn rescaled(&self, from: u32, to: u32) {
        let direction = if to > from { "up" } else { "down" };
        self.rescales.get_or_create(&Direction { direction }).inc();
        tracing::info!(from, to, "rescaled");
    }

    /// A pod was resized or evicted.
    pub fn resized(&self, step: &PodStep) {
        let (kind, pod) = match step {
            PodStep::Resize(pod) => ("resized", pod),
            PodStep::Evict(pod) => ("evicted", pod),
        };
        self.resizes.get_or_create(&Kind { kind }).inc();
        tracing::info!(pod, "{kind}");
    }

    /// The webhook reviewed a pod.
    pub fn admitted(&self, kind: &'static str) {
        self.admissions.get_or_create(&Kind { kind }).inc();
    }

    /// A condition of an object; none if its status has no such condition.
    pub fn condition(
        &self,
        (namespace, name): &(String, String),
        kind: ConditionType,
        condition: Option<&Condition>,
    ) {
        let object = ObjectCondition {
            namespace: namespace.clone(),
            name: name.clone(),
            condition: kind.to_string(),
        };
        let Some(condition) = condition else {
            self.conditions.remove(&object);
            return;
        };
        let value = match &condition.status[..] {
            "True" => 1,
            "False" => 0,
            _ => -1,
        };
        self.conditions.get_or_create(&object).set(value);
    }

    /// The status or the reason of a condition changed.
    pub fn condition_changed(&self, condition: &Condition) {
        let reason =
            ObjectReason { condition: condition.type_.clone(), reason: condition.reason.clone() };
        self.condition_reasons.get_or_create(&reason).inc();
    }

    /// The life cycle of a learned policy entered another stage.
    pub fn stage_changed(&self, change: &StageChange) {
        let stage = StageName { stage: format!("{:?}", change.to) };
        self.stage_changes.get_or_create(&stage).inc();
        tracing::info!(from = %change.from, to = %change.to, cause = %change.cause, "stage changed");
    }

    /// Decisions were recorded, delivered or lost.
    pub fn spooled(&self, status: &SpoolStatus) {
        let advance = |counter: &Counter<u64, AtomicU64>, to: u64| {
            counter.inc_by(to.saturating_sub(counter.get()));
        };
        advance(&self.recorded_decisions, status.recorded);
        advance(&self.lost_decisions, status.lost);
        self.spool_bytes.set(i64::try_from(status.bytes).unwrap_or(i64::MAX));
    }

    /// The recommendation of an object was made, or refused.
    pub fn recommended(
        &self,
        key: &(String, String),
        object: &MultidimPodAutoscaler,
        status: &MultidimPodAutoscalerStatus,
    ) {
        self.of_objects.recommended(key, object, status);
    }

    /// A client like another whose requests are counted.
    pub fn counting(&self, client: &kube::Client) -> kube::Client {
        let (inner, requests) = (client.clone(), self.api_requests.clone());
        let counting = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let method = request.method().as_str().to_owned();
            requests.get_or_create(&Method { method }).inc();
            let inner = inner.clone();
            async move { inner.send(request).await }
        });
        kube::Client::new(counting, client.default_namespace())
    }

    /// Removes the metrics of all objects: only the leader exports them.
    pub fn forget_all(&self) {
        for key in self.of_objects.known() {
            self.forget(&key);
        }
        self.conditions.clear();
    }

    /// Removes the metrics of an object that was deleted.
    pub fn forget(&self, key: &(String, String)) {
        self.of_objects.forget(key);
        for kind in ConditionType::ALL {
            self.condition(key, kind, None);
        }
    }

    /// Whether this replica leads.
    pub fn leads(&self, leads: bool) {
        self.leads.set(leads.into());
    }

    /// When the webhook's certificate expires, in seconds since 1970.
    pub fn certificate_expires(&self, at: i64) {
        self.certificate_expiry.set(at);
    }
}
