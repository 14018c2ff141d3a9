//! The simulated cluster: replicas of services on nodes, and the requests that pass through them.

mod anomalies;
mod hardware;
mod replicas;
mod requests;
mod sharing;
mod telemetry;

use std::sync::Arc;

use homeostat_core::{SeedTree, SimDuration, SimTime, Stream};
use homeostat_decide::ContainerLimits;
use homeostat_des::{EventQueue, Timers};
use homeostat_load::{Arrivals, LoadShape};

pub use anomalies::AnomalyId;
pub use replicas::ReplicaId;
pub use telemetry::{Conservation, RequestTotals, RequestWindow, ServiceWindow, SpanRecord};

use crate::interference::TICK;
use crate::lane::{Group, Lane};
use crate::{Interference, Topology};
use replicas::{Node, Replica, ServiceState};
use requests::{Request, Rpc};
use telemetry::Types;

/// Hardware of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeSize {
    /// Cores.
    pub cores: f64,
    /// Bytes per second to and from memory.
    pub memory_bandwidth: f64,
    /// Bytes of last-level cache.
    pub cache: f64,
    /// Bytes per second of disks.
    pub disk: f64,
    /// Bytes per second that it can send.
    pub network: f64,
}

/// A cluster with one application.
#[derive(Debug, Clone)]
pub struct MeshSetup {
    /// The service graph.
    pub topology: Arc<Topology>,
    /// Number of nodes.
    pub nodes: usize,
    /// Hardware of each.
    pub node: NodeSize,
    /// Replicas and limits of each service.
    pub limits: Vec<ContainerLimits>,
    /// Load of each type of requests.
    pub loads: Vec<LoadShape>,
    /// Time of a message between two nodes without contention.
    pub link: SimDuration,
    /// Requests that wait for a thread of a replica; more are refused.
    pub max_queue: usize,
    /// A client gives up after this time.
    pub timeout: SimDuration,
    /// Cost of memory stalls.
    pub interference: Interference,
    /// Spans are recorded of one request in so many; zero for none.
    pub record_every: u32,
}

/// The state of a cluster.
#[derive(Debug, Clone)]
pub struct Mesh {
    setup: MeshSetup,
    now: SimTime,
    events: EventQueue<Event>,
    /// The next finish of each lane.
    finishes: Timers,
    lanes: Vec<Lane>,
    groups: Vec<Group>,
    nodes: Vec<Node>,
    services: Vec<ServiceState>,
    replicas: Vec<Replica>,
    rpcs: Vec<Rpc>,
    free_rpcs: Vec<u32>,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    arrivals: Vec<Arrivals>,
    surges: Vec<anomalies::Surge>,
    anomalies: Vec<anomalies::Active>,
    types: Types,
    demands: Vec<Stream>,
    operations: Stream,
    delays: Stream,
    last_tick: SimTime,
    next_span: u64,
    arrived_for_recording: u64,
    spans: Vec<SpanRecord>,
    conservation: Conservation,
    handled: u64,
    /// Reused by divisions.
    claims: Vec<(f64, f64)>,
    grants: Vec<f64>,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A request of a type, and the next one after it.
    Request { kind: u32 },
    /// A request more, because of an anomaly.
    Surge { surge: u32 },
    /// A call reaches its callee.
    Arrive { rpc: u32 },
    /// An answer reaches its caller.
    Answer { rpc: u32 },
    /// Caches and memory bandwidth are divided again.
    Tick,
    /// A replica has started.
    Ready { replica: u32 },
    /// A limit takes effect.
    Limit { replica: u32, resource: u8, limit: f64 },
    /// An anomaly ends.
    AnomalyEnd { anomaly: u32 },
}

impl Mesh {
    /// A cluster at time zero, with all replicas ready. There are limits for each service and a valid
    /// load for each type of requests.
    pub fn new(setup: MeshSetup, seeds: &SeedTree) -> crate::Result<Self> {
        let topology = Arc::clone(&setup.topology);
        assert_eq!(setup.limits.len(), topology.services.len(), "limits of each service");
        assert_eq!(setup.loads.len(), topology.requests.len(), "a load of each type");
        let mut arrivals = Vec::new();
        for (request, load) in topology.requests.iter().zip(&setup.loads) {
            let rng = seeds.stream(&format!("arrivals/{}", request.name));
            arrivals.push(Arrivals::new(load, rng)?);
        }
        let demand = |service: &crate::Service| seeds.stream(&format!("demand/{}", service.name));
        let mut mesh = Self {
            now: SimTime::ZERO,
            events: EventQueue::default(),
            finishes: Timers::default(),
            lanes: Vec::new(),
            groups: Vec::new(),
            nodes: Vec::new(),
            services: Vec::new(),
            replicas: Vec::new(),
            rpcs: Vec::new(),
            free_rpcs: Vec::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            arrivals,
            surges: Vec::new(),
            anomalies: Vec::new(),
            types: Types::new(topology.requests.len()),
            demands: topology.services.iter().map(demand).collect(),
            operations: seeds.stream("operations"),
            delays: seeds.stream("network delays"),
            last_tick: SimTime::ZERO,
            next_span: 1,
            arrived_for_recording: 0,
            spans: Vec::new(),
            conservation: Conservation::default(),
            handled: 0,
            claims: Vec::new(),
            grants: Vec::new(),
            setup,
        };
        mesh.add_nodes();
        mesh.add_services();
        for kind in 0..mesh.arrivals.len() {
            mesh.schedule_arrival(kind);
        }
        mesh.events.schedule(SimTime::ZERO + TICK, Event::Tick);
        Ok(mesh)
    }

    /// Plays until `end`, events of that instant included.
    pub fn run_until(&mut self, end: SimTime) {
        loop {
            let event = self.events.next_time().unwrap_or(SimTime::from_nanos(u64::MAX));
            match self.finishes.first() {
                Some((at, lane)) if at <= event && at <= end => {
                    self.now = at;
                    self.finish_job(lane);
                }
                _ if event <= end => {
                    let Some((at, event)) = self.events.pop() else { break };
                    self.now = at;
                    self.handle(event);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    /// The present.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// The service graph.
    pub fn topology(&self) -> &Topology {
        &self.setup.topology
    }

    /// Calls that were answered or refused since time zero.
    pub fn calls_handled(&self) -> u64 {
        self.handled
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request { kind } => {
                self.begin_request(kind);
                self.schedule_arrival(kind as usize);
            }
            Event::Surge { surge } => self.surge(surge),
            Event::Arrive { rpc } => self.arrive(rpc),
            Event::Answer { rpc } => self.answer(rpc),
            Event::Tick => {
                self.divide_caches_and_bandwidth();
                self.events.schedule(self.now + TICK, Event::Tick);
            }
            Event::Ready { replica } => self.become_ready(replica),
            Event::Limit { replica, resource, limit } => {
                self.set_limit(replica, usize::from(resource), limit);
            }
            Event::AnomalyEnd { anomaly } => self.end_anomaly(anomaly),
        }
    }

    fn schedule_arrival(&mut self, kind: usize) {
        if let Some(at) = self.arrivals[kind].next_arrival() {
            self.events.schedule(at, Event::Request { kind: kind as u32 });
        }
    }
}

/// The lanes of a replica: resources that are shared event by event.
pub(crate) const CPU: usize = 0;
pub(crate) const DISK: usize = 1;
pub(crate) const NETWORK: usize = 2;
pub(crate) const LANES: usize = 3;

/// No replica, call or connection.
pub(crate) const NONE: u32 = u32::MAX;
