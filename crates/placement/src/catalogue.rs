//! Every model divided for every shape of group that is considered.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::partition::{GroupShape, PartitionedModel, partition_model};
use crate::sensitivity::SensitivityDatabase;
use crate::{Cluster, Result, Workload};

/// What partitions are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Units {
    /// Single operators, as in AlpaServe.
    Operators,
    /// Clusters of operators with similar sensitivity (Alg. 6.1).
    Clusters,
}

type Key = (usize, usize, GroupShape, Units);

/// Models divided for pools and shapes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Catalogue {
    models: BTreeMap<Key, Option<PartitionedModel>>,
    shapes: Vec<Vec<GroupShape>>,
}

impl Catalogue {
    /// Divides each model for each pool, in groups of 1, 2, 4, ... devices with up to `max_stages` stages
    /// of up to `max_degree` devices.
    pub(crate) fn build(
        cluster: &Cluster,
        workload: &Workload,
        database: &SensitivityDatabase,
        threshold: f64,
        (max_stages, max_degree): (usize, usize),
    ) -> Result<Self> {
        let mut shapes = Vec::new();
        let mut keys: Vec<Key> = Vec::new();
        for (pool, devices) in cluster.pools().iter().enumerate() {
            let mut of_pool = Vec::new();
            for stages in powers_of_two(max_stages) {
                for degree in powers_of_two(max_degree) {
                    let shape = GroupShape { stages, degree };
                    if shape.devices() <= devices.count {
                        of_pool.push(shape);
                    }
                }
            }
            of_pool.sort_by_key(|shape| (shape.devices(), shape.degree));
            for shape in &of_pool {
                for model in 0..workload.models.len() {
                    keys.push((model, pool, *shape, Units::Operators));
                    keys.push((model, pool, *shape, Units::Clusters));
                }
            }
            shapes.push(of_pool);
        }
        let divide = |key: Key| -> Result<(Key, Option<PartitionedModel>)> {
            let (model, pool, shape, units) = key;
            let threshold = (units == Units::Clusters).then_some(threshold);
            let (demand, pool) = (&workload.models[model], &cluster.pools()[pool]);
            Ok((key, partition_model(demand, pool, shape, database, threshold)?))
        };
        let models = keys.into_par_iter().map(divide).collect::<Result<_>>()?;
        Ok(Self { models, shapes })
    }

    /// The shapes of groups in a pool, smallest first.
    pub(crate) fn shapes(&self, pool: usize) -> &[GroupShape] {
        &self.shapes[pool]
    }

    /// A model for groups of this shape; none if it does not fit.
    pub(crate) fn model(
        &self,
        model: usize,
        pool: usize,
        shape: GroupShape,
        units: Units,
    ) -> Option<&PartitionedModel> {
        self.models.get(&(model, pool, shape, units))?.as_ref()
    }
}

fn powers_of_two(most: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1_usize), |last| Some(last * 2))
        .take_while(move |next| *next <= most)
}
