//! The things a platform consists of, with their numbers.

use std::collections::{BTreeMap, VecDeque};

use homeostat_core::{Bytes, SimDuration, SimTime, Slo, Stream};
use homeostat_decide::Allocation;
use homeostat_des::{ClassId, Histogram, Record, Samples, SharedProcessor};

use crate::config::{Scaling, Source};
use crate::profile::FunctionProfile;

/// A function on a platform. Numbers are given once and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionId(pub(crate) usize);

impl FunctionId {
    /// Its number, counted from zero as functions are added.
    pub fn number(self) -> usize {
        self.0
    }
}

/// A node with its containers' work.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) processor: SharedProcessor<Job>,
    pub(crate) memory: Bytes,
    /// Changed by [`super::Platform::set_reserved`] alone, which updates the placement.
    pub(crate) reserved: Bytes,
    pub(crate) is_up: bool,
    /// What the functions that ever ran here have left, by their number.
    pub(crate) traces: BTreeMap<u32, FunctionTrace>,
}

/// What a function leaves on a node where it has run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionTrace {
    pub(crate) class: ClassId,
    pub(crate) has_image: bool,
}

impl Node {
    /// Memory that is not set aside; nothing on a node that is down.
    pub(crate) fn free(&self) -> Bytes {
        if self.is_up { self.memory.saturating_sub(self.reserved) } else { Bytes::ZERO }
    }
}

/// What burns CPU time on a node: a request, or a container that starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    Request(u32),
    Start(u32),
}

const START_BIT: u64 = 1 << 32;

impl Record for Job {
    const WORDS: usize = 1;

    fn write(&self, words: &mut Vec<u64>) {
        words.push(match self {
            Self::Request(request) => u64::from(*request),
            Self::Start(container) => START_BIT | u64::from(*container),
        });
    }

    fn read(words: &[u64]) -> Self {
        let number = words[0] as u32;
        if words[0] & START_BIT == 0 { Self::Request(number) } else { Self::Start(number) }
    }
}

/// What happens at a set time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A request's wait for storage, network or paging is over.
    Answered { request: u32, epoch: u32 },
    /// A container exists and begins to load its code.
    Created { container: u32, epoch: u32 },
    /// An idle container may have been idle for long enough.
    KeepAlive { container: u32, epoch: u32 },
    /// The shares that are wanted by now come into force.
    Shares { function: u32 },
    /// The memory limit that is wanted by now comes into force.
    MemoryLimit { function: u32 },
}

impl Record for Event {
    const WORDS: usize = 3;

    fn write(&self, words: &mut Vec<u64>) {
        words.extend(match *self {
            Self::Answered { request, epoch } => [0, request.into(), epoch.into()],
            Self::Created { container, epoch } => [1, container.into(), epoch.into()],
            Self::KeepAlive { container, epoch } => [2, container.into(), epoch.into()],
            Self::Shares { function } => [3, function.into(), 0],
            Self::MemoryLimit { function } => [4, function.into(), 0],
        });
    }

    fn read(words: &[u64]) -> Self {
        let (number, small) = (words[1] as u32, words[2] as u32);
        match words[0] {
            0 => Self::Answered { request: number, epoch: small },
            1 => Self::Created { container: number, epoch: small },
            2 => Self::KeepAlive { container: number, epoch: small },
            3 => Self::Shares { function: number },
            _ => Self::MemoryLimit { function: number },
        }
    }
}

/// A request as it came. What it needs is drawn then, so that it depends on nothing that is
/// done to the platform: in one seed all policies meet the same requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    pub(crate) at: SimTime,
    pub(crate) needs: Needs,
    /// The journey through the function's chain that it is a part of, or [`ALONE`].
    pub(crate) journey: u32,
}

/// The journey of a request that is of no chain.
pub(crate) const ALONE: u32 = u32::MAX;

/// A request in service.
// Aligned to lie on one cache line, as containers are: both are found by number, in no order.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Request {
    pub(crate) arrived: SimTime,
    pub(crate) io: SimDuration,
    pub(crate) container: u32,
    /// The next one in the same container, or [`NOTHING`].
    pub(crate) next: u32,
    /// As it came with.
    pub(crate) journey: u32,
    /// Raised whenever the place is used again, so that late events miss it.
    pub(crate) epoch: u32,
}

/// The number of no request.
pub(crate) const NOTHING: u32 = u32::MAX;

/// Where a function stands in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StageOf {
    pub(crate) chain: u32,
    pub(crate) place: u32,
}

/// How far a container is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its place is free.
    Gone,
    /// It is being created.
    Creating,
    /// It loads its code.
    Starting,
    /// It serves.
    Ready,
}

/// One container.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Container {
    pub(crate) function: u32,
    pub(crate) node: u32,
    /// Its function's class on its node, once it has loaded its code.
    pub(crate) class: Option<ClassId>,
    pub(crate) epoch: u32,
    /// The first of its requests in service, or [`NOTHING`].
    pub(crate) first_request: u32,
    pub(crate) in_service: u32,
    pub(crate) phase: Phase,
    /// It takes no further request and is removed when it has answered.
    pub(crate) is_draining: bool,
    /// A keep-alive event is on its way.
    pub(crate) is_watched: bool,
    pub(crate) has_served: bool,
}

impl Container {
    /// Its requests in service.
    pub(crate) fn requests(&self, requests: &[Request]) -> impl Iterator<Item = u32> {
        let some = |request: u32| (request != NOTHING).then_some(request);
        std::iter::successors(some(self.first_request), move |request| {
            some(requests[*request as usize].next)
        })
    }
}

/// Times of a container that no request needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContainerTimes {
    pub(crate) created: SimTime,
    /// Kept where idle containers end by themselves.
    pub(crate) idle_since: SimTime,
}

/// One function and everything counted about it.
// In this order, so that a request finds all it needs on the first four cache lines: a large
// platform has thousands of functions, and no two requests in a row are of the same one.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct Function {
    pub(crate) counted_until: SimTime,
    /// Memory set aside for each container; what is asked for.
    pub(crate) reserved: Bytes,
    pub(crate) window: Counters,
    pub(crate) waiting: VecDeque<Arrived>,
    /// Ready containers with room for a request, the one used last on top.
    pub(crate) idle: Vec<u32>,
    /// Requests in service.
    pub(crate) in_service: u32,
    /// All containers, draining ones included.
    pub(crate) present: u32,
    pub(crate) slo: Slo,
    /// The limit in force in the containers, a little later than it was asked for.
    pub(crate) memory_limit: Bytes,
    /// Memory that a request touches, and below which its container is killed.
    pub(crate) touched_memory: Bytes,
    pub(crate) least_memory: Bytes,
    pub(crate) scaling: Scaling,
    /// Containers that are not draining.
    pub(crate) containers: Vec<u32>,
    pub(crate) draining: Vec<u32>,
    /// Containers that are wanted and have no room.
    pub(crate) pending: u32,
    pub(crate) is_gone: bool,
    /// What was asked for last.
    pub(crate) wanted: Allocation,
    /// The weight in force.
    pub(crate) millicores: u64,
    /// Its classes on the nodes where it ever ran.
    pub(crate) classes: Vec<(u32, ClassId)>,
    pub(crate) window_began: SimTime,
    /// CPU time that all its classes had used when the window began.
    pub(crate) cpu_at_window: f64,
    pub(crate) totals: Totals,
    pub(crate) isolated_latency: SimDuration,
    /// The chain that it is a stage of.
    pub(crate) stage: Option<StageOf>,
    pub(crate) profile: FunctionProfile,
    /// Its load; that of its chain, if it is the first stage of one.
    pub(crate) source: Option<Source>,
    /// When it was added; its load counts from here.
    pub(crate) began: SimTime,
    pub(crate) rng: Stream,
    pub(crate) draws: Draws,
}

/// When it is drawn what a function's requests need.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Draws {
    /// Together with the time of their arrival, ahead of it.
    Ahead,
    /// As they come. Those drawn ahead for other requests come first.
    OnArrival(VecDeque<Needs>),
}

/// What a request needs beside a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Needs {
    pub(crate) cpu: SimDuration,
    pub(crate) io: SimDuration,
}

impl Function {
    /// When its next request comes. A load counts its time from its own start.
    pub(crate) fn next_arrival(&mut self) -> Option<SimTime> {
        let next = self.source.as_mut()?.next_arrival()?;
        Some(self.began + next.saturating_since(SimTime::ZERO))
    }

    /// What its next request needs, in the order of their arrival.
    pub(crate) fn next_needs(&mut self) -> Needs {
        let left = match &mut self.draws {
            Draws::OnArrival(left) => left.pop_front(),
            Draws::Ahead => None,
        };
        left.unwrap_or_else(|| self.draw_needs())
    }

    pub(crate) fn draw_needs(&mut self) -> Needs {
        let cpu = self.profile.draw_cpu(&mut self.rng);
        Needs { cpu, io: self.profile.draw_io(&mut self.rng) }
    }

    /// Containers that are wanted and not there.
    pub(crate) fn shortage(&self) -> u32 {
        self.wanted.replicas.saturating_sub(self.containers.len() as u32)
    }

    /// What a request that is never answered counts as.
    pub(crate) fn never(&self, timeout: SimDuration) -> SimDuration {
        timeout.max(self.slo.threshold() * 10)
    }

    /// Requests inside: waiting or in service.
    pub(crate) fn inside(&self) -> u64 {
        self.waiting.len() as u64 + u64::from(self.in_service)
    }
}

/// What is counted in a window.
// In the order of use, as in [`Function`].
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub(crate) struct Counters {
    /// Request-, container- and byte-nanoseconds.
    pub(crate) request_time: f64,
    pub(crate) container_time: f64,
    pub(crate) memory_time: f64,
    pub(crate) arrived: u64,
    pub(crate) completed: u64,
    pub(crate) slo_violations: u64,
    pub(crate) latency: Samples,
    pub(crate) timed_out: u64,
    pub(crate) failed: u64,
    pub(crate) cold_starts: u64,
    pub(crate) oom_kills: u64,
}

/// What a function has seen since it was added, up to the last closed window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Requests that came.
    pub arrived: u64,
    /// Requests that were answered, however late.
    pub completed: u64,
    /// Requests that violated the SLO: late, given up or lost.
    pub slo_violations: u64,
    /// Requests that their clients gave up while they waited.
    pub timed_out: u64,
    /// Requests lost with a container that was killed or a node that failed.
    pub failed: u64,
    /// Requests inside that are late already; counted at the end of a run only.
    pub unsettled: u64,
    /// Containers that were started.
    pub cold_starts: u64,
    /// Out-of-memory kills of containers.
    pub oom_kills: u64,
    /// CPU time in core-seconds, starts included.
    pub cpu_s: f64,
    /// Container-seconds.
    pub container_s: f64,
    /// Memory set aside, in GiB-seconds.
    pub memory_gib_s: f64,
    /// Latency of settled requests. Those given up or lost were never answered: they have the
    /// timeout, or ten times the SLO where that is longer.
    pub latency: Histogram,
}
