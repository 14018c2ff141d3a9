//! The life of pods: created, scheduled, started, ready, resized, killed, deleted.

use homeostat_core::{Bytes, Millicores, SimDuration, SimTime};
use homeostat_des::{ClassId, SharedProcessor};

use super::requests::Job;
use super::{Cluster, Event, Resize};

#[derive(Debug)]
pub(super) struct Pod {
    pub(super) deployment: usize,
    pub(super) generation: u32,
    pub(super) node: Option<u32>,
    pub(super) phase: Phase,
    /// CPU request and memory limit.
    pub(super) cpu: Millicores,
    pub(super) memory: Bytes,
    pub(super) created: SimTime,
    /// Since when it has been ready; none if it is not.
    pub(super) ready_since: Option<SimTime>,
    pub(super) processor: SharedProcessor<Job>,
    pub(super) class: ClassId,
    pub(super) in_flight: u32,
    /// Memory of program and requests; caches fill what is left.
    pub(super) memory_used: Bytes,
    pub(super) memory_peak: Bytes,
    /// Core-nanoseconds at the beginning of the window.
    pub(super) cpu_before: f64,
    /// Out-of-memory kills in a row.
    pub(super) kills: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// No node has room.
    Pending,
    /// Scheduling, image, sandbox; also the back-off after a kill.
    Creating,
    /// The program starts.
    Starting,
    /// It serves.
    Ready,
    /// Deleted: it finishes its requests.
    Terminating,
    /// The slot is free.
    Gone,
}

/// The longest back-off after out-of-memory kills, and the time after which kills are forgotten, as
/// the kubelet has them.
const MAX_BACK_OFF: SimDuration = SimDuration::from_secs(300);
const FORGET_KILLS: SimDuration = SimDuration::from_secs(600);

impl Cluster {
    /// Creates a pod of the wanted size and looks for a node.
    pub(super) fn create_pod(&mut self, deployment: usize) -> u32 {
        let wanted = self.deployments[deployment].wanted;
        let mut processor = SharedProcessor::new(self.cpu_limit(wanted.cpu).max(1e-6))
            .expect("its cores are above zero");
        // A request is one thread, as it is in most servers.
        let class = processor.add_class(1.0, 1.0).expect("weight and cap are one");
        let number = self.free_pods.pop().unwrap_or(self.pods.len() as u32);
        let generation = self.pods.get(number as usize).map_or(0, |pod| pod.generation + 1);
        let pod = Pod {
            deployment,
            generation,
            node: None,
            phase: Phase::Pending,
            cpu: wanted.cpu,
            memory: wanted.memory,
            created: self.now,
            ready_since: None,
            processor,
            class,
            in_flight: 0,
            memory_used: Bytes::ZERO,
            memory_peak: Bytes::ZERO,
            cpu_before: 0.0,
            kills: 0,
        };
        match self.pods.get_mut(number as usize) {
            Some(slot) => *slot = pod,
            None => self.pods.push(pod),
        }
        self.deployments[deployment].pods.push(number);
        self.place(number);
        number
    }

    /// Gives a pending pod a node, if one has room.
    pub(super) fn place(&mut self, number: u32) {
        let pod = &self.pods[number as usize];
        let (cpu, memory) = (pod.cpu, pod.memory);
        let Some(node) = self.choose_node(cpu, memory) else { return };
        let (request, limit) = (self.memory_request(memory), self.cpu_limit(cpu));
        self.nodes[node as usize].reserve(cpu, request, limit);
        self.nodes[node as usize].pods.push(number);
        let pod = &mut self.pods[number as usize];
        (pod.node, pod.phase) = (Some(node), Phase::Creating);
        let deployment = &mut self.deployments[pod.deployment];
        deployment.count_time(self.now);
        deployment.paid_pods += 1;
        deployment.paid_bytes += memory.bytes();
        self.start_after(number, self.config.create);
    }

    /// Makes a pod ready that was there before the simulation began.
    pub(super) fn start_at_once(&mut self, number: u32) {
        if self.pods[number as usize].node.is_some() {
            self.pods[number as usize].generation += 1;
            self.occupy(number);
            self.become_ready(number);
        }
    }

    fn start_after(&mut self, pod: u32, delay: SimDuration) {
        let generation = self.pods[pod as usize].generation;
        self.events.schedule(self.now + delay, Event::Start { pod, generation });
    }

    pub(super) fn start_program(&mut self, number: u32) {
        let deployment = self.pods[number as usize].deployment;
        self.deployments[deployment].counters.started += 1;
        self.occupy(number);
        let pod = &mut self.pods[number as usize];
        pod.phase = Phase::Starting;
        pod.processor.start(self.now, pod.class, self.config.start_cpu, Job::Start);
        self.finishes.set_or_clear(number as usize, pod.processor.next_finish());
        self.after_demand_change(number);
    }

    /// The program's own memory.
    fn occupy(&mut self, number: u32) {
        let resident =
            self.deployments[self.pods[number as usize].deployment].application.resident();
        let pod = &mut self.pods[number as usize];
        pod.memory_used = resident;
        if let Some(node) = pod.node {
            self.nodes[node as usize].memory_used += resident;
        }
    }

    pub(super) fn become_ready(&mut self, number: u32) {
        let pod = &mut self.pods[number as usize];
        if pod.memory_used > pod.memory {
            return self.kill_out_of_memory(number);
        }
        pod.phase = Phase::Ready;
        pod.ready_since = Some(self.now);
        let deployment = pod.deployment;
        self.deployments[deployment].ready.push(number);
        self.fill_from_queue(number);
        self.unsettled.push(deployment);
    }

    /// Kills a pod's program. The kubelet starts it again: at once the first time, then after 10, 20,
    /// 40 ... seconds.
    pub(super) fn kill_out_of_memory(&mut self, number: u32) {
        self.lose_requests(number);
        self.leave_balancer(number);
        let pod = &mut self.pods[number as usize];
        let served = pod.ready_since.take().map(|since| self.now.saturating_since(since));
        pod.kills =
            if served.is_some_and(|served| served >= FORGET_KILLS) { 1 } else { pod.kills + 1 };
        pod.generation += 1;
        let used = std::mem::replace(&mut pod.memory_used, Bytes::ZERO);
        pod.memory_peak = pod.memory;
        let (kills, node, is_deleted) = (pod.kills, pod.node, pod.phase == Phase::Terminating);
        pod.phase = Phase::Creating;
        self.deployments[pod.deployment].counters.oom_kills += 1;
        if let Some(node) = node {
            let node = &mut self.nodes[node as usize];
            node.memory_used = node.memory_used.saturating_sub(used);
        }
        if is_deleted {
            return self.remove_pod(number);
        }
        let delay = match kills {
            0 | 1 => SimDuration::ZERO,
            more => SimDuration::from_secs(10u64 << (more - 2).min(5)).min(MAX_BACK_OFF),
        };
        self.start_after(number, delay);
    }

    fn leave_balancer(&mut self, number: u32) {
        let deployment = &mut self.deployments[self.pods[number as usize].deployment];
        deployment.ready.retain(|pod| *pod != number);
    }

    /// Deletes a pod: it leaves the balancer, finishes its requests, and is gone.
    fn delete_pod(&mut self, number: u32) {
        self.leave_balancer(number);
        let pod = &mut self.pods[number as usize];
        let is_idle = pod.in_flight == 0;
        pod.phase = Phase::Terminating;
        pod.ready_since = None;
        if is_idle {
            return self.remove_pod(number);
        }
        let generation = pod.generation;
        let at = self.now + self.config.grace;
        self.events.schedule(at, Event::GraceOver { pod: number, generation });
    }

    /// Frees what a pod has. It serves no request.
    pub(super) fn remove_pod(&mut self, number: u32) {
        self.leave_balancer(number);
        self.finishes.clear(number as usize);
        let pod = &mut self.pods[number as usize];
        pod.phase = Phase::Gone;
        pod.generation += 1;
        let cpu_used = pod.processor.cpu_time(self.now, pod.class) - pod.cpu_before;
        let (cpu, memory, used) = (pod.cpu, pod.memory, pod.memory_used);
        let (owner, node) = (pod.deployment, pod.node.take());
        let deployment = &mut self.deployments[owner];
        deployment.count_time(self.now);
        deployment.counters.gone_cpu += cpu_used;
        deployment.pods.retain(|pod| *pod != number);
        if let Some(node) = node {
            deployment.paid_pods -= 1;
            deployment.paid_bytes -= memory.bytes();
            let (request, limit) = (self.memory_request(memory), self.cpu_limit(cpu));
            let place = &mut self.nodes[node as usize];
            place.release(cpu, request, limit);
            place.memory_used = place.memory_used.saturating_sub(used);
            place.pods.retain(|pod| *pod != number);
            self.share_node(node);
        }
        self.free_pods.push(number);
        self.schedule_pending();
        self.unsettled.push(owner);
    }

    /// Moves a Deployment towards what is wanted, as its controller and the kubelets do.
    pub(super) fn reconcile(&mut self, deployment: usize) {
        match self.config.resize {
            Resize::InPlace => self.resize_in_place(deployment),
            Resize::Restart => self.roll_out(deployment),
        }
        let wanted = self.deployments[deployment].wanted.replicas as usize;
        let live = self.live(deployment);
        let is_rolling = live.iter().any(|pod| self.is_outdated(*pod));
        for _ in live.len()..wanted {
            self.create_pod(deployment);
        }
        if live.len() > wanted && !is_rolling {
            for pod in self.kept_first(live).into_iter().skip(wanted) {
                self.delete_pod(pod);
            }
        }
    }

    /// Pods that are not being deleted, oldest first.
    pub(super) fn live(&self, deployment: usize) -> Vec<u32> {
        let pods = self.deployments[deployment].pods.iter().copied();
        pods.filter(|pod| self.pods[*pod as usize].phase < Phase::Terminating).collect()
    }

    /// The pods in the order in which they are kept: ready ones first, older ones first. A
    /// ReplicaSet deletes from the other end.
    fn kept_first(&self, mut pods: Vec<u32>) -> Vec<u32> {
        let rank = |number: &u32| {
            let pod = &self.pods[*number as usize];
            (std::cmp::Reverse(pod.phase), pod.ready_since, pod.created, *number)
        };
        pods.sort_by_key(rank);
        pods
    }

    fn is_outdated(&self, pod: u32) -> bool {
        let pod = &self.pods[pod as usize];
        let wanted = &self.deployments[pod.deployment].wanted;
        (pod.cpu, pod.memory) != (wanted.cpu, wanted.memory)
    }

    fn resize_in_place(&mut self, deployment: usize) {
        let wanted = self.deployments[deployment].wanted;
        for number in self.live(deployment) {
            if !self.is_outdated(number) {
                continue;
            }
            let pod = &self.pods[number as usize];
            let (cpu, memory, node) = (pod.cpu, pod.memory, pod.node);
            let Some(node) = node else {
                let pod = &mut self.pods[number as usize];
                (pod.cpu, pod.memory) = (wanted.cpu, wanted.memory);
                self.place(number);
                continue;
            };
            let (old, new) = (self.memory_request(memory), self.memory_request(wanted.memory));
            let more_cpu = wanted.cpu.saturating_sub(cpu);
            let has_room = self.nodes[node as usize].fits(more_cpu, new.saturating_sub(old));
            if !has_room || pod.memory_used > wanted.memory {
                continue;
            }
            let (old_limit, limit) = (self.cpu_limit(cpu), self.cpu_limit(wanted.cpu));
            let place = &mut self.nodes[node as usize];
            place.release(cpu, old, old_limit);
            place.reserve(wanted.cpu, new, limit);
            let owner = &mut self.deployments[deployment];
            owner.count_time(self.now);
            owner.paid_bytes = owner.paid_bytes + wanted.memory.bytes() - memory.bytes();
            let pod = &mut self.pods[number as usize];
            (pod.cpu, pod.memory) = (wanted.cpu, wanted.memory);
            pod.memory_peak = pod.memory_peak.min(wanted.memory);
            pod.processor.set_cores(self.now, limit.max(1e-6)).expect("a limit is above zero");
            self.finishes.set_or_clear(number as usize, pod.processor.next_finish());
            self.share_node(node);
        }
    }

    /// A rolling update: new pods within the surge, then old ones as far as enough stay ready.
    fn roll_out(&mut self, deployment: usize) {
        let live = self.live(deployment);
        let (old, new): (Vec<u32>, Vec<u32>) = live.iter().partition(|pod| self.is_outdated(**pod));
        if old.is_empty() {
            return;
        }
        let wanted = self.deployments[deployment].wanted.replicas as usize;
        let most = wanted + wanted.div_ceil(4);
        let missing = wanted.saturating_sub(new.len());
        for _ in 0..missing.min(most.saturating_sub(live.len())) {
            self.create_pod(deployment);
        }
        let is_ready = |pod: &&u32| self.pods[**pod as usize].phase == Phase::Ready;
        let mut spare = live.iter().filter(is_ready).count().saturating_sub(wanted - wanted / 4);
        // Old pods that are not ready serve nobody: they go first.
        for pod in self.kept_first(old).into_iter().rev() {
            let is_ready = self.pods[pod as usize].phase == Phase::Ready;
            if is_ready && spare == 0 {
                break;
            }
            spare -= usize::from(is_ready);
            self.delete_pod(pod);
        }
    }
}
