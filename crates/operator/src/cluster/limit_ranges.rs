//! What the LimitRanges of a namespace allow a container to request. A pod beyond them is refused
//! when it is made, whoever sized it.

use std::collections::BTreeMap;

use homeostat_core::{Bounds, Bytes, Millicores};
use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use super::pods::{ContainerRecord, PodRecord};
use crate::api::{cores, memory_bytes};

/// The LimitRanges of all namespaces that are looked after.
#[derive(Debug, Clone, Default)]
pub struct LimitRanges {
    items: BTreeMap<String, Vec<LimitRangeItem>>,
}

/// What a container may request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confines {
    /// CPU.
    pub cpu: Bounds<Millicores>,
    /// Memory.
    pub memory: Bounds<Bytes>,
}

impl LimitRanges {
    /// What a list of them says.
    pub fn new(ranges: impl IntoIterator<Item = LimitRange>) -> Self {
        let mut items: BTreeMap<String, Vec<LimitRangeItem>> = BTreeMap::new();
        for range in ranges {
            let namespace = range.namespace().unwrap_or_default();
            let of_range = range.spec.into_iter().flat_map(|spec| spec.limits);
            items.entry(namespace).or_default().extend(of_range);
        }
        Self { items }
    }

    /// What the containers of some pods may request, by their names; nothing of those that may
    /// request whatever they like.
    pub fn confines(&self, namespace: &str, pods: &[PodRecord]) -> BTreeMap<String, Confines> {
        let Some(items) = self.items.get(namespace) else { return BTreeMap::new() };
        let mut confines: BTreeMap<String, Confines> = BTreeMap::new();
        for pod in pods {
            // What a pod may request together says what its only container may.
            let is_alone = pod.containers.len() == 1;
            let counts = |item: &&LimitRangeItem| {
                item.type_ == "Container" || (item.type_ == "Pod" && is_alone)
            };
            for container in &pod.containers {
                let own = of_container(container, items.iter().filter(counts));
                let known = confines.entry(container.name.clone()).or_insert(own);
                // Pods may differ, and all are to get the same.
                *known = Confines {
                    cpu: own.cpu.inside(&known.cpu),
                    memory: own.memory.inside(&known.memory),
                };
            }
        }
        confines
    }
}

fn of_container<'a>(
    container: &ContainerRecord,
    items: impl Iterator<Item = &'a LimitRangeItem> + Clone,
) -> Confines {
    let amounts = |name: &'static str, read: fn(&Quantity) -> Option<u64>| {
        let amount = move |of: &Option<BTreeMap<String, Quantity>>| read(of.as_ref()?.get(name)?);
        let low = items.clone().filter_map(|item| amount(&item.min)).max();
        let high = items.clone().filter_map(|item| amount(&item.max)).min();
        (low.unwrap_or(0), high.unwrap_or(u64::MAX))
    };
    let cpu = amounts("cpu", |amount| cores(amount).ok().map(Millicores::millicores));
    let memory = amounts("memory", |amount| memory_bytes(amount).ok().map(Bytes::bytes));
    let cpu_ratio = ratio(
        container.cpu_limit.map(Millicores::millicores),
        container.cpu_request.map(Millicores::millicores),
    );
    let memory_ratio =
        ratio(container.memory_limit.map(Bytes::bytes), container.memory_request.map(Bytes::bytes));
    Confines {
        cpu: bounds(cpu, cpu_ratio, 1, Millicores::new),
        memory: bounds(memory, memory_ratio, MEBIBYTE, Bytes::new),
    }
}

/// Memory is written down in whole mebibytes, rounded up.
const MEBIBYTE: u64 = 1 << 20;

/// How many times its request a limit is, and stays when the request changes.
fn ratio(limit: Option<u64>, request: Option<u64>) -> f64 {
    match (limit, request) {
        (Some(limit), Some(request)) if request > 0 => (limit as f64 / request as f64).max(1.0),
        _ => 1.0,
    }
}

fn bounds<T: Copy + PartialOrd + std::fmt::Display>(
    (low, high): (u64, u64),
    ratio: f64,
    grain: u64,
    unit: fn(u64) -> T,
) -> Bounds<T> {
    let high = if high == u64::MAX { high } else { ((high / grain) as f64 / ratio) as u64 * grain };
    // Between a least and a most that exclude each other nothing is allowed anyway.
    Bounds::try_new(unit(low), unit(high.max(low))).expect("low is not above high")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::record;
    use serde_json::{Value, json};

    fn pod(containers: Value) -> PodRecord {
        let pod = json!({
            "metadata": {"name": "checkout-1", "namespace": "shop"},
            "spec": {"containers": containers}, "status": {"phase": "Running"},
        });
        record(&serde_json::from_value(pod).expect("valid")).expect("it runs")
    }

    fn app(resources: Value) -> Value {
        json!([{"name": "app", "image": "checkout", "resources": resources}])
    }

    fn ranges(limits: Value) -> LimitRanges {
        let range =
            json!({"metadata": {"name": "r", "namespace": "shop"}, "spec": {"limits": limits}});
        LimitRanges::new([serde_json::from_value(range).expect("valid")])
    }

    fn cpu(ranges: &LimitRanges, pod: &PodRecord) -> Option<(u64, u64)> {
        let confines = ranges.confines("shop", std::slice::from_ref(pod));
        let bounds = confines.get("app")?.cpu;
        Some((bounds.low().millicores(), bounds.high().millicores()))
    }

    #[test]
    fn a_request_stays_where_its_limit_which_grows_with_it_is_allowed() {
        let ranges = ranges(json!([{
            "type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1", "memory": "1Gi"},
        }]));
        let without_limit = pod(app(json!({"requests": {"cpu": "200m"}})));
        assert_eq!(cpu(&ranges, &without_limit), Some((100, 1000)));
        let limited = app(json!({
            "requests": {"cpu": "200m", "memory": "512Mi"},
            "limits": {"cpu": "400m", "memory": "1Gi"},
        }));
        let limited = pod(limited);
        assert_eq!(cpu(&ranges, &limited), Some((100, 500)));
        let memory = ranges.confines("shop", &[limited])["app"].memory;
        assert_eq!(memory.high(), Bytes::from_mib(512));
        assert_eq!(ranges.confines("other", &[without_limit]), BTreeMap::new());
    }

    #[test]
    fn what_is_rounded_up_when_it_is_written_down_is_still_allowed() {
        let high = |most: &str, resources: Value| {
            let ranges = ranges(json!([{"type": "Container", "max": {"memory": most}}]));
            ranges.confines("shop", &[pod(app(resources))])["app"].memory.high()
        };
        assert_eq!(high("500M", json!({})), Bytes::from_mib(476));
        let limited = json!({"requests": {"memory": "300Mi"}, "limits": {"memory": "1000Mi"}});
        assert_eq!(high("1Gi", limited), Bytes::from_mib(307));
    }

    #[test]
    fn what_a_pod_may_request_counts_for_its_only_container() {
        let ranges = ranges(json!([{"type": "Pod", "max": {"cpu": "600m"}}]));
        let alone = pod(app(json!({"requests": {"cpu": "200m"}})));
        assert_eq!(cpu(&ranges, &alone), Some((0, 600)));
        let two = pod(json!([{"name": "app", "image": "a"}, {"name": "proxy", "image": "p"}]));
        assert_eq!(cpu(&ranges, &two), Some((0, u64::MAX)));
    }
}
