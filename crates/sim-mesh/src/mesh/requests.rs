//! The life of requests and of the calls that they consist of.
//!
//! A call waits for a connection of its caller, is sent, waits for a thread, computes, reads from disks,
//! makes its own calls stage by stage, and is answered. Its thread is held until the answer is sent.

use homeostat_core::{SimDuration, SimTime};

use super::{CPU, DISK, Event, Mesh, NETWORK, NONE, SpanRecord};
use crate::service_kind::REQUEST_BYTES;
use crate::topology::Call;

/// A request of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) kind: u32,
    pub(super) arrived: SimTime,
    /// Calls that are not over, those in the background included.
    pub(super) open: u32,
    /// Number of its trace, from one; zero if its spans are not recorded.
    pub(super) trace: u64,
}

/// A call of one service by another, or of the first service by a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rpc {
    pub(super) request: u32,
    operation: u32,
    /// The replica that serves it.
    pub(super) replica: u32,
    /// The replica that made it, or [`NONE`] for a client, and the place of the callee among its callees.
    caller: u32,
    callee: u32,
    /// The call that waits for it, or [`NONE`].
    parent: u32,
    stage: u16,
    pending: u16,
    is_answering: bool,
    is_background: bool,
    has_failed: bool,
    /// CPU time of each piece between two stages.
    piece: f64,
    /// When the call was made, when it reached the replica, and when the answer was ready.
    called: SimTime,
    arrived: SimTime,
    replied: SimTime,
    span: u64,
    parent_span: u64,
}

impl Mesh {
    pub(super) fn begin_request(&mut self, kind: u32) {
        self.conservation.requests_arrived += 1;
        self.types.arrive(kind as usize);
        let every = u64::from(self.setup.record_every);
        self.arrived_for_recording += 1;
        let is_recorded = every > 0 && self.arrived_for_recording.is_multiple_of(every);
        let trace = if is_recorded { self.arrived_for_recording } else { 0 };
        let request = Request { kind, arrived: self.now, open: 0, trace };
        let id = put(&mut self.requests, &mut self.free_requests, request);
        let operation = self.setup.topology.requests[kind as usize].operation;
        let rpc = self.new_rpc(id, Call { operation, callee: 0 }, NONE, NONE, 0, false);
        self.route(rpc);
        self.travel(rpc, Event::Arrive { rpc });
    }

    fn new_rpc(
        &mut self,
        request: u32,
        call: Call,
        caller: u32,
        parent: u32,
        parent_span: u64,
        is_background: bool,
    ) -> u32 {
        self.requests[request as usize].open += 1;
        self.conservation.calls_made += 1;
        let span = self.next_span;
        self.next_span += 1;
        let rpc = Rpc {
            request,
            operation: call.operation,
            replica: NONE,
            caller,
            callee: call.callee,
            parent,
            stage: 0,
            pending: 0,
            is_answering: false,
            is_background,
            has_failed: false,
            piece: 0.0,
            called: self.now,
            arrived: self.now,
            replied: self.now,
            span,
            parent_span,
        };
        put(&mut self.rpcs, &mut self.free_rpcs, rpc)
    }

    /// Makes a call: over a free connection, or after those that wait for one.
    fn call(&mut self, call: Call, parent: u32, is_background: bool) {
        let Rpc { request, replica: caller, span, .. } = self.rpcs[parent as usize];
        let waits = if is_background { NONE } else { parent };
        let rpc = self.new_rpc(request, call, caller, waits, span, is_background);
        let target = self.setup.topology.operations[call.operation as usize].service;
        let connections = self.setup.topology.services[target as usize].demand.connections;
        let replica = &mut self.replicas[caller as usize];
        replica.outside += 1;
        let pool = &mut replica.pools[call.callee as usize];
        if pool.in_use < connections {
            pool.in_use += 1;
            self.send(rpc);
        } else {
            pool.waiting.push_back(rpc);
        }
    }

    fn send(&mut self, rpc: u32) {
        self.route(rpc);
        let caller = self.rpcs[rpc as usize].caller;
        self.start_job(Self::lane(caller, NETWORK), REQUEST_BYTES, rpc);
    }

    /// Chooses the replica that serves a call: ready ones in turn.
    fn route(&mut self, rpc: u32) {
        let this = &mut self.rpcs[rpc as usize];
        let service = self.setup.topology.operations[this.operation as usize].service;
        let state = &mut self.services[service as usize];
        state.turn = if state.turn + 1 < state.ready.len() { state.turn + 1 } else { 0 };
        this.replica = state.ready[state.turn];
        self.replicas[this.replica as usize].inside += 1;
    }

    /// Schedules the end of a message between the two ends of a call.
    fn travel(&mut self, rpc: u32, event: Event) {
        let Rpc { caller, replica, .. } = self.rpcs[rpc as usize];
        let mut time = self.setup.link;
        for end in [caller, replica] {
            if end != NONE
                && let Some(delay) = self.replicas[end as usize].delay
            {
                time = time + delay.draw(&mut self.delays);
            }
        }
        self.events.schedule(self.now + time, event);
    }

    /// A request or an answer has left its replica.
    pub(super) fn after_send(&mut self, rpc: u32) {
        let event = if self.rpcs[rpc as usize].is_answering {
            Event::Answer { rpc }
        } else {
            Event::Arrive { rpc }
        };
        self.travel(rpc, event);
    }

    pub(super) fn arrive(&mut self, rpc: u32) {
        let this = &mut self.rpcs[rpc as usize];
        this.arrived = self.now;
        let number = this.replica;
        let replica = &mut self.replicas[number as usize];
        let service = replica.service as usize;
        self.services[service].arrived += 1;
        let threads = self.setup.topology.services[service].demand.threads;
        if replica.busy_threads < threads {
            replica.busy_threads += 1;
            self.serve(rpc);
        } else if replica.queue.len() < self.setup.max_queue {
            replica.queue.push_back(rpc);
        } else {
            self.services[service].refused += 1;
            self.conservation.calls_refused += 1;
            self.rpcs[rpc as usize].has_failed = true;
            self.reply(rpc);
        }
    }

    /// Starts the first piece of a call, for which a thread is free.
    fn serve(&mut self, rpc: u32) {
        let this = &mut self.rpcs[rpc as usize];
        let operation = &self.setup.topology.operations[this.operation as usize];
        let service = operation.service as usize;
        let pieces = operation.stages.len() as f64 + 1.0;
        let demand = &self.setup.topology.services[service].demand;
        this.piece = demand.cpu_us * 1e3 * exponential(&mut self.demands[service]) / pieces;
        let (lane, piece) = (Self::lane(this.replica, CPU), this.piece);
        self.start_job(lane, piece, rpc);
    }

    /// A piece of CPU time is over.
    pub(super) fn after_cpu(&mut self, rpc: u32) {
        let this = &self.rpcs[rpc as usize];
        let service = self.setup.topology.operations[this.operation as usize].service as usize;
        let bytes = self.setup.topology.services[service].demand.disk_bytes;
        if this.stage == 0 && bytes > 0.0 {
            let work = bytes * exponential(&mut self.demands[service]);
            return self.start_job(Self::lane(this.replica, DISK), work, rpc);
        }
        self.go_on(rpc);
    }

    /// Makes the calls of the next stage, or answers after the last one.
    pub(super) fn go_on(&mut self, rpc: u32) {
        let this = &mut self.rpcs[rpc as usize];
        let topology = std::sync::Arc::clone(&self.setup.topology);
        let operation = &topology.operations[this.operation as usize];
        let Some(calls) = operation.stages.get(usize::from(this.stage)) else {
            for call in &operation.background {
                self.call(*call, rpc, true);
            }
            return self.finish(rpc);
        };
        this.stage += 1;
        this.pending = calls.len() as u16;
        for call in calls {
            self.call(*call, rpc, false);
        }
    }

    /// Frees the thread of a call, and answers.
    fn finish(&mut self, rpc: u32) {
        let number = self.rpcs[rpc as usize].replica;
        let replica = &mut self.replicas[number as usize];
        match replica.queue.pop_front() {
            Some(next) => self.serve(next),
            None => replica.busy_threads -= 1,
        }
        self.reply(rpc);
    }

    fn reply(&mut self, rpc: u32) {
        let this = &mut self.rpcs[rpc as usize];
        (this.is_answering, this.replied) = (true, self.now);
        let this = *this;
        let service = self.replicas[this.replica as usize].service as usize;
        let bytes = if this.has_failed {
            REQUEST_BYTES
        } else {
            self.setup.topology.services[service].demand.response_bytes
        };
        self.start_job(Self::lane(this.replica, NETWORK), bytes, rpc);
    }

    /// The caller has the answer.
    pub(super) fn answer(&mut self, rpc: u32) {
        let this = self.rpcs[rpc as usize];
        self.record(&this);
        self.free_rpcs.push(rpc);
        self.handled += 1;
        self.conservation.calls_answered += 1;
        self.replicas[this.replica as usize].inside -= 1;
        self.retire_if_idle(this.replica);
        if this.caller != NONE {
            let caller = &mut self.replicas[this.caller as usize];
            caller.outside -= 1;
            let pool = &mut caller.pools[this.callee as usize];
            match pool.waiting.pop_front() {
                Some(next) => self.send(next),
                None => pool.in_use -= 1,
            }
            self.retire_if_idle(this.caller);
        }
        if this.parent != NONE {
            let parent = &mut self.rpcs[this.parent as usize];
            parent.pending -= 1;
            parent.has_failed |= this.has_failed;
            if parent.pending == 0 {
                if parent.has_failed {
                    self.finish(this.parent);
                } else {
                    let (lane, piece) = (Self::lane(parent.replica, CPU), parent.piece);
                    self.start_job(lane, piece, this.parent);
                }
            }
        } else if !this.is_background {
            self.end_request(this.request, this.has_failed);
        }
        let request = &mut self.requests[this.request as usize];
        request.open -= 1;
        if request.open == 0 {
            self.free_requests.push(this.request);
        }
    }

    /// Records an answered call if those of its request are.
    fn record(&mut self, rpc: &Rpc) {
        let trace = self.requests[rpc.request as usize].trace;
        if trace != 0 {
            self.spans.push(SpanRecord {
                trace,
                span: rpc.span,
                parent: rpc.parent_span,
                operation: rpc.operation,
                replica: rpc.replica,
                caller: rpc.caller,
                called: rpc.called,
                start: rpc.arrived,
                end: rpc.replied,
                answered: self.now,
                is_error: rpc.has_failed,
                is_background: rpc.is_background,
            });
        }
    }

    fn end_request(&mut self, request: u32, has_failed: bool) {
        let Request { kind, arrived, .. } = self.requests[request as usize];
        let latency = self.now.saturating_since(arrived);
        let is_late = latency > self.setup.timeout;
        match (has_failed, is_late) {
            (true, _) => self.conservation.requests_failed += 1,
            (false, true) => self.conservation.requests_timed_out += 1,
            (false, false) => self.conservation.requests_completed += 1,
        }
        self.types.settle(kind as usize, latency, has_failed, is_late);
    }

    /// Requests whose client waits, and calls that are not answered.
    pub(super) fn open(&self) -> (u64, u64) {
        let calls = (self.rpcs.len() - self.free_rpcs.len()) as u64;
        let is_client = |rpc: &Rpc| rpc.caller == NONE;
        let mut is_free = vec![false; self.rpcs.len()];
        for rpc in &self.free_rpcs {
            is_free[*rpc as usize] = true;
        }
        let open = self.rpcs.iter().zip(&is_free).filter(|(rpc, free)| !**free && is_client(rpc));
        (open.count() as u64, calls)
    }
}

/// Mean one.
#[inline]
fn exponential(rng: &mut homeostat_core::Stream) -> f64 {
    // Above zero, so that no logarithm is infinite.
    -(1.0 - rng.uniform()).ln()
}

/// Puts a value into a free slot, or into a new one.
fn put<T>(slots: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    match free.pop() {
        Some(id) => {
            slots[id as usize] = value;
            id
        }
        None => {
            slots.push(value);
            slots.len() as u32 - 1
        }
    }
}

/// A duration in nanoseconds, of a number of seconds.
pub(super) fn seconds(seconds: f64) -> SimDuration {
    SimDuration::from_nanos((seconds * 1e9) as u64)
}
