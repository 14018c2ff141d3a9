//! Executors: the queue of iterations, the clock, and the energy.

use std::collections::VecDeque;

use homeostat_core::{SimDuration, SimTime};

use super::{Executor, ServiceOrder};
use crate::operator::{Cost, Work};

/// One stage of one iteration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) instance: u32,
    pub(super) slot: u16,
    pub(super) stage: u16,
    pub(super) work: Work,
    /// The number of the request in it that arrived first.
    pub(super) oldest: u64,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    job: Job,
    cost: Cost,
    /// Part of the work done when `since` began.
    done: f64,
    since: SimTime,
    seconds: f64,
}

pub(super) struct ExecutorState {
    spec: Executor,
    order: ServiceOrder,
    clock: u32,
    slowdown: f64,
    power_scale: f64,
    queue: VecDeque<Job>,
    running: Option<Running>,
    /// Distinguishes the end of what runs now from ends that a change of clock has moved.
    generation: u32,
    accounted: SimTime,
    energy_j: f64,
    busy: SimDuration,
    /// Requests of instances that begin here and are queued or run.
    pub(super) outstanding: u64,
    /// Until when accepted requests keep it busy, where only requests in time are accepted.
    pub(super) reserved_until: SimTime,
}

impl ExecutorState {
    pub(super) fn new(spec: Executor, order: ServiceOrder) -> Self {
        let clock = spec.device.max_clock();
        Self {
            spec,
            order,
            clock,
            slowdown: 1.0,
            power_scale: 1.0,
            queue: VecDeque::new(),
            running: None,
            generation: 0,
            accounted: SimTime::ZERO,
            energy_j: 0.0,
            busy: SimDuration::ZERO,
            outstanding: 0,
            reserved_until: SimTime::ZERO,
        }
    }

    pub(super) fn spec(&self) -> &Executor {
        &self.spec
    }

    pub(super) fn clock(&self) -> u32 {
        self.clock
    }

    pub(super) fn energy_j(&self) -> f64 {
        self.energy_j
    }

    pub(super) fn busy(&self) -> SimDuration {
        self.busy
    }

    pub(super) fn enqueue(&mut self, job: Job) {
        self.queue.push_back(job);
    }

    /// The next job, if it is idle.
    pub(super) fn next_job(&mut self) -> Option<Job> {
        if self.running.is_some() {
            return None;
        }
        match self.order {
            ServiceOrder::Turns => self.queue.pop_front(),
            ServiceOrder::Arrival => {
                let jobs = self.queue.iter().enumerate();
                let (first, _) = jobs.min_by_key(|(_, job)| job.oldest)?;
                self.queue.remove(first)
            }
        }
    }

    /// How long work takes at the present clock.
    pub(super) fn duration(&self, cost: &Cost) -> SimDuration {
        in_nanos(cost.fixed_s + cost.scaled_s * self.slowdown)
    }

    /// Starts a job; returns when it ends.
    pub(super) fn start(&mut self, now: SimTime, job: Job, cost: Cost) -> (SimTime, u32) {
        self.account(now);
        let seconds = cost.fixed_s + cost.scaled_s * self.slowdown;
        self.running = Some(Running { job, cost, done: 0.0, since: now, seconds });
        self.generation = self.generation.wrapping_add(1);
        (now + in_nanos(seconds), self.generation)
    }

    /// The job that ends now, unless its end has moved.
    pub(super) fn finish(&mut self, now: SimTime, generation: u32) -> Option<Job> {
        if generation != self.generation {
            return None;
        }
        self.account(now);
        self.running.take().map(|running| running.job)
    }

    /// Sets the clock; returns the new end of what runs.
    pub(super) fn set_clock(&mut self, now: SimTime, clock: u32) -> Option<(SimTime, u32)> {
        let device = &self.spec.device;
        let clock = clock.clamp(device.min_clock(), device.max_clock());
        if clock == self.clock {
            return None;
        }
        self.account(now);
        self.clock = clock;
        self.slowdown = self.spec.device.slowdown(clock);
        self.power_scale = self.spec.device.power_scale(clock);
        let running = self.running.as_mut()?;
        if running.seconds > 0.0 {
            let part = now.saturating_since(running.since).seconds() / running.seconds;
            running.done = (running.done + part).min(1.0);
        }
        running.since = now;
        running.seconds = running.cost.fixed_s + running.cost.scaled_s * self.slowdown;
        self.generation = self.generation.wrapping_add(1);
        Some((now + in_nanos((1.0 - running.done) * running.seconds), self.generation))
    }

    /// Adds the energy of the time since the last call.
    pub(super) fn account(&mut self, now: SimTime) {
        let since = now.saturating_since(self.accounted);
        let seconds = since.seconds();
        self.energy_j += f64::from(self.spec.devices) * self.spec.device.idle_w * seconds;
        if let Some(running) = &self.running {
            self.busy = self.busy + since;
            if running.seconds > 0.0 {
                let cost = &running.cost;
                let dynamic_j = cost.compute_j * self.power_scale * self.slowdown + cost.memory_j;
                self.energy_j += dynamic_j / running.seconds * seconds;
            }
        }
        self.accounted = now;
    }
}

fn in_nanos(seconds: f64) -> SimDuration {
    SimDuration::from_nanos((seconds * 1e9).round() as u64)
}
