//! The serving system: requests, queues, batches, iterations and the energy that they take.

mod batch;
mod deployment;
mod executor;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use homeostat_core::{SimDuration, SimTime};
use homeostat_decide::{Decision, GpuClock, Megahertz};
use homeostat_des::EventQueue;

use crate::operator::Work;
use crate::{Error, Result};
use batch::Slot;
pub use deployment::{
    Admission, Batching, Deployment, Executor, Instance, ServedModel, ServiceOrder, Stage,
    StageCost, single_device,
};
use executor::{ExecutorState, Job};

/// A request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// When it arrives.
    pub arrival: SimTime,
    /// Index of its model.
    pub model: u32,
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Tokens to generate; zero for a model that reads its input once.
    pub output: u32,
    /// Place in the queue: lower is first, ties in order of arrival. Its scheduler sets it.
    pub rank: f64,
}

/// A request that was answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finished {
    /// Index of its model.
    pub model: u32,
    /// When it arrived.
    pub arrival: SimTime,
    /// Time until the answer was complete.
    pub latency: SimDuration,
    /// Time until the first token.
    pub first_token: SimDuration,
    /// Tokens generated.
    pub output: u32,
}

/// Where requests are. `submitted = finished + rejected + inside`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests whose arrival has passed.
    pub submitted: u64,
    /// Answered.
    pub finished: u64,
    /// Refused on arrival.
    pub rejected: u64,
    /// Times that a running request lost its cache to older ones and had to start again.
    pub preempted: u64,
    /// Iterations that ended.
    pub iterations: u64,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    StageDone { executor: u32, generation: u32 },
    BatchTimeout { instance: u32 },
}

/// A request in a queue, least rank first.
#[derive(Debug, Clone, Copy)]
struct Queued {
    rank: f64,
    sequence: u64,
    arrival: SimTime,
    first_token: Option<SimDuration>,
    prompt: u32,
    output: u32,
    /// Tokens generated before it was preempted.
    generated: u32,
}

impl Queued {
    fn key(&self) -> (f64, u64) {
        (self.rank, self.sequence)
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let ((rank, sequence), (other_rank, other_sequence)) = (self.key(), other.key());
        rank.total_cmp(&other_rank).then(sequence.cmp(&other_sequence))
    }
}

struct InstanceState {
    spec: Instance,
    batching: Batching,
    queue: BinaryHeap<Reverse<Queued>>,
    slots: Vec<Slot>,
    cached: u64,
}

/// The simulation.
pub struct Serving {
    now: SimTime,
    events: EventQueue<Event>,
    arrivals: VecDeque<Request>,
    executors: Vec<ExecutorState>,
    instances: Vec<InstanceState>,
    /// Instances of each model.
    of_model: Vec<Vec<usize>>,
    models: Vec<ServedModel>,
    admission: Admission,
    order: ServiceOrder,
    finished: Vec<Finished>,
    /// Requests refused on arrival, per model.
    rejected: Vec<u64>,
    counts: Counts,
    sequence: u64,
}

impl Serving {
    /// An idle system at time zero, all clocks at their highest.
    pub fn new(deployment: Deployment) -> Result<Self> {
        deployment.validate()?;
        let mut of_model = vec![Vec::new(); deployment.models.len()];
        for (index, instance) in deployment.instances.iter().enumerate() {
            of_model[instance.model].push(index);
        }
        let order = deployment.order;
        // In order of arrival, a request must wait at the executor itself, beside those of other
        // models: one more than there are stages.
        let waits = |batching| order == ServiceOrder::Arrival && batching == Batching::None;
        let state = |spec: Instance| InstanceState {
            batching: deployment.models[spec.model].batching,
            queue: BinaryHeap::new(),
            slots: {
                let more = usize::from(waits(deployment.models[spec.model].batching));
                vec![Slot::default(); spec.stages.len() + more]
            },
            cached: 0,
            spec,
        };
        Ok(Self {
            now: SimTime::ZERO,
            events: EventQueue::default(),
            arrivals: VecDeque::new(),
            executors: {
                let executors = deployment.executors.into_iter();
                executors.map(|spec| ExecutorState::new(spec, order)).collect()
            },
            instances: deployment.instances.into_iter().map(state).collect(),
            of_model,
            rejected: vec![0; deployment.models.len()],
            models: deployment.models,
            admission: deployment.admission,
            order,
            finished: Vec::new(),
            counts: Counts::default(),
            sequence: 0,
        })
    }

    /// The time until which it was simulated.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// The models.
    pub fn models(&self) -> &[ServedModel] {
        &self.models
    }

    /// Number of executors.
    pub fn executors(&self) -> usize {
        self.executors.len()
    }

    /// An executor.
    pub fn executor(&self, executor: usize) -> &Executor {
        self.executors[executor].spec()
    }

    /// Adds a request. Requests come in the order of their arrival and not in the past.
    pub fn submit(&mut self, request: Request) -> Result<()> {
        let last = self.arrivals.back().map_or(self.now, |last| last.arrival);
        if request.arrival < last {
            return Err(Error::setting("arrival", request.arrival, "not before the last arrival"));
        }
        if request.model as usize >= self.models.len() {
            return Err(Error::setting("model", request.model, "index of a model"));
        }
        if request.rank.is_nan() {
            return Err(Error::setting("rank", request.rank, "a number"));
        }
        self.arrivals.push_back(request);
        Ok(())
    }

    /// Simulates until then.
    pub fn advance(&mut self, until: SimTime) {
        loop {
            let arrival = self.arrivals.front().map(|request| request.arrival);
            let event = self.events.next_time();
            match (arrival, event) {
                (Some(at), event) if at <= until && event.is_none_or(|event| at <= event) => {
                    self.now = at;
                    let request = self.arrivals.pop_front().expect("it was just seen");
                    self.arrive(request);
                }
                (_, Some(at)) if at <= until => {
                    self.now = at;
                    let (_, event) = self.events.pop().expect("it was just seen");
                    self.handle(event);
                }
                _ => break,
            }
        }
        self.now = until.max(self.now);
    }

    /// The requests answered since the last call.
    pub fn take_finished(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.finished)
    }

    /// Where requests are.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Requests that are queued or run.
    pub fn inside(&self) -> u64 {
        let of = |instance: &InstanceState| {
            let running: usize = instance.slots.iter().map(|slot| slot.active.len()).sum();
            (instance.queue.len() + running) as u64
        };
        self.instances.iter().map(of).sum()
    }

    /// Requests of each model that were refused, and that are inside for longer than their SLO.
    pub fn rejected_and_late(&self) -> Vec<(u64, u64)> {
        let mut counts: Vec<(u64, u64)> = self.rejected.iter().map(|count| (*count, 0)).collect();
        for instance in &self.instances {
            let slo = self.models[instance.spec.model].slo;
            let late = instance.arrivals().filter(|arrival| *arrival + slo < self.now).count();
            counts[instance.spec.model].1 += late as u64;
        }
        counts
    }

    /// The clock of an executor, MHz.
    pub fn clock(&self, executor: usize) -> u32 {
        self.executors[executor].clock()
    }

    /// Sets the clock of an executor as decided, within the range of the device, and returns it. Work that
    /// runs continues at the new speed.
    pub fn apply(&mut self, executor: usize, decision: &Decision<GpuClock>) -> Megahertz {
        let rescheduled = self.executors[executor].set_clock(self.now, decision.applied().0);
        if let Some((at, generation)) = rescheduled {
            let executor = executor as u32;
            self.events.schedule(at, Event::StageDone { executor, generation });
        }
        Megahertz(self.clock(executor))
    }

    /// Energy of an executor since the start, J.
    pub fn energy_j(&mut self, executor: usize) -> f64 {
        self.executors[executor].account(self.now);
        self.executors[executor].energy_j()
    }

    /// Time in which an executor was busy.
    pub fn busy(&mut self, executor: usize) -> SimDuration {
        self.executors[executor].account(self.now);
        self.executors[executor].busy()
    }

    fn arrive(&mut self, request: Request) {
        self.counts.submitted += 1;
        let waiting = |instance: &usize| {
            let first = self.instances[*instance].spec.stages[0].executor;
            self.executors[first].outstanding
        };
        // `min_by_key` keeps the first of several equal ones.
        let chosen = self.of_model[request.model as usize].iter().copied().min_by_key(waiting);
        let Some(index) = chosen else {
            self.reject(&request);
            return;
        };
        let instance = &self.instances[index];
        let tokens = u64::from(request.prompt) + u64::from(request.output);
        let fits = instance.spec.cache_tokens.is_none_or(|cache| tokens <= cache);
        if !fits || !self.is_in_time(index, &request) {
            self.reject(&request);
            return;
        }
        self.sequence += 1;
        let queued = Queued {
            rank: request.rank,
            sequence: self.sequence,
            arrival: request.arrival,
            first_token: None,
            prompt: request.prompt,
            output: request.output,
            generated: 0,
        };
        let instance = &mut self.instances[index];
        instance.queue.push(Reverse(queued));
        let first = instance.spec.stages[0].executor;
        self.executors[first].outstanding += 1;
        self.start_idle_slots(index);
    }

    fn reject(&mut self, request: &Request) {
        self.counts.rejected += 1;
        self.rejected[request.model as usize] += 1;
    }

    /// Whether the request can meet its SLO behind what was accepted before; reserves its time.
    fn is_in_time(&mut self, instance: usize, request: &Request) -> bool {
        if self.admission == Admission::All || request.output > 0 {
            return true;
        }
        let spec = &self.instances[instance].spec;
        let prompt = f64::from(request.prompt);
        let work = Work::prefill(prompt, prompt * prompt);
        let mut at = self.now;
        let mut reserved = Vec::with_capacity(spec.stages.len());
        for stage in &spec.stages {
            let executor = &self.executors[stage.executor];
            at = at.max(executor.reserved_until) + executor.duration(&stage.cost.of_work(work));
            reserved.push((stage.executor, at));
        }
        let deadline = request.arrival + self.models[request.model as usize].slo;
        if at + spec.overhead > deadline {
            return false;
        }
        for (executor, until) in reserved {
            self.executors[executor].reserved_until = until;
        }
        true
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::BatchTimeout { instance } => self.start_idle_slots(instance as usize),
            Event::StageDone { executor, generation } => {
                let Some(job) = self.executors[executor as usize].finish(self.now, generation)
                else {
                    // The clock was changed: another event has taken its place.
                    return;
                };
                let last = self.instances[job.instance as usize].spec.stages.len() - 1;
                if (job.stage as usize) < last {
                    self.enter_stage(Job { stage: job.stage + 1, ..job });
                } else {
                    self.end_iteration(job.instance as usize, job.slot as usize);
                }
                self.start_next(executor as usize);
            }
        }
    }

    fn start_idle_slots(&mut self, instance: usize) {
        for slot in 0..self.instances[instance].slots.len() {
            if self.instances[instance].queue.is_empty() {
                return;
            }
            if !self.instances[instance].slots[slot].is_running {
                self.start_iteration(instance, slot);
            }
        }
    }

    /// Admits requests and begins the next iteration of a slot, if there is anything to do.
    fn start_iteration(&mut self, index: usize, slot: usize) {
        let now = self.now;
        let instance = &mut self.instances[index];
        instance.slots[slot].is_running = false;
        if let Some(at) = instance.waits_until(slot, now) {
            self.events.schedule(at, Event::BatchTimeout { instance: index as u32 });
            return;
        }
        let Some(work) = instance.next_work(slot) else { return };
        let oldest = match self.order {
            ServiceOrder::Turns => 0,
            ServiceOrder::Arrival => instance.slots[slot].oldest(),
        };
        let (instance, slot) = (index as u32, slot as u16);
        self.enter_stage(Job { instance, slot, stage: 0, work, oldest });
    }

    fn enter_stage(&mut self, job: Job) {
        let stage = &self.instances[job.instance as usize].spec.stages[job.stage as usize];
        let executor = stage.executor;
        self.executors[executor].enqueue(job);
        self.start_next(executor);
    }

    /// Starts the next job of an executor that is idle.
    fn start_next(&mut self, executor: usize) {
        let Some(job) = self.executors[executor].next_job() else { return };
        let stage = &self.instances[job.instance as usize].spec.stages[job.stage as usize];
        let cost = stage.cost.of_work(job.work);
        let (at, generation) = self.executors[executor].start(self.now, job, cost);
        let executor = executor as u32;
        self.events.schedule(at, Event::StageDone { executor, generation });
    }

    fn end_iteration(&mut self, index: usize, slot: usize) {
        self.counts.iterations += 1;
        let now = self.now;
        let instance = &mut self.instances[index];
        let preempted = instance.end_iteration(slot, now);
        self.counts.preempted += preempted;
        let (model, overhead) = (instance.spec.model as u32, instance.spec.overhead);
        let first = instance.spec.stages[0].executor;
        let answered = instance.slots[slot].leaving.len();
        for done in instance.slots[slot].leaving.drain(..) {
            let first_token = done.first_token.unwrap_or_default();
            self.finished.push(Finished {
                model,
                arrival: done.arrival,
                latency: now.saturating_since(done.arrival) + overhead,
                first_token: first_token + overhead,
                output: done.output,
            });
        }
        self.counts.finished += answered as u64;
        self.executors[first].outstanding -= answered as u64;
        self.start_iteration(index, slot);
        if answered > 0 || preempted > 0 {
            self.start_idle_slots(index);
        }
    }
}
