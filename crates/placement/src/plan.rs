//! A placement that can be deployed and explains itself.

use homeostat_sim_gpu::Deployment;

use crate::layout::{DeviceSet, Layout};
use crate::partition::GroupShape;
use crate::power_aware::SimilarityReason;
use crate::simulation::ModelOutcome;

/// How a plan is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Attainment first, then the least power: operator clusters, devices shared by partitions of similar
    /// sensitivity (Alg. 6.1 and 6.2).
    MuServe,
    /// The highest attainment, whatever the power.
    AlpaServe,
    /// Models in turn on groups in turn.
    RoundRobin,
    /// Models on random groups.
    Random,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 4] = [Self::MuServe, Self::AlpaServe, Self::RoundRobin, Self::Random];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MuServe => "mu-serve",
            Self::AlpaServe => "alpaserve",
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
        }
    }
}

/// Where a partition runs.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedPartition {
    /// Its first and last operator.
    pub operators: (String, String),
    /// Number of operators.
    pub operator_count: usize,
    /// The device set that runs it.
    pub set: usize,
    /// Sensitivity score.
    pub score: f64,
    /// Weights on each device, GiB.
    pub weights_gib: f64,
    /// Why it is there; none where partitions follow the stages of a group.
    pub reason: Option<SimilarityReason>,
}

/// A copy of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCopy {
    /// Index of the model.
    pub model: usize,
    /// Index of the group.
    pub group: usize,
    /// Its partitions.
    pub partitions: Vec<PlannedPartition>,
}

/// A division of the cluster that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// What was tried, in words.
    pub what: String,
    /// Attainment on the requests of the search, at the highest clocks.
    pub attainment: f64,
    /// Power at the clocks that keep the attainment, W; none where they were not searched.
    pub power_w: Option<f64>,
    /// Whether the plan is this one.
    pub is_chosen: bool,
}

/// What to expect of a plan, on requests that the search has not seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// Part of all requests answered within their SLO.
    pub attainment: f64,
    /// The same for each model.
    pub models: Vec<ModelOutcome>,
    /// Mean power of all devices, W.
    pub power_w: f64,
    /// Mean power of each device set, W.
    pub set_w: Vec<f64>,
    /// Part of the time in which each device set is busy.
    pub busy: Vec<f64>,
}

/// A placement.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// How it was made.
    pub method: Method,
    /// Names of the models, in the order of the workload.
    pub model_names: Vec<String>,
    /// Names of the devices, in the order of the cluster.
    pub device_names: Vec<String>,
    /// Groups, device sets and copies, as numbers.
    pub layout: Layout,
    /// The copies, with their partitions.
    pub copies: Vec<PlannedCopy>,
    /// Models without room anywhere.
    pub unplaced: Vec<usize>,
    /// The attainment that was asked for.
    pub wanted_attainment: f64,
    /// What to expect at the highest clocks.
    pub at_highest_clocks: Expectation,
    /// Clock of each device set, MHz: those with the least power that keep the attainment.
    pub clocks: Vec<u32>,
    /// What to expect at these clocks.
    pub at_planned_clocks: Expectation,
    /// Other placements that were tried, and the chosen one.
    pub alternatives: Vec<Alternative>,
    pub(crate) deployment: Deployment,
}

impl Plan {
    /// What the simulator serves. Its executors are the device sets in order, its models those of the
    /// workload.
    pub fn deployment(&self) -> Deployment {
        self.deployment.clone()
    }

    /// The devices of a set, by name.
    pub fn set_name(&self, set: usize) -> String {
        let DeviceSet { devices, .. } = &self.layout.sets[set];
        let names: Vec<&str> =
            devices.iter().map(|device| self.device_names[*device].as_str()).collect();
        names.join("+")
    }

    /// The shape of the group of a copy.
    pub fn shape(&self, copy: &PlannedCopy) -> GroupShape {
        self.layout.groups[copy.group].shape
    }

    /// Why the plan is as it is, in sentences.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for alternative in self.alternatives.iter().filter(|one| one.is_chosen) {
            let tried = self.alternatives.len();
            let (what, attainment) = (&alternative.what, percent(alternative.attainment));
            let power = match alternative.power_w {
                Some(power_w) => format!(" and the least power, {power_w:.0} W"),
                None => String::new(),
            };
            reasons.push(format!(
                "of {tried} placements, this one ({what}) has {attainment} of requests within the SLO{power}"
            ));
        }
        for copy in &self.copies {
            reasons.push(self.copy_reason(copy));
        }
        for model in &self.unplaced {
            let name = &self.model_names[*model];
            reasons.push(format!(
                "{name} is not placed: no group that fits it has memory left; its requests count as SLO violations"
            ));
        }
        if self.at_planned_clocks.attainment < self.wanted_attainment {
            reasons.push(format!(
                "{} of requests within the SLO were asked for, and the best placement that was tried reaches {}: add \
                 devices, or allow a longer latency",
                percent(self.wanted_attainment),
                percent(self.at_planned_clocks.attainment)
            ));
        }
        reasons
    }

    fn copy_reason(&self, copy: &PlannedCopy) -> String {
        let shape = self.shape(copy);
        let name = &self.model_names[copy.model];
        let parts: Vec<String> = copy
            .partitions
            .iter()
            .map(|partition| {
                let set = self.set_name(partition.set);
                let score = partition.score;
                match partition.reason {
                    None => format!("{set} (score {score:.2})"),
                    Some(SimilarityReason::Empty) => {
                        format!("{set} (score {score:.2}, first there)")
                    }
                    Some(SimilarityReason::Similar(distance)) => format!(
                        "{set} (score {score:.2}, {distance:.2} from the partitions there)"
                    ),
                    Some(SimilarityReason::LeastDistant(distance)) => format!(
                        "{set} (score {score:.2}, {distance:.2} from the partitions there: nothing with room is closer)"
                    ),
                }
            })
            .collect();
        format!("{name}: {shape}, on {}", parts.join(", then "))
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}
