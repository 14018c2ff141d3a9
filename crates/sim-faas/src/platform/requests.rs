//! The life of a request: it arrives, waits for a container, burns CPU time, waits for
//! storage, and is answered.

use homeostat_core::SimDuration;

use super::Platform;
use super::state::{ALONE, Arrived, Event, Job, Needs, Phase, Request};
use crate::config::Scaling;

impl Platform {
    pub(super) fn on_arrival(&mut self) {
        let arrival = self.arrivals.pop().expect("the next arrival is drawn");
        let number = arrival.function as usize;
        match arrival.needs() {
            Some(needs) => self.enter(number, Arrived { at: self.now, needs, journey: ALONE }),
            None => self.on_undrawn_arrival(number),
        }
    }

    #[cold]
    fn on_undrawn_arrival(&mut self, number: usize) {
        match self.functions[number].stage {
            None => self.arrive(number),
            // Stages have no load of their own: this is the chain's.
            Some(stage) => self.begin_journey(stage.chain as usize),
        }
    }

    pub(super) fn arrive(&mut self, number: usize) {
        let needs = self.functions[number].next_needs();
        self.enter(number, Arrived { at: self.now, needs, journey: ALONE });
    }

    /// A request goes to a container or waits for one.
    // One copy for plain requests and one for chains: every arrival passes here.
    #[inline(always)]
    pub(super) fn enter(&mut self, number: usize, arrived: Arrived) {
        self.count_time(number);
        self.give_up_old(number);
        let function = &mut self.functions[number];
        function.window.arrived += 1;
        match function.idle.last().copied() {
            Some(container) => self.serve(container, arrived),
            None => {
                function.waiting.push_back(arrived);
                self.start_on_demand(number);
            }
        }
    }

    /// A platform that scales by itself starts a container for each request that waits and
    /// has none on its way; one that may scale to zero, the first container.
    fn start_on_demand(&mut self, number: usize) {
        let function = &self.functions[number];
        let may_start = match function.scaling {
            Scaling::Managed => return,
            Scaling::ManagedFromZero => function.wanted.replicas == 0,
            Scaling::OnDemand { most, .. } => {
                let is_short = function.waiting.len() > self.on_their_way(number);
                is_short && (function.containers.len() as u32) < most
            }
        };
        if may_start {
            let wanted = function.containers.len() as u32 + 1;
            self.functions[number].wanted.replicas = wanted;
            self.match_wanted(number);
        }
    }

    /// Gives a request to a container with room.
    fn serve(&mut self, container: u32, arrived: Arrived) {
        let place = &mut self.containers[container as usize];
        let number = place.function as usize;
        let node = place.node as usize;
        let class = place.class.expect("a container that serves has loaded its code");
        place.in_service += 1;
        place.has_served = true;
        let function = &mut self.functions[number];
        if place.in_service == self.config.slots {
            let top = function.idle.pop();
            debug_assert_eq!(top, Some(container), "the container on top serves");
        }
        if function.memory_limit < function.least_memory {
            return self.run_out_of_memory(container, arrived.journey);
        }
        let Arrived { at: arrived, needs: Needs { cpu, io }, journey } = arrived;
        let next = place.first_request;
        let fresh = Request { arrived, io, container, next, journey, epoch: 0 };
        let request = match self.free_requests.pop() {
            Some(request) => {
                let epoch = self.requests[request as usize].epoch;
                self.requests[request as usize] = Request { epoch, ..fresh };
                request
            }
            None => {
                self.requests.push(fresh);
                (self.requests.len() - 1) as u32
            }
        };
        self.containers[container as usize].first_request = request;
        function.in_service += 1;
        self.nodes[node].processor.start(self.now, class, cpu, Job::Request(request));
        self.watch(node);
    }

    pub(super) fn on_finish(&mut self, node: usize) {
        let finished = self.nodes[node].processor.finish_and_wait(self.now);
        match finished.map(|finished| finished.job) {
            Some(Job::Request(request)) => self.wait_or_complete(request),
            Some(Job::Start(container)) => self.become_ready(container),
            None => {}
        }
        self.nodes[node].processor.catch_up();
        self.watch(node);
    }

    /// The CPU part is done; storage, network and paging follow, without CPU.
    fn wait_or_complete(&mut self, request: u32) {
        let Request { container, epoch, io, .. } = self.requests[request as usize];
        let function = &self.functions[self.containers[container as usize].function as usize];
        let mut wait = io;
        let (needed, limit) = (function.touched_memory, function.memory_limit);
        if limit < needed {
            let missing = needed.bytes() as f64 / limit.bytes().max(1) as f64 - 1.0;
            let time = (function.profile.cpu + function.profile.io).nanos() as f64;
            let paging = self.config.paging * missing * time;
            wait = wait + SimDuration::from_nanos(paging as u64);
        }
        if wait == SimDuration::ZERO {
            self.complete(request);
        } else {
            self.events.schedule(self.now + wait, Event::Answered { request, epoch });
        }
    }

    pub(super) fn complete(&mut self, request: u32) {
        let Request { arrived, container, journey, .. } = self.requests[request as usize];
        let number = self.containers[container as usize].function as usize;
        self.count_time(number);
        self.forget(request, number);
        let latency = self.now.saturating_since(arrived);
        let function = &mut self.functions[number];
        function.window.completed += 1;
        function.window.slo_violations += u64::from(latency > function.slo.threshold());
        function.window.latency.record(latency);
        self.release(container);
        if journey != ALONE {
            self.finish_stage(number, journey);
        }
    }

    /// Frees the place of a request in service.
    pub(super) fn forget(&mut self, request: u32, number: usize) {
        let state = &mut self.requests[request as usize];
        state.epoch = state.epoch.wrapping_add(1);
        let Request { container, next, .. } = *state;
        self.free_requests.push(request);
        self.functions[number].in_service -= 1;
        let first = &mut self.containers[container as usize].first_request;
        if *first == request {
            *first = next;
            return;
        }
        let mut before = *first;
        while self.requests[before as usize].next != request {
            before = self.requests[before as usize].next;
        }
        self.requests[before as usize].next = next;
    }

    /// A container has room again: it takes the next request that waits, or rests.
    fn release(&mut self, container: u32) {
        let slots = self.config.slots;
        let place = &mut self.containers[container as usize];
        let was_full = place.in_service == slots;
        place.in_service -= 1;
        if place.is_draining {
            if place.in_service == 0 {
                self.remove_container(container);
            }
            return;
        }
        if was_full {
            let function = place.function as usize;
            self.functions[function].idle.push(container);
        }
        self.take_waiting(container);
    }

    /// Serves waiting requests, as long as the container on top has room.
    pub(super) fn take_waiting(&mut self, container: u32) {
        let number = self.containers[container as usize].function as usize;
        self.give_up_old(number);
        while self.containers[container as usize].phase == Phase::Ready
            && self.functions[number].idle.last() == Some(&container)
        {
            match self.functions[number].waiting.pop_front() {
                Some(arrived) => self.serve(container, arrived),
                None => break,
            }
        }
        let place = &self.containers[container as usize];
        if place.phase == Phase::Ready && place.in_service == 0 {
            self.rest(container);
        }
    }

    /// Requests whose clients have given up leave the queue.
    pub(super) fn give_up_old(&mut self, number: usize) {
        let (now, timeout) = (self.now, self.config.timeout);
        let is_old = |arrived: &Arrived| now.saturating_since(arrived.at) > timeout;
        while self.functions[number].waiting.front().is_some_and(is_old) {
            self.give_up_first(number);
        }
    }

    // Rare, and kept out of the check that every arrival makes.
    #[inline(never)]
    fn give_up_first(&mut self, number: usize) {
        self.count_time(number);
        let function = &mut self.functions[number];
        let journey = function.waiting.pop_front().map_or(ALONE, |old| old.journey);
        function.window.timed_out += 1;
        function.window.slo_violations += 1;
        function.window.latency.record(function.never(self.config.timeout));
        self.lose_journey(number, journey);
    }
}
