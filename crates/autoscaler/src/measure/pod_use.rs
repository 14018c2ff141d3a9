//! Usage of pods, as the metrics API of the cluster reports it.

use homeostat_core::{Bytes, Millicores, SimTime};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use super::reading::{Reading, Source};
use crate::api::{cores, duration, memory_bytes};

/// Usage of one pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodUse {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Start of the window of the measurement, if the source reports it.
    pub measured_from: Option<SimTime>,
    /// CPU and memory of each container, by name; an unreadable amount is none.
    pub containers: Vec<(String, Option<Reading>, Option<Reading>)>,
}

/// The answer of the metrics API.
#[derive(Deserialize)]
pub struct PodMetricsList {
    #[serde(default)]
    items: Vec<PodMetrics>,
}

impl PodMetricsList {
    /// The usage of each pod.
    pub fn into_pods(self) -> Vec<PodUse> {
        self.items.into_iter().map(PodMetrics::read).collect()
    }
}

#[derive(Deserialize)]
struct PodMetrics {
    metadata: Metadata,
    timestamp: Time,
    #[serde(default)]
    window: String,
    #[serde(default)]
    containers: Vec<ContainerMetrics>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    name: String,
    #[serde(default)]
    usage: Usage,
}

#[derive(Deserialize, Default)]
struct Usage {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
}

impl PodMetrics {
    fn read(self) -> PodUse {
        let nanos = self.timestamp.0.as_nanosecond();
        let at = SimTime::from_nanos(u64::try_from(nanos).unwrap_or(0));
        let reading = |value: f64| Reading { value, at, source: Source::MetricsApi };
        let container = |ContainerMetrics { name, usage }: ContainerMetrics| {
            let cpu = usage.cpu.and_then(|cpu| cores(&cpu).ok()).map(Millicores::cores);
            let memory = usage.memory.and_then(|memory| memory_bytes(&memory).ok());
            let memory = memory.map(|memory: Bytes| memory.bytes() as f64);
            (name, cpu.map(reading), memory.map(reading))
        };
        let window = duration(&self.window).ok();
        let measured_from =
            window.map(|window| SimTime::from_nanos(at.nanos().saturating_sub(window.nanos())));
        PodUse {
            namespace: self.metadata.namespace,
            name: self.metadata.name,
            measured_from,
            containers: self.containers.into_iter().map(container).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_as_the_metrics_server_writes_it() {
        let text = r#"{"kind":"PodMetricsList","items":[{
            "metadata":{"name":"checkout-1","namespace":"shop","creationTimestamp":"2026-11-01T10:00:00Z"},
            "timestamp":"2026-11-01T10:00:30Z","window":"15s",
            "containers":[{"name":"app","usage":{"cpu":"156340123n","memory":"2048Ki"}},
                          {"name":"odd","usage":{"cpu":"a lot"}}]}]}"#;
        let list: PodMetricsList = serde_json::from_str(text).expect("valid");
        let pods = list.into_pods();
        assert_eq!((&pods[0].namespace[..], &pods[0].name[..]), ("shop", "checkout-1"));
        let measured_from = pods[0].measured_from.expect("timestamp and window are there");
        assert_eq!(measured_from.nanos(), 1_793_527_215_000_000_000);
        let (name, cpu, memory) = &pods[0].containers[0];
        assert_eq!(name, "app");
        assert_eq!(cpu.map(|cpu| cpu.value), Some(0.157));
        assert_eq!(memory.map(|memory| memory.value), Some(2.0 * 1024.0 * 1024.0));
        assert_eq!(pods[0].containers[1].1, None);
    }
}
