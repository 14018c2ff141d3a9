//! One PPO update for N agents and one pass of a recurrent network, on work that other stacks can repeat to the bit:
//! every number comes from one counter-based generator.

use std::hint::black_box;
use std::time::Instant;

use homeostat_core::{AgentId, SeedTree};
use homeostat_env::{Card, EnvSpec, Space};
use homeostat_nn::{Activation, Kernel, Network, Tape};
use homeostat_rl::{
    AdvantageNormalisation, AgentContext, Batch, Learner, Ppo, PpoConfig, for_each_agent,
};
use serde::Serialize;

use super::recurrent::{self, RecurrentTiming};

const OBSERVATION: usize = 16;
const HIDDEN: usize = 64;
const CHOICES: usize = 7;
const STEPS: usize = 200;
const EPOCHS: usize = 5;

/// What to time.
#[derive(Debug, Clone)]
pub struct LearnBench {
    /// Numbers of agents.
    pub agents: Vec<usize>,
    /// Minibatch sizes.
    pub minibatches: Vec<usize>,
    /// Timed repetitions of each update; the median counts.
    pub repetitions: usize,
    /// The kernel to run on.
    pub kernel: Kernel,
}

/// What was timed.
#[derive(Debug, Clone, Serialize)]
pub struct LearnReport {
    /// Kernel in use.
    pub kernel: String,
    /// Threads in use.
    pub threads: usize,
    /// Memory that the process took for each agent of the largest fleet, networks,
    /// moments and batch included.
    pub bytes_per_agent: usize,
    /// One forward pass of the actor for one observation.
    pub infer_us: f64,
    /// One update of all agents, for each minibatch size and number of agents.
    pub updates: Vec<UpdateTiming>,
    /// One pass of a recurrent network, forward and backward.
    pub recurrent: RecurrentTiming,
    /// Multiply-adds per second of the update of the largest fleet, in billions,
    /// counting the forward and backward products only.
    pub billion_multiply_adds_per_s: f64,
    /// The same on registers alone: what the machine has at most.
    pub peak_billion_multiply_adds_per_s: f64,
}

/// Timings of one size of fleet.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateTiming {
    /// Rows of one gradient.
    pub minibatch: usize,
    /// Number of agents.
    pub agents: usize,
    /// Median over the repetitions.
    pub median_ms: f64,
    /// Fastest repetition.
    pub fastest_ms: f64,
    /// Sum of the weights of the first agent after one update.
    pub checksum: f64,
    /// Sum of their absolute values.
    pub checksum_abs: f64,
}

impl LearnBench {
    /// Runs everything; `progress` is called with what is being timed.
    pub fn run(&self, mut progress: impl FnMut(&str)) -> anyhow::Result<LearnReport> {
        progress("one inference");
        let infer_us = self.time_inference()?;
        let mut updates = Vec::new();
        let mut bytes_per_agent = 0;
        let mut rate = 0.0;
        for minibatch in &self.minibatches {
            for agents in &self.agents {
                progress(&format!("update of {agents} agents, minibatch {minibatch}"));
                let (timing, bytes) = self.time_update(*agents, *minibatch)?;
                if self.agents.iter().max() == Some(agents) {
                    bytes_per_agent = bytes.max(bytes_per_agent);
                    let work = multiply_adds(*minibatch) * *agents as f64;
                    rate = f64::max(rate, work / (timing.median_ms * 1e6));
                }
                updates.push(timing);
            }
        }
        progress("a recurrent network");
        let recurrent = recurrent::time(self.kernel, self.repetitions)?;
        Ok(LearnReport {
            kernel: self.kernel.to_string(),
            threads: rayon::current_num_threads(),
            bytes_per_agent,
            infer_us,
            updates,
            recurrent,
            billion_multiply_adds_per_s: rate,
            peak_billion_multiply_adds_per_s: self.time_peak(),
        })
    }

    /// All threads at once, as in an update; the fastest of several tries.
    fn time_peak(&self) -> f64 {
        const ROUNDS: u64 = 2_000_000;
        let mut best = 0.0;
        for _ in 0..5 {
            let start = Instant::now();
            let counts = rayon::broadcast(|_| self.kernel.multiply_add_flat_out(ROUNDS));
            let rate = counts.iter().sum::<u64>() as f64 / start.elapsed().as_secs_f64() / 1e9;
            best = f64::max(best, rate);
        }
        best
    }

    fn time_inference(&self) -> anyhow::Result<f64> {
        const CALLS: usize = 20_000;
        let (agent, batch) = agent(0, 64)?;
        let (actor, _) = agent.networks();
        let mut tape = Tape::default();
        let mut times = Vec::new();
        for _ in 0..9 {
            let start = Instant::now();
            for call in 0..CALLS {
                let row = call % STEPS * OBSERVATION;
                black_box(actor.forward(
                    self.kernel,
                    &batch.features[row..][..OBSERVATION],
                    1,
                    &mut tape,
                ));
            }
            times.push(start.elapsed().as_secs_f64() / CALLS as f64);
        }
        Ok(median(&mut times) * 1e6)
    }

    fn time_update(&self, count: usize, minibatch: usize) -> anyhow::Result<(UpdateTiming, usize)> {
        let before = resident_bytes();
        let mut agents =
            (0..count).map(|n| agent(n, minibatch)).collect::<anyhow::Result<Vec<_>>>()?;
        let orders: Vec<_> = (0..EPOCHS).map(order).collect();
        let update = |agents: &mut [(Ppo, Batch)]| {
            for_each_agent(self.kernel, agents, |(agent, batch), workspace| {
                for order in &orders {
                    // The data is finite by construction and the update is short.
                    agent.epoch(batch, order, 0.0, workspace).expect("finite data stays finite");
                }
            });
        };
        update(&mut agents);
        let bytes = resident_bytes().saturating_sub(before) / count;
        let (actor, critic) = agents[0].0.networks();
        let (checksum, checksum_abs) = checksums(&[actor, critic]);
        let mut times = Vec::new();
        for _ in 0..self.repetitions {
            let start = Instant::now();
            update(&mut agents);
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let bytes = bytes.max(agents[0].0.bytes());
        Ok((
            UpdateTiming {
                minibatch,
                agents: count,
                median_ms: median(&mut times),
                fastest_ms: times[0],
                checksum,
                checksum_abs,
            },
            bytes,
        ))
    }
}

impl LearnReport {
    /// The timings as `update_ms.mb5.n1000` and so on.
    pub fn to_json(&self) -> serde_json::Value {
        let mut by_minibatch = serde_json::Map::new();
        for timing in &self.updates {
            by_minibatch
                .entry(format!("mb{}", timing.minibatch))
                .or_insert_with(|| serde_json::json!({}))
                .as_object_mut()
                .expect("made an object above")
                .insert(format!("n{}", timing.agents), serde_json::json!(timing.median_ms));
        }
        let mut checksums: serde_json::Map<_, _> = self
            .updates
            .iter()
            .map(|timing| {
                let sums =
                    serde_json::json!({ "sum": timing.checksum, "abs": timing.checksum_abs });
                (format!("mb{}", timing.minibatch), sums)
            })
            .collect();
        let RecurrentTiming { median_ms, fastest_ms, loss, gradient_abs } = self.recurrent;
        checksums.insert(
            "recurrent".to_owned(),
            serde_json::json!({ "loss": loss, "gradient_abs": gradient_abs }),
        );
        serde_json::json!({
            "kernel": self.kernel,
            "threads": self.threads,
            "infer_us": self.infer_us,
            "update_ms": by_minibatch,
            "recurrent_ms": median_ms,
            "recurrent_fastest_ms": fastest_ms,
            "checksum": checksums,
            "bytes_per_agent": self.bytes_per_agent,
            "billion_multiply_adds_per_s": self.billion_multiply_adds_per_s,
            "peak_billion_multiply_adds_per_s": self.peak_billion_multiply_adds_per_s,
        })
    }
}

/// Multiply-adds of one agent's update: forward, weight gradient, and the gradient
/// passed down, which the first layers need not compute.
fn multiply_adds(minibatch: usize) -> f64 {
    let rows = EPOCHS * (STEPS / minibatch * minibatch);
    let net = |outputs: usize| {
        let weights = OBSERVATION * HIDDEN + HIDDEN * HIDDEN + HIDDEN * outputs;
        2 * weights + HIDDEN * HIDDEN + HIDDEN * outputs
    };
    (rows * (net(CHOICES) + net(1))) as f64
}

/// Agent `n` with the weights and the batch of the common work.
fn agent(n: usize, minibatch: usize) -> anyhow::Result<(Ppo, Batch)> {
    let config = PpoConfig {
        num_envs: 1,
        steps_per_update: STEPS,
        epochs: EPOCHS,
        minibatch,
        hidden: vec![HIDDEN, HIDDEN],
        activation: Activation::Tanh,
        actor_learning_rate: 3e-4,
        critic_learning_rate: 3e-4,
        adam_epsilon: 1e-5,
        clip: 0.2,
        entropy_coefficient: 0.01,
        value_coefficient: 0.5,
        max_grad_norm: None,
        normalise_advantages: AdvantageNormalisation::Minibatch,
        ..PpoConfig::default()
    };
    let context = AgentContext {
        agent: AgentId::new(n as u32),
        spec: EnvSpec {
            control: None,
            id: "bench/learn-v1".parse()?,
            observation: Space::uniform_box(OBSERVATION, -1.0, 1.0),
            action: Space::Discrete(CHOICES),
            time_limit: None,
            card: Card {
                summary: "numbers to learn from",
                observation: Vec::new(),
                action: Vec::new(),
                reward: "none",
                termination: "never",
                source: "a counter-based generator",
            },
        },
        seeds: SeedTree::new(0),
    };
    let mut ppo = Ppo::new(&config, &context)?;
    let mut counter = 0;
    let (actor, critic) = ppo.networks_mut();
    for network in [actor, critic] {
        set_weights(network, n as u64, &mut counter);
    }
    let n = n as u64;
    let numbers =
        |count: usize, draw: &dyn Fn(u64) -> f32| (0..count as u64).map(draw).collect::<Vec<_>>();
    let batch = Batch {
        features: numbers(STEPS * OBSERVATION, &|j| symmetric(2, n, j)),
        actions: numbers(STEPS, &|j| (uniform(3, n, j) * CHOICES as f32).floor()),
        log_prob: numbers(STEPS, &|j| -1.945_910_1 + 0.1 * symmetric(4, n, j)),
        advantage: numbers(STEPS, &|j| symmetric(5, n, j)),
        target: numbers(STEPS, &|j| symmetric(6, n, j)),
        value: vec![0.0; STEPS],
    };
    Ok((ppo, batch))
}

/// Weights in the order of the common work: each layer's matrix input by input,
/// then its bias, scaled by the root of its inputs.
fn set_weights(network: &mut Network, n: u64, counter: &mut u64) {
    for layer in 0..network.layer_count() {
        let (mut weights, mut bias, [outputs, inputs]) = network.layer(layer);
        let fan = 1.0 / (inputs as f32).sqrt();
        let mut next = || {
            *counter += 1;
            symmetric(1, n, *counter - 1) * fan
        };
        for input in 0..inputs {
            for output in 0..outputs {
                weights[output * inputs + input] = next();
            }
        }
        bias.iter_mut().for_each(|bias| *bias = next());
        network.set_layer(layer, &weights, &bias);
    }
}

/// Epoch `e` visits the rows in this order.
fn order(e: usize) -> Vec<u32> {
    let factor = [1, 3, 7, 9, 11][e % 5];
    (0..STEPS).map(|i| ((factor * i + 17 * e) % STEPS) as u32).collect()
}

/// Uniform in [0, 1) with 24 bits: number `j` of stream `stream` of agent `n`.
fn uniform(stream: u64, n: u64, j: u64) -> f32 {
    let mut z = ((stream << 52) ^ (n << 32) ^ j).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    (z >> 40) as f32 / 16_777_216.0
}

pub(super) fn symmetric(stream: u64, n: u64, j: u64) -> f32 {
    uniform(stream, n, j) * 2.0 - 1.0
}

fn checksums(networks: &[&Network]) -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    for network in networks {
        for layer in 0..network.layer_count() {
            let (weights, bias, _) = network.layer(layer);
            for number in weights.into_iter().chain(bias).map(f64::from) {
                sums.0 += number;
                sums.1 += number.abs();
            }
        }
    }
    sums
}

/// Sorts and takes the middle.
pub(super) fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Memory of this process, where the system reports it.
pub(super) fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let resident = pages.as_deref().and_then(|text| text.split_whitespace().nth(1));
    resident.and_then(|pages| pages.parse::<usize>().ok()).map_or(0, |pages| pages * 4096)
}
