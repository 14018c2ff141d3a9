//! The platform: what runs, what happens next, and the knobs.

mod chain_telemetry;
mod chains;
mod containers;
mod persist;
mod requests;
mod state;
mod telemetry;
mod view;

use homeostat_core::{Bytes, SeedTree, SimDuration, SimTime, Slo, Stream};
use homeostat_decide::Allocation;
use homeostat_des::{EventQueue, SharedProcessor, Timers};

pub use chain_telemetry::{ChainTotals, ChainWindow};
use chains::Chain;
pub use chains::ChainId;
use state::{Container, Counters, Event, Function, Node, Request};
pub use state::{FunctionId, Totals};
pub use telemetry::Window;
pub(crate) use view::{ContainerState, ContainerView, NodeView};

use crate::config::{FunctionSetup, PlatformConfig, Scaling};
use crate::{Error, Result};
use std::collections::VecDeque;

/// A running platform.
#[derive(Debug, Clone)]
pub struct Platform {
    config: PlatformConfig,
    seeds: SeedTree,
    rng: Stream,
    now: SimTime,
    nodes: Vec<Node>,
    /// Memory of the largest node.
    largest: Bytes,
    functions: Vec<Function>,
    chains: Vec<Chain>,
    containers: Vec<Container>,
    free_containers: Vec<u32>,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    /// Next request of each function.
    arrivals: Timers,
    /// Next finish of each node.
    finishes: Timers,
    events: EventQueue<Event>,
    /// Containers that are wanted and have no room.
    homeless: u32,
}

impl Platform {
    /// An empty platform. Everything random in it follows from `seeds`.
    pub fn new(config: PlatformConfig, seeds: &SeedTree) -> Result<Self> {
        config.validate()?;
        let node = |node: &crate::NodeConfig| -> Result<Node> {
            let mut processor = SharedProcessor::new(node.cores)?;
            processor.set_strains(SimTime::ZERO, config.contention.strains())?;
            Ok(Node {
                memory: node.memory,
                reserved: Bytes::ZERO,
                is_up: true,
                processor,
                classes: Vec::new(),
                images: Vec::new(),
            })
        };
        Ok(Self {
            nodes: config.nodes.iter().map(node).collect::<Result<_>>()?,
            largest: config.nodes.iter().map(|node| node.memory).max().unwrap_or(Bytes::ZERO),
            config,
            seeds: seeds.clone(),
            rng: seeds.stream("platform"),
            now: SimTime::ZERO,
            functions: Vec::new(),
            chains: Vec::new(),
            containers: Vec::new(),
            free_containers: Vec::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            arrivals: Timers::default(),
            finishes: Timers::default(),
            events: EventQueue::default(),
            homeless: 0,
        })
    }

    /// Adds a function; the containers of its first allocation are ready at once.
    pub fn add_function(&mut self, setup: FunctionSetup) -> Result<FunctionId> {
        self.require_possible(&setup.profile.name, setup.allocation)?;
        let number = self.functions.len();
        let seeds = self.seeds.child(&format!("function/{number}"));
        let mut function = Function {
            rng: seeds.stream("requests"),
            profile: setup.profile,
            slo: setup.slo,
            isolated_latency: setup.isolated_latency,
            scaling: setup.scaling,
            source: setup.arrivals,
            stage: None,
            began: self.now,
            is_gone: false,
            wanted: setup.allocation,
            reserved: setup.allocation.memory,
            memory_limit: setup.allocation.memory,
            millicores: setup.allocation.cpu.millicores(),
            containers: Vec::new(),
            present: 0,
            idle: Vec::new(),
            waiting: VecDeque::new(),
            in_service: Vec::new(),
            homeless: 0,
            nodes: Vec::new(),
            window: Counters::default(),
            window_began: self.now,
            cpu_at_window: 0.0,
            totals: Totals::default(),
            counted_until: self.now,
        };
        let first = function.next_arrival();
        self.functions.push(function);
        self.arrivals.set_or_clear(number, first);
        for _ in 0..setup.allocation.replicas {
            if let Some(container) = self.place(number) {
                self.become_ready(container);
            }
        }
        self.count_homeless(number);
        self.functions[number].window = Counters::default();
        Ok(FunctionId(number))
    }

    /// Removes a function: its requests that wait are lost, its containers go when they have
    /// answered. A chain that it was a stage of takes no more requests, and loses those that
    /// come to it.
    pub fn remove_function(&mut self, id: FunctionId) -> Result<()> {
        self.require(id)?;
        self.count_time(id.0);
        let function = &mut self.functions[id.0];
        function.is_gone = true;
        function.wanted.replicas = 0;
        for lost in std::mem::take(&mut function.waiting) {
            self.count_failure(id.0, lost.journey);
        }
        self.arrivals.clear(id.0);
        self.break_chain(id.0);
        self.match_wanted(id.0);
        Ok(())
    }

    /// Runs until `end`.
    pub fn run_until(&mut self, end: SimTime) {
        const NEVER: SimTime = SimTime::from_nanos(u64::MAX);
        loop {
            let (finish, node) = self.finishes.first().unwrap_or((NEVER, 0));
            let (arrival, function) = self.arrivals.first().unwrap_or((NEVER, 0));
            let event = self.events.next_time().unwrap_or(NEVER);
            let next = finish.min(event).min(arrival);
            if next > end || next == NEVER {
                break;
            }
            self.now = next;
            // Of one instant, first what ends, then what was planned, then what comes.
            if finish == next {
                self.on_finish(node);
            } else if event == next {
                let (_, event) = self.events.pop().expect("it was next");
                self.on_event(event);
            } else {
                self.on_arrival(function);
            }
        }
        self.now = self.now.max(end);
    }

    /// Runs for this long.
    pub fn run_for(&mut self, duration: SimDuration) {
        self.run_until(self.now + duration);
    }

    /// The present.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// The functions that are there, by number.
    pub fn functions(&self) -> impl Iterator<Item = FunctionId> {
        let living = self.functions.iter().enumerate().filter(|(_, function)| !function.is_gone);
        living.map(|(number, _)| FunctionId(number))
    }

    /// Name of a function.
    pub fn name(&self, id: FunctionId) -> &str {
        &self.functions[id.0].profile.name
    }

    /// Its objective.
    pub fn slo(&self, id: FunctionId) -> Slo {
        self.functions[id.0].slo
    }

    /// What it needs.
    pub fn profile(&self, id: FunctionId) -> &crate::FunctionProfile {
        &self.functions[id.0].profile
    }

    /// What a function was given last.
    pub fn allocation(&self, id: FunctionId) -> Allocation {
        self.functions[id.0].wanted
    }

    /// Nodes of the cluster.
    pub fn config(&self) -> &PlatformConfig {
        &self.config
    }

    /// Gives a function another allocation. Shares and limits take a moment to act, containers
    /// their time to start; containers without room start when there is room.
    pub fn set_allocation(&mut self, id: FunctionId, wanted: Allocation) -> Result<()> {
        self.require(id)?;
        self.require_possible(&self.functions[id.0].profile.name, wanted)?;
        self.require_room_to_grow(id.0, wanted.memory)?;
        let before = self.functions[id.0].wanted;
        let function = id.0 as u32;
        if wanted.cpu != before.cpu {
            let at = self.now + self.config.timings.resize_cpu.draw(&mut self.rng);
            self.events.schedule(at, Event::Shares { function });
        }
        if wanted.memory != before.memory {
            let at = self.now + self.config.timings.resize_memory.draw(&mut self.rng);
            self.events.schedule(at, Event::MemoryLimit { function });
            self.reserve(id.0, wanted.memory);
        }
        self.functions[id.0].wanted = wanted;
        self.match_wanted(id.0);
        Ok(())
    }

    /// Gives a function as much of a wish as there is room for: all of it, or everything but
    /// the memory limit. Returns what it has then.
    pub fn grant(&mut self, id: FunctionId, wanted: Allocation) -> Result<Allocation> {
        match self.set_allocation(id, wanted) {
            Err(Error::NoRoom { .. } | Error::LargerThanAnyNode { .. }) => {
                let memory = self.allocation(id).memory;
                self.set_allocation(id, Allocation { memory, ..wanted })?;
            }
            other => other?,
        }
        Ok(self.allocation(id))
    }

    /// Whether one more container of a function would find room now.
    pub fn has_room(&self, id: FunctionId) -> bool {
        let needed = self.functions[id.0].reserved;
        self.nodes.iter().any(|node| node.free() >= needed)
    }

    /// Whether the limit of a function's containers could be this now.
    pub fn has_room_for_memory(&self, id: FunctionId, memory: Bytes) -> bool {
        self.require_room_to_grow(id.0, memory).is_ok()
    }

    /// A request from outside, beside those of the function's own load.
    pub fn send(&mut self, id: FunctionId) -> Result<()> {
        self.require(id)?;
        self.arrive(id.0);
        Ok(())
    }

    /// A node fails: its containers and their requests are lost.
    pub fn fail_node(&mut self, node: usize) -> Result<()> {
        self.require_node(node)?;
        self.nodes[node].is_up = false;
        self.nodes[node].images.clear();
        for container in 0..self.containers.len() as u32 {
            let state = &self.containers[container as usize];
            if state.node as usize == node && state.phase != state::Phase::Gone {
                let function = state.function as usize;
                self.remove_container(container);
                self.match_wanted(function);
            }
        }
        Ok(())
    }

    /// A failed node is back, empty and without images.
    pub fn restore_node(&mut self, node: usize) -> Result<()> {
        self.require_node(node)?;
        self.nodes[node].is_up = true;
        self.house_the_homeless();
        Ok(())
    }

    /// Part of all cores that is in use now.
    pub fn cpu_in_use(&self) -> f64 {
        let used: f64 = self.nodes.iter().map(|node| node.processor.used()).sum();
        used / self.config.nodes.iter().map(|node| node.cores).sum::<f64>()
    }

    /// Part of the memory of all nodes that is set aside now.
    pub fn memory_in_use(&self) -> f64 {
        let sum = |bytes: fn(&Node) -> Bytes| self.nodes.iter().map(bytes).sum::<Bytes>();
        sum(|node| node.reserved).bytes() as f64 / sum(|node| node.memory).bytes() as f64
    }

    fn require(&self, id: FunctionId) -> Result<()> {
        match self.functions.get(id.0) {
            Some(function) if !function.is_gone => Ok(()),
            _ => Err(Error::NoSuchFunction { number: id.0 }),
        }
    }

    fn require_node(&self, number: usize) -> Result<()> {
        let nodes = self.nodes.len();
        if number < nodes { Ok(()) } else { Err(Error::NoSuchNode { number, nodes }) }
    }

    /// Refuses an allocation that no node could ever hold, or that could never run.
    fn require_possible(&self, function: &str, allocation: Allocation) -> Result<()> {
        if allocation.memory > self.largest {
            let (function, needed) = (function.to_owned(), allocation.memory);
            return Err(Error::LargerThanAnyNode { function, needed, largest: self.largest });
        }
        if allocation.cpu.millicores() == 0 {
            return Err(Error::OutOfRange {
                what: format!("the CPU of {function}"),
                value: allocation.cpu.to_string(),
                expected: "it must be above 0".to_owned(),
            });
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Answered { request, epoch } => {
                if self.requests[request as usize].epoch == epoch {
                    self.complete(request);
                }
            }
            Event::Created { container, epoch } => {
                if self.containers[container as usize].epoch == epoch {
                    self.load_code(container);
                }
            }
            Event::KeepAlive { container, epoch } => {
                if self.containers[container as usize].epoch == epoch {
                    self.end_if_idle(container);
                }
            }
            Event::Shares { function } => self.apply_shares(function as usize),
            Event::MemoryLimit { function } => {
                let function = &mut self.functions[function as usize];
                function.memory_limit = function.wanted.memory;
            }
        }
    }

    /// Puts a node's next finish on the list.
    fn watch(&mut self, node: usize) {
        self.finishes.set_or_clear(node, self.nodes[node].processor.next_finish());
    }

    fn keep_alive(&self, function: usize) -> Option<SimDuration> {
        match self.functions[function].scaling {
            Scaling::Managed => None,
            Scaling::OnDemand { keep_alive, .. } => Some(keep_alive),
        }
    }
}
