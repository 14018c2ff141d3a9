//! What is placed where: groups of devices, and copies of models on them.

use homeostat_core::SimDuration;
use homeostat_sim_gpu::{
    Admission, Deployment, Executor, Instance, ServedModel, ServiceOrder, Stage,
};

use crate::catalogue::{Catalogue, Units};
use crate::partition::{GroupShape, PartitionedModel};
use crate::{Cluster, Workload};

/// Devices with one clock that compute each operator together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSet {
    /// The pool of the devices.
    pub pool: usize,
    /// The devices.
    pub devices: Vec<usize>,
}

/// Devices that serve the same models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The pool of its devices.
    pub pool: usize,
    /// How its devices work together.
    pub shape: GroupShape,
    /// Its device sets, one for each stage.
    pub sets: Vec<usize>,
}

/// A copy of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The model.
    pub model: usize,
    /// The group that serves it.
    pub group: usize,
    /// The device set of each partition. Power-aware placement may choose sets of other groups of the
    /// same shape and pool.
    pub sets: Vec<usize>,
}

/// Groups and what they serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// All device sets.
    pub sets: Vec<DeviceSet>,
    /// All groups.
    pub groups: Vec<Group>,
    /// What is placed.
    pub placed: Vec<Placed>,
    /// What the partitions are made of.
    pub units: Units,
}

/// What a layout refers to.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) workload: &'a Workload,
    pub(crate) catalogue: &'a Catalogue,
}

impl Layout {
    /// Groups without models: for each pool, this many groups of each shape.
    pub(crate) fn empty(cluster: &Cluster, groups: &[Vec<(GroupShape, usize)>]) -> Self {
        let mut layout = Self {
            sets: Vec::new(),
            groups: Vec::new(),
            placed: Vec::new(),
            units: Units::Operators,
        };
        for (pool, of_pool) in groups.iter().enumerate() {
            let mut devices = cluster.devices_of(pool);
            for (shape, count) in of_pool {
                for _ in 0..*count {
                    let first = layout.sets.len();
                    for _ in 0..shape.stages {
                        let own = devices.by_ref().take(shape.degree).collect();
                        layout.sets.push(DeviceSet { pool, devices: own });
                    }
                    let sets = (first..layout.sets.len()).collect();
                    layout.groups.push(Group { pool, shape: *shape, sets });
                }
            }
        }
        layout
    }

    /// The partitions of a model in a group; none if it does not fit there even alone.
    pub(crate) fn partitions<'a>(
        &self,
        ctx: Context<'a>,
        model: usize,
        group: usize,
    ) -> Option<&'a PartitionedModel> {
        let group = &self.groups[group];
        ctx.catalogue.model(model, group.pool, group.shape, self.units)
    }

    /// The partitions of a copy.
    pub(crate) fn placed_partitions<'a>(
        &self,
        ctx: Context<'a>,
        placed: &Placed,
    ) -> &'a PartitionedModel {
        self.partitions(ctx, placed.model, placed.group).expect("it was placed because it fits")
    }

    /// Bytes on each device of every set: weights, and the cache of one longest request of each copy.
    pub(crate) fn bytes(&self, ctx: Context) -> Vec<f64> {
        let mut bytes = vec![0.0; self.sets.len()];
        for placed in &self.placed {
            let tokens = ctx.workload.models[placed.model].longest_tokens();
            let model = self.placed_partitions(ctx, placed);
            for (partition, set) in model.partitions.iter().zip(&placed.sets) {
                bytes[*set] += partition.bytes(tokens);
            }
        }
        bytes
    }

    /// Memory of each device of a set.
    pub(crate) fn capacity(&self, ctx: Context, set: usize) -> f64 {
        ctx.cluster.pools()[self.sets[set].pool].device.memory_bytes()
    }

    /// Whether another copy of a model fits into a group beside what is there.
    pub(crate) fn has_room(&self, ctx: Context, bytes: &[f64], model: usize, group: usize) -> bool {
        let Some(partitioned) = self.partitions(ctx, model, group) else { return false };
        let tokens = ctx.workload.models[model].longest_tokens();
        let mut pairs = partitioned.partitions.iter().zip(&self.groups[group].sets);
        pairs.all(|(partition, set)| {
            bytes[*set] + partition.bytes(tokens) <= self.capacity(ctx, *set)
        })
    }

    /// Places a copy, stage by stage on the sets of a group.
    pub(crate) fn place(&mut self, model: usize, group: usize) {
        let sets = self.groups[group].sets.clone();
        self.placed.push(Placed { model, group, sets });
    }

    /// Number of copies of each model.
    pub(crate) fn copies(&self, ctx: Context) -> Vec<usize> {
        let mut copies = vec![0; ctx.workload.models.len()];
        for placed in &self.placed {
            copies[placed.model] += 1;
        }
        copies
    }

    /// Part of the time that each set would be busy at its highest clock if the requests of a model were
    /// divided equally among its copies and never batched.
    pub(crate) fn busy(&self, ctx: Context) -> Vec<f64> {
        let copies = self.copies(ctx);
        let mut busy = vec![0.0; self.sets.len()];
        for placed in &self.placed {
            let rate = ctx.workload.models[placed.model].rate / copies[placed.model] as f64;
            let model = self.placed_partitions(ctx, placed);
            for (partition, set) in model.partitions.iter().zip(&placed.sets) {
                busy[*set] += rate * partition.seconds;
            }
        }
        busy
    }

    /// What the simulator serves. Memory that weights and longest requests leave is shared equally by the
    /// copies with a cache on a device.
    pub(crate) fn deployment(&self, ctx: Context) -> Deployment {
        let executor = |set: &DeviceSet| Executor {
            device: ctx.cluster.pools()[set.pool].device.clone(),
            devices: set.devices.len() as u32,
        };
        let served = |demand: &crate::ModelDemand| ServedModel {
            name: demand.name.clone(),
            slo: demand.slo,
            batching: ctx.workload.batching,
        };
        let bytes = self.bytes(ctx);
        let mut caches = vec![0.0; self.sets.len()];
        for placed in &self.placed {
            for set in self.cached_sets(ctx, placed) {
                caches[set] += 1.0;
            }
        }
        let spare = |set: usize| ((self.capacity(ctx, set) - bytes[set]) / caches[set]).max(0.0);
        let mut instances = Vec::new();
        for placed in &self.placed {
            let model = self.placed_partitions(ctx, placed);
            let demand = &ctx.workload.models[placed.model];
            let mut stages: Vec<Stage> = Vec::new();
            for (partition, set) in model.partitions.iter().zip(&placed.sets) {
                match stages.last_mut().filter(|last| last.executor == *set) {
                    // Neighbours on the same devices are one stage: nothing is sent.
                    Some(last) => last.cost = crate::sharding::add(last.cost, &partition.cost),
                    None => {
                        let device = &ctx.cluster.pools()[self.sets[*set].pool].device;
                        let cost = if stages.is_empty() {
                            partition.cost
                        } else {
                            partition.cost.with_transfer(device, model.transfer_bytes)
                        };
                        stages.push(Stage { executor: *set, cost });
                    }
                }
            }
            let tokens_of = |set: usize| {
                let pairs = model.partitions.iter().zip(&placed.sets);
                let per_token: f64 = pairs
                    .filter(|(_, other)| **other == set)
                    .map(|(partition, _)| partition.cache_bytes)
                    .sum();
                demand.longest_tokens() + spare(set) / per_token
            };
            let cache = self.cached_sets(ctx, placed).into_iter().map(tokens_of);
            let cache_tokens = cache.min_by(f64::total_cmp).map(|tokens| tokens as u64);
            instances.push(Instance {
                model: placed.model,
                stages,
                cache_tokens,
                overhead: SimDuration::ZERO,
            });
        }
        Deployment {
            executors: self.sets.iter().map(executor).collect(),
            models: ctx.workload.models.iter().map(served).collect(),
            instances,
            admission: Admission::All,
            order: ServiceOrder::Turns,
        }
    }

    /// The sets on which a copy has a cache, each once.
    fn cached_sets(&self, ctx: Context, placed: &Placed) -> Vec<usize> {
        let model = self.placed_partitions(ctx, placed);
        let pairs = model.partitions.iter().zip(&placed.sets);
        let mut sets: Vec<usize> = pairs
            .filter(|(partition, _)| partition.cache_bytes > 0.0)
            .map(|(_, set)| *set)
            .collect();
        sets.sort_unstable();
        sets.dedup();
        sets
    }
}
