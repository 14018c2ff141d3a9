//! Last-level caches and memory bandwidth, divided every tick.

use super::{CPU, Mesh};
use crate::lane::water_fill;

/// Weight of the present in the smoothed figures of a tick.
const SMOOTHING: f64 = 0.5;

impl Mesh {
    pub(super) fn divide_caches_and_bandwidth(&mut self) {
        let elapsed = self.now.saturating_since(self.last_tick).nanos() as f64;
        self.last_tick = self.now;
        for node in 0..self.nodes.len() {
            self.divide_node(node, elapsed);
        }
    }

    fn divide_node(&mut self, node: usize, elapsed: f64) {
        let replicas = std::mem::take(&mut self.nodes[node].replicas);
        let size = self.setup.node;
        // The cache first, since misses add traffic: what is wanted is the working set of what runs.
        self.claims.clear();
        for number in &replicas {
            let replica = &self.replicas[*number as usize];
            let lane = &self.lanes[Self::lane(*number, CPU)];
            let own = if lane.len() > 0 || lane.job_used() > replica.cpu_used {
                self.working_set(*number)
            } else {
                0.0
            };
            let wanted = (own + replica.cache_stress).min(replica.cache_limit);
            self.claims.push((wanted, replica.cache_limit));
        }
        water_fill(size.cache, &self.claims, &mut self.grants);
        let caches = self.grants.clone();
        let mut works = Vec::with_capacity(replicas.len());
        self.claims.clear();
        for (number, cache) in replicas.iter().zip(&caches) {
            let lane_number = Self::lane(*number, CPU);
            self.lanes[lane_number].advance(self.now);
            let lane = &self.lanes[lane_number];
            let working_set = self.working_set(*number);
            let replica = &mut self.replicas[*number as usize];
            let demand = &self.setup.topology.services[replica.service as usize].demand;
            // A stressor takes its part of the cache in proportion to what it touches.
            let own = cache * working_set / (working_set + replica.cache_stress).max(1.0);
            let misses = 1.0 - (own / working_set.max(1.0)).min(1.0);
            let busy = (lane.job_used() - replica.cpu_used) / elapsed;
            replica.cpu_used = lane.job_used();
            replica.cache_used += cache * elapsed;
            let traffic = busy / lane.slowdown()
                * (demand.memory_bytes_per_cpu_s / 1e9)
                * self.setup.interference.traffic(misses);
            let wanted = traffic * replica.throttle + replica.memory_stress;
            self.claims.push((wanted.min(replica.memory_limit), replica.memory_limit));
            works.push((misses, traffic, wanted));
        }
        let bandwidth = size.memory_bandwidth / 1e9;
        water_fill(bandwidth, &self.claims, &mut self.grants);
        let mut moved = 0.0;
        for ((number, (_, traffic, wanted)), grant) in replicas.iter().zip(&works).zip(&self.grants)
        {
            let replica = &mut self.replicas[*number as usize];
            let used = grant.min(traffic + replica.memory_stress);
            moved += used;
            replica.memory_used += used * elapsed;
            // What jobs want beyond what they are granted stretches their time.
            let target = if *grant > 0.0 { (wanted / grant).max(1.0) } else { 1.0 };
            replica.throttle += SMOOTHING * (target - replica.throttle);
        }
        let before = self.nodes[node].memory_utilization;
        let utilization = before + SMOOTHING * (moved / bandwidth - before);
        self.nodes[node].memory_utilization = utilization;
        for (number, (misses, _, _)) in replicas.iter().zip(&works) {
            let replica = &self.replicas[*number as usize];
            let stall = self.setup.topology.services[replica.service as usize].demand.memory_stall;
            let cost = self.setup.interference.slowdown(stall, *misses, utilization);
            let slowdown = cost.max(replica.throttle);
            let lane_number = Self::lane(*number, CPU);
            let lane = &mut self.lanes[lane_number];
            if (lane.slowdown() / slowdown - 1.0).abs() > 1e-6 {
                lane.set_slowdown(slowdown);
                let share = lane.share();
                lane.set_rate(share);
                self.finishes.set_or_clear(lane_number, lane.next());
            }
        }
        self.nodes[node].replicas = replicas;
    }

    fn working_set(&self, replica: u32) -> f64 {
        let service = self.replicas[replica as usize].service;
        self.setup.topology.services[service as usize].demand.working_set
    }
}
