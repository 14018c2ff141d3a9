//! Features and actions of agents that choose set-points instead of steps: a CPU weight, and a
//! number of spare replicas beyond the offered load.
//!
//! A [`ScalingAction`](crate::ScalingAction) moves one dimension by one step: too slow for a load
//! that doubles within a few windows. A set-point takes effect in one window.

use std::fmt;

use homeostat_core::{
    ActionField, ActionSchema, FeatureField, FeatureSchema, Millicores, Persist, Result,
    SimDuration, Snapshot,
};

use crate::features::{arrival_change, preservation};
use crate::staffing::Staffing;
use crate::team::with_team;
use crate::{Allocation, AllocationBounds, Observation, Proposal, Reason};

/// Service time of a request when the target runs alone, from profiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceTime {
    /// CPU time.
    pub cpu: SimDuration,
    /// Time without CPU use: network and disks.
    pub io: SimDuration,
}

impl ServiceTime {
    /// The sum.
    pub fn total(&self) -> SimDuration {
        self.cpu + self.io
    }
}

/// One action: a CPU weight and spare replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetPoint {
    /// Index into [`SetPoint::WEIGHTS`].
    pub weight: usize,
    /// Index into [`SetPoint::SPARES`].
    pub spare: usize,
}

impl SetPoint {
    /// CPU of each replica: the dissertation's range in powers of two.
    pub const WEIGHTS: [Millicores; 5] = [
        Millicores::new(125),
        Millicores::new(250),
        Millicores::new(500),
        Millicores::new(1000),
        Millicores::new(2000),
    ];
    /// Spare replicas, in square roots of the offered load.
    pub const SPARES: [f64; 5] = [0.5, 1.0, 1.5, 2.0, 3.0];

    /// The action of two choices; an index beyond the last choice means the last.
    pub fn from_choices(weight: usize, spare: usize) -> Self {
        Self {
            weight: weight.min(Self::WEIGHTS.len() - 1),
            spare: spare.min(Self::SPARES.len() - 1),
        }
    }
}

impl fmt::Display for SetPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (weight, spare) = (Self::WEIGHTS[self.weight], Self::SPARES[self.spare]);
        write!(f, "{weight} for each replica, {spare} roots of the load to spare")
    }
}

/// Encodes observations for such an agent and turns its actions into proposals.
#[derive(Debug, Clone, PartialEq)]
pub struct SetPoints {
    bounds: AllocationBounds,
    staffing: Staffing,
    /// The last known arrival rate.
    arrivals_per_s: Option<f64>,
    /// The last known service time.
    service: Option<ServiceTime>,
}

impl SetPoints {
    /// Number of features.
    pub const COUNT: usize = 10;
    /// Their names, in order.
    pub const NAMES: [&str; Self::COUNT] = [
        "SP",
        "AC",
        "load",
        "CPU time",
        "I/O part",
        "waiting",
        "contention",
        "NC",
        "weight",
        "CPU",
    ];
    /// Range of each.
    pub const RANGES: [(f32, f32); Self::COUNT] = [
        (0.0, 1.0),
        (-1.0, 1.0),
        (0.0, 4.0),
        (-4.0, 4.0),
        (0.0, 1.0),
        (0.0, 4.0),
        (0.0, 3.0),
        (0.0, 1.0),
        (-4.0, 4.0),
        (0.0, 4.0),
    ];

    /// A new encoder. The number of replicas is normalised by the bounds.
    pub fn new(bounds: AllocationBounds) -> Self {
        Self { bounds, staffing: Staffing::new(3), arrivals_per_s: None, service: None }
    }

    /// Changes the bounds.
    pub fn set_bounds(&mut self, bounds: AllocationBounds) {
        self.bounds = bounds;
    }

    /// The feature schema that policy files carry.
    pub fn feature_schema() -> FeatureSchema {
        let meanings = [
            "SLO preservation: the SLO's threshold over measured latency, 1 while it is met",
            "change of the arrival rate over the larger of both",
            "offered load: requests in service if none waited, over 4",
            "CPU time of a request: half the doublings of 250 ms",
            "part of a request's time that needs no CPU",
            "a third of the logarithm of 1 + requests that wait",
            "contention: requests in the system over the offered load, halved",
            "replicas over the most",
            "CPU weight of a replica: half the doublings of 500 millicores",
            "CPU demand of the load in cores, halved",
        ];
        let units =
            ["", "", "requests", "s", "", "requests", "", "replicas", "millicores", "cores"];
        let fields = Self::NAMES.into_iter().zip(meanings).zip(Self::RANGES).zip(units);
        let fields = fields.map(|(((name, meaning), range), unit)| {
            FeatureField::new(name, meaning, range).with_unit(unit)
        });
        FeatureSchema {
            id: "pods/load-and-contention-v1".to_owned(),
            features: fields.collect(),
            history: 1,
        }
    }

    /// The same with the other members of a team behind it.
    pub fn team_feature_schema() -> FeatureSchema {
        let (part, amount) = ((0.0, 1.0), (0.0, 2.0));
        let figures = [
            ("weight", (-2.0, 2.0)),
            ("NC", part),
            ("waiting", amount),
            ("contention", amount),
            ("SP", part),
            ("load", amount),
            ("CPU", amount),
        ];
        with_team(Self::feature_schema(), figures)
    }

    /// The action schema that policy files carry.
    pub fn action_schema() -> ActionSchema {
        let weights = SetPoint::WEIGHTS.map(|weight| weight.to_string());
        let spares = SetPoint::SPARES.map(|spare| spare.to_string());
        let spare = "replicas beyond the offered load, in square roots of it; fewer only once three \
                     windows agree";
        ActionSchema {
            id: "pods/set-points-v1".to_owned(),
            parts: vec![
                ActionField::choice("weight", "CPU of each replica", weights),
                ActionField::choice("spare", spare, spares),
            ],
        }
    }

    /// The features of an observation, each clamped to its range.
    pub fn observe(&mut self, obs: &Observation) -> [f32; Self::COUNT] {
        let estimated =
            || Some(ServiceTime { cpu: obs.cpu_of_a_request()?, io: SimDuration::ZERO });
        self.service = obs.service_time.or_else(estimated).or(self.service);
        let alone = ServiceTime { cpu: obs.isolated_latency, io: SimDuration::ZERO };
        let service = self.service.unwrap_or(alone);
        let arrivals = Some(obs.arrivals_per_s).filter(|rate| rate.is_finite() && *rate >= 0.0);
        let load = arrivals.unwrap_or(0.0) * service.total().seconds();
        let used = arrivals.unwrap_or(0.0) * service.cpu.seconds();
        let total = service.total().seconds().max(f64::MIN_POSITIVE);
        let features = [
            // SLO preservation ratio and change of the arrival rate.
            preservation(obs),
            arrival_change(arrivals, self.arrivals_per_s),
            // Offered load: requests in service if none had to wait, over 4.
            load / 4.0,
            // The type of function: CPU time of a request as a power of two of 250 ms, and the
            // fraction of its service time without CPU.
            (service.cpu.seconds() / 0.25).max(1e-3).log2() / 2.0,
            service.io.seconds() / total,
            // Waiting requests, on a logarithmic scale.
            (1.0 + obs.waiting as f64).ln() / 3.0,
            // Requests in the system over the offered load: 0.5 means no contention.
            obs.concurrency / load.max(0.5) / 2.0,
            // Replicas, and the CPU weight as a power of two of half a core.
            f64::from(obs.allocation.replicas) / f64::from(self.bounds.replicas.high().max(1)),
            (obs.allocation.cpu.cores() / 0.5).max(1e-3).log2() / 2.0,
            // CPU demand in cores, over 2.
            used / 2.0,
        ];
        self.arrivals_per_s = arrivals.or(self.arrivals_per_s);
        std::array::from_fn(|k| {
            let (least, most) = Self::RANGES[k];
            let feature = features[k] as f32;
            if feature.is_nan() { 0.0 } else { feature.clamp(least, most) }
        })
    }

    /// The proposal of an action for the last observed load; without a load, the number of replicas
    /// stays.
    pub fn propose(&mut self, action: SetPoint, current: &Allocation) -> Proposal {
        let load = self.arrivals_per_s.zip(self.service);
        let load = load.map_or(f64::NAN, |(rate, service)| rate * service.total().seconds());
        let (replicas, mut reasons) =
            self.staffing.replicas(load, SetPoint::SPARES[action.spare], current.replicas);
        reasons.insert(0, Reason::SetPoint { action });
        let wanted = Allocation { cpu: SetPoint::WEIGHTS[action.weight], ..*current };
        Proposal { replicas, reasons, ..Proposal::keep(&wanted) }
    }
}

impl Persist for SetPoints {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.staffing.save(&format!("{name}/needs"), out);
        let rate: Vec<_> = self.arrivals_per_s.into_iter().collect();
        out.put_f64(&format!("{name}/arrivals"), rate);
        let service = self.service.map(|service| [service.cpu.nanos(), service.io.nanos()]);
        out.put_u64(&format!("{name}/service"), service.into_iter().flatten().collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        self.staffing.load(&format!("{name}/needs"), from)?;
        self.arrivals_per_s = from.any_f64s(&format!("{name}/arrivals"))?.first().copied();
        self.service = match from.any_u64s(&format!("{name}/service"))? {
            [cpu, io] => Some(ServiceTime {
                cpu: SimDuration::from_nanos(*cpu),
                io: SimDuration::from_nanos(*io),
            }),
            _ => None,
        };
        Ok(())
    }
}
