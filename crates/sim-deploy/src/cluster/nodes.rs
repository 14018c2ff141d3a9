//! Nodes: what is free, how the scheduler chooses, how cores are shared, and eviction.

use homeostat_core::{Bytes, Millicores, SimTime};

use super::Cluster;
use super::pods::Phase;

#[derive(Debug)]
pub(super) struct Node {
    cores: f64,
    memory: Bytes,
    /// Requests of the pods on it.
    cpu_requested: Millicores,
    memory_requested: Bytes,
    /// Cores of all limits: above `cores`, pods can contend.
    limits: f64,
    /// Memory in use.
    pub(super) memory_used: Bytes,
    pub(super) pods: Vec<u32>,
}

impl Node {
    pub(super) fn new(cores: f64, memory: Bytes) -> Self {
        Self {
            cores,
            memory,
            cpu_requested: Millicores::ZERO,
            memory_requested: Bytes::ZERO,
            limits: 0.0,
            memory_used: Bytes::ZERO,
            pods: Vec::new(),
        }
    }

    pub(super) fn fits(&self, cpu: Millicores, memory: Bytes) -> bool {
        (self.cpu_requested + cpu).cores() <= self.cores + 1e-9
            && self.memory_requested + memory <= self.memory
    }

    /// The mean of the free parts of CPU and memory: the scheduler's score `LeastAllocated`.
    fn score(&self) -> f64 {
        let cpu = 1.0 - self.cpu_requested.cores() / self.cores;
        let memory = 1.0 - self.memory_requested.bytes() as f64 / self.memory.bytes() as f64;
        0.5 * (cpu + memory)
    }

    pub(super) fn reserve(&mut self, cpu: Millicores, memory: Bytes, limit: f64) {
        self.cpu_requested += cpu;
        self.memory_requested += memory;
        self.limits += limit;
    }

    pub(super) fn release(&mut self, cpu: Millicores, memory: Bytes, limit: f64) {
        self.cpu_requested = self.cpu_requested.saturating_sub(cpu);
        self.memory_requested = self.memory_requested.saturating_sub(memory);
        self.limits =
            if self.cpu_requested == Millicores::ZERO { 0.0 } else { self.limits - limit };
    }

    fn can_contend(&self) -> bool {
        self.limits > self.cores + 1e-9
    }
}

impl Cluster {
    /// The memory request of a pod with this limit.
    pub(super) fn memory_request(&self, limit: Bytes) -> Bytes {
        Bytes::new((limit.bytes() as f64 / self.config.memory_limit_over_request) as u64)
    }

    /// Cores of the CPU limit of a pod with this request.
    pub(super) fn cpu_limit(&self, request: Millicores) -> f64 {
        request.cores() * self.config.cpu_limit_over_request
    }

    /// The node for a pod of this size; none if no node has room.
    pub(super) fn choose_node(&self, cpu: Millicores, memory: Bytes) -> Option<u32> {
        let request = self.memory_request(memory);
        let mut best: Option<(f64, u32)> = None;
        for (number, node) in self.nodes.iter().enumerate() {
            let score = node.score();
            if node.fits(cpu, request) && best.is_none_or(|(most, _)| score > most) {
                best = Some((score, number as u32));
            }
        }
        best.map(|(_, number)| number)
    }

    /// Gives nodes to pending pods, the oldest first.
    pub(super) fn schedule_pending(&mut self) {
        let mut pending: Vec<(SimTime, u32)> = Vec::new();
        for deployment in &self.deployments {
            let pods = deployment.pods.iter().map(|pod| (*pod, &self.pods[*pod as usize]));
            let waiting = pods.filter(|(_, pod)| pod.phase == Phase::Pending);
            pending.extend(waiting.map(|(number, pod)| (pod.created, number)));
        }
        pending.sort_unstable();
        for (_, pod) in pending {
            self.place(pod);
        }
    }

    /// Divides the cores of a node where limits exceed them: each busy pod has its demand or its
    /// share by request, whichever is less, and what some leave goes to the others.
    pub(super) fn share_node(&mut self, node: u32) {
        let node = &self.nodes[node as usize];
        if !node.can_contend() {
            return;
        }
        let mut busy: Vec<(u32, f64, f64)> = Vec::new();
        for number in &node.pods {
            let pod = &self.pods[*number as usize];
            let jobs = pod.processor.busy(pod.class) as f64;
            if jobs > 0.0 {
                let limit = pod.cpu.cores() * self.config.cpu_limit_over_request;
                busy.push((*number, pod.cpu.cores(), limit.min(jobs)));
            }
        }
        // By demand over weight: whoever reaches its demand first leaves its rest to those behind.
        busy.sort_by(|a, b| (a.2 / a.1).total_cmp(&(b.2 / b.1)).then(a.0.cmp(&b.0)));
        let mut cores = node.cores;
        let mut weights: f64 = busy.iter().map(|(_, weight, _)| weight).sum();
        for (number, weight, demand) in busy {
            let share = demand.min(cores * weight / weights).max(1e-6);
            cores -= share;
            weights -= weight;
            let pod = &mut self.pods[number as usize];
            pod.processor.set_cores(self.now, share).expect("a share is above zero");
            self.finishes.set_or_clear(number as usize, pod.processor.next_finish());
        }
    }

    /// Evicts pods of a node whose memory in use exceeds what it has: the pod furthest above its
    /// request first, as the kubelet does.
    pub(super) fn evict_if_short(&mut self, node: u32) {
        while self.nodes[node as usize].memory_used > self.nodes[node as usize].memory {
            let excess = |pod: &u32| {
                let pod = &self.pods[*pod as usize];
                let request = self.memory_request(pod.memory);
                pod.memory_used.bytes() as i128 - i128::from(request.bytes())
            };
            let worst = self.nodes[node as usize].pods.iter().copied().max_by_key(excess);
            let Some(pod) = worst else { break };
            let deployment = self.pods[pod as usize].deployment;
            self.deployments[deployment].counters.evictions += 1;
            self.lose_requests(pod);
            self.remove_pod(pod);
        }
    }
}
