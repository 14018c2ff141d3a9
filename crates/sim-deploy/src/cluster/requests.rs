//! The life of requests: balanced, served, finished, given up or lost.

use homeostat_core::{Bytes, SimDuration, SimTime};

use super::pods::Phase;
use super::{Cluster, Event};

#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) arrived: SimTime,
    deployment: u32,
    /// The pod that serves it, or one of the two below.
    pod: u32,
    cpu: SimDuration,
    io: SimDuration,
    memory: Bytes,
    /// Whether it has had its CPU time and waits for disks and services.
    is_in_io: bool,
}

/// The pod of a request that waits or was lost, and of a slot without a request.
const NO_POD: u32 = u32::MAX;
const FREE: u32 = u32::MAX - 1;

/// What a pod's processor works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    /// The start of its program.
    Start,
    Request(u32),
}

impl Cluster {
    pub(super) fn arrive(&mut self, number: usize) {
        let now = self.now;
        let deployment = &mut self.deployments[number];
        self.arrivals.set_or_clear(number, deployment.source.next_arrival());
        deployment.count_time(now);
        deployment.inside += 1;
        deployment.counters.arrived += 1;
        let need = deployment.application.draw(&mut deployment.needs);
        let request = Request {
            arrived: now,
            deployment: number as u32,
            pod: NO_POD,
            cpu: need.cpu,
            io: need.io,
            memory: need.memory,
            is_in_io: false,
        };
        let id = match self.free_requests.pop() {
            Some(id) => {
                self.requests[id as usize] = request;
                id
            }
            None => {
                self.requests.push(request);
                self.requests.len() as u32 - 1
            }
        };
        match self.next_pod(number) {
            Some(pod) => self.admit(pod, id),
            None => {
                self.deployments[number].waiting.push_back(id);
                self.watch_queue(number);
            }
        }
    }

    /// The ready pod with the fewest requests, in turn where several have as few; none if all are
    /// full.
    fn next_pod(&mut self, number: usize) -> Option<u32> {
        let deployment = &mut self.deployments[number];
        let count = deployment.ready.len();
        let mut best: Option<(u32, usize)> = None;
        for step in 0..count {
            let place = (deployment.turn + step) % count;
            let busy = self.pods[deployment.ready[place] as usize].in_flight;
            if best.is_none_or(|(fewest, _)| busy < fewest) {
                best = Some((busy, place));
                if busy == 0 {
                    break;
                }
            }
        }
        let (busy, place) = best?;
        deployment.turn = place + 1;
        (busy < self.config.concurrency).then(|| deployment.ready[place])
    }

    fn admit(&mut self, number: u32, id: u32) {
        let request = &mut self.requests[id as usize];
        let pod = &mut self.pods[number as usize];
        let application = &self.deployments[pod.deployment].application;
        request.pod = number;
        pod.in_flight += 1;
        pod.memory_used += request.memory;
        let limit = pod.memory;
        let room = limit.saturating_sub(pod.memory_used).bytes() as f64;
        let cache = application.cache();
        let filled = Bytes::new(room.min(cache.bytes() as f64) as u64);
        pod.memory_peak = pod.memory_peak.max((pod.memory_used + filled).min(limit));
        if cache > Bytes::ZERO {
            request.io =
                request.io + application.uncached(filled.bytes() as f64 / cache.bytes() as f64);
        }
        let is_over = pod.memory_used > limit;
        let node = pod.node.expect("a pod that serves has a node");
        self.nodes[node as usize].memory_used += request.memory;
        if is_over {
            return self.kill_out_of_memory(number);
        }
        pod.processor.start(self.now, pod.class, request.cpu, Job::Request(id));
        self.finishes.set_or_clear(number as usize, pod.processor.next_finish());
        self.after_demand_change(number);
        self.evict_if_short(Some(node));
    }

    /// Shares the cores of a pod's node again, where pods can contend.
    pub(super) fn after_demand_change(&mut self, number: u32) {
        if self.config.cpu_limit_over_request > 1.0
            && let Some(node) = self.pods[number as usize].node
        {
            self.share_node(node);
        }
    }

    pub(super) fn finish_jobs(&mut self, number: u32) {
        let pod = &mut self.pods[number as usize];
        let finished = pod.processor.finish(self.now);
        self.finishes.set_or_clear(number as usize, pod.processor.next_finish());
        match finished.map(|finished| finished.job) {
            Some(Job::Start) => self.become_ready(number),
            Some(Job::Request(id)) => {
                let request = &mut self.requests[id as usize];
                let io = request.io;
                if io > SimDuration::ZERO {
                    request.is_in_io = true;
                    self.events.schedule(self.now + io, Event::IoDone { request: id });
                } else {
                    self.complete(id);
                }
            }
            None => {}
        }
        self.after_demand_change(number);
    }

    pub(super) fn end_io(&mut self, id: u32) {
        if self.requests[id as usize].pod == NO_POD {
            // Its pod was killed: the request has been counted as lost.
            self.free(id);
        } else {
            self.complete(id);
        }
    }

    fn complete(&mut self, id: u32) {
        let Request { arrived, pod: number, memory, .. } = self.requests[id as usize];
        let pod = &mut self.pods[number as usize];
        pod.in_flight -= 1;
        pod.memory_used = pod.memory_used.saturating_sub(memory);
        if let Some(node) = pod.node {
            let node = &mut self.nodes[node as usize];
            node.memory_used = node.memory_used.saturating_sub(memory);
        }
        let (phase, is_idle) = (pod.phase, pod.in_flight == 0);
        let deployment = &mut self.deployments[pod.deployment];
        deployment.count_time(self.now);
        deployment.inside -= 1;
        let latency = self.now.saturating_since(arrived);
        let counters = &mut deployment.counters;
        counters.completed += 1;
        counters.slo_violations += u64::from(latency > deployment.slo.threshold());
        counters.latency.record(latency);
        self.free(id);
        match phase {
            Phase::Ready => self.fill_from_queue(number),
            Phase::Terminating if is_idle => self.remove_pod(number),
            _ => {}
        }
    }

    /// Serves waiting requests as far as a ready pod has room.
    pub(super) fn fill_from_queue(&mut self, number: u32) {
        let owner = self.pods[number as usize].deployment;
        if self.deployments[owner].waiting.is_empty() {
            return;
        }
        self.give_up_old(owner);
        loop {
            let pod = &self.pods[number as usize];
            let has_room = pod.phase == Phase::Ready && pod.in_flight < self.config.concurrency;
            if !has_room {
                return;
            }
            let Some(id) = self.deployments[owner].waiting.pop_front() else { return };
            self.admit(number, id);
        }
    }

    /// Schedules the next look at a queue, unless one is scheduled.
    fn watch_queue(&mut self, owner: usize) {
        let deployment = &mut self.deployments[owner];
        let Some(id) = deployment.waiting.front().filter(|_| !deployment.is_watched) else {
            return;
        };
        let at = self.requests[*id as usize].arrived + self.config.timeout;
        deployment.is_watched = true;
        self.events.schedule(at, Event::GiveUp { deployment: owner as u32 });
    }

    pub(super) fn give_up_in_time(&mut self, owner: usize) {
        self.deployments[owner].is_watched = false;
        self.give_up_old(owner);
        self.watch_queue(owner);
    }

    /// Gives up requests that have waited too long for a pod.
    pub(super) fn give_up_old(&mut self, owner: usize) {
        let timeout = self.config.timeout;
        while let Some(id) = self.deployments[owner].waiting.front().copied() {
            let arrived = self.requests[id as usize].arrived;
            if self.now.saturating_since(arrived) < timeout {
                break;
            }
            let deployment = &mut self.deployments[owner];
            deployment.waiting.pop_front();
            deployment.count_time(self.now);
            deployment.inside -= 1;
            deployment.counters.timed_out += 1;
            deployment.counters.slo_violations += 1;
            deployment.counters.latency.record(UNANSWERED);
            self.free(id);
        }
    }

    /// Loses the requests of a pod that is killed. The clients get errors.
    pub(super) fn lose_requests(&mut self, number: u32) {
        let pod = &mut self.pods[number as usize];
        pod.processor.remove(self.now, pod.class, |_| true);
        self.finishes.clear(number as usize);
        pod.in_flight = 0;
        let owner = pod.deployment;
        let mut lost_memory = Bytes::ZERO;
        for id in 0..self.requests.len() as u32 {
            let request = &mut self.requests[id as usize];
            if request.pod != number {
                continue;
            }
            lost_memory += request.memory;
            request.pod = NO_POD;
            // The end of its waiting is scheduled and frees it.
            let is_free = !request.is_in_io;
            if is_free {
                self.free(id);
            }
            let deployment = &mut self.deployments[owner];
            deployment.count_time(self.now);
            deployment.inside -= 1;
            deployment.counters.failed += 1;
            deployment.counters.slo_violations += 1;
            deployment.counters.latency.record(UNANSWERED);
        }
        let pod = &mut self.pods[number as usize];
        pod.memory_used = pod.memory_used.saturating_sub(lost_memory);
        if let Some(node) = pod.node {
            let node = &mut self.nodes[node as usize];
            node.memory_used = node.memory_used.saturating_sub(lost_memory);
        }
    }

    fn free(&mut self, id: u32) {
        self.requests[id as usize].pod = FREE;
        self.free_requests.push(id);
    }

    /// Ages of the requests of a Deployment that are in the system.
    pub(super) fn ages(&self, owner: usize) -> impl Iterator<Item = SimDuration> {
        let waiting = self.deployments[owner].waiting.iter();
        let waiting = waiting.map(|id| self.requests[*id as usize].arrived);
        let is_served =
            move |request: &&Request| request.deployment as usize == owner && request.pod < FREE;
        let served = self.requests.iter().filter(is_served).map(|request| request.arrived);
        waiting.chain(served).map(|arrived| self.now.saturating_since(arrived))
    }
}

/// The latency of a request without an answer, as a percentile counts it.
pub(super) const UNANSWERED: SimDuration = SimDuration::from_secs(3600);
