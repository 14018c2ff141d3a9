//! Nodes and containers as they are now, for pictures of a platform.

use homeostat_core::Bytes;

use super::state::Phase;
use super::{FunctionId, Platform};

/// A node as it is now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NodeView {
    pub(crate) cores: f64,
    pub(crate) cores_in_use: f64,
    pub(crate) memory: Bytes,
    pub(crate) memory_set_aside: Bytes,
    pub(crate) is_up: bool,
}

/// A container as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContainerView {
    pub(crate) function: FunctionId,
    pub(crate) node: usize,
    pub(crate) state: ContainerState,
}

/// What a container does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerState {
    /// It is made, or loads its code.
    Starting,
    /// It waits for a request.
    Idle,
    /// It serves.
    Busy,
    /// It answers what it has and goes.
    Draining,
}

impl Platform {
    /// The nodes, by number.
    pub(crate) fn node_views(&self) -> impl Iterator<Item = NodeView> {
        self.nodes.iter().zip(&self.config.nodes).map(|(node, config)| NodeView {
            cores: config.cores,
            cores_in_use: node.processor.used(),
            memory: node.memory,
            memory_set_aside: node.reserved,
            is_up: node.is_up,
        })
    }

    /// The containers that are there.
    pub(crate) fn container_views(&self) -> impl Iterator<Item = ContainerView> {
        let present = self.containers.iter().filter(|container| container.phase != Phase::Gone);
        present.map(|container| ContainerView {
            function: FunctionId(container.function as usize),
            node: container.node as usize,
            state: match (container.phase, container.is_draining, container.in_service) {
                (Phase::Ready, false, 0) => ContainerState::Idle,
                (Phase::Ready, false, _) => ContainerState::Busy,
                (Phase::Ready, true, _) => ContainerState::Draining,
                _ => ContainerState::Starting,
            },
        })
    }

    /// Requests of a function that no container has taken yet.
    pub(crate) fn waiting(&self, id: FunctionId) -> usize {
        self.functions[id.0].waiting.len()
    }
}
