//! The platform: what runs, what happens next, and how allocations change.

mod arrivals;
mod chain_telemetry;
mod chains;
mod containers;
mod persist;
mod placement;
mod requests;
mod state;
mod telemetry;
mod view;

use homeostat_core::{Bytes, SeedTree, SimDuration, SimTime, Slo, Stream};
use homeostat_decide::{Allocation, Decision};
use homeostat_des::{EventQueue, SharedProcessor, Timers};

use arrivals::{ArrivalSchedule, NEVER};
pub use chain_telemetry::{ChainTotals, ChainWindow};
use chains::Chain;
pub use chains::ChainId;
use placement::Placement;
use state::{Container, ContainerTimes, Counters, Draws, Event, Function, Node, Request};
pub use state::{FunctionId, Totals};
pub use telemetry::Window;
pub(crate) use view::{ContainerState, ContainerView, NodeView};

use crate::config::{FunctionSetup, PlatformConfig};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A running platform.
#[derive(Debug, Clone)]
pub struct Platform {
    config: PlatformConfig,
    seeds: SeedTree,
    rng: Stream,
    now: SimTime,
    nodes: Vec<Node>,
    placement: Placement,
    /// Memory of the largest node.
    largest: Bytes,
    functions: Vec<Function>,
    chains: Vec<Chain>,
    containers: Vec<Container>,
    container_times: Vec<ContainerTimes>,
    free_containers: Vec<u32>,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    arrivals: ArrivalSchedule,
    /// Next finish of each node.
    finishes: Timers,
    events: EventQueue<Event>,
    /// Wanted containers of all functions that no node has memory for.
    pending: u32,
    /// The functions that have fewer containers than are wanted.
    short_functions: BTreeSet<u32>,
}

impl Platform {
    /// An empty platform. Everything random in it follows from `seeds`.
    pub fn new(config: PlatformConfig, seeds: &SeedTree) -> Result<Self> {
        config.validate()?;
        let node = |node: &crate::NodeConfig| -> Result<Node> {
            let mut processor = SharedProcessor::new(node.cores)?;
            processor.set_contention(SimTime::ZERO, config.contention.strains())?;
            Ok(Node {
                processor,
                memory: node.memory,
                reserved: Bytes::ZERO,
                is_up: true,
                traces: BTreeMap::new(),
            })
        };
        let nodes = config.nodes.iter().map(node).collect::<Result<Vec<_>>>()?;
        let mut placement = Placement::default();
        nodes.iter().enumerate().for_each(|(number, node)| placement.update(number, node));
        Ok(Self {
            nodes,
            placement,
            largest: config.nodes.iter().map(|node| node.memory).max().unwrap_or(Bytes::ZERO),
            config,
            seeds: seeds.clone(),
            rng: seeds.stream("platform"),
            now: SimTime::ZERO,
            functions: Vec::new(),
            chains: Vec::new(),
            containers: Vec::new(),
            container_times: Vec::new(),
            free_containers: Vec::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            arrivals: ArrivalSchedule::default(),
            finishes: Timers::default(),
            events: EventQueue::default(),
            pending: 0,
            short_functions: BTreeSet::new(),
        })
    }

    /// Adds a function; the containers of its first allocation are ready at once.
    pub fn add_function(&mut self, setup: FunctionSetup) -> Result<FunctionId> {
        self.require_possible(&setup.profile.name, setup.allocation)?;
        let number = self.functions.len();
        let seeds = self.seeds.child(&format!("function/{number}"));
        let mut function = Function {
            rng: seeds.stream("requests"),
            draws: Draws::Ahead,
            touched_memory: setup.profile.memory,
            least_memory: setup.profile.least_memory(),
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
            draining: Vec::new(),
            present: 0,
            idle: Vec::new(),
            waiting: VecDeque::new(),
            in_service: 0,
            pending: 0,
            classes: Vec::new(),
            window: Counters::default(),
            window_began: self.now,
            cpu_at_window: 0.0,
            totals: Totals::default(),
            counted_until: self.now,
        };
        self.arrivals.begin(number, &mut function);
        self.functions.push(function);
        for _ in 0..setup.allocation.replicas {
            if let Some(container) = self.place(number) {
                self.become_ready(container);
            }
        }
        self.count_pending(number);
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
        self.arrivals.end(id.0);
        self.break_chain(id.0);
        self.match_wanted(id.0);
        Ok(())
    }

    /// Runs until `end`.
    pub fn run_until(&mut self, end: SimTime) {
        loop {
            let (finish, node) = self.finishes.first().unwrap_or((NEVER, 0));
            let arrival = match self.arrivals.next_time() {
                Some(arrival) => arrival,
                None if self.arrivals.is_short_of(end) => {
                    self.arrivals.draw_stretch(&mut self.functions);
                    continue;
                }
                None => NEVER,
            };
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
                self.on_arrival();
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

    /// Its SLO.
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

    /// Carries a decision out as far as there is room: all of it, or everything but the memory
    /// limit. Shares and limits take a moment to act, containers their time to start; containers
    /// without room start when there is room. Returns what the function has then, without the
    /// containers that wait for room.
    pub fn apply(&mut self, id: FunctionId, decision: &Decision) -> Result<Allocation> {
        let wanted = *decision.applied();
        match self.set_allocation(id, wanted) {
            Err(Error::NoRoom { .. } | Error::LargerThanAnyNode { .. }) => {
                let memory = self.allocation(id).memory;
                self.set_allocation(id, Allocation { memory, ..wanted })?;
            }
            other => other?,
        }
        let function = &self.functions[id.0];
        let replicas = function.wanted.replicas.saturating_sub(function.pending);
        Ok(Allocation { replicas, ..function.wanted })
    }

    fn set_allocation(&mut self, id: FunctionId, wanted: Allocation) -> Result<()> {
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

    /// A request from outside, beside those of the function's own load.
    pub fn send(&mut self, id: FunctionId) -> Result<()> {
        self.require(id)?;
        self.arrivals.stop_drawing_ahead(id.0, &mut self.functions[id.0]);
        self.arrive(id.0);
        Ok(())
    }

    /// A node fails: its containers and their requests are lost.
    pub fn fail_node(&mut self, node: usize) -> Result<()> {
        self.require_node(node)?;
        self.set_up(node, false);
        self.nodes[node].traces.values_mut().for_each(|trace| trace.has_image = false);
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
        self.set_up(node, true);
        self.place_pending();
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

    fn set_up(&mut self, node: usize, is_up: bool) {
        self.nodes[node].is_up = is_up;
        self.placement.update(node, &self.nodes[node]);
    }

    /// Sets memory of a node aside for its containers.
    fn set_reserved(&mut self, node: usize, reserved: Bytes) {
        self.nodes[node].reserved = reserved;
        self.placement.update(node, &self.nodes[node]);
    }

    /// Puts a node's next finish on the list.
    fn watch(&mut self, node: usize) {
        self.finishes.set_or_clear(node, self.nodes[node].processor.next_finish());
    }
}
