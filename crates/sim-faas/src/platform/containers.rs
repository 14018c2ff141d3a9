//! The life of a container: it is placed where memory is, created, loads its code, serves,
//! and goes.

use homeostat_core::{Bytes, SimTime};
use homeostat_des::ClassId;

use super::Platform;
use super::state::{Container, ContainerTimes, Event, FunctionTrace, Job, NOTHING, Phase};
use crate::config::Scaling;
use crate::{Error, Result};

impl Platform {
    /// Adds or removes containers until there are as many as wanted, as far as there is room.
    pub(super) fn match_wanted(&mut self, number: usize) {
        let wanted = self.functions[number].wanted.replicas as usize;
        while self.functions[number].containers.len() < wanted {
            let Some(container) = self.place(number) else { break };
            self.create(container);
        }
        while self.functions[number].containers.len() > wanted {
            self.drop_one(number);
        }
        self.count_pending(number);
    }

    pub(super) fn count_pending(&mut self, number: usize) {
        self.note_shortage(number);
        let function = &mut self.functions[number];
        let pending = function.shortage();
        self.pending = self.pending - function.pending + pending;
        function.pending = pending;
    }

    /// Keeps the list of functions that have fewer containers than are wanted.
    fn note_shortage(&mut self, number: usize) {
        if self.functions[number].shortage() > 0 {
            self.short_functions.insert(number as u32);
        } else if !self.short_functions.is_empty() {
            self.short_functions.remove(&(number as u32));
        }
    }

    /// Puts a container on the node with the most free memory, or nowhere.
    pub(super) fn place(&mut self, number: usize) -> Option<u32> {
        let needed = self.functions[number].reserved;
        let node = self.placement.find(needed)?;
        self.count_time(number);
        self.set_reserved(node, self.nodes[node].reserved + needed);
        let epoch = |place: &Container| place.epoch;
        let free = self.free_containers.pop();
        let fresh = Container {
            function: number as u32,
            node: node as u32,
            class: None,
            epoch: free.map_or(0, |place| epoch(&self.containers[place as usize])),
            first_request: NOTHING,
            in_service: 0,
            phase: Phase::Creating,
            is_draining: false,
            is_watched: false,
            has_served: false,
        };
        let times = ContainerTimes { created: self.now, idle_since: self.now };
        let container = match free {
            Some(place) => {
                self.containers[place as usize] = fresh;
                self.container_times[place as usize] = times;
                place
            }
            None => {
                self.containers.push(fresh);
                self.container_times.push(times);
                (self.containers.len() - 1) as u32
            }
        };
        let function = &mut self.functions[number];
        function.containers.push(container);
        function.present += 1;
        Some(container)
    }

    /// Creates a placed container: quickly where its image is, slowly elsewhere.
    fn create(&mut self, container: u32) {
        let Container { function, node, epoch, .. } = self.containers[container as usize];
        let number = function as usize;
        self.functions[number].window.cold_starts += 1;
        let timings = self.config.timings;
        let trace = self.nodes[node as usize].traces.get(&function);
        let has_image = trace.is_some_and(|trace| trace.has_image);
        let timing = if has_image { timings.start_warm } else { timings.start_cold };
        let at = self.now + timing.draw(&mut self.rng);
        self.events.schedule(at, Event::Created { container, epoch });
    }

    /// A created container starts its runtime and loads its code, which burns CPU.
    pub(super) fn load_code(&mut self, container: u32) {
        let state = &mut self.containers[container as usize];
        state.phase = Phase::Starting;
        let (number, node) = (state.function as usize, state.node as usize);
        let class = self.enroll(number, node);
        self.containers[container as usize].class = Some(class);
        let work = self.functions[number].profile.start_cpu;
        self.nodes[node].processor.start(self.now, class, work, Job::Start(container));
        self.watch(node);
    }

    /// Gives a function its class on a node.
    fn enroll(&mut self, number: usize, node: usize) -> ClassId {
        let state = &mut self.nodes[node];
        if let Some(trace) = state.traces.get_mut(&(number as u32)) {
            trace.has_image = true;
            return trace.class;
        }
        let function = &mut self.functions[number];
        let slots = f64::from(self.config.slots);
        let weight = function.millicores as f64 / slots;
        let kind = function.profile.category as usize;
        let class = state
            .processor
            .add_class_of_kind(weight, function.profile.parallelism, kind)
            .expect("weight and parallelism were checked");
        state.traces.insert(number as u32, FunctionTrace { class, has_image: true });
        function.classes.push((node as u32, class));
        class
    }

    /// A container begins to serve.
    pub(super) fn become_ready(&mut self, container: u32) {
        let state = &mut self.containers[container as usize];
        state.phase = Phase::Ready;
        let (number, node) = (state.function as usize, state.node as usize);
        if state.is_draining {
            return self.remove_container(container);
        }
        let class = state.class;
        let class = class.unwrap_or_else(|| self.enroll(number, node));
        self.containers[container as usize].class = Some(class);
        self.functions[number].idle.push(container);
        self.take_waiting(container);
    }

    /// New shares act on the running containers.
    pub(super) fn apply_shares(&mut self, number: usize) {
        let millicores = self.functions[number].wanted.cpu.millicores();
        self.functions[number].millicores = millicores;
        let weight = millicores as f64 / f64::from(self.config.slots);
        for place in 0..self.functions[number].classes.len() {
            let (node, class) = self.functions[number].classes[place];
            let node = node as usize;
            let changed = self.nodes[node].processor.set_weight(self.now, class, weight);
            changed.expect("shares above zero were checked");
            self.watch(node);
        }
    }

    /// Sets this much memory aside for each container.
    pub(super) fn reserve(&mut self, number: usize, memory: Bytes) {
        self.count_time(number);
        let before = self.functions[number].reserved;
        self.functions[number].reserved = memory;
        for node in self.nodes_of_containers(number) {
            let reserved = self.nodes[node].reserved;
            self.set_reserved(node, reserved.saturating_sub(before) + memory);
        }
        if memory < before && self.pending > 0 {
            self.place_pending();
        }
    }

    /// Refuses a limit that the nodes of the present containers have no room for.
    pub(super) fn require_room_to_grow(&self, number: usize, memory: Bytes) -> Result<()> {
        let function = &self.functions[number];
        if memory <= function.reserved {
            return Ok(());
        }
        let more = memory.saturating_sub(function.reserved);
        let mut nodes = self.nodes_of_containers(number);
        nodes.sort_unstable();
        for together in nodes.chunk_by(|a, b| a == b) {
            let node = &self.nodes[together[0]];
            let needed = Bytes::new(more.bytes().saturating_mul(together.len() as u64));
            if needed > node.free() {
                return Err(Error::NoRoom {
                    function: function.profile.name.clone(),
                    asked: format!("{needed} more"),
                    free: node.free().to_string(),
                });
            }
        }
        Ok(())
    }

    /// The node of each container of a function, draining ones included.
    pub(super) fn nodes_of_containers(&self, number: usize) -> Vec<usize> {
        let function = &self.functions[number];
        let present = function.containers.iter().chain(&function.draining);
        present.map(|container| self.containers[*container as usize].node as usize).collect()
    }

    /// Removes the container whose loss costs least: the one idle for longest, else one that
    /// has not started yet, else a busy one as soon as it has answered.
    fn drop_one(&mut self, number: usize) {
        let function = &self.functions[number];
        if let Some(container) = function
            .idle
            .iter()
            .copied()
            .find(|container| self.containers[*container as usize].in_service == 0)
        {
            return self.remove_container(container);
        }
        let starting =
            |container: &&u32| self.containers[**container as usize].phase != Phase::Ready;
        if let Some(container) = function.containers.iter().rev().find(starting).copied() {
            return self.remove_container(container);
        }
        let Some(container) = function.containers.last().copied() else { return };
        let function = &mut self.functions[number];
        function.containers.retain(|other| *other != container);
        function.idle.retain(|other| *other != container);
        function.draining.push(container);
        self.containers[container as usize].is_draining = true;
    }

    /// Takes a container away, with whatever it still does.
    pub(super) fn remove_container(&mut self, container: u32) {
        let Container { function, node, class, phase, in_service, is_draining, .. } =
            self.containers[container as usize];
        let (number, node) = (function as usize, node as usize);
        self.count_time(number);
        if in_service > 0 {
            self.lose_requests(container);
        }
        if let Some(class) = class.filter(|_| phase == Phase::Starting) {
            self.nodes[node].processor.remove(self.now, class, |job| *job == Job::Start(container));
            self.watch(node);
        }
        let function = &mut self.functions[number];
        if is_draining {
            function.draining.retain(|other| *other != container);
        } else {
            function.containers.retain(|other| *other != container);
            function.idle.retain(|other| *other != container);
        }
        function.present -= 1;
        let reserved = self.nodes[node].reserved.saturating_sub(function.reserved);
        self.set_reserved(node, reserved);
        self.note_shortage(number);
        let state = &mut self.containers[container as usize];
        state.phase = Phase::Gone;
        state.epoch = state.epoch.wrapping_add(1);
        self.free_containers.push(container);
        if self.pending > 0 {
            self.place_pending();
        }
    }

    /// Requests in a container that ends are lost.
    fn lose_requests(&mut self, container: u32) {
        let Container { function, node, class, .. } = self.containers[container as usize];
        let (number, node) = (function as usize, node as usize);
        let class = class.expect("a container that serves has loaded its code");
        let requests = &self.requests;
        let is_inside = |job: &Job| match job {
            Job::Request(request) => requests[*request as usize].container == container,
            Job::Start(_) => false,
        };
        self.nodes[node].processor.remove(self.now, class, is_inside);
        self.watch(node);
        let lost: Vec<u32> = self.containers[container as usize].requests(&self.requests).collect();
        for request in lost {
            self.forget(request, number);
            self.count_failure(number, self.requests[request as usize].journey);
        }
        self.containers[container as usize].in_service = 0;
    }

    /// A lost request counts in the percentiles as one that was never answered: otherwise a
    /// function that kills its requests would look quick.
    pub(super) fn count_failure(&mut self, number: usize, journey: u32) {
        let never = self.functions[number].never(self.config.timeout);
        let window = &mut self.functions[number].window;
        window.failed += 1;
        window.slo_violations += 1;
        window.latency.record(never);
        self.lose_journey(number, journey);
    }

    /// A container is killed because its request needs more memory than it may have; another
    /// one is started in its place.
    pub(super) fn run_out_of_memory(&mut self, container: u32, journey: u32) {
        let number = self.containers[container as usize].function as usize;
        self.functions[number].window.oom_kills += 1;
        // The request that broke it has no place among those in service yet.
        self.containers[container as usize].in_service -= 1;
        self.count_failure(number, journey);
        let was_draining = self.containers[container as usize].is_draining;
        self.remove_container(container);
        if !was_draining {
            self.match_wanted(number);
        }
    }

    /// Tries again to place the containers that found no room.
    pub(super) fn place_pending(&mut self) {
        let mut next = 0;
        while let Some(number) = self.short_functions.range(next..).next().copied() {
            self.match_wanted(number as usize);
            next = number + 1;
        }
    }

    /// Containers that will serve soon.
    pub(super) fn on_their_way(&self, number: usize) -> usize {
        let containers = self.functions[number].containers.iter();
        containers.filter(|place| self.containers[**place as usize].phase != Phase::Ready).count()
    }

    /// A container begins to be idle, and ends after its keep-alive, if it has one.
    pub(super) fn rest(&mut self, container: u32) {
        let function = &self.functions[self.containers[container as usize].function as usize];
        if let Scaling::OnDemand { keep_alive, .. } = function.scaling {
            self.container_times[container as usize].idle_since = self.now;
            self.watch_idle(container, self.now + keep_alive);
        }
    }

    fn watch_idle(&mut self, container: u32, until: SimTime) {
        let state = &mut self.containers[container as usize];
        if !state.is_watched {
            state.is_watched = true;
            let epoch = state.epoch;
            self.events.schedule(until, Event::KeepAlive { container, epoch });
        }
    }

    pub(super) fn end_if_idle(&mut self, container: u32) {
        let state = &mut self.containers[container as usize];
        state.is_watched = false;
        let number = state.function as usize;
        let Scaling::OnDemand { keep_alive, .. } = self.functions[number].scaling else { return };
        if state.in_service > 0 {
            // It is watched again when it rests.
            return;
        }
        let until = self.container_times[container as usize].idle_since + keep_alive;
        if self.now >= until {
            self.functions[number].wanted.replicas -= 1;
            self.remove_container(container);
        } else {
            self.watch_idle(container, until);
        }
    }
}
