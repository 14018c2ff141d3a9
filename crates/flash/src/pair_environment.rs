//! A pair of application and environment that a base learner can act in.

use std::sync::Arc;

use homeostat_env::{Env, Result as EnvResult};

use crate::Pair;

type Make = dyn Fn() -> EnvResult<Box<dyn Env>> + Send + Sync;

/// A pair of a pool, with what is needed to act in it.
#[derive(Clone)]
pub struct PairEnvironment {
    /// Its name.
    pub pair: Pair,
    /// What is true of it, in numbers of the order of one. The oracle alone reads them.
    pub parameters: Vec<f32>,
    make: Arc<Make>,
}

impl PairEnvironment {
    /// A pair whose environments `make` makes. All pairs of a pool have the same spaces and the same time limit.
    pub fn new(
        pair: Pair,
        parameters: Vec<f32>,
        make: impl Fn() -> EnvResult<Box<dyn Env>> + Send + Sync + 'static,
    ) -> Self {
        Self { pair, parameters, make: Arc::new(make) }
    }

    /// A new environment of this pair.
    pub fn make(&self) -> EnvResult<Box<dyn Env>> {
        (self.make)()
    }
}

impl std::fmt::Debug for PairEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairEnvironment")
            .field("pair", &self.pair)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}
