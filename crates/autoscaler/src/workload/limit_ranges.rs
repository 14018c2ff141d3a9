//! What the LimitRanges of a namespace allow a container to request. The API server rejects pods that
//! exceed them.

use std::collections::BTreeMap;

use homeostat_core::{Bounds, Bytes, Millicores};
use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use super::pods::{ContainerRecord, PodRecord};
use crate::api::{cores, memory_bytes};

/// The LimitRanges of all watched namespaces.
#[derive(Debug, Clone, Default)]
pub struct LimitRanges {
    items: BTreeMap<String, Vec<LimitRangeItem>>,
}

/// Bounds of a container's requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResourceLimits {
    /// CPU.
    pub cpu: Bounds<Millicores>,
    /// Memory.
    pub memory: Bounds<Bytes>,
}

impl LimitRanges {
    /// Reads a list of them.
    pub fn new(ranges: impl IntoIterator<Item = LimitRange>) -> Self {
        let mut items: BTreeMap<String, Vec<LimitRangeItem>> = BTreeMap::new();
        for range in ranges {
            let namespace = range.namespace().unwrap_or_default();
            let of_range = range.spec.into_iter().flat_map(|spec| spec.limits);
            items.entry(namespace).or_default().extend(of_range);
        }
        Self { items }
    }

    /// Bounds of the requests of the containers of some pods, by container name; empty if the
    /// namespace has no LimitRange.
    pub fn limits(&self, namespace: &str, pods: &[PodRecord]) -> BTreeMap<String, ResourceLimits> {
        let Some(items) = self.items.get(namespace) else { return BTreeMap::new() };
        let mut limits: BTreeMap<String, ResourceLimits> = BTreeMap::new();
        for pod in pods {
            // A limit for the whole pod applies to its container if it has only one.
            let is_alone = pod.containers.len() == 1;
            let counts = |item: &&LimitRangeItem| {
                item.type_ == "Container" || (item.type_ == "Pod" && is_alone)
            };
            for container in &pod.containers {
                let own = of_container(container, items.iter().filter(counts));
                let known = limits.entry(container.name.clone()).or_insert(own);
                // Pods may differ, but all get the same size.
                *known = ResourceLimits {
                    cpu: own.cpu.inside(&known.cpu),
                    memory: own.memory.inside(&known.memory),
                };
            }
        }
        limits
    }
}

fn of_container<'a>(
    container: &ContainerRecord,
    items: impl Iterator<Item = &'a LimitRangeItem> + Clone,
) -> ResourceLimits {
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
    ResourceLimits {
        cpu: bounds(cpu.0, cpu.1, cpu_ratio, 1, Millicores::new),
        memory: bounds(memory.0, memory.1, memory_ratio, MEBIBYTE, Bytes::new),
    }
}

/// Memory is written in whole mebibytes, rounded up.
const MEBIBYTE: u64 = 1 << 20;

/// The ratio of limit to request, which stays the same when the request changes.
fn ratio(limit: Option<u64>, request: Option<u64>) -> f64 {
    match (limit, request) {
        (Some(limit), Some(request)) if request > 0 => (limit as f64 / request as f64).max(1.0),
        _ => 1.0,
    }
}

fn bounds<T: Copy + PartialOrd + std::fmt::Display>(
    low: u64,
    high: u64,
    ratio: f64,
    grain: u64,
    unit: fn(u64) -> T,
) -> Bounds<T> {
    let high = if high == u64::MAX { high } else { ((high / grain) as f64 / ratio) as u64 * grain };
    // If minimum and maximum exclude each other, no size is allowed anyway.
    Bounds::try_new(unit(low), unit(high.max(low))).expect("low is not above high")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::record;
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
        let limits = ranges.limits("shop", std::slice::from_ref(pod));
        let bounds = limits.get("app")?.cpu;
        Some((bounds.low().millicores(), bounds.high().millicores()))
    }

    #[test]
    fn a_request_is_bounded_so_that_its_proportional_limit_is_allowed() {
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
        let memory = ranges.limits("shop", &[limited])["app"].memory;
        assert_eq!(memory.high(), Bytes::from_mib(512));
        assert_eq!(ranges.limits("other", &[without_limit]), BTreeMap::new());
    }

    #[test]
    fn a_size_that_is_rounded_up_when_it_is_written_is_still_allowed() {
        let high = |max: &str, resources: Value| {
            let ranges = ranges(json!([{"type": "Container", "max": {"memory": max}}]));
            ranges.limits("shop", &[pod(app(resources))])["app"].memory.high()
        };
        assert_eq!(high("500M", json!({})), Bytes::from_mib(476));
        let limited = json!({"requests": {"memory": "300Mi"}, "limits": {"memory": "1000Mi"}});
        assert_eq!(high("1Gi", limited), Bytes::from_mib(307));
    }

    #[test]
    fn the_limit_of_a_pod_applies_to_its_only_container() {
        let ranges = ranges(json!([{"type": "Pod", "max": {"cpu": "600m"}}]));
        let alone = pod(app(json!({"requests": {"cpu": "200m"}})));
        assert_eq!(cpu(&ranges, &alone), Some((0, 600)));
        let two = pod(json!([{"name": "app", "image": "a"}, {"name": "proxy", "image": "p"}]));
        assert_eq!(cpu(&ranges, &two), Some((0, u64::MAX)));
    }
}
