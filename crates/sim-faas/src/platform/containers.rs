//! The life of a container: it is placed where memory is, created, loads its code, serves,
//! and goes.

use homeostat_core::Bytes;
use homeostat_des::ClassId;

use super::Platform;
use super::state::{Container, Event, Job, Phase};
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
        self.count_homeless(number);
    }

    /// Counts the containers of a function that are wanted and have no room.
    pub(super) fn count_homeless(&mut self, number: usize) {
        let function = &mut self.functions[number];
        let homeless = function.wanted.replicas.saturating_sub(function.containers.len() as u32);
        self.homeless = self.homeless - function.homeless + homeless;
        function.homeless = homeless;
    }

    /// Puts a container on the node with the most free memory, or nowhere.
    pub(super) fn place(&mut self, number: usize) -> Option<u32> {
        let needed = self.functions[number].reserved;
        let (mut best, mut most) = (None, Bytes::ZERO);
        for (node, state) in self.nodes.iter().enumerate() {
            let free = state.free();
            if state.is_up && free >= needed && (best.is_none() || free > most) {
                (best, most) = (Some(node), free);
            }
        }
        let node = best?;
        self.count_time(number);
        self.nodes[node].reserved += needed;
        let epoch = |place: &Container| place.epoch;
        let free = self.free_containers.pop();
        let fresh = Container {
            function: number as u32,
            node: node as u32,
            class: None,
            epoch: free.map_or(0, |place| epoch(&self.containers[place as usize])),
            phase: Phase::Creating,
            in_service: 0,
            is_draining: false,
            is_watched: false,
            has_served: false,
            created: self.now,
            idle_since: self.now,
        };
        let container = match free {
            Some(place) => {
                self.containers[place as usize] = fresh;
                place
            }
            None => {
                self.containers.push(fresh);
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
        let has_image = self.nodes[node as usize].images.get(number) == Some(&true);
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
        if state.classes.len() <= number {
            state.classes.resize(number + 1, None);
        }
        if state.images.len() <= number {
            state.images.resize(number + 1, false);
        }
        state.images[number] = true;
        if let Some(class) = state.classes[number] {
            return class;
        }
        let function = &mut self.functions[number];
        let slots = f64::from(self.config.slots);
        let weight = function.millicores as f64 / slots;
        let kind = function.profile.category as usize;
        let class = state
            .processor
            .add_class_of_kind(weight, function.profile.parallelism, kind)
            .expect("weight and parallelism were checked");
        state.classes[number] = Some(class);
        function.nodes.push(node as u32);
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
        let class = self.enroll(number, node);
        self.containers[container as usize].class = Some(class);
        self.functions[number].idle.push(container);
        self.take_waiting(container);
    }

    /// New shares act on the running containers.
    pub(super) fn apply_shares(&mut self, number: usize) {
        let millicores = self.functions[number].wanted.cpu.millicores();
        self.functions[number].millicores = millicores;
        let weight = millicores as f64 / f64::from(self.config.slots);
        for place in 0..self.functions[number].nodes.len() {
            let node = self.functions[number].nodes[place] as usize;
            let class = self.nodes[node].class(number);
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
            let node = &mut self.nodes[node as usize];
            node.reserved = node.reserved.saturating_sub(before) + memory;
        }
        if memory < before && self.homeless > 0 {
            self.house_the_homeless();
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
            let node = &self.nodes[together[0] as usize];
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
    fn nodes_of_containers(&self, number: usize) -> Vec<u32> {
        let function = &self.functions[number];
        if function.present as usize == function.containers.len() {
            // A large platform has thousands of others.
            let own = function.containers.iter();
            return own.map(|container| self.containers[*container as usize].node).collect();
        }
        let is_own =
            |state: &&Container| state.phase != Phase::Gone && state.function as usize == number;
        self.containers.iter().filter(is_own).map(|state| state.node).collect()
    }

    /// Removes the container that is missed least: the one idle for longest, else one that
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
        self.containers[container as usize].is_draining = true;
    }

    /// Takes a container away, with whatever it still does.
    pub(super) fn remove_container(&mut self, container: u32) {
        let Container { function, node, phase, in_service, .. } =
            self.containers[container as usize];
        let (number, node) = (function as usize, node as usize);
        self.count_time(number);
        if in_service > 0 {
            self.lose_requests(container);
        }
        if phase == Phase::Starting {
            let class = self.nodes[node].class(number);
            self.nodes[node].processor.remove(self.now, class, |job| *job == Job::Start(container));
            self.watch(node);
        }
        let function = &mut self.functions[number];
        function.containers.retain(|other| *other != container);
        function.idle.retain(|other| *other != container);
        function.present -= 1;
        self.nodes[node].reserved = self.nodes[node].reserved.saturating_sub(function.reserved);
        let state = &mut self.containers[container as usize];
        state.phase = Phase::Gone;
        state.epoch = state.epoch.wrapping_add(1);
        self.free_containers.push(container);
        if self.homeless > 0 {
            self.house_the_homeless();
        }
    }

    /// Requests in a container that ends are lost.
    fn lose_requests(&mut self, container: u32) {
        let number = self.containers[container as usize].function as usize;
        let node = self.containers[container as usize].node as usize;
        let class = self.nodes[node].class(number);
        let requests = &self.requests;
        let is_inside = |job: &Job| match job {
            Job::Request(request) => requests[*request as usize].container == container,
            Job::Start(_) => false,
        };
        self.nodes[node].processor.remove(self.now, class, is_inside);
        self.watch(node);
        let is_inside = |request: &u32| self.requests[*request as usize].container == container;
        let lost: Vec<u32> =
            self.functions[number].in_service.iter().copied().filter(is_inside).collect();
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
        window.missed += 1;
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

    /// Tries to place containers that found no room.
    pub(super) fn house_the_homeless(&mut self) {
        for number in 0..self.functions.len() {
            let function = &self.functions[number];
            if (function.containers.len() as u32) < function.wanted.replicas {
                self.match_wanted(number);
            }
        }
    }

    /// Containers that will serve soon.
    pub(super) fn on_their_way(&self, number: usize) -> usize {
        let containers = self.functions[number].containers.iter();
        containers.filter(|place| self.containers[**place as usize].phase != Phase::Ready).count()
    }

    /// Sees to it that an idle container ends after its keep-alive.
    pub(super) fn watch_idle(&mut self, container: u32) {
        let state = &self.containers[container as usize];
        let Some(keep_alive) = self.keep_alive(state.function as usize) else { return };
        if !state.is_watched {
            let (at, epoch) = (state.idle_since + keep_alive, state.epoch);
            self.containers[container as usize].is_watched = true;
            self.events.schedule(at, Event::KeepAlive { container, epoch });
        }
    }

    pub(super) fn end_if_idle(&mut self, container: u32) {
        let state = &mut self.containers[container as usize];
        state.is_watched = false;
        let number = state.function as usize;
        let (is_busy, idle_since) = (state.in_service > 0, state.idle_since);
        let Scaling::OnDemand { keep_alive, .. } = self.functions[number].scaling else { return };
        if is_busy {
            // It is watched again when it rests.
            return;
        }
        if self.now >= idle_since + keep_alive {
            self.functions[number].wanted.replicas -= 1;
            self.remove_container(container);
        } else {
            self.watch_idle(container);
        }
    }
}
