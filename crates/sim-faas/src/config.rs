//! What a platform is made of.

use homeostat_core::{Bytes, Persist, SimDuration, SimTime, Slo, Snapshot, Stream};
use homeostat_decide::Allocation;
use homeostat_load::{Arrivals, TraceArrivals};

use crate::chain::ChainGraph;
use crate::contention::Contention;
use crate::platform::FunctionId;
use crate::profile::FunctionProfile;
use crate::{Error, Result};

/// A cluster and how it behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct PlatformConfig {
    /// The nodes that run containers.
    pub nodes: Vec<NodeConfig>,
    /// What contention costs.
    pub contention: Contention,
    /// How long operations take.
    pub timings: Timings,
    /// The client of a request gives it up after it has waited this long.
    pub timeout: SimDuration,
    /// Requests that a container serves at once.
    pub slots: u32,
    /// Extra wait, as a multiple of a request's time, for each part of the memory that is
    /// missing: what does not fit is dropped and read again.
    pub paging: f64,
}

/// One node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeConfig {
    /// Its cores.
    pub cores: f64,
    /// Its memory for containers.
    pub memory: Bytes,
}

/// A time that varies: normal, never below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Varying {
    /// Mean.
    pub mean: SimDuration,
    /// Standard deviation.
    pub deviation: SimDuration,
}

impl Varying {
    const fn from_micros(mean: u64, deviation: u64) -> Self {
        Self {
            mean: SimDuration::from_nanos(mean * 1000),
            deviation: SimDuration::from_nanos(deviation * 1000),
        }
    }

    pub(crate) fn draw(&self, rng: &mut Stream) -> SimDuration {
        let nanos = self.mean.nanos() as f64 + rng.normal() * self.deviation.nanos() as f64;
        SimDuration::from_nanos(nanos.max(0.0) as u64)
    }
}

/// How long operations take, means and deviations of Table 3.5 of the FIRM chapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// A change of `cpu.shares`.
    pub resize_cpu: Varying,
    /// A change of a memory limit.
    pub resize_memory: Varying,
    /// A container whose image is on the node.
    pub start_warm: Varying,
    /// A container whose image is not.
    pub start_cold: Varying,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            resize_cpu: Varying::from_micros(2_100, 300),
            resize_memory: Varying::from_micros(42_400, 11_000),
            start_warm: Varying::from_micros(45_700, 6_900),
            start_cold: Varying::from_micros(2_050_800, 291_400),
        }
    }
}

impl PlatformConfig {
    /// Equal nodes, with measured contention and the times of the paper.
    pub fn uniform(nodes: usize, cores: f64, memory: Bytes) -> Self {
        Self {
            nodes: vec![NodeConfig { cores, memory }; nodes],
            contention: Contention::MEASURED,
            timings: Timings::default(),
            timeout: SimDuration::from_secs(20),
            slots: 1,
            paging: 10.0,
        }
    }

    /// The cluster of the SIMPPO chapter: four invokers of 28 cores and 500 GB.
    pub fn paper() -> Self {
        Self::uniform(4, 28.0, Bytes::new(500_000_000_000))
    }

    /// Refuses clusters that cannot run.
    pub fn validate(&self) -> Result<()> {
        if self.nodes.is_empty() {
            return Err(Error::NoNodes);
        }
        let refuse = |what: &str, value: String, expected: &str| {
            Err(Error::OutOfRange { what: what.to_owned(), value, expected: expected.to_owned() })
        };
        for node in &self.nodes {
            if !(node.cores.is_finite() && node.cores > 0.0 && node.cores <= 4096.0) {
                return refuse(
                    "a node's number of cores",
                    node.cores.to_string(),
                    "it must be above 0 and at most 4096",
                );
            }
            if node.memory == Bytes::new(0) {
                return refuse("a node's memory", node.memory.to_string(), "it must be above 0");
            }
        }
        if self.timeout == SimDuration::ZERO {
            return refuse("the timeout", self.timeout.to_string(), "it must be longer than zero");
        }
        if self.slots == 0 || self.slots > 1000 {
            return refuse(
                "requests per container",
                self.slots.to_string(),
                "it must lie from 1 to 1000",
            );
        }
        if !(self.paging.is_finite() && self.paging >= 0.0) {
            return refuse(
                "the paging cost",
                self.paging.to_string(),
                "it must be a number of 0 or above",
            );
        }
        Ok(())
    }
}

/// What decides how many containers a function has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// A controller, through [`crate::Platform::apply`].
    Managed,
    /// A controller; and a request that finds no container at all starts one, as Knative's activator does.
    ManagedFromZero,
    /// The platform: a request that finds no free container starts one, and an idle one is
    /// removed after a while.
    OnDemand {
        /// How long an idle container is kept.
        keep_alive: SimDuration,
        /// Containers at most.
        most: u32,
    },
}

/// A function to add to a platform.
#[derive(Debug, Clone)]
pub struct FunctionSetup {
    /// What it needs.
    pub profile: FunctionProfile,
    /// Its SLO.
    pub slo: Slo,
    /// Latency at the SLO's percentile when it runs alone.
    pub isolated_latency: SimDuration,
    /// What it is given at first; its containers are there from the start.
    pub allocation: Allocation,
    /// What decides how many containers it has.
    pub scaling: Scaling,
    /// Its requests; none, if they are sent one by one.
    pub arrivals: Option<Source>,
}

impl FunctionSetup {
    /// The same function scaling itself, from nothing.
    pub fn on_demand(mut self, keep_alive: SimDuration, most: u32) -> Self {
        self.allocation.replicas = 0;
        self.scaling = Scaling::OnDemand { keep_alive, most };
        self
    }
}

/// A chain to be laid over functions of a platform.
#[derive(Debug, Clone)]
pub struct ChainSetup {
    /// Its name.
    pub name: String,
    /// Its stages and which follows which.
    pub graph: ChainGraph,
    /// The function of each stage, by place: of no other chain, and without requests of its own.
    pub functions: Vec<FunctionId>,
    /// Its SLO, from the arrival at the entry to the last finish.
    pub slo: Slo,
    /// Latency at the SLO's percentile when it runs alone.
    pub isolated_latency: SimDuration,
    /// Its requests; none, if they are sent one by one.
    pub arrivals: Option<Source>,
}

/// Where the requests of a function come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A shape of load.
    Shape(Arrivals),
    /// A counted trace.
    Trace(TraceArrivals),
}

impl Source {
    pub(crate) fn next_arrival(&mut self) -> Option<SimTime> {
        match self {
            Self::Shape(arrivals) => arrivals.next_arrival(),
            Self::Trace(arrivals) => arrivals.next_arrival(),
        }
    }
}

impl Persist for Source {
    fn save(&self, name: &str, out: &mut Snapshot) {
        match self {
            Self::Shape(arrivals) => arrivals.save(name, out),
            Self::Trace(arrivals) => arrivals.save(name, out),
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        match self {
            Self::Shape(arrivals) => arrivals.load(name, from),
            Self::Trace(arrivals) => arrivals.load(name, from),
        }
    }
}
