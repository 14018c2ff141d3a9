//! What the controllers share: the client, caches of the cluster, leadership and settings.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use homeostat_autoscaler::api::{
    GROUP_VERSION, MultidimPodAutoscaler, MultidimPodAutoscalerStatus,
};
use homeostat_autoscaler::measure::TrustConfig;
use homeostat_core::SimTime;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, ResourceExt};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::countdown::without_times;
use super::watch::Guarded;
use crate::cluster::{Capabilities, PodCache, Targets};
use crate::learn::{Collector, Learners, Spool};
use crate::lease::Leadership;
use crate::measure::Prometheus;
use crate::telemetry::Telemetry;
use crate::webhook::CurrentCertificate;

const NOT_POISONED: &str = "no code panics while it holds this lock";
const NEVER_CLOSED: &str = "the semaphore is never closed";

/// Namespace and name of an object.
pub type Key = (String, String);

pub(super) fn key_of(object: &impl ResourceExt) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// State of each object, with a lock of its own: an object that waits for a slow server does not
/// block the others.
pub(super) struct Slots<T>(Mutex<BTreeMap<Key, Arc<tokio::sync::Mutex<T>>>>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Default> Slots<T> {
    pub(super) fn of(&self, key: &Key) -> Arc<tokio::sync::Mutex<T>> {
        self.locked().entry(key.clone()).or_default().clone()
    }

    pub(super) fn all(&self) -> Vec<(Key, Arc<tokio::sync::Mutex<T>>)> {
        self.locked().iter().map(|(key, slot)| (key.clone(), slot.clone())).collect()
    }

    pub(super) fn retain(&self, mut is_kept: impl FnMut(&Key) -> bool) {
        self.locked().retain(|key, _| is_kept(key));
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<tokio::sync::Mutex<T>>>> {
        self.0.lock().expect(NOT_POISONED)
    }
}

/// One of a limited number of permits to send requests to the API server.
pub(super) struct ApiPermit<'a> {
    permits: &'a Semaphore,
    permit: Option<SemaphorePermit<'a>>,
}

impl<'a> ApiPermit<'a> {
    async fn acquire(permits: &'a Semaphore) -> Self {
        let permit = permits.acquire().await.expect(NEVER_CLOSED);
        Self { permits, permit: Some(permit) }
    }

    /// Gives the permit to others while a future runs that needs none.
    pub(super) async fn released_during<T>(&mut self, future: impl Future<Output = T>) -> T {
        self.permit = None;
        let value = future.await;
        self.permit = Some(self.permits.acquire().await.expect(NEVER_CLOSED));
        value
    }
}

/// Settings of the controllers.
#[derive(Clone)]
pub struct Options {
    /// Time between two resyncs.
    pub interval: Duration,
    /// Time between two checkpoints of an object.
    pub checkpoint_interval: Duration,
    /// The Prometheus server, if there is one.
    pub prometheus: Option<Prometheus>,
    /// The label of the namespace, which limits the queries of an object to its own; not limited if
    /// there is none.
    pub namespace_label: Option<String>,
    /// When metrics count as stale, and when the fallback starts.
    pub trust: TrustConfig,
    /// Maximum number of concurrent requests to each server.
    pub concurrency: usize,
    /// The only namespace whose objects are scaled; all namespaces if there is none.
    pub only_namespace: Option<String>,
    /// Whether learners can connect.
    pub has_learners: bool,
    /// Where decisions are recorded; not at all if there is none.
    pub spool: Option<Arc<Spool>>,
    /// The process with the trajectory store, if there is one.
    pub collector: Option<Collector>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(15),
            checkpoint_interval: Duration::from_secs(60),
            prometheus: None,
            namespace_label: None,
            trust: TrustConfig::default(),
            concurrency: 16,
            only_namespace: None,
            has_learners: false,
            spool: None,
            collector: None,
        }
    }
}

/// Caches of the cluster.
pub struct Caches {
    /// Autoscaler objects.
    pub objects: Store<Guarded>,
    /// Pods.
    pub pods: Arc<PodCache>,
}

/// What a [`Context`] is made from.
pub struct ContextConfig {
    /// The client of the API server.
    pub client: Client,
    /// Settings.
    pub options: Options,
    /// Capabilities of the API server.
    pub capabilities: Capabilities,
    /// Caches of the cluster.
    pub caches: Caches,
    /// Whether this replica leads.
    pub leads: Leadership,
    /// The certificate of the webhook; none if it is not served.
    pub webhook: Option<Arc<CurrentCertificate>>,
    /// Metrics of the process.
    pub telemetry: Arc<Telemetry>,
}

/// What the controllers share.
pub struct Context {
    /// The client of the API server.
    pub client: Client,
    /// Settings.
    pub options: Options,
    /// Cache of the autoscaler objects.
    pub objects: Store<Guarded>,
    /// Cache of the pods.
    pub pods: Arc<PodCache>,
    /// Workloads by their scale subresource.
    pub targets: Targets,
    /// Whether this replica leads.
    pub leads: Leadership,
    /// The certificate of the webhook; none if it is not served.
    pub webhook: Option<Arc<CurrentCertificate>>,
    /// Sessions of external learners.
    pub learners: Arc<Learners>,
    /// Metrics of the process.
    pub telemetry: Arc<Telemetry>,
    api_permits: Semaphore,
    /// Separate from those of the API server: a Prometheus that hangs must not block objects
    /// without queries.
    prometheus_permits: Semaphore,
    capabilities: RwLock<Arc<Capabilities>>,
    are_caches_ready: AtomicBool,
    is_stopping: AtomicBool,
    recorder: Recorder,
}

impl Context {
    /// A context with caches that are filled later.
    pub fn new(config: ContextConfig) -> Self {
        let ContextConfig { client, options, capabilities, caches, leads, webhook, telemetry } =
            config;
        let Caches { objects, pods } = caches;
        let reporter = Reporter { controller: "homeostat".to_owned(), instance: None };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            targets: Targets::new(client.clone()),
            api_permits: Semaphore::new(options.concurrency),
            prometheus_permits: Semaphore::new(options.concurrency),
            learners: Arc::new(Learners::new(
                options.has_learners.then_some(options.interval),
                leads.clone(),
            )),
            capabilities: RwLock::new(Arc::new(capabilities)),
            are_caches_ready: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            client,
            options,
            objects,
            pods,
            leads,
            webhook,
            telemetry,
        }
    }

    /// Whether this replica leads, and may act.
    pub fn is_leader(&self) -> bool {
        self.leads.is_held() && !self.is_stopping.load(Ordering::Acquire)
    }

    /// Stops all decisions and changes: the process is about to end.
    pub fn stop_acting(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    /// What the API server supports.
    pub fn capabilities(&self) -> Arc<Capabilities> {
        self.capabilities.read().expect(NOT_POISONED).clone()
    }

    /// Asks the API server again what it supports: it may have been upgraded.
    pub async fn refresh_capabilities(&self) -> kube::Result<()> {
        let found = Arc::new(Capabilities::of(&self.client).await?);
        *self.capabilities.write().expect(NOT_POISONED) = found;
        Ok(())
    }

    /// Whether objects and pods have been listed.
    pub fn are_caches_ready(&self) -> bool {
        self.are_caches_ready.load(Ordering::Acquire)
    }

    /// Waits until objects and pods have been listed. Only one task may wait: a store wakes only
    /// the last one that asked.
    pub async fn wait_for_caches(&self) {
        // An error means that the process is about to end.
        let _ = self.objects.wait_until_ready().await;
        self.pods.wait_until_complete().await;
        self.are_caches_ready.store(true, Ordering::Release);
    }

    /// An object from the cache.
    pub fn object(&self, (namespace, name): &Key) -> Option<Arc<Guarded>> {
        self.objects.get(&ObjectRef::new(name).within(namespace))
    }

    /// Waits for a permit to send requests to the API server.
    pub(super) async fn api_permit(&self) -> ApiPermit<'_> {
        ApiPermit::acquire(&self.api_permits).await
    }

    /// Waits for a permit to send a query to Prometheus.
    pub(super) async fn prometheus_permit(&self) -> SemaphorePermit<'_> {
        self.prometheus_permits.acquire().await.expect(NEVER_CLOSED)
    }

    /// Writes one controller's part of a status, unless another replica leads by now; returns
    /// whether the server accepted it.
    pub async fn write_status(
        &self,
        (namespace, name): &Key,
        field_manager: &str,
        status: &MultidimPodAutoscalerStatus,
    ) -> bool {
        if !self.is_leader() {
            return false;
        }
        let api: Api<MultidimPodAutoscaler> = Api::namespaced(self.client.clone(), namespace);
        let change = serde_json::json!({
            "apiVersion": GROUP_VERSION,
            "kind": "MultidimPodAutoscaler",
            "metadata": { "name": name },
            "status": status,
        });
        let params = PatchParams::apply(field_manager).force();
        match api.patch_status(name, &params, &Patch::Apply(change)).await {
            Ok(_) => {
                self.telemetry.server_answered();
                true
            }
            Err(error) => {
                self.telemetry.server_error("status", &error);
                false
            }
        }
    }

    /// Publishes a Kubernetes Event. One that cannot be written is counted and not retried: the
    /// status has the same information.
    pub async fn publish_event(
        &self,
        object: &MultidimPodAutoscaler,
        is_warning: bool,
        reason: &str,
        note: &str,
    ) {
        use kube::Resource;
        let note: String = note.chars().take(1000).collect();
        let event = Event {
            type_: if is_warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            action: action_of(&note),
            note: Some(note),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &object.object_ref(&())).await {
            self.telemetry.server_error("event", &error);
        }
    }
}

/// The action of an event, different for each note. The recorder aggregates events of the same
/// action and reason and keeps the first note: after 2 -> 4 pods, 4 -> 9 would not be visible.
fn action_of(note: &str) -> String {
    let mut hasher = DefaultHasher::new();
    without_times(note).hash(&mut hasher);
    format!("Autoscale-{:08x}", hasher.finish() as u32)
}

/// The time since 1970.
pub fn now() -> SimTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    SimTime::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_with_other_numbers_is_another_event() {
        let check = |one: &str, other: &str| {
            assert_ne!(action_of(one), action_of(other), "{one:?} and {other:?}");
        };
        check("2 -> 4 pods: high usage", "4 -> 9 pods: high usage");
        check("4 -> 2 pods: low usage", "2 -> 4 pods: low usage");
        check("1 of 5 pods get the recommended size", "2 of 5 pods get the recommended size");
        check("past usage needs 250m", "past usage needs 500m");
        check("past usage needs 1Gi", "past usage needs 2Gi");
        check("Ready: joint recommends", "MetricsFresh: joint recommends");
    }

    #[test]
    fn a_note_with_other_times_is_the_same_event() {
        let check = |one: &str, other: &str| assert_eq!(action_of(one), action_of(other));
        check("2 -> 4 pods", "2 -> 4 pods");
        check("Acting: observed for another 300s", "Acting: observed for another 285s");
        check("62s old, at most 60s are allowed", "77s old, at most 60s are allowed");
        check("p99 612ms is over 250ms", "p99 1.2s is over 250ms");
        check(
            "no answer within 5 s, next attempt in 12 s",
            "no answer within 5 s, next attempt in 3 s",
        );
    }
}
