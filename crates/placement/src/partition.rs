//! A model divided into partitions for a group of devices: sharding within a partition, stages of a
//! pipeline between partitions.

use std::ops::Range;

use homeostat_sim_gpu::{DeviceType, StageCost};

use crate::clustering::cluster_operators;
use crate::sensitivity::SensitivityDatabase;
use crate::sharding::{Sharding, add, mean_seconds, shard};
use crate::stages::StageProblem;
use crate::{DevicePool, ModelDemand, Result};

/// How the devices of a group work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupShape {
    /// Stages of a pipeline (inter-operator parallelism).
    pub stages: usize,
    /// Devices that compute each operator of a stage together (intra-operator parallelism).
    pub degree: usize,
}

impl GroupShape {
    /// Devices of a group.
    pub fn devices(self) -> usize {
        self.stages * self.degree
    }
}

impl std::fmt::Display for GroupShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let Self { stages, degree } = self;
        write!(f, "{stages} stage{} of {degree} device{}", plural(*stages), plural(*degree))
    }
}

/// Consecutive operators of a model that run on one set of devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// The operators.
    pub operators: Range<usize>,
    /// What an iteration costs, without the transfer from the partition before.
    pub cost: StageCost,
    /// Seconds of a mean request at the highest clock.
    pub seconds: f64,
    /// Energy of a mean request above idle at the highest clock, J.
    pub energy_j: f64,
    /// Weights on each device.
    pub weight_bytes: f64,
    /// What a token leaves in the cache of each device.
    pub cache_bytes: f64,
    /// Sensitivity: the mean over its operators, weighted by their time.
    pub score: f64,
}

impl Partition {
    /// Bytes on each device: weights, and the cache of a request with this many tokens.
    pub fn bytes(&self, tokens: f64) -> f64 {
        self.weight_bytes + tokens * self.cache_bytes
    }
}

/// A model divided for a group of devices.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionedModel {
    /// The partitions in order.
    pub partitions: Vec<Partition>,
    /// Bytes per token that a partition sends to the next.
    pub transfer_bytes: f64,
    /// Units that the partitions were made of: operator clusters, or operators.
    pub units: usize,
}

impl PartitionedModel {
    /// Seconds of a mean request alone.
    pub fn seconds(&self) -> f64 {
        self.partitions.iter().map(|partition| partition.seconds).sum()
    }

    /// Energy of a mean request above idle at the highest clock, J.
    pub fn energy_j(&self) -> f64 {
        self.partitions.iter().map(|partition| partition.energy_j).sum()
    }
}

/// Divides a model for a group of this shape. `threshold` is that of operator clustering; without one
/// each operator is a unit, as in AlpaServe. None if the model does not fit.
pub fn partition_model(
    demand: &ModelDemand,
    pool: &DevicePool,
    shape: GroupShape,
    database: &SensitivityDatabase,
    threshold: Option<f64>,
) -> Result<Option<PartitionedModel>> {
    let device = &pool.device;
    let budget = device.memory_bytes() * shape.stages as f64;
    let Some(sharding) = shard(demand, device, shape.degree as u32, budget)? else {
        return Ok(None);
    };
    let scores = database.operator_scores(&pool.name, device, demand)?;
    let only_scores: Vec<f64> = scores.iter().map(|score| score.0).collect();
    let each: Vec<Range<usize>> = (0..scores.len()).map(|place| place..place + 1).collect();
    // A threshold that leaves fewer clusters than stages, or clusters that fit on no device, is halved
    // until there are enough; operators are the last resort.
    let mut threshold = threshold.filter(|threshold| *threshold > 0.0);
    loop {
        let units = match threshold {
            Some(threshold) => cluster_operators(&only_scores, threshold),
            None => each.clone(),
        };
        let problem = stage_problem(demand, device, &sharding, &units);
        if let Some(stages) = problem.solve(shape.stages) {
            let operators =
                |stage: &Range<usize>| units[stage.start].start..units[stage.end - 1].end;
            let partition = |stage| partition(demand, device, &sharding, &scores, operators(stage));
            return Ok(Some(PartitionedModel {
                partitions: stages.iter().map(partition).collect(),
                transfer_bytes: demand.model.activation_bytes(),
                units: units.len(),
            }));
        }
        threshold = match threshold {
            None => return Ok(None),
            Some(threshold) => Some(threshold / 2.0).filter(|threshold| *threshold > 0.01),
        };
    }
}

fn stage_problem(
    demand: &ModelDemand,
    device: &DeviceType,
    sharding: &Sharding,
    units: &[Range<usize>],
) -> StageProblem {
    let tokens = demand.longest_tokens();
    let unit_seconds = |unit: &Range<usize>| {
        sharding.costs[unit.clone()].iter().map(|cost| mean_seconds(cost, demand, device)).sum()
    };
    let unit_bytes = |unit: &Range<usize>| {
        let operators = unit.clone();
        operators.map(|one| sharding.weight_bytes[one] + tokens * sharding.cache_bytes[one]).sum()
    };
    let transfer = StageCost::default().with_transfer(device, demand.model.activation_bytes());
    StageProblem {
        seconds: units.iter().map(unit_seconds).collect(),
        bytes: units.iter().map(unit_bytes).collect(),
        transfer_s: mean_seconds(&transfer, demand, device),
        capacity: device.memory_bytes(),
    }
}

fn partition(
    demand: &ModelDemand,
    device: &DeviceType,
    sharding: &Sharding,
    scores: &[(f64, f64)],
    operators: Range<usize>,
) -> Partition {
    let costs = &sharding.costs[operators.clone()];
    let cost = costs.iter().fold(StageCost::default(), add);
    let energy_j = demand
        .mean_request()
        .into_iter()
        .map(|(times, work)| times * cost.of_work(work).dynamic_j(device, device.max_clock()));
    let own = &scores[operators.clone()];
    let weight: f64 = own.iter().map(|(_, weight)| weight).sum();
    let weighted: f64 = own.iter().map(|(score, weight)| score * weight).sum();
    Partition {
        cost,
        seconds: mean_seconds(&cost, demand, device),
        energy_j: energy_j.sum(),
        weight_bytes: sharding.weight_bytes[operators.clone()].iter().sum(),
        cache_bytes: sharding.cache_bytes[operators.clone()].iter().sum(),
        score: if weight > 0.0 { weighted / weight } else { 0.0 },
        operators,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, MODELS_EXAMPLE, Workload};

    fn example() -> (Cluster, Workload, SensitivityDatabase) {
        let cluster = Cluster::read("[[devices]]\ntype = \"v100\"\ncount = 8").unwrap();
        let workload = Workload::read(MODELS_EXAMPLE, &cluster, None).unwrap();
        let database = SensitivityDatabase::computed(&cluster, &workload);
        (cluster, workload, database)
    }

    #[test]
    fn partitions_divide_every_model_within_the_memory_of_a_device() {
        let (cluster, workload, database) = example();
        let pool = &cluster.pools()[0];
        for demand in &workload.models {
            for (stages, degree) in [(1, 1), (2, 1), (4, 1), (2, 2), (1, 4)] {
                for threshold in [None, Some(0.3), Some(5.0)] {
                    let shape = GroupShape { stages, degree };
                    let found = partition_model(demand, pool, shape, &database, threshold);
                    let model = found.unwrap().unwrap();
                    assert_eq!(model.partitions.len(), stages);
                    let flat: Vec<usize> =
                        model.partitions.iter().flat_map(|one| one.operators.clone()).collect();
                    let all: Vec<usize> = (0..demand.model.operators.len()).collect();
                    assert_eq!(flat, all, "{} {shape}", demand.name);
                    let least: f64 = model.partitions.iter().map(|one| one.weight_bytes).sum();
                    let share = demand.model.weight_bytes() / degree as f64;
                    assert!(least >= share * 0.999, "{} {least} {share}", demand.name);
                    for partition in &model.partitions {
                        let bytes = partition.bytes(demand.longest_tokens());
                        assert!(bytes <= pool.device.memory_bytes());
                        assert!((0.0..=3.0).contains(&partition.score));
                    }
                }
            }
        }
    }

    #[test]
    fn one_partition_costs_what_the_model_costs_alone() {
        let (cluster, workload, database) = example();
        let (pool, shape) = (&cluster.pools()[0], GroupShape { stages: 1, degree: 1 });
        for demand in &workload.models {
            let model = partition_model(demand, pool, shape, &database, None).unwrap().unwrap();
            let (whole, alone) = (model.seconds(), demand.alone_s(&pool.device));
            assert!((whole / alone - 1.0).abs() < 1e-9, "{} {whole} {alone}", demand.name);
        }
    }
}
