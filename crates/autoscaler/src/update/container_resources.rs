//! Recommended sizes as the resources of containers.

use homeostat_core::{Bytes, Millicores};
use serde_json::{Value, json};

use super::sizes::{WantedSize, WantedSizes};
use crate::api::{MultidimPodAutoscalerStatus, cores, cpu_quantity, memory_bytes, memory_quantity};
use crate::workload::ContainerRecord;

/// The sizes that a status recommends; none if it recommends none. Containers without a recommended
/// resource are left out.
pub fn wanted_sizes(status: &MultidimPodAutoscalerStatus) -> Option<WantedSizes> {
    let recommendation = status.recommendation.as_ref()?;
    let mut wanted = WantedSizes::new();
    for container in &recommendation.container_recommendations {
        let cpu = container.target.cpu.as_ref().map(cores).transpose().ok()?;
        let memory = container.target.memory.as_ref().map(memory_bytes).transpose().ok()?;
        if cpu.is_some() || memory.is_some() {
            wanted.insert(container.container_name.clone(), WantedSize { cpu, memory });
        }
    }
    Some(wanted)
}

/// Requests as wanted, and limits in the same proportion to the requests as before. Resources without
/// a wanted size are left out, so that they do not change.
pub fn resources(container: &ContainerRecord, wanted: impl Into<WantedSize>) -> Value {
    let scaled = |limit: u64, from: Option<u64>, to: u64| match from {
        Some(from) if from > 0 => (limit as f64 * to as f64 / from as f64).ceil() as u64,
        // Without a request, the limit is the request.
        _ => limit.max(to),
    };
    let wanted = wanted.into();
    let (mut requests, mut limits) = (serde_json::Map::new(), serde_json::Map::new());
    if let Some(cpu) = wanted.cpu {
        requests.insert("cpu".to_owned(), json!(cpu_quantity(cpu)));
        if let Some(limit) = container.cpu_limit {
            let request = container.cpu_request.map(Millicores::millicores);
            let limit = Millicores::new(scaled(limit.millicores(), request, cpu.millicores()));
            limits.insert("cpu".to_owned(), json!(cpu_quantity(limit)));
        }
    }
    if let Some(memory) = wanted.memory {
        requests.insert("memory".to_owned(), json!(memory_quantity(memory)));
        if let Some(limit) = container.memory_limit {
            let request = container.memory_request.map(Bytes::bytes);
            let limit = Bytes::new(scaled(limit.bytes(), request, memory.bytes()));
            limits.insert("memory".to_owned(), json!(memory_quantity(limit)));
        }
    }
    if limits.is_empty() {
        json!({ "requests": requests })
    } else {
        json!({ "requests": requests, "limits": limits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_keeps_its_proportion_to_the_request() {
        let container = ContainerRecord {
            name: "app".to_owned(),
            cpu_request: Some(Millicores::new(200)),
            memory_request: Some(Bytes::from_mib(100)),
            cpu_limit: Some(Millicores::new(400)),
            memory_limit: None,
            oom_killed_at: None,
        };
        let wanted = resources(&container, (Millicores::new(300), Bytes::from_mib(64)));
        let expect = json!({
            "requests": {"cpu": "300m", "memory": "64Mi"},
            "limits": {"cpu": "600m"},
        });
        assert_eq!(wanted, expect);
    }
}
