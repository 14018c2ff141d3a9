//! Caches that follow the cluster, and news of what changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use tokio::sync::mpsc::UnboundedSender;

use super::context::{Key, key_of};
use super::countdown::without_countdown;
use crate::api::{Acting, MultidimPodAutoscaler};
use crate::cluster::PodCache;
use crate::guard::PAUSE_ANNOTATION;
use crate::telemetry::Telemetry;

/// An object, or why it cannot be read: one that cannot must not hide the others.
pub type Guarded = DeserializeGuard<MultidimPodAutoscaler>;

/// Follows objects and pods for as long as the program runs. A key goes to `spec_changes` when
/// what people wrote changed, and to `status_changes` whenever anything did.
pub fn follow(
    client: &Client,
    only_namespace: Option<&str>,
    telemetry: &Arc<Telemetry>,
    spec_changes: UnboundedSender<Key>,
    status_changes: UnboundedSender<Key>,
) -> (Store<Guarded>, Arc<PodCache>) {
    let (objects, writer) = reflector::store();
    let stream = watcher(all_of::<Guarded>(client, only_namespace), watcher::Config::default());
    // Who wrote which field is longer than the fields, and nobody here asks.
    let forget_writers = |object: &mut Guarded| object.meta_mut().managed_fields = None;
    let stream = stream
        .backoff(Impatient::default())
        .modify(forget_writers)
        .reflect(writer)
        .touched_objects();
    let (told, known) = (telemetry.clone(), objects.clone());
    tokio::spawn(async move {
        let mut stream = std::pin::pin!(stream);
        let mut written: BTreeMap<Key, Written> = BTreeMap::new();
        while let Some(news) = stream.next().await {
            let object = match news {
                Ok(object) => object,
                Err(error) => {
                    told.watch_error("objects", &error);
                    continue;
                }
            };
            let key = key_of(&object);
            let now = Written::of(&object);
            if written.get(&key) != Some(&now) {
                written.insert(key.clone(), now);
                // Nobody listens any longer: the program ends.
                let _ = spec_changes.send(key.clone());
            }
            if known.get(&ObjectRef::from_obj(&object)).is_none() {
                written.remove(&key);
            }
            let _ = status_changes.send(key);
        }
    });

    let pods = Arc::new(PodCache::default());
    let stream = watcher(all_of::<Pod>(client, only_namespace), watcher::Config::default());
    let stream = stream.backoff(Impatient::default());
    let (told, heard) = (telemetry.clone(), pods.clone());
    tokio::spawn(async move {
        let mut stream = std::pin::pin!(stream);
        while let Some(news) = stream.next().await {
            match news {
                Ok(event) => heard.hear(event),
                Err(error) => told.watch_error("pods", &error),
            }
        }
    });
    (objects, pods)
}

/// A watch that broke is begun again at the latest after this.
const MOST_WAIT: Duration = Duration::from_secs(5);

/// Waits longer and longer, as everybody does for a server in trouble, but not for half a minute:
/// two watches do not hurt it, and workloads wait.
#[derive(Default)]
struct Impatient(DefaultBackoff);

impl Iterator for Impatient {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|wait| wait.min(MOST_WAIT))
    }
}

impl Backoff for Impatient {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// Objects of a kind, of one namespace or of all.
pub(super) fn all_of<K>(client: &Client, only_namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match only_namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// What people wrote of an object and what the updater says of itself: the rest is what the
/// recommender wrote, which is no news to it.
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
