//! Chains of functions: the journey of a request from stage to stage.
//!
//! A stage is an ordinary function, and an invocation of it an ordinary request. A request of
//! a chain is lost with the first of its invocations that is given up or lost; whatever of it
//! waits or runs elsewhere goes on to its own end, as it would on a real platform, and nothing
//! follows it any more.

use std::collections::VecDeque;

use homeostat_core::{SimDuration, SimTime, Slo};

use super::Platform;
use super::chain_telemetry::{ChainCounters, ChainTotals};
use super::state::{ALONE, Arrived, Draws, FunctionId, Needs, StageOf};
use crate::chain::{ChainGraph, places};
use crate::config::ChainSetup;
use crate::{Error, Result};

/// A chain on a platform. Numbers are given once and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChainId(pub(crate) usize);

impl ChainId {
    /// Its number, counted from zero as chains are added.
    pub fn number(self) -> usize {
        self.0
    }
}

/// One chain and everything counted about it.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) graph: ChainGraph,
    /// The function of each stage.
    pub(crate) functions: Vec<u32>,
    pub(crate) slo: Slo,
    pub(crate) isolated_latency: SimDuration,
    /// What a request that is never answered counts as: no less than what one that waits in
    /// every queue until it is nearly given up may take.
    pub(crate) never: SimDuration,
    /// One of its stages was removed.
    pub(crate) is_broken: bool,
    pub(crate) journeys: Vec<Journey>,
    pub(crate) free_journeys: Vec<u32>,
    /// CPU time and wait of every stage of every journey, journey after journey. Drawn when the
    /// request arrives, so that they depend on nothing that is done to the platform.
    pub(crate) needs: Vec<Needs>,
    pub(crate) window: ChainCounters,
    pub(crate) window_began: SimTime,
    pub(crate) totals: ChainTotals,
}

/// A request on its way through a chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Journey {
    pub(crate) arrived: SimTime,
    /// The stages that have finished.
    pub(crate) finished: u64,
    /// Invocations that wait or run; its place is free when there are none.
    pub(crate) under_way: u32,
    pub(crate) is_lost: bool,
}

impl Chain {
    /// The function whose timer the chain's requests come by.
    fn first_entry(&self) -> usize {
        let entry = self.graph.entries().next().expect("a graph without cycles has an entry");
        self.functions[entry] as usize
    }
}

impl Platform {
    /// Lays a chain over functions that are there. Its requests begin now.
    pub fn add_chain(&mut self, setup: ChainSetup) -> Result<ChainId> {
        self.require_stages(&setup)?;
        let number = self.chains.len();
        let patience = setup.graph.longest(&vec![self.config.timeout; setup.graph.len()]);
        let chain = Chain {
            functions: setup.functions.iter().map(|id| id.0 as u32).collect(),
            graph: setup.graph,
            slo: setup.slo,
            isolated_latency: setup.isolated_latency,
            never: patience.max(setup.slo.threshold() * 10),
            is_broken: false,
            journeys: Vec::new(),
            free_journeys: Vec::new(),
            needs: Vec::new(),
            window: ChainCounters::default(),
            window_began: self.now,
            totals: ChainTotals::default(),
        };
        for (place, function) in chain.functions.iter().enumerate() {
            let stage = StageOf { chain: number as u32, place: place as u32 };
            let function = &mut self.functions[*function as usize];
            function.stage = Some(stage);
            // A stage's requests come with those of its chain, not with a load of its own.
            function.draws = Draws::OnArrival(VecDeque::new());
        }
        let first = chain.first_entry();
        self.chains.push(chain);
        let entry = &mut self.functions[first];
        // The load counts its time from here.
        entry.began = self.now;
        entry.source = setup.arrivals;
        self.arrivals.begin(first, entry);
        Ok(ChainId(number))
    }

    /// Every chain that was added, by number.
    pub fn chains(&self) -> impl Iterator<Item = ChainId> {
        (0..self.chains.len()).map(ChainId)
    }

    /// The functions of a chain's stages, by place.
    pub fn stages(&self, id: ChainId) -> impl Iterator<Item = FunctionId> {
        self.chains[id.0].functions.iter().map(|number| FunctionId(*number as usize))
    }

    /// A request of a chain from outside, beside those of its own load.
    pub fn send_to_chain(&mut self, id: ChainId) -> Result<()> {
        match self.chains.get(id.0) {
            Some(chain) if !chain.is_broken => self.begin_journey(id.0),
            _ => return Err(Error::NoSuchChain { number: id.0 }),
        }
        Ok(())
    }

    fn require_stages(&self, setup: &ChainSetup) -> Result<()> {
        let (stages, given) = (setup.graph.len(), setup.functions.len());
        if given != stages {
            let reason = format!("it has {stages} stages and is given {given} functions");
            return Err(Error::Chain { chain: setup.name.clone(), reason });
        }
        for (place, id) in setup.functions.iter().enumerate() {
            self.require(*id)?;
            let function = &self.functions[id.0];
            let refuse = |reason: &'static str| {
                let (chain, function) = (setup.name.clone(), function.profile.name.clone());
                Err(Error::NoStage { function, chain, reason })
            };
            if function.stage.is_some() || setup.functions[..place].contains(id) {
                return refuse("it is one already: add the function once more");
            }
            if function.source.is_some() {
                return refuse("it has requests of its own: give them to the chain");
            }
        }
        Ok(())
    }

    /// A request arrives at the entries of a chain.
    pub(super) fn begin_journey(&mut self, number: usize) {
        let chain = &mut self.chains[number];
        chain.window.arrived += 1;
        let fresh = Journey {
            arrived: self.now,
            finished: 0,
            // Held while the entries are called, so that it does not end in between.
            under_way: 1,
            is_lost: false,
        };
        let stages = chain.functions.len();
        let journey = match chain.free_journeys.pop() {
            Some(journey) => {
                chain.journeys[journey as usize] = fresh;
                journey
            }
            None => {
                chain.journeys.push(fresh);
                chain.needs.resize(chain.journeys.len() * stages, Default::default());
                (chain.journeys.len() - 1) as u32
            }
        };
        let needs = &mut chain.needs[journey as usize * stages..][..stages];
        for (need, function) in needs.iter_mut().zip(&chain.functions) {
            let function = &mut self.functions[*function as usize];
            *need = function.next_needs();
        }
        let entries = self.chains[number].graph.entry_set();
        self.call_stages(number, journey, entries);
        self.end_invocation(number, journey);
    }

    /// A stage has finished for a journey: whatever waited for it alone follows.
    // Kept out of the path of requests that belong to no chain.
    #[inline(never)]
    pub(super) fn finish_stage(&mut self, function: usize, journey: u32) {
        let stage = self.functions[function].stage.expect("a journey goes through stages");
        let (number, place) = (stage.chain as usize, stage.place as usize);
        // A client that gave up at another stage calls nothing any more, whether or not
        // that queue was checked since.
        self.give_up_old_stages(number);
        let chain = &mut self.chains[number];
        let state = &mut chain.journeys[journey as usize];
        state.finished |= 1 << place;
        if !state.is_lost {
            let ready = chain.graph.ready_after(place, state.finished);
            self.call_stages(number, journey, ready);
        }
        self.end_invocation(number, journey);
    }

    /// Sends a journey's invocations to these stages, all at once.
    fn call_stages(&mut self, number: usize, journey: u32, ready: u64) {
        let state = &mut self.chains[number].journeys[journey as usize];
        state.under_way += ready.count_ones();
        for place in places(ready) {
            let chain = &self.chains[number];
            let function = chain.functions[place] as usize;
            let needs = chain.needs[journey as usize * chain.functions.len() + place];
            if self.functions[function].is_gone {
                self.lose_journey(function, journey);
            } else {
                self.enter(function, Arrived { at: self.now, needs, journey });
            }
        }
    }

    /// An invocation of a function is given up or lost, and the journey with it, if it was a
    /// part of one.
    pub(super) fn lose_journey(&mut self, function: usize, journey: u32) {
        if journey == ALONE {
            return;
        }
        let stage = self.functions[function].stage.expect("a journey goes through stages");
        let number = stage.chain as usize;
        let chain = &mut self.chains[number];
        let state = &mut chain.journeys[journey as usize];
        if !state.is_lost {
            state.is_lost = true;
            chain.window.lost += 1;
            chain.window.slo_violations += 1;
            chain.window.latency.record(chain.never);
        }
        self.end_invocation(number, journey);
    }

    /// One invocation less is under way; with the last one the journey ends.
    fn end_invocation(&mut self, number: usize, journey: u32) {
        let now = self.now;
        let chain = &mut self.chains[number];
        let state = &mut chain.journeys[journey as usize];
        state.under_way -= 1;
        if state.under_way > 0 {
            return;
        }
        if !state.is_lost {
            debug_assert_eq!(state.finished, chain.graph.all(), "every stage has finished");
            let latency = now.saturating_since(state.arrived);
            chain.window.completed += 1;
            chain.window.slo_violations += u64::from(latency > chain.slo.threshold());
            chain.window.latency.record(latency);
        }
        chain.free_journeys.push(journey);
    }

    /// Gives up the invocations of a chain that have waited for too long.
    pub(super) fn give_up_old_stages(&mut self, number: usize) {
        for place in 0..self.chains[number].functions.len() {
            self.give_up_old(self.chains[number].functions[place] as usize);
        }
    }

    /// A function was removed: a chain that needs it gets no more requests.
    pub(super) fn break_chain(&mut self, function: usize) {
        if let Some(stage) = self.functions[function].stage {
            let chain = &mut self.chains[stage.chain as usize];
            chain.is_broken = true;
            self.arrivals.end(chain.first_entry());
        }
    }
}
