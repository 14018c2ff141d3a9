//! Operators of a model: how much work, and what it costs on a device.

use crate::DeviceType;

/// What an operator does, named as in XLA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperatorKind {
    /// Matrix product with weights.
    Dot,
    /// Attention over the cached keys and values.
    Attention,
    /// Convolution with weights.
    Convolution,
    /// Normalisation.
    Normalization,
    /// Activation function, addition, rotation.
    Elementwise,
    /// Look-up of embeddings or of experts.
    Gather,
}

impl OperatorKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dot => "dot",
            Self::Attention => "attention",
            Self::Convolution => "convolution",
            Self::Normalization => "normalization",
            Self::Elementwise => "elementwise",
            Self::Gather => "gather",
        }
    }
}

/// One operator. Its work is linear in the tokens that it processes and in the cached tokens that
/// these attend to.
#[derive(Debug, Clone, PartialEq)]
pub struct Operator {
    /// Name, with its layer.
    pub name: String,
    /// What it does.
    pub kind: OperatorKind,
    /// Kernels that it launches.
    pub launches: f64,
    /// Bytes of weights that every iteration reads.
    pub weight_bytes: f64,
    /// Bytes of weights in memory; more than what is read where a token uses one expert of several.
    pub stored_bytes: f64,
    /// Floating-point operations for each token.
    pub flops_per_token: f64,
    /// Bytes of activations for each token.
    pub bytes_per_token: f64,
    /// Floating-point operations for each pair of token and cached token.
    pub flops_per_pair: f64,
    /// Bytes read for each cached token of each request.
    pub bytes_per_cached: f64,
    /// Bytes that each token leaves in the cache.
    pub cache_bytes_per_token: f64,
}

/// Work of one iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Tokens processed.
    pub tokens: f64,
    /// Tokens times the tokens that each attends to.
    pub pairs: f64,
    /// Cached tokens that are read, over all requests.
    pub cached: f64,
}

impl Work {
    /// The first pass over prompts of these lengths.
    pub fn prefill(tokens: f64, pairs: f64) -> Self {
        Self { tokens, pairs, cached: tokens }
    }

    /// One token for each of `batch` requests with `cached` tokens in all.
    pub fn decode(batch: f64, cached: f64) -> Self {
        Self { tokens: batch, pairs: cached, cached }
    }
}

/// Time of an iteration: `fixed + scaled * slowdown(clock)`, that is a + b / f. Parts add up, as no
/// kernel overlaps its loads perfectly.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Seconds that no clock changes.
    pub fixed_s: f64,
    /// Seconds at the highest clock that scale with 1 / clock.
    pub scaled_s: f64,
    /// Energy at the highest clock above idle that scales with the dynamic power curve, J.
    pub compute_j: f64,
    /// Energy of memory accesses, J.
    pub memory_j: f64,
}

impl Cost {
    /// Seconds at this clock.
    pub fn seconds(&self, device: &DeviceType, clock: u32) -> f64 {
        self.fixed_s + self.scaled_s * device.slowdown(clock)
    }

    /// Energy above idle at this clock, J: a slower kernel draws its lower power for longer.
    pub fn dynamic_j(&self, device: &DeviceType, clock: u32) -> f64 {
        self.compute_j * device.power_scale(clock) * device.slowdown(clock) + self.memory_j
    }

    /// The same work on devices that are `times` slower.
    pub fn scaled(self, times: f64) -> Self {
        Self {
            fixed_s: self.fixed_s * times,
            scaled_s: self.scaled_s * times,
            compute_j: self.compute_j * times,
            memory_j: self.memory_j * times,
        }
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.fixed_s += other.fixed_s;
        self.scaled_s += other.scaled_s;
        self.compute_j += other.compute_j;
        self.memory_j += other.memory_j;
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), |mut total, cost| {
            total += cost;
            total
        })
    }
}

impl Operator {
    /// What this work costs on a device.
    pub fn cost(&self, device: &DeviceType, work: Work) -> Cost {
        let flops = self.flops_per_token * work.tokens + self.flops_per_pair * work.pairs;
        let bytes = self.weight_bytes
            + self.bytes_per_token * work.tokens
            + self.bytes_per_cached * work.cached;
        let compute_s = flops / (device.flops * device.efficiency);
        let memory_s = bytes / device.memory_bytes_per_s;
        let share = device.memory_clock_share;
        Cost {
            fixed_s: self.launches * device.launch_us * 1e-6 + (1.0 - share) * memory_s,
            scaled_s: compute_s + share * memory_s,
            compute_j: device.compute_w * compute_s,
            memory_j: device.memory_w * memory_s,
        }
    }

    /// The sensitivity of the dissertation: how much longer it takes, as a part of its time, when the
    /// clock is halved, over the part by which the clock is lower. From 0 to about 2.
    pub fn sensitivity(&self, device: &DeviceType, work: Work) -> f64 {
        let cost = self.cost(device, work);
        let (high, half) = (device.max_clock(), device.max_clock() / 2);
        let slower = cost.seconds(device, half) / cost.seconds(device, high) - 1.0;
        slower / (1.0 - f64::from(half) / f64::from(high))
    }
}
