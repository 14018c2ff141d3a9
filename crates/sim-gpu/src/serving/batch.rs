//! Batches of one instance: admission between iterations, the cache, and what ends when.

use std::cmp::Reverse;

use homeostat_core::{SimDuration, SimTime};

use super::{Batching, InstanceState, Queued};
use crate::operator::Work;

/// What an iteration does.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Phase {
    /// The prompts of the requests from this place on.
    Prefill { from: usize },
    /// One token of each request.
    #[default]
    Decode,
}

/// A request in a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Active {
    queued: Queued,
    first_token: Option<SimDuration>,
    /// The decoding step of the slot with which it ends.
    ends_with: u64,
    /// The decoding step of the slot at which it began.
    began_at: u64,
}

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving {
    pub(super) arrival: SimTime,
    pub(super) first_token: Option<SimDuration>,
    pub(super) output: u32,
}

/// One batch in flight. A pipeline has as many as stages.
#[derive(Debug, Clone, Default)]
pub(super) struct Slot {
    pub(super) active: Vec<Active>,
    pub(super) is_running: bool,
    pub(super) leaving: Vec<Leaving>,
    phase: Phase,
    /// Decoding steps so far.
    step: u64,
    /// The first step with which a request ends.
    next_end: u64,
    cached: u64,
}

impl Active {
    fn cached(&self, step: u64) -> u64 {
        u64::from(self.queued.prompt) + (step - self.began_at)
    }
}

impl Slot {
    /// The number of its request that arrived first.
    pub(super) fn oldest(&self) -> u64 {
        self.active.iter().map(|active| active.queued.sequence).min().unwrap_or(u64::MAX)
    }
}

impl InstanceState {
    /// When each of its requests arrived.
    pub(super) fn arrivals(&self) -> impl Iterator<Item = SimTime> {
        let queued = self.queue.iter().map(|Reverse(queued)| queued.arrival);
        let active = self.slots.iter().flat_map(|slot| &slot.active);
        queued.chain(active.map(|active| active.queued.arrival))
    }

    /// Until when a slot waits for a fuller batch.
    pub(super) fn waits_until(&self, slot: usize, now: SimTime) -> Option<SimTime> {
        let Batching::Dynamic { max_batch, timeout } = self.batching else { return None };
        if !self.slots[slot].active.is_empty() || self.queue.len() >= max_batch as usize {
            return None;
        }
        let oldest = self.queue.iter().map(|Reverse(queued)| queued.arrival).min()?;
        let until = oldest + timeout;
        (until > now).then_some(until)
    }

    /// Admits requests; returns the work of the next iteration, none if there is nothing to do.
    pub(super) fn next_work(&mut self, slot: usize) -> Option<Work> {
        let from = self.slots[slot].active.len();
        let work = self.admit(slot);
        let slot = &mut self.slots[slot];
        slot.is_running = !slot.active.is_empty();
        if slot.active.len() > from {
            slot.phase = Phase::Prefill { from };
            return Some(work);
        }
        slot.phase = Phase::Decode;
        slot.is_running.then(|| Work::decode(slot.active.len() as f64, slot.cached as f64))
    }

    fn admit(&mut self, index: usize) -> Work {
        let slot = &mut self.slots[index];
        let mut work = Work::prefill(0.0, 0.0);
        let joins = match self.batching {
            Batching::Continuous { .. } => true,
            Batching::None | Batching::Dynamic { .. } => slot.active.is_empty(),
        };
        while joins && slot.active.len() < self.batching.max_batch() {
            let Some(Reverse(next)) = self.queue.peek() else { break };
            let prompt = u64::from(next.prompt);
            // Room for the prompt and for the next token of everything that runs.
            let needed = self.cached + prompt + slot.active.len() as u64 + 1;
            if self.spec.cache_tokens.is_some_and(|cache| needed > cache) && self.cached > 0 {
                break;
            }
            let Some(Reverse(queued)) = self.queue.pop() else { break };
            let tokens = f64::from(queued.prompt);
            work.tokens += tokens;
            work.pairs += tokens * tokens;
            work.cached += tokens;
            self.cached += prompt;
            slot.cached += prompt;
            // The prompt's pass gives the first token.
            let steps = u64::from(queued.output.saturating_sub(1));
            slot.active.push(Active {
                first_token: queued.first_token,
                ends_with: slot.step + steps,
                began_at: slot.step,
                queued,
            });
        }
        if slot.active.is_empty() {
            return work;
        }
        let ends = slot.active.iter().map(|active| active.ends_with);
        slot.next_end = match self.batching {
            Batching::Dynamic { .. } => ends.max(),
            _ => ends.min(),
        }
        .unwrap_or(slot.step);
        work
    }

    /// Ends an iteration: requests that are complete leave, and the newest lose their cache if it is
    /// full. Returns how many did.
    pub(super) fn end_iteration(&mut self, index: usize, now: SimTime) -> u64 {
        let slot = &mut self.slots[index];
        match slot.phase {
            Phase::Prefill { from } => {
                for active in &mut slot.active[from..] {
                    let since = now.saturating_since(active.queued.arrival);
                    active.first_token = active.first_token.or(Some(since));
                }
            }
            Phase::Decode => {
                let batch = slot.active.len() as u64;
                slot.step += 1;
                slot.cached += batch;
                self.cached += batch;
            }
        }
        if slot.step >= slot.next_end {
            let step = slot.step;
            let mut freed = 0;
            let leaving = &mut slot.leaving;
            slot.active.retain(|active| {
                let stays = active.ends_with > step;
                if !stays {
                    freed += active.cached(step);
                    leaving.push(Leaving {
                        arrival: active.queued.arrival,
                        first_token: active.first_token,
                        output: active.queued.output + active.queued.generated,
                    });
                }
                stays
            });
            slot.cached -= freed;
            self.cached -= freed;
            slot.next_end = slot.active.iter().map(|active| active.ends_with).min().unwrap_or(step);
        }
        self.preempt(index)
    }

    /// While the next tokens of this slot do not fit into the cache, its newest request returns to
    /// the queue, to start again with what it has generated as a part of its prompt.
    fn preempt(&mut self, index: usize) -> u64 {
        let Some(cache) = self.spec.cache_tokens else { return 0 };
        let slot = &mut self.slots[index];
        let mut preempted = 0;
        while self.cached + slot.active.len() as u64 > cache {
            let Some(newest) = slot.active.pop() else { break };
            let held = newest.cached(slot.step);
            slot.cached -= held;
            self.cached -= held;
            // One more than the steps: the prompt's pass gave a token, too.
            let generated = (slot.step - newest.began_at) as u32 + 1;
            self.queue.push(Reverse(Queued {
                prompt: newest.queued.prompt + generated,
                output: newest.queued.output.saturating_sub(generated),
                generated: newest.queued.generated + generated,
                first_token: newest.first_token,
                ..newest.queued
            }));
            preempted += 1;
        }
        if preempted > 0 {
            let step = slot.step;
            slot.next_end = slot.active.iter().map(|active| active.ends_with).min().unwrap_or(step);
        }
        preempted
    }
}
