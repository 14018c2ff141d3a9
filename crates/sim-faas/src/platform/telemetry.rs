//! What can be seen of a function: windows of figures, as monitoring would report them.

use homeostat_core::{Bytes, SimDuration, SimTime};
use homeostat_decide::{MetricsStatus, Observation, ReplicaSample};

use super::Platform;
use super::state::{Container, Counters, Function, FunctionId, Phase, Request, Totals};

/// One closed window of one function.
pub type Window = homeostat_decide::TargetWindow;

impl Platform {
    /// Ends a function's window, reports it and begins the next.
    pub fn close_window(&mut self, id: FunctionId) -> Window {
        let number = id.0;
        self.give_up_old(number);
        self.count_time(number);
        let cpu_s = self.cpu_since_window(number);
        let function = &mut self.functions[number];
        let length = self.now.saturating_since(function.window_began);
        let seconds = length.seconds().max(1e-9);
        let mut counters = std::mem::take(&mut function.window);
        function.totals.add(&counters, cpu_s);
        // Requests that are late already, wherever they are, count with their age: a function
        // that is stuck never looks healthy.
        for age in late_ages(function, &self.containers, &self.requests, self.now) {
            counters.latency.record(age);
        }
        let service_time = function.profile.service_time();
        let observation = Observation {
            now: self.now,
            window: length,
            allocation: function.wanted,
            slo: function.slo,
            isolated_latency: function.isolated_latency,
            latency: counters.latency.quantile(function.slo.percentile()),
            arrivals_per_s: counters.arrived as f64 / seconds,
            concurrency: counters.request_time / length.nanos().max(1) as f64,
            waiting: function.waiting.len() as u64,
            oom_kills: counters.oom_kills as u32,
            replicas: self.replica_samples(number, cpu_s / seconds),
            queries: Vec::new(),
            measured: None,
            slo_status: None,
            metrics: MetricsStatus::Complete,
            service_time: Some(service_time),
            team: None,
            chain: None,
        };
        let function = &mut self.functions[number];
        function.window_began = self.now;
        let window = Window {
            observation,
            completed: counters.completed,
            slo_violations: counters.slo_violations,
            timed_out: counters.timed_out,
            failed: counters.failed,
            cold_starts: counters.cold_starts,
            cpu_s,
            container_s: counters.container_time / 1e9,
            memory_gib_s: gib_seconds(counters.memory_time),
        };
        counters.clear();
        function.window = counters;
        window
    }

    /// Everything a function has seen, the open window included.
    pub fn totals(&mut self, id: FunctionId) -> Totals {
        self.give_up_old(id.0);
        self.count_time(id.0);
        let cpu_s = self.cpu_since(id.0);
        let function = &self.functions[id.0];
        let mut totals = function.totals.clone();
        totals.add(&function.window, cpu_s);
        totals
    }

    /// Everything a function has seen at the end of a run: requests inside that are late
    /// already have violated the SLO, whatever becomes of them.
    pub fn final_totals(&mut self, id: FunctionId) -> Totals {
        let mut totals = self.totals(id);
        let function = &self.functions[id.0];
        for age in late_ages(function, &self.containers, &self.requests, self.now) {
            totals.slo_violations += 1;
            totals.unsettled += 1;
            totals.latency.record(age);
        }
        totals
    }

    /// Requests of a function that are inside: waiting or in service.
    pub fn inside(&self, id: FunctionId) -> u64 {
        self.functions[id.0].inside()
    }

    /// Brings the time integrals of a function to the present.
    pub(super) fn count_time(&mut self, number: usize) {
        let function = &mut self.functions[number];
        let elapsed = self.now.saturating_since(function.counted_until).nanos() as f64;
        function.counted_until = self.now;
        let present = f64::from(function.present);
        function.window.request_time += function.inside() as f64 * elapsed;
        function.window.container_time += present * elapsed;
        function.window.memory_time += present * function.reserved.bytes() as f64 * elapsed;
    }

    /// CPU time in core-nanoseconds that a function has used.
    fn cpu_used(&mut self, number: usize) -> f64 {
        let mut used = 0.0;
        for (node, class) in &self.functions[number].classes {
            used += self.nodes[*node as usize].processor.cpu_time(self.now, *class);
        }
        used
    }

    /// CPU time in core-seconds since the window began.
    fn cpu_since(&mut self, number: usize) -> f64 {
        (self.cpu_used(number) - self.functions[number].cpu_at_window) / 1e9
    }

    fn cpu_since_window(&mut self, number: usize) -> f64 {
        let used = self.cpu_used(number);
        let before = std::mem::replace(&mut self.functions[number].cpu_at_window, used);
        (used - before) / 1e9
    }

    fn replica_samples(&mut self, number: usize, cores: f64) -> Vec<ReplicaSample> {
        let function = &self.functions[number];
        let is_ready = |place: &u32| self.containers[*place as usize].phase == Phase::Ready;
        let ready = function.containers.iter().filter(|place| is_ready(place)).count();
        // Starts burn CPU time too, but the figure of a container that is not ready is missing.
        let each = cores / ready.max(1) as f64;
        let limit = function.memory_limit;
        let (needed, idle) =
            (function.profile.memory, function.profile.memory * function.profile.idle);
        let samples = function.containers.iter().map(|place| {
            let state = &self.containers[*place as usize];
            let memory: Bytes = if state.has_served { needed } else { idle };
            ReplicaSample {
                started: self.container_times[*place as usize].created,
                is_ready: is_ready(place),
                served_throughout: None,
                cpu_request: None,
                cpu_cores: is_ready(place).then_some(each),
                memory: is_ready(place).then_some(memory.min(limit)),
            }
        });
        let samples = samples.collect();
        for place in 0..self.functions[number].containers.len() {
            let container = self.functions[number].containers[place];
            let state = &mut self.containers[container as usize];
            state.has_served = state.in_service > 0;
        }
        samples
    }
}

/// Ages of the requests inside that are beyond the SLO's threshold.
fn late_ages(
    function: &Function,
    containers: &[Container],
    requests: &[Request],
    now: SimTime,
) -> impl Iterator<Item = SimDuration> {
    let threshold = function.slo.threshold();
    let waiting = function.waiting.iter().map(|arrived| arrived.at);
    let present = function.containers.iter().chain(&function.draining);
    let in_service = present
        .flat_map(|place| containers[*place as usize].requests(requests))
        .map(|request| requests[request as usize].arrived);
    let ages = waiting.chain(in_service).map(move |arrived| now.saturating_since(arrived));
    ages.filter(move |age| *age > threshold)
}

fn gib_seconds(byte_nanos: f64) -> f64 {
    byte_nanos / 1e9 / f64::from(1 << 30)
}

impl Counters {
    fn clear(&mut self) {
        let mut latency = std::mem::take(&mut self.latency);
        latency.clear();
        *self = Self { latency, ..Self::default() };
    }
}

impl Totals {
    fn add(&mut self, window: &Counters, cpu_s: f64) {
        self.arrived += window.arrived;
        self.completed += window.completed;
        self.slo_violations += window.slo_violations;
        self.timed_out += window.timed_out;
        self.failed += window.failed;
        self.cold_starts += window.cold_starts;
        self.oom_kills += window.oom_kills;
        self.cpu_s += cpu_s;
        self.container_s += window.container_time / 1e9;
        self.memory_gib_s += gib_seconds(window.memory_time);
        window.latency.add_to(&mut self.latency);
    }

    /// Requests that are settled, or inside and late already.
    pub fn judged(&self) -> u64 {
        self.completed + self.timed_out + self.failed + self.unsettled
    }

    /// Fraction of them that violated the SLO.
    pub fn slo_violation_ratio(&self) -> f64 {
        self.slo_violations as f64 / self.judged().max(1) as f64
    }
}
