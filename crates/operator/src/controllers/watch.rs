//! Caches of the cluster's objects and pods, and notifications of changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use homeostat_autoscaler::api::{Acting, MultidimPodAutoscaler};
use homeostat_autoscaler::guard::PAUSE_ANNOTATION;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use tokio::sync::mpsc::UnboundedSender;

use super::context::{Key, key_of};
use super::countdown::without_countdown;
use crate::cluster::PodCache;
use crate::supervisor::Heartbeat;
use crate::telemetry::Telemetry;

/// An event is processed in much less time than this; the watches themselves wait for events.
pub(crate) const WATCH_DEADLINE: Duration = Duration::from_secs(60);

/// An object, or why it cannot be deserialised: an unreadable one must not hide the others.
pub type Guarded = DeserializeGuard<MultidimPodAutoscaler>;

/// Watches the autoscaler objects and keeps a cache of them.
pub struct ObjectWatch {
    api: Api<Guarded>,
    objects: Store<Guarded>,
    writer: Writer<Guarded>,
    telemetry: Arc<Telemetry>,
}

impl ObjectWatch {
    /// A watch that has not started yet, of one namespace or of all.
    pub fn new(client: &Client, only_namespace: Option<&str>, telemetry: Arc<Telemetry>) -> Self {
        let (objects, writer) = reflector::store();
        Self { api: all_of(client, only_namespace), objects, writer, telemetry }
    }

    /// The cache.
    pub fn objects(&self) -> Store<Guarded> {
        self.objects.clone()
    }

    /// Runs as long as the process. Sends a key to `spec_changes` when a user or the updater
    /// changed the object, and to `status_changes` whenever anything changed.
    pub async fn run(
        self,
        spec_changes: UnboundedSender<Key>,
        status_changes: UnboundedSender<Key>,
        heartbeat: Heartbeat,
    ) {
        let Self { api, objects, writer, telemetry } = self;
        // The managed fields are longer than the fields themselves, and are not used here.
        let drop_managed_fields = |object: &mut Guarded| object.meta_mut().managed_fields = None;
        let stream = watcher(api, watcher::Config::default())
            .backoff(ShortBackoff::default())
            .modify(drop_managed_fields)
            .reflect(writer)
            .touched_objects();
        let mut stream = std::pin::pin!(stream);
        let mut written: BTreeMap<Key, Written> = BTreeMap::new();
        while let Some(event) = heartbeat.wait(stream.next()).await {
            let object = match event {
                Ok(object) => object,
                Err(error) => {
                    telemetry.watch_error("objects", &error);
                    continue;
                }
            };
            let key = key_of(&object);
            let now = Written::of(&object);
            if written.get(&key) != Some(&now) {
                written.insert(key.clone(), now);
                // Without a receiver the process is about to end.
                let _ = spec_changes.send(key.clone());
            }
            if objects.get(&ObjectRef::from_obj(&object)).is_none() {
                written.remove(&key);
            }
            let _ = status_changes.send(key);
        }
    }
}

/// Watches pods and keeps a cache of what the operator needs of them; runs as long as the process.
pub async fn watch_pods(
    api: Api<Pod>,
    pods: Arc<PodCache>,
    telemetry: Arc<Telemetry>,
    heartbeat: Heartbeat,
) {
    let stream = watcher(api, watcher::Config::default()).backoff(ShortBackoff::default());
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = heartbeat.wait(stream.next()).await {
        match event {
            Ok(event) => pods.apply(event),
            Err(error) => telemetry.watch_error("pods", &error),
        }
    }
}

/// The longest delay before a broken watch is restarted.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The default exponential back-off with a lower maximum than half a minute: two watches are little
/// load on a server, and workloads are not scaled meanwhile.
#[derive(Default)]
struct ShortBackoff(DefaultBackoff);

impl Iterator for ShortBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|wait| wait.min(MAX_WAIT))
    }
}

impl Backoff for ShortBackoff {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// The API of a resource, of one namespace or of all.
pub(crate) fn all_of<K>(client: &Client, only_namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match only_namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// The parts of an object that the recommender does not write itself: those of users and of the
/// updater.
#[derive(PartialEq, Eq)]
struct Written {
    uid: Option<String>,
    generation: Option<i64>,
    pause: Option<String>,
    is_leaving: bool,
    acting: Option<Acting>,
}

impl Written {
    fn of(object: &Guarded) -> Self {
        let meta = object.meta();
        let annotations = meta.annotations.as_ref();
        let status = object.0.as_ref().ok().and_then(|object| object.status.as_ref());
        let rollout = status.and_then(|status| status.rollout.as_ref());
        Self {
            uid: meta.uid.clone(),
            generation: meta.generation,
            pause: annotations.and_then(|all| all.get(PAUSE_ANNOTATION).cloned()),
            is_leaving: meta.deletion_timestamp.is_some(),
            acting: rollout.and_then(|rollout| rollout.acting.as_ref()).map(without_countdown),
        }
    }
}
