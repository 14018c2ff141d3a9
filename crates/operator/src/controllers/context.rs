//! What the controllers share: the cluster, caches that follow it, and who leads.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use homeostat_core::SimTime;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, ResourceExt};
use tokio::sync::Semaphore;

use super::countdown::without_times;
use super::follow::Guarded;
use crate::api::{GROUP_VERSION, MultidimPodAutoscaler, MultidimPodAutoscalerStatus};
use crate::cluster::{Capabilities, PodCache, Targets};
use crate::learn::Learners;
use crate::lease::Leadership;
use crate::measure::{Prometheus, TrustConfig};
use crate::telemetry::Telemetry;
use crate::webhook::CurrentCertificate;

/// Namespace and name of an object.
pub type Key = (String, String);

/// Namespace and name of an object.
pub(super) fn key_of(object: &impl ResourceExt) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// What a controller remembers of each object. Each has its own lock, so that one that waits
/// for a slow server does not hold up another.
pub(super) struct Slots<T>(Mutex<BTreeMap<Key, Arc<tokio::sync::Mutex<T>>>>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Default> Slots<T> {
    /// What is remembered of an object.
    pub(super) fn of(&self, key: &Key) -> Arc<tokio::sync::Mutex<T>> {
        self.locked().entry(key.clone()).or_default().clone()
    }

    /// Of all objects.
    pub(super) fn all(&self) -> Vec<(Key, Arc<tokio::sync::Mutex<T>>)> {
        self.locked().iter().map(|(key, slot)| (key.clone(), slot.clone())).collect()
    }

    /// Forgets the objects of which this is not true.
    pub(super) fn retain(&self, mut is_kept: impl FnMut(&Key) -> bool) {
        self.locked().retain(|key, _| is_kept(key));
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<tokio::sync::Mutex<T>>>> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

/// How the controllers work.
#[derive(Clone)]
pub struct Options {
    /// Time between two looks at every object.
    pub interval: Duration,
    /// Time between two checkpoints of an object.
    pub checkpoint_interval: Duration,
    /// Where queries are asked; none if there is no such server.
    pub prometheus: Option<Prometheus>,
    /// How long silence is borne.
    pub trust: TrustConfig,
    /// Questions to each server at the same time, at most.
    pub concurrency: usize,
    /// The only namespace that is looked after; all of them if there is none.
    pub only_namespace: Option<String>,
    /// Whether learners are listened to.
    pub has_learners: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(15),
            checkpoint_interval: Duration::from_secs(60),
            prometheus: None,
            trust: TrustConfig::default(),
            concurrency: 16,
            only_namespace: None,
            has_learners: false,
        }
    }
}

/// What the controllers share.
pub struct Context {
    /// The cluster.
    pub client: Client,
    /// How they work.
    pub options: Options,
    /// Objects of the cluster.
    pub objects: Store<Guarded>,
    /// Pods of the cluster, as far as anybody here needs them.
    pub pods: Arc<PodCache>,
    /// Workloads by their scale subresource.
    pub targets: Targets,
    /// Whether this copy leads.
    pub leads: Leadership,
    /// The certificate of the webhook that sizes pods when they start; none if it is not served.
    pub webhook: Option<Arc<CurrentCertificate>>,
    /// Learners that act in objects of the cluster.
    pub learners: Arc<Learners>,
    /// What is counted.
    pub telemetry: Arc<Telemetry>,
    /// Who may ask the API server now.
    pub turns: Semaphore,
    /// Who may ask Prometheus now: one that hangs must not hold up those who do not need it.
    pub questions: Semaphore,
    capabilities: RwLock<Arc<Capabilities>>,
    are_caches_ready: AtomicBool,
    is_stopping: AtomicBool,
    recorder: Recorder,
}

impl Context {
    /// A context of caches that follow already.
    pub fn new(
        client: Client,
        options: Options,
        capabilities: Capabilities,
        (objects, pods): (Store<Guarded>, Arc<PodCache>),
        leads: Leadership,
        webhook: Option<Arc<CurrentCertificate>>,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        let reporter = Reporter { controller: "homeostat".to_owned(), instance: None };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            targets: Targets::new(client.clone()),
            turns: Semaphore::new(options.concurrency),
            questions: Semaphore::new(options.concurrency),
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

    /// Whether this copy leads, and may act.
    pub fn is_leader(&self) -> bool {
        self.leads.is_held() && !self.is_stopping.load(Ordering::Acquire)
    }

    /// From here on nothing is decided or carried out here: the program is about to end.
    pub fn stop_acting(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    /// What the server can do.
    pub fn capabilities(&self) -> Arc<Capabilities> {
        self.capabilities.read().expect("nobody panics while holding it").clone()
    }

    /// Asks the server again what it can do: it may have been upgraded.
    pub async fn refresh_capabilities(&self) -> kube::Result<()> {
        let found = Arc::new(Capabilities::of(&self.client).await?);
        *self.capabilities.write().expect("nobody panics while holding it") = found;
        Ok(())
    }

    /// Whether objects and pods have been listed.
    pub fn are_caches_ready(&self) -> bool {
        self.are_caches_ready.load(Ordering::Acquire)
    }

    /// Waits until objects and pods have been listed. One may wait and no more: of several who
    /// ask a store, it wakes the last, who may have gone.
    pub async fn wait_for_caches(&self) {
        // An error says that the program is about to end.
        let _ = self.objects.wait_until_ready().await;
        self.pods.wait_until_complete().await;
        self.are_caches_ready.store(true, Ordering::Release);
    }

    /// An object as it is known now.
    pub fn object(&self, (namespace, name): &Key) -> Option<Arc<Guarded>> {
        self.objects.get(&ObjectRef::new(name).within(namespace))
    }

    /// Writes one controller's part of a status, unless somebody else leads by now; whether the
    /// server took it.
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
                self.telemetry.heard();
                true
            }
            Err(error) => {
                self.telemetry.server_error("status", &error);
                false
            }
        }
    }

    /// Tells people of something that happened to an object. An event that cannot be written
    /// is counted, not waited for: what happened stands in the status as well.
    pub async fn tell(
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

/// The action of an event, another one for each note. The recorder counts up an event of the same
/// action and reason and leaves its note as it was first: of 2 -> 4 pods and then 4 -> 9 nobody
/// would learn the second.
fn action_of(note: &str) -> String {
    let mut hasher = DefaultHasher::new();
    without_times(note).hash(&mut hasher);
    format!("Autoscale-{:08x}", hasher.finish() as u32)
}

/// Now, since 1970.
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
        check("2 -> 4 pods: use asks for it", "4 -> 9 pods: use asks for it");
        check("4 -> 2 pods: use asks for it", "2 -> 4 pods: use asks for it");
        check("1 of 5 pods get the recommended size", "2 of 5 pods get the recommended size");
        check("past use asks for 250m", "past use asks for 500m");
        check("past use asks for 1Gi", "past use asks for 2Gi");
        check("Ready: joint stands in", "MetricsFresh: joint stands in");
    }

    #[test]
    fn a_note_with_other_times_is_the_same_event() {
        let check = |one: &str, other: &str| assert_eq!(action_of(one), action_of(other));
        check("2 -> 4 pods", "2 -> 4 pods");
        check("Acting: watched for another 300s", "Acting: watched for another 285s");
        check("62s old, at most 60s are believed", "77s old, at most 60s are believed");
        check("p99 612ms is over 250ms", "p99 1.2s is over 250ms");
        check(
            "no answer within 5 s, asked again in 12 s",
            "no answer within 5 s, asked again in 3 s",
        );
    }
}
