//! Deployments on the nodes of one cluster, request by request.
//!
//! A pod is a processor whose cores are its CPU limit; its requests share them. Where the limits of
//! the pods on a node exceed its cores, busy pods share these by their CPU requests, as control
//! groups do. A request passes its CPU part first, then waits for disks and other services.

mod deployment;
mod nodes;
mod pods;
mod requests;
mod telemetry;

use std::collections::VecDeque;

use homeostat_core::{Bytes, SimDuration, SimTime, Slo};
use homeostat_decide::{Allocation, Decision};
use homeostat_des::{EventQueue, Timers};
use serde::{Deserialize, Serialize};

use self::deployment::Deployment;
pub use self::deployment::Totals;
use self::nodes::Node;
use self::pods::Pod;
use self::requests::Request;
use crate::{Application, Source};

/// How a change of size reaches running pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resize {
    /// In place (Kubernetes 1.33 and later). A larger pod waits until its node has room; a limit
    /// below the memory in use waits until it is free.
    InPlace,
    /// A rolling update with Kubernetes' defaults: a quarter more pods, and a quarter fewer ready ones.
    Restart,
}

/// A cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterConfig {
    /// Number of nodes.
    pub nodes: usize,
    /// Cores of each that pods can have.
    pub cores: f64,
    /// Memory of each that pods can have.
    pub memory: Bytes,
    /// How a change of size reaches running pods.
    pub resize: Resize,
    /// CPU limit of a pod over its request, at least one.
    pub cpu_limit_over_request: f64,
    /// Memory limit of a pod over its request, at least one. Above one, a node can run short of
    /// memory and evict pods.
    pub memory_limit_over_request: f64,
    /// From the creation of a pod until its program starts: scheduling, image, sandbox.
    pub create: SimDuration,
    /// CPU time of a program until it is ready.
    pub start_cpu: SimDuration,
    /// Time that a deleted pod has to finish its requests.
    pub grace: SimDuration,
    /// A request that waits for a pod is given up after this time.
    pub timeout: SimDuration,
    /// Requests that a pod serves at once; others wait at the load balancer.
    pub concurrency: u32,
}

/// A Deployment and its load.
#[derive(Debug)]
pub struct DeploymentSetup {
    /// What it runs.
    pub application: Application,
    /// Its SLO.
    pub slo: Slo,
    /// Its first allocation; these pods are ready at once if nodes have room for them.
    pub allocation: Allocation,
    /// Its requests.
    pub source: Source,
    /// The stream of its requests' needs.
    pub needs: homeostat_core::Stream,
}

/// The cluster. It owns all state; pods and requests are numbers.
#[derive(Debug)]
pub struct Cluster {
    config: ClusterConfig,
    now: SimTime,
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    free_pods: Vec<u32>,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    deployments: Vec<Deployment>,
    events: EventQueue<Event>,
    /// The next finished job of each pod, and the next arrival at each Deployment.
    finishes: Timers,
    arrivals: Timers,
    /// Deployments whose pods have changed since their controller looked.
    unsettled: Vec<usize>,
}

/// What happens at a time that is known before. Events of a pod that is gone or was restarted since
/// have an older generation.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A pod's program starts.
    Start { pod: u32, generation: u32 },
    /// The grace period of a deleted pod is over.
    GraceOver { pod: u32, generation: u32 },
    /// A request has waited for disks and services.
    IoDone { request: u32 },
    /// The request that waits longest for a pod of a Deployment may have waited too long.
    GiveUp { deployment: u32 },
}

impl Cluster {
    /// An empty cluster. The settings must be valid: cores and limits above zero.
    pub fn new(config: ClusterConfig) -> Self {
        let node = || Node::new(config.cores, config.memory);
        Self {
            now: SimTime::ZERO,
            nodes: (0..config.nodes).map(|_| node()).collect(),
            pods: Vec::new(),
            free_pods: Vec::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            deployments: Vec::new(),
            events: EventQueue::default(),
            finishes: Timers::default(),
            arrivals: Timers::default(),
            unsettled: Vec::new(),
            config,
        }
    }

    /// Adds a Deployment and returns its number.
    pub fn add(&mut self, setup: DeploymentSetup) -> usize {
        let number = self.deployments.len();
        let mut deployment = Deployment::new(setup, self.now);
        self.arrivals.set_or_clear(number, deployment.source.next_arrival());
        self.deployments.push(deployment);
        for _ in 0..self.deployments[number].wanted.replicas {
            let pod = self.create_pod(number);
            self.start_at_once(pod);
        }
        number
    }

    /// The present time.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Its settings.
    pub fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// Changes what a Deployment runs, from the next request on: another payload.
    pub fn replace_application(&mut self, deployment: usize, application: Application) {
        self.deployments[deployment].application = application;
    }

    /// Changes the load of a Deployment. The new source counts from time zero, as every source does;
    /// its arrivals before now never happen.
    pub fn replace_source(&mut self, deployment: usize, mut source: Source) {
        let now = self.now;
        let next = std::iter::from_fn(|| source.next_arrival()).find(|at| *at >= now);
        self.deployments[deployment].source = source;
        self.arrivals.set_or_clear(deployment, next);
    }

    /// Applies a decision. A cluster accepts every setting, as Kubernetes does: pods without room
    /// stay pending.
    pub fn apply(&mut self, deployment: usize, decision: &Decision) -> Allocation {
        self.deployments[deployment].wanted = *decision.applied();
        self.unsettled.push(deployment);
        self.settle();
        *decision.applied()
    }

    /// Advances to this time.
    pub fn run_until(&mut self, end: SimTime) {
        loop {
            let event = self.events.next_time().unwrap_or(NEVER);
            let (finish, pod) = self.finishes.first().unwrap_or((NEVER, 0));
            let (arrival, deployment) = self.arrivals.first().unwrap_or((NEVER, 0));
            let next = event.min(finish).min(arrival);
            if next > end {
                break;
            }
            self.now = next;
            if event == next {
                self.happen();
            } else if finish == next {
                self.finish_jobs(pod as u32);
            } else {
                self.arrive(deployment);
            }
            self.settle();
        }
        self.now = self.now.max(end);
    }

    fn happen(&mut self) {
        let Some((_, event)) = self.events.pop() else { return };
        match event {
            Event::Start { pod, generation } if self.is_same(pod, generation) => {
                self.start_program(pod);
            }
            Event::GraceOver { pod, generation } if self.is_same(pod, generation) => {
                self.lose_requests(pod);
                self.remove_pod(pod);
            }
            Event::IoDone { request } => self.end_io(request),
            Event::GiveUp { deployment } => self.give_up_in_time(deployment as usize),
            Event::Start { .. } | Event::GraceOver { .. } => {}
        }
    }

    /// Lets the controllers of Deployments act until nothing is left to do.
    fn settle(&mut self) {
        while let Some(deployment) = self.unsettled.pop() {
            self.reconcile(deployment);
        }
    }

    fn is_same(&self, pod: u32, generation: u32) -> bool {
        self.pods[pod as usize].generation == generation
    }
}

/// Requests that wait at the load balancer, oldest first.
type Queue = VecDeque<u32>;

/// Later than every event.
const NEVER: SimTime = SimTime::from_nanos(u64::MAX);
