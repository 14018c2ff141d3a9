//! Critical paths of many requests, added up: a tree of calls.

use std::collections::BTreeMap;

use crate::store::OperationId;

/// Steps with the same operations from the root on are one node.
#[derive(Debug, Default)]
pub(crate) struct CallTree {
    nodes: Vec<CallNode>,
    ids: BTreeMap<(Option<u32>, OperationId), u32>,
}

/// Sums over requests; 128 bits, because hostile durations may be long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallNode {
    pub(crate) operation: OperationId,
    pub(crate) caller: Option<u32>,
    pub(crate) calls: u64,
    pub(crate) requests: u64,
    pub(crate) self_ns: u128,
    /// Own time and that of the steps below.
    pub(crate) total_ns: u128,
    /// From the start of the request to that of the call.
    pub(crate) delay_ns: u128,
    last_request: u64,
}

/// Nodes of all trees; more would not be read by anybody, and a trace may be a million calls deep.
pub(crate) const MAX_NODES: usize = 100_000;

impl CallTree {
    /// The node of a call, or none where there is no room.
    pub(crate) fn node(&mut self, caller: Option<u32>, operation: OperationId) -> Option<u32> {
        let next = self.nodes.len() as u32;
        if self.nodes.len() >= MAX_NODES {
            return self.ids.get(&(caller, operation)).copied();
        }
        let id = *self.ids.entry((caller, operation)).or_insert(next);
        if id == next {
            self.nodes.push(CallNode {
                operation,
                caller,
                calls: 0,
                requests: 0,
                self_ns: 0,
                total_ns: 0,
                delay_ns: 0,
                last_request: 0,
            });
        }
        Some(id)
    }

    /// Adds a call of the request with this number, counted from one.
    pub(crate) fn add_call(&mut self, id: u32, request: u64, total_ns: i64, delay_ns: i64) {
        let node = &mut self.nodes[id as usize];
        node.calls += 1;
        node.total_ns += total_ns as u128;
        node.delay_ns += delay_ns as u128;
        if node.last_request != request {
            (node.last_request, node.requests) = (request, node.requests + 1);
        }
    }

    pub(crate) fn add_self(&mut self, id: u32, self_ns: i64) {
        self.nodes[id as usize].self_ns += self_ns as u128;
    }

    /// Nodes; callers come before those that they call.
    pub(crate) fn nodes(&self) -> &[CallNode] {
        &self.nodes
    }
}
