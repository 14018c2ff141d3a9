//! What is decided for a pod, divided among its containers.

use std::collections::BTreeMap;

use homeostat_core::{Bounds, Bytes, Millicores};
use homeostat_decide::Allocation;

use crate::api::Plan;

/// What one container has and uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ContainerShare {
    /// CPU that it requests now.
    pub(super) cpu_request: Millicores,
    /// Memory that it requests now.
    pub(super) memory_request: Bytes,
    /// Cores that its history asks for; none without one.
    pub(super) cpu_need: Option<f64>,
    /// Bytes that its history asks for; none without one.
    pub(super) memory_need: Option<f64>,
}

/// What each container should request: in proportion to its own need, inside its own bounds
/// if `is_bounded`. Containers that are not sized keep what they have.
pub(super) fn split(
    plan: &Plan,
    pod: &Allocation,
    containers: &BTreeMap<String, ContainerShare>,
    is_bounded: bool,
) -> BTreeMap<String, (Millicores, Bytes)> {
    let parts = |total: u64,
                 bounds: fn(&Plan, &str) -> Option<Bounds<u64>>,
                 share: fn(&ContainerShare) -> (u64, f64)| {
        let fixed: u64 = containers
            .iter()
            .filter(|(name, _)| bounds(plan, name).is_none())
            .map(|(_, container)| share(container).0)
            .sum();
        let free = total.saturating_sub(fixed) as f64;
        let needs: f64 = containers
            .iter()
            .filter(|(name, _)| bounds(plan, name).is_some())
            .map(|(_, container)| share(container).1)
            .sum();
        let part = |(name, container): (&String, &ContainerShare)| {
            let (request, need) = share(container);
            match bounds(plan, name) {
                Some(bounds) if needs > 0.0 => {
                    let part = (free * need / needs).round() as u64;
                    if is_bounded { bounds.clamp(part) } else { part }
                }
                _ => request,
            }
        };
        containers.iter().map(part).collect::<Vec<_>>()
    };
    let cpu = parts(
        pod.cpu.millicores(),
        |plan, name| {
            let bounds = plan.container(name).cpu?;
            Bounds::try_new(bounds.low().millicores(), bounds.high().millicores()).ok()
        },
        |share| {
            let request = share.cpu_request.millicores();
            (request, share.cpu_need.map_or(request as f64, |cores| cores * 1e3))
        },
    );
    let memory = parts(
        pod.memory.bytes(),
        |plan, name| {
            let bounds = plan.container(name).memory?;
            Bounds::try_new(bounds.low().bytes(), bounds.high().bytes()).ok()
        },
        |share| {
            let request = share.memory_request.bytes();
            (request, share.memory_need.unwrap_or(request as f64))
        },
    );
    let sizes = cpu.into_iter().map(Millicores::new).zip(memory.into_iter().map(Bytes::new));
    containers.keys().cloned().zip(sizes).collect()
}
