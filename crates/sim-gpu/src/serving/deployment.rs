//! What is served where: executors, models, and instances of models on executors.

use homeostat_core::SimDuration;

use crate::operator::{Cost, Operator, Work};
use crate::{DeviceType, Error, Model, Result};

/// Devices with one clock that run one iteration at a time: one device, or several that compute
/// each operator together.
#[derive(Debug, Clone, PartialEq)]
pub struct Executor {
    /// Type of the devices.
    pub device: DeviceType,
    /// Number of devices.
    pub devices: u32,
}

/// How requests are batched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Batching {
    /// One request at a time.
    None,
    /// A batch starts when it is full or its first request has waited for the timeout, and ends
    /// with its longest request.
    Dynamic {
        /// Requests of a full batch.
        max_batch: u32,
        /// Longest wait of the first request for others.
        timeout: SimDuration,
    },
    /// Requests join and leave between iterations.
    Continuous {
        /// Requests at once.
        max_batch: u32,
    },
}

impl Batching {
    pub(crate) fn max_batch(self) -> usize {
        match self {
            Self::None => 1,
            Self::Dynamic { max_batch, .. } | Self::Continuous { max_batch } => max_batch as usize,
        }
    }
}

/// Which requests are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// All of them.
    All,
    /// Those that can still meet their SLO, given what was accepted before (AlpaServe). It applies to
    /// requests without generated tokens.
    InTime,
}

/// Which of several waiting iterations an executor runs next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServiceOrder {
    /// The one that has waited longest: models that share executors take turns, an iteration each.
    #[default]
    Turns,
    /// The one with the request that arrived first: the models of a group of executors have one
    /// queue, as in AlpaServe.
    Arrival,
}

/// A model with its SLO.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedModel {
    /// Name.
    pub name: String,
    /// Threshold of the latency.
    pub slo: SimDuration,
    /// How its requests are batched.
    pub batching: Batching,
}

/// Consecutive operators of a model on one executor.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// The executor.
    pub executor: usize,
    /// What an iteration costs.
    pub cost: StageCost,
}

/// One copy of a model, as a pipeline of stages.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Index of the model.
    pub model: usize,
    /// Its stages in order.
    pub stages: Vec<Stage>,
    /// Tokens for which there is memory in the cache; none where nothing is cached.
    pub cache_tokens: Option<u64>,
    /// Time of a request outside of the devices: network, queues of the serving system.
    pub overhead: SimDuration,
}

/// Cost of an iteration, linear in its work.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StageCost {
    /// Of every iteration.
    pub base: Cost,
    /// Of each token.
    pub per_token: Cost,
    /// Of each pair of token and cached token.
    pub per_pair: Cost,
    /// Of each cached token.
    pub per_cached: Cost,
}

impl StageCost {
    /// The cost of these operators on a device, times a factor.
    pub fn of(operators: &[Operator], device: &DeviceType, factor: f64) -> Self {
        let of = |work| -> Cost {
            operators.iter().map(|operator| operator.cost(device, work)).sum::<Cost>()
        };
        let nothing = Work { tokens: 0.0, pairs: 0.0, cached: 0.0 };
        let base = of(nothing);
        let beyond_base = |work: Work| {
            let mut cost = of(work);
            cost += base.scaled(-1.0);
            cost.scaled(factor)
        };
        Self {
            base: base.scaled(factor),
            per_token: beyond_base(Work { tokens: 1.0, ..nothing }),
            per_pair: beyond_base(Work { pairs: 1.0, ..nothing }),
            per_cached: beyond_base(Work { cached: 1.0, ..nothing }),
        }
    }

    /// A cost that does not depend on the work, and scales with 1 / clock.
    pub fn constant(seconds: f64) -> Self {
        let base = Cost { scaled_s: seconds, ..Cost::default() };
        Self { base, ..Self::default() }
    }

    /// The cost of an iteration.
    #[inline]
    pub fn of_work(&self, work: Work) -> Cost {
        let mut cost = self.base;
        cost += self.per_token.scaled(work.tokens);
        cost += self.per_pair.scaled(work.pairs);
        cost += self.per_cached.scaled(work.cached);
        cost
    }

    /// Adds the time to send these bytes for each token to the next stage.
    pub fn with_transfer(mut self, device: &DeviceType, bytes_per_token: f64) -> Self {
        self.base.fixed_s += device.link_us * 1e-6;
        self.per_token.fixed_s += bytes_per_token / device.link_bytes_per_s;
        self
    }
}

/// Everything that is served.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// The executors.
    pub executors: Vec<Executor>,
    /// The models.
    pub models: Vec<ServedModel>,
    /// Their instances.
    pub instances: Vec<Instance>,
    /// Which requests are accepted.
    pub admission: Admission,
    /// Which iterations go first.
    pub order: ServiceOrder,
}

impl Deployment {
    /// Refuses references to what does not exist and batches of nothing.
    pub fn validate(&self) -> Result<()> {
        for model in &self.models {
            if model.batching.max_batch() == 0 {
                return Err(Error::setting("max_batch", 0, "at least 1"));
            }
        }
        for executor in &self.executors {
            if executor.devices == 0 {
                return Err(Error::setting("devices", 0, "at least 1"));
            }
        }
        for instance in &self.instances {
            if instance.model >= self.models.len() {
                return Err(Error::setting("instance.model", instance.model, "index of a model"));
            }
            if instance.stages.is_empty() {
                return Err(Error::setting("instance.stages", 0, "at least one"));
            }
            for stage in &instance.stages {
                if stage.executor >= self.executors.len() {
                    let expected = "index of an executor";
                    return Err(Error::setting("stage.executor", stage.executor, expected));
                }
            }
        }
        Ok(())
    }
}

/// A model alone on one device, with the rest of the memory for its cache and an SLO of five times
/// its time for 512 tokens. Refuses a model that does not fit.
pub fn single_device(device: DeviceType, model: &Model, batching: Batching) -> Result<Deployment> {
    let free = device.memory_bytes() - model.weight_bytes();
    let per_token = model.cache_bytes_per_token();
    if free < per_token {
        let gib = 1024.0_f64.powi(3);
        let need_gib = (model.weight_bytes() + per_token) / gib;
        return Err(Error::OutOfMemory { device: 0, need_gib, has_gib: device.memory_gib });
    }
    let tokens = crate::TABLE_TOKENS;
    let alone = model.cost(&device, Work::prefill(tokens, tokens * tokens));
    let seconds = alone.seconds(&device, device.max_clock());
    let cost = StageCost::of(&model.operators, &device, model.calibration);
    Ok(Deployment {
        models: vec![ServedModel {
            name: model.name.clone(),
            slo: SimDuration::from_seconds(5.0 * seconds)?,
            batching,
        }],
        instances: vec![Instance {
            model: 0,
            stages: vec![Stage { executor: 0, cost }],
            cache_tokens: (per_token > 0.0).then(|| (free / per_token) as u64),
            overhead: SimDuration::ZERO,
        }],
        executors: vec![Executor { device, devices: 1 }],
        admission: Admission::All,
        order: ServiceOrder::Turns,
    })
}
