//! Nodes, services and replicas: placement, start, limits, draining.

use std::collections::VecDeque;

use homeostat_decide::{ContainerLimits, ContainerResource, ContainerScaling, Decision};

use super::{CPU, DISK, Event, LANES, Mesh, NETWORK};
use crate::delays::{COLD_START, Delay, WARM_START};
use crate::lane::{Group, Lane};

/// A replica, numbered over all services in the order of their starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplicaId(pub(crate) u32);

impl ReplicaId {
    /// Its number.
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Sum of the CPU limits of its replicas, in cores.
    pub(super) committed: f64,
    /// Services whose image it has.
    pub(super) images: Vec<bool>,
    pub(super) replicas: Vec<u32>,
    /// Share of memory bandwidth in use at the last tick.
    pub(super) memory_utilization: f64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ServiceState {
    /// Replicas that take new calls, in the order of their starts.
    pub(super) ready: Vec<u32>,
    pub(super) starting: Vec<u32>,
    /// Whose turn it is.
    pub(super) turn: usize,
    /// Limits of its replicas, as last set.
    pub(super) limits: [f64; 5],
    pub(super) arrived: u64,
    pub(super) refused: u64,
    /// What replicas that are gone have used, and what was reported already.
    pub(super) used_before: [f64; 5],
    pub(super) reported: [f64; 5],
    pub(super) reported_arrived: u64,
    pub(super) reported_refused: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Starting,
    Ready,
    Draining,
    Gone,
}

#[derive(Debug, Clone)]
pub(super) struct Replica {
    pub(super) service: u32,
    pub(super) node: u32,
    /// Its number in its service.
    pub(super) ordinal: u32,
    pub(super) phase: Phase,
    /// Calls that it has been given and not answered, and calls that it waits for.
    pub(super) inside: u32,
    pub(super) outside: u32,
    pub(super) busy_threads: u32,
    pub(super) queue: VecDeque<u32>,
    /// Connections to each service that it calls.
    pub(super) pools: Vec<Pool>,
    /// Limits of memory bandwidth (bytes per nanosecond) and cache (bytes).
    pub(super) memory_limit: f64,
    pub(super) cache_limit: f64,
    pub(super) memory_stress: f64,
    pub(super) cache_stress: f64,
    /// CPU time stretches by this much because memory bandwidth is limited.
    pub(super) throttle: f64,
    /// CPU time that had been used at the last tick.
    pub(super) cpu_used: f64,
    /// Bytes to and from memory, and byte-nanoseconds of cache, ever.
    pub(super) memory_used: f64,
    pub(super) cache_used: f64,
    /// Mean and standard deviation of an injected delay in milliseconds.
    pub(super) delay: Option<Delay>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    pub(super) in_use: u32,
    pub(super) waiting: VecDeque<u32>,
}

impl Mesh {
    pub(super) fn add_nodes(&mut self) {
        let size = self.setup.node;
        let services = self.setup.topology.services.len();
        for _ in 0..self.setup.nodes {
            for capacity in [size.cores, size.disk / 1e9, size.network / 1e9] {
                self.groups.push(Group::new(capacity));
            }
            self.nodes.push(Node {
                committed: 0.0,
                images: vec![false; services],
                replicas: Vec::new(),
                memory_utilization: 0.0,
            });
        }
    }

    pub(super) fn add_services(&mut self) {
        for service in 0..self.setup.topology.services.len() {
            let setting = self.setup.limits[service];
            let limits = setting.limits.map(|limit| limit as f64);
            self.services.push(ServiceState { limits, ..ServiceState::default() });
            for _ in 0..setting.replicas {
                let node = self.roomiest_node().expect("there is a node");
                let replica = self.add_replica(service as u32, node);
                self.become_ready(replica);
            }
        }
    }

    /// The node with the most CPU that is not committed.
    fn roomiest_node(&self) -> Option<usize> {
        (0..self.nodes.len())
            .min_by(|a, b| self.nodes[*a].committed.total_cmp(&self.nodes[*b].committed))
    }

    fn add_replica(&mut self, service: u32, node: usize) -> u32 {
        let number = self.replicas.len() as u32;
        let state = &self.services[service as usize];
        let limits = state.limits;
        let this = &self.setup.topology.services[service as usize];
        let job_caps = [1.0, f64::INFINITY, f64::INFINITY];
        let lane_limits = [limits[0] / 1e3, limits[3] / 1e9, limits[4] / 1e9];
        for (resource, (limit, cap)) in lane_limits.into_iter().zip(job_caps).enumerate() {
            let group = node * LANES + resource;
            self.groups[group].lanes.push(self.lanes.len() as u32);
            let mut lane = Lane::new(group as u32, limit, cap);
            lane.advance(self.now);
            self.lanes.push(lane);
        }
        let others = self.replicas.iter().filter(|other| other.service == service);
        let ordinal = others.count() as u32;
        self.nodes[node].committed += limits[0] / 1e3;
        self.nodes[node].images[service as usize] = true;
        self.nodes[node].replicas.push(number);
        self.replicas.push(Replica {
            service,
            node: node as u32,
            ordinal,
            phase: Phase::Starting,
            inside: 0,
            outside: 0,
            busy_threads: 0,
            queue: VecDeque::new(),
            pools: vec![Pool::default(); this.callees.len()],
            memory_limit: limits[1] / 1e9,
            cache_limit: limits[2],
            memory_stress: 0.0,
            cache_stress: 0.0,
            throttle: 1.0,
            cpu_used: 0.0,
            memory_used: 0.0,
            cache_used: 0.0,
            delay: None,
        });
        number
    }

    pub(super) fn become_ready(&mut self, number: u32) {
        let replica = &mut self.replicas[number as usize];
        // It may have been removed while it started.
        if replica.phase == Phase::Starting {
            replica.phase = Phase::Ready;
            let service = &mut self.services[replica.service as usize];
            service.starting.retain(|other| *other != number);
            service.ready.push(number);
        }
    }

    /// Replicas of a service that are ready or starting.
    pub fn replicas_of(&self, service: usize) -> u32 {
        let state = &self.services[service];
        (state.ready.len() + state.starting.len()) as u32
    }

    /// The replicas that take calls for a service, in the order of their starts.
    pub fn ready_replicas(&self, service: usize) -> Vec<ReplicaId> {
        self.services[service].ready.iter().map(|number| ReplicaId(*number)).collect()
    }

    /// The name of a replica, as spans have it.
    pub fn replica_name(&self, replica: ReplicaId) -> String {
        let this = &self.replicas[replica.number()];
        format!("{}-{}", self.setup.topology.services[this.service as usize].name, this.ordinal)
    }

    /// The service of a replica.
    pub fn service_of(&self, replica: ReplicaId) -> usize {
        self.replicas[replica.number()].service as usize
    }

    /// Limits of the replicas of a service, as last set, in the units of a setting.
    pub fn limits_of(&self, service: usize) -> [u64; 5] {
        self.services[service].limits.map(|limit| limit as u64)
    }

    /// Carries out a decision about a service. Returns the setting that it got: nodes without free
    /// CPU take no more replicas.
    pub fn apply(
        &mut self,
        service: usize,
        decision: &Decision<ContainerScaling>,
    ) -> ContainerLimits {
        let wanted = decision.applied();
        self.set_limits(service, wanted.limits);
        let replicas = self.set_replicas(service, wanted.replicas);
        ContainerLimits { replicas, limits: self.limits_of(service) }
    }

    /// Sets the limits of all replicas of a service. Each takes effect after the time that the
    /// platform needs for it.
    fn set_limits(&mut self, service: usize, limits: [u64; 5]) {
        let old = self.limits_of(service);
        for resource in ContainerResource::ALL {
            let index = resource.index();
            if limits[index] == old[index] {
                continue;
            }
            self.services[service].limits[index] = limits[index].max(1) as f64;
            let state = &self.services[service];
            for replica in state.ready.iter().chain(&state.starting) {
                let delay = Delay::of_limit(resource).draw(&mut self.operations);
                let limit = limits[index].max(1) as f64;
                let resource = index as u8;
                let event = Event::Limit { replica: *replica, resource, limit };
                self.events.schedule(self.now + delay, event);
            }
        }
    }

    pub(super) fn set_limit(&mut self, number: u32, resource: usize, limit: f64) {
        let replica = &mut self.replicas[number as usize];
        if replica.phase == Phase::Gone {
            return;
        }
        let (lane, limit) = match ContainerResource::ALL[resource] {
            ContainerResource::MemoryBandwidth => {
                replica.memory_limit = limit / 1e9;
                return;
            }
            ContainerResource::Cache => {
                replica.cache_limit = limit;
                return;
            }
            ContainerResource::Cpu => (CPU, limit / 1e3),
            ContainerResource::Disk => (DISK, limit / 1e9),
            ContainerResource::Network => (NETWORK, limit / 1e9),
        };
        let lane_number = Self::lane(number, lane);
        if lane == CPU {
            let before = self.lanes[lane_number].limit();
            self.nodes[replica.node as usize].committed += limit - before;
        }
        self.lanes[lane_number].advance(self.now);
        self.lanes[lane_number].set_limit(limit);
        self.after_change(lane_number);
    }

    /// Changes the number of replicas of a service, at least one. A new one starts on the node with the most free
    /// CPU, warm where its service ran before; one that leaves finishes its calls first. Returns how many
    /// there are then: nodes without free CPU take none.
    fn set_replicas(&mut self, service: usize, replicas: u32) -> u32 {
        while self.replicas_of(service) < replicas {
            let cores = self.services[service].limits[0] / 1e3;
            let node = self.roomiest_node().expect("there is a node");
            if self.nodes[node].committed + cores > self.setup.node.cores {
                break;
            }
            let is_warm = self.nodes[node].images[service];
            let number = self.add_replica(service as u32, node);
            self.services[service].starting.push(number);
            let start = if is_warm { WARM_START } else { COLD_START };
            let delay = start.draw(&mut self.operations);
            self.events.schedule(self.now + delay, Event::Ready { replica: number });
        }
        while self.replicas_of(service) > replicas.max(1) {
            let state = &mut self.services[service];
            let number = match state.starting.pop() {
                Some(number) => number,
                None if state.ready.len() > 1 => state.ready.pop().expect("counted above"),
                None => break,
            };
            self.replicas[number as usize].phase = Phase::Draining;
            self.retire_if_idle(number);
        }
        self.replicas_of(service)
    }

    /// Removes a draining replica after its last call.
    pub(super) fn retire_if_idle(&mut self, number: u32) {
        let replica = &self.replicas[number as usize];
        if replica.phase != Phase::Draining || replica.inside + replica.outside > 0 {
            return;
        }
        let service = replica.service as usize;
        for (sum, used) in self.used_by(number).into_iter().enumerate() {
            self.services[service].used_before[sum] += used;
        }
        let cores = self.lanes[Self::lane(number, CPU)].limit();
        let replica = &mut self.replicas[number as usize];
        replica.phase = Phase::Gone;
        let node = &mut self.nodes[replica.node as usize];
        node.committed -= cores;
        node.replicas.retain(|other| *other != number);
        for resource in [CPU, DISK, NETWORK] {
            let lane = Self::lane(number, resource);
            self.lanes[lane].set_stress(0.0, 0.0);
            self.leave_group(lane as u32);
        }
    }

    /// What a replica has used of each resource: core-nanoseconds, bytes, byte-nanoseconds.
    pub(super) fn used_by(&mut self, number: u32) -> [f64; 5] {
        for resource in [CPU, DISK, NETWORK] {
            self.lanes[Self::lane(number, resource)].advance(self.now);
        }
        let lane = |resource| self.lanes[Self::lane(number, resource)].used();
        let replica = &self.replicas[number as usize];
        [lane(CPU), replica.memory_used, replica.cache_used, lane(DISK), lane(NETWORK)]
    }
}
