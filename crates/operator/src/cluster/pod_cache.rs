//! The cluster's pods in a few words, by namespace: thousands of them fit into little memory,
//! and a workload's are found without a look at everybody else's.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use k8s_openapi::api::core::v1::Pod;
use kube::core::Selector;
use kube::runtime::watcher::Event;
use tokio::sync::watch;

use super::pods::{PodRecord, record};
use super::selector::selects;

/// Pods, fed by a watch.
pub struct PodCache {
    shelves: RwLock<Shelves>,
    is_complete: watch::Sender<bool>,
}

#[derive(Default)]
struct Shelves {
    /// By namespace and name.
    pods: Namespaces,
    /// A list that is still coming in. It replaces the others when it is whole: pods that are
    /// gone are not on it.
    coming: Namespaces,
}

type Namespaces = BTreeMap<String, BTreeMap<String, Cached>>;

struct Cached {
    labels: BTreeMap<String, String>,
    record: PodRecord,
}

impl Default for PodCache {
    fn default() -> Self {
        Self { shelves: RwLock::default(), is_complete: watch::Sender::new(false) }
    }
}

impl PodCache {
    /// Takes in what the watch says.
    pub fn hear(&self, event: Event<Pod>) {
        let mut shelves = self.shelves.write().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => shelves.coming.clear(),
            Event::InitApply(pod) => put(&mut shelves.coming, pod),
            Event::InitDone => {
                shelves.pods = std::mem::take(&mut shelves.coming);
                self.is_complete.send_replace(true);
            }
            Event::Apply(pod) => put(&mut shelves.pods, pod),
            Event::Delete(pod) => take(&mut shelves.pods, &pod),
        }
    }

    /// Waits for the first whole list.
    pub async fn wait_until_complete(&self) {
        // It cannot be dropped while it is borrowed.
        let _ = self.is_complete.subscribe().wait_for(|is_complete| *is_complete).await;
    }

    /// The pods of a namespace that a selector names and that have not ended, by name.
    pub fn selected(&self, namespace: &str, selector: &Selector) -> Vec<PodRecord> {
        let shelves = self.shelves.read().unwrap_or_else(PoisonError::into_inner);
        let pods = shelves.pods.get(namespace).into_iter().flat_map(BTreeMap::values);
        let ours = pods.filter(|pod| selects(selector, Some(&pod.labels)));
        ours.map(|pod| pod.record.clone()).collect()
    }
}

fn put(namespaces: &mut Namespaces, pod: Pod) {
    let Some(record) = record(&pod) else { return take(namespaces, &pod) };
    let namespace = pod.metadata.namespace.unwrap_or_default();
    let labels = pod.metadata.labels.unwrap_or_default();
    let cached = Cached { labels, record };
    namespaces.entry(namespace).or_default().insert(cached.record.name.clone(), cached);
}

fn take(namespaces: &mut Namespaces, pod: &Pod) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let Some(pods) = namespaces.get_mut(namespace) else { return };
    pods.remove(name);
    if pods.is_empty() {
        namespaces.remove(namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::read_selector;
    use serde_json::json;

    fn pod(namespace: &str, name: &str, app: &str, phase: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "namespace": namespace, "name": name, "labels": { "app": app } },
            "spec": { "containers": [{ "name": "app" }] },
            "status": { "phase": phase },
        }))
        .expect("valid")
    }

    fn names(cache: &PodCache, namespace: &str, app: &str) -> Vec<String> {
        let selector = read_selector(&format!("app={app}")).expect("valid");
        cache.selected(namespace, &selector).into_iter().map(|pod| pod.name).collect()
    }

    #[test]
    fn a_workload_has_the_pods_of_its_namespace_and_labels_that_have_not_ended() {
        let cache = PodCache::default();
        cache.hear(Event::Apply(pod("shop", "b", "cart", "Running")));
        cache.hear(Event::Apply(pod("shop", "a", "cart", "Pending")));
        cache.hear(Event::Apply(pod("shop", "c", "checkout", "Running")));
        cache.hear(Event::Apply(pod("bank", "d", "cart", "Running")));
        cache.hear(Event::Apply(pod("shop", "e", "cart", "Succeeded")));
        assert_eq!(names(&cache, "shop", "cart"), ["a", "b"]);
        cache.hear(Event::Apply(pod("shop", "a", "cart", "Failed")));
        assert_eq!(names(&cache, "shop", "cart"), ["b"]);
        cache.hear(Event::Delete(pod("shop", "b", "cart", "Running")));
        assert!(names(&cache, "shop", "cart").is_empty());
        assert_eq!(names(&cache, "bank", "cart"), ["d"]);
    }

    #[test]
    fn a_new_list_replaces_the_old_one_when_it_is_whole() {
        let cache = PodCache::default();
        cache.hear(Event::Apply(pod("shop", "old", "cart", "Running")));
        cache.hear(Event::Init);
        cache.hear(Event::InitApply(pod("shop", "lost", "cart", "Running")));
        assert_eq!(names(&cache, "shop", "cart"), ["old"]);
        // The list breaks off and begins anew.
        cache.hear(Event::Init);
        cache.hear(Event::InitApply(pod("shop", "new", "cart", "Running")));
        assert!(!*cache.is_complete.borrow());
        cache.hear(Event::InitDone);
        assert_eq!(names(&cache, "shop", "cart"), ["new"]);
        assert!(*cache.is_complete.borrow());
    }
}
