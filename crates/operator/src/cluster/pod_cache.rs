//! A cache of the few fields of pods that the operator needs, by namespace: thousands of pods fit into
//! little memory, and the pods of a workload are found without a search through all others.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use homeostat_autoscaler::workload::{PodRecord, record, selects};
use k8s_openapi::api::core::v1::Pod;
use kube::core::Selector;
use kube::runtime::watcher::Event;
use tokio::sync::watch;

/// A cache of pods that a watch fills.
pub struct PodCache {
    lists: RwLock<Lists>,
    is_complete: watch::Sender<bool>,
}

#[derive(Default)]
struct Lists {
    /// By namespace and name.
    pods: Namespaces,
    /// A new list that is still being received. When it is complete it replaces the old one, so
    /// that deleted pods disappear.
    incoming: Namespaces,
}

type Namespaces = BTreeMap<String, BTreeMap<String, Cached>>;

struct Cached {
    labels: BTreeMap<String, String>,
    record: PodRecord,
}

impl Default for PodCache {
    fn default() -> Self {
        Self { lists: RwLock::default(), is_complete: watch::Sender::new(false) }
    }
}

impl PodCache {
    /// Applies an event of the watch.
    pub fn apply(&self, event: Event<Pod>) {
        let mut lists = self.lists.write().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => lists.incoming.clear(),
            Event::InitApply(pod) => put(&mut lists.incoming, pod),
            Event::InitDone => {
                lists.pods = std::mem::take(&mut lists.incoming);
                self.is_complete.send_replace(true);
            }
            Event::Apply(pod) => put(&mut lists.pods, pod),
            Event::Delete(pod) => take(&mut lists.pods, &pod),
        }
    }

    /// Waits for the first complete list.
    pub async fn wait_until_complete(&self) {
        // The sender lives as long as `self`.
        let _ = self.is_complete.subscribe().wait_for(|is_complete| *is_complete).await;
    }

    /// The pods of a namespace that match a selector and have not terminated, ordered by name.
    pub fn selected(&self, namespace: &str, selector: &Selector) -> Vec<PodRecord> {
        let lists = self.lists.read().unwrap_or_else(PoisonError::into_inner);
        let pods = lists.pods.get(namespace).into_iter().flat_map(BTreeMap::values);
        let selected = pods.filter(|pod| selects(selector, Some(&pod.labels)));
        selected.map(|pod| pod.record.clone()).collect()
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
    use homeostat_autoscaler::workload::read_selector;
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
    fn pods_are_selected_by_namespace_and_labels_unless_they_have_terminated() {
        let cache = PodCache::default();
        cache.apply(Event::Apply(pod("shop", "b", "cart", "Running")));
        cache.apply(Event::Apply(pod("shop", "a", "cart", "Pending")));
        cache.apply(Event::Apply(pod("shop", "c", "checkout", "Running")));
        cache.apply(Event::Apply(pod("bank", "d", "cart", "Running")));
        cache.apply(Event::Apply(pod("shop", "e", "cart", "Succeeded")));
        assert_eq!(names(&cache, "shop", "cart"), ["a", "b"]);
        cache.apply(Event::Apply(pod("shop", "a", "cart", "Failed")));
        assert_eq!(names(&cache, "shop", "cart"), ["b"]);
        cache.apply(Event::Delete(pod("shop", "b", "cart", "Running")));
        assert!(names(&cache, "shop", "cart").is_empty());
        assert_eq!(names(&cache, "bank", "cart"), ["d"]);
    }

    #[test]
    fn a_new_list_replaces_the_old_one_when_it_is_complete() {
        let cache = PodCache::default();
        cache.apply(Event::Apply(pod("shop", "old", "cart", "Running")));
        cache.apply(Event::Init);
        cache.apply(Event::InitApply(pod("shop", "lost", "cart", "Running")));
        assert_eq!(names(&cache, "shop", "cart"), ["old"]);
        // The list is aborted and starts again.
        cache.apply(Event::Init);
        cache.apply(Event::InitApply(pod("shop", "new", "cart", "Running")));
        assert!(!*cache.is_complete.borrow());
        cache.apply(Event::InitDone);
        assert_eq!(names(&cache, "shop", "cart"), ["new"]);
        assert!(*cache.is_complete.borrow());
    }
}
