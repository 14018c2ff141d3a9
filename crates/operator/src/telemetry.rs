//! What the operator counts, for Prometheus, and what it logs.

mod objects;

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::{Duration, Instant};

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
use crate::api::{ConditionType, MultidimPodAutoscaler, MultidimPodAutoscalerStatus};
use crate::cluster::TargetError;
use crate::update::PodStep;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct What {
    what: &'static str,
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

/// An API server that has not answered for this long is away. It is asked every other second
/// by whoever holds or waits for the lease.
pub const SILENT_AFTER: Duration = Duration::from_secs(6);

/// A time in which the API server did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// When it answered again.
    pub ended: Timestamp,
    /// How long it had been silent.
    pub lasted: Duration,
}

struct Heard {
    at: Instant,
    outage: Option<Outage>,
}

/// Counters of one process.
pub struct Telemetry {
    registry: Registry,
    passes: Counter<u64, AtomicU64>,
    objects: Gauge<i64, AtomicI64>,
    pass_seconds: Histogram,
    reconcile_seconds: Histogram,
    server_errors: Family<What, Counter>,
    watch_errors: Family<What, Counter>,
    panics: Counter<u64, AtomicU64>,
    rescales: Family<What, Counter>,
    resizes: Family<What, Counter>,
    admissions: Family<What, Counter>,
    api_requests: Family<Method, Counter>,
    of_objects: Objects,
    conditions: Family<ObjectCondition, Gauge>,
    condition_reasons: Family<ObjectReason, Counter>,
    leads: Gauge<i64, AtomicI64>,
    silence: Gauge<f64, AtomicU64>,
    outages: Counter<u64, AtomicU64>,
    heard: Mutex<Heard>,
    certificate_expiry: Gauge<i64, AtomicI64>,
}

impl Default for Telemetry {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let mut this = Self {
            registry: Registry::with_prefix("homeostat_operator"),
            passes: Counter::default(),
            objects: Gauge::default(),
            pass_seconds: seconds(),
            reconcile_seconds: seconds(),
            server_errors: Family::default(),
            watch_errors: Family::default(),
            panics: Counter::default(),
            rescales: Family::default(),
            resizes: Family::default(),
            admissions: Family::default(),
            api_requests: Family::default(),
            of_objects: Objects::default(),
            conditions: Family::default(),
            condition_reasons: Family::default(),
            leads: Gauge::default(),
            silence: Gauge::default(),
            outages: Counter::default(),
            heard: Mutex::new(Heard { at: Instant::now(), outage: None }),
            certificate_expiry: Gauge::default(),
        };
        this.register();
        this
    }
}

impl Telemetry {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("passes", "Looks at every object", self.passes.clone());
        registry.register("objects", "Objects at the last pass", self.objects.clone());
        registry.register(
            "pass_seconds",
            "Time of a look at every object",
            self.pass_seconds.clone(),
        );
        let help = "Time from taking up an object to its status";
        registry.register("reconcile_seconds", help, self.reconcile_seconds.clone());
        let help = "Requests that the API server refused or did not answer";
        registry.register("server_errors", help, self.server_errors.clone());
        let help = "Watches that broke and were begun again";
        registry.register("watch_errors", help, self.watch_errors.clone());
        registry.register("panics", "Looks that ended in a panic", self.panics.clone());
        let help = "Changes of a number of pods, by direction";
        registry.register("rescales", help, self.rescales.clone());
        registry.register("resizes", "Pods resized or evicted", self.resizes.clone());
        registry.register("admissions", "Pods seen by the webhook", self.admissions.clone());
        let help = "Conditions of objects: 1 true, 0 false, -1 unknown";
        registry.register("object_condition", help, self.conditions.clone());
        let help = "Conditions as they turned, by reason";
        registry.register("condition_changes", help, self.condition_reasons.clone());
        registry.register("leads", "Whether this copy leads", self.leads.clone());
        let help = "Time since the API server last answered";
        registry.register("server_silence_seconds", help, self.silence.clone());
        let help = "Times that the API server was silent and came back";
        registry.register("server_outages", help, self.outages.clone());
        let help = "When the webhook's certificate ends, in seconds since 1970";
        registry.register("certificate_expiry_seconds", help, self.certificate_expiry.clone());
        let help = "Requests to the API server, by method";
        registry.register("api_requests", help, self.api_requests.clone());
        self.of_objects.register(registry);
    }

    /// Everything in the text format of Prometheus.
    pub fn text(&self) -> String {
        self.silence.set(self.silence().as_secs_f64());
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes everything");
        text
    }

    /// A pass over all objects has ended.
    pub fn passed(&self, objects: usize, took: Duration) {
        self.passes.inc();
        self.objects.set(i64::try_from(objects).unwrap_or(i64::MAX));
        self.pass_seconds.observe(took.as_secs_f64());
        tracing::debug!(objects, seconds = took.as_secs_f64(), "pass");
    }

    /// One object was looked at.
    pub fn reconciled(&self, took: Duration) {
        self.reconcile_seconds.observe(took.as_secs_f64());
    }

    /// The API server refused something or did not answer.
    pub fn server_error(&self, what: &'static str, error: &kube::Error) {
        self.server_errors.get_or_create(&What { what }).inc();
        tracing::warn!(what, %error, "the API server did not do what was asked");
    }

    /// The API server did not answer in time.
    pub fn server_silent(&self, what: &'static str, waited: Duration) {
        self.server_errors.get_or_create(&What { what }).inc();
        tracing::warn!(what, seconds = waited.as_secs_f64(), "the API server did not answer");
    }

    /// The API server answered.
    pub fn heard(&self) {
        let mut heard = self.heard.lock().expect("nobody panics while holding it");
        let lasted = heard.at.elapsed();
        heard.at = Instant::now();
        if lasted > SILENT_AFTER {
            heard.outage = Some(Outage { ended: Timestamp::now(), lasted });
            self.outages.inc();
            tracing::warn!(seconds = lasted.as_secs_f64(), "the API server answers again");
        }
    }

    /// How long ago it answered last.
    pub fn silence(&self) -> Duration {
        self.heard.lock().expect("nobody panics while holding it").at.elapsed()
    }

    /// The last time that it was silent and came back.
    pub fn outage(&self) -> Option<Outage> {
        self.heard.lock().expect("nobody panics while holding it").outage
    }

    /// A workload could not be scaled.
    pub fn target_error(&self, error: &TargetError) {
        self.server_errors.get_or_create(&What { what: "scale" }).inc();
        tracing::warn!(%error, "a workload could not be scaled");
    }

    /// A watch broke; it is begun again.
    pub fn watch_error(&self, what: &'static str, error: &kube::runtime::watcher::Error) {
        self.watch_errors.get_or_create(&What { what }).inc();
        tracing::warn!(what, %error, "a watch broke and is begun again");
    }

    /// A look ended in a panic.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// A number of pods was not changed, since somebody else had changed it meanwhile.
    pub fn outrun(&self) {
        self.rescales.get_or_create(&What { what: "outrun" }).inc();
    }

    /// A number of pods was changed.
    pub fn rescaled(&self, from: u32, to: u32) {
        let what = if to > from { "up" } else { "down" };
        self.rescales.get_or_create(&What { what }).inc();
        tracing::info!(from, to, "rescaled");
    }

    /// A pod was resized or evicted.
    pub fn resized(&self, step: &PodStep) {
        let (what, pod) = match step {
            PodStep::Resize(pod) => ("resized", pod),
            PodStep::Evict(pod) => ("evicted", pod),
        };
        self.resizes.get_or_create(&What { what }).inc();
        tracing::info!(pod, "{what}");
    }

    /// The webhook saw a pod.
    pub fn admitted(&self, what: &'static str) {
        self.admissions.get_or_create(&What { what }).inc();
    }

    /// How a condition of an object stands; none if nobody tells of it.
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

    /// A condition turned, or has another reason than before.
    pub fn condition_turned(&self, condition: &Condition) {
        let reason =
            ObjectReason { condition: condition.type_.clone(), reason: condition.reason.clone() };
        self.condition_reasons.get_or_create(&reason).inc();
    }

    /// An object was looked at, and this is what came of it.
    pub fn looked_at(
        &self,
        key: &(String, String),
        object: &MultidimPodAutoscaler,
        status: &MultidimPodAutoscalerStatus,
    ) {
        self.of_objects.looked_at(key, object, status);
    }

    /// A client that does what another does, and whose requests are counted.
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

    /// Whoever leads tells of objects; we no longer do.
    pub fn forget_all(&self) {
        for key in self.of_objects.known() {
            self.forget(&key);
        }
        self.conditions.clear();
    }

    /// Objects that are gone are not told of any longer.
    pub fn forget(&self, key: &(String, String)) {
        self.of_objects.forget(key);
        for kind in ConditionType::ALL {
            self.condition(key, kind, None);
        }
    }

    /// Whether this copy leads.
    pub fn leads(&self, leads: bool) {
        self.leads.set(leads.into());
    }

    /// When the webhook's certificate ends.
    pub fn certificate_ends(&self, at: i64) {
        self.certificate_expiry.set(at);
    }
}
