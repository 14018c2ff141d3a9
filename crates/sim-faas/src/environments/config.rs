//! The settings of the serverless environments.

use std::sync::{Arc, OnceLock};

use homeostat_core::{Bounds, Bytes, SimDuration};
use homeostat_decide::{AllocationBounds, PolicyConfig, RewardPreset};
use homeostat_des::ContentionCost;
use homeostat_load::LoadShape;
use serde::{Deserialize, Serialize};

use super::chain_plan::{PlannedChain, default_chains, graphs};
use crate::config::{NodeConfig, PlatformConfig, Scaling};
use crate::contention::Contention;
use crate::objective::{Objective, RELAXATION};
use crate::profile::{Category, FunctionProfile};
use crate::{Error, Result, catalogue};

/// The word for "the function that follows from the agent's number".
const EACH: &str = "each";

/// Settings of every `faas/...` environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaasConfig {
    /// The function that a single learner controls: a name of the catalogue, or "each", and
    /// agent k controls function k.
    pub function: String,
    /// Functions on the platform, taken from the catalogue again and again.
    pub functions: usize,
    /// The reward: `slo`, `paper` or `cost`.
    pub reward: RewardPreset,
    /// What a container costs in each step of `faas/fleet-set-points-v1`, as a part of requests that are
    /// late.
    pub container_price: f64,
    /// The SLO of a function over its p99 alone.
    pub objective_over_isolated: f64,
    /// Length of a step in seconds.
    pub window_s: f64,
    /// Steps of an episode.
    pub steps: u32,
    /// The load: `fluctuating`, `poisson`, `diurnal`, `bursty` or `spike`.
    pub load: LoadKind,
    /// Mean CPU demand of each function in cores.
    pub demand_cores: f64,
    /// Functions for each node: the number of nodes follows.
    pub functions_per_node: usize,
    /// Cores of a node.
    pub cores_per_node: f64,
    /// Memory of a node in GiB.
    pub memory_per_node_gib: f64,
    /// The cost of contention times this; 0 is ideal sharing.
    pub contention: f64,
    /// What contention costs compute-intensive functions: extra CPU time for the same work when
    /// every core is busy, and for each set of runnable threads beyond the cores.
    pub strain_cpu: [f64; 2],
    /// The same for memory-intensive functions.
    pub strain_memory: [f64; 2],
    /// The same for I/O-intensive functions.
    pub strain_io: [f64; 2],
    /// The same for data-intensive functions.
    pub strain_data: [f64; 2],
    /// Containers of a function at most.
    pub most_containers: u32,
    /// Whether a policy may remove the last container of a function. The next request starts one.
    pub scale_to_zero: bool,
    /// Memory limit of a container at most, in MiB.
    pub most_memory_mib: u64,
    /// A waiting request is given up after this many seconds.
    pub timeout_s: f64,
    /// Age of the telemetry when a decision is made, in seconds.
    pub telemetry_delay_s: f64,
    /// Relative noise of the telemetry, one standard deviation.
    pub telemetry_noise: f64,
    /// Fresh telemetry without noise, whatever the two settings above say.
    pub oracle: bool,
    /// Whether first allocations are drawn at random, or always generous.
    pub random_start: bool,
    /// Short episodes first, as in section 4.5.1: ten steps in the first 70 episodes, then
    /// linearly more.
    pub curriculum: bool,
    /// The policy that controls the other functions of `faas/shared-v2`, by name.
    pub tenants: String,
    /// Mean number of functions of `faas/fleet-v3` that leave in each step, each followed by a
    /// new one.
    pub churn: f64,
    /// The chains of `faas/chain-v2`: functions of the catalogue in the notation of
    /// [`crate::ChainGraph`]. Each chain has functions of its own, also where names repeat.
    pub chains: Vec<String>,
}

/// The loads of the environments, each with the mean that the demand asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// A rate that wanders and persists over several steps.
    Fluctuating,
    /// A constant rate.
    Poisson,
    /// A swing over twenty steps.
    Diurnal,
    /// Calms and bursts.
    Bursty,
    /// One peak in the middle of an episode.
    Spike,
}

impl Default for FaasConfig {
    fn default() -> Self {
        Self {
            function: EACH.to_owned(),
            functions: 12,
            reward: RewardPreset::Slo,
            container_price: 0.0025,
            objective_over_isolated: RELAXATION,
            window_s: 10.0,
            steps: 50,
            load: LoadKind::Fluctuating,
            demand_cores: 0.95,
            functions_per_node: 4,
            cores_per_node: 6.0,
            memory_per_node_gib: 32.0,
            contention: 1.0,
            strain_cpu: numbers(Category::Cpu),
            strain_memory: numbers(Category::Memory),
            strain_io: numbers(Category::Io),
            strain_data: numbers(Category::Data),
            most_containers: 12,
            scale_to_zero: false,
            most_memory_mib: 1024,
            timeout_s: 20.0,
            telemetry_delay_s: 1.0,
            telemetry_noise: 0.02,
            oracle: false,
            random_start: true,
            curriculum: false,
            tenants: "hpa+vpa".to_owned(),
            churn: 0.0,
            chains: default_chains(),
        }
    }
}

/// The measured cost of contention as a setting.
fn numbers(category: Category) -> [f64; 2] {
    let ContentionCost { shared, overload } = Contention::MEASURED.strain(category);
    [shared, overload]
}

/// The least memory of a container.
const MIN_MEMORY: Bytes = Bytes::from_mib(128);

/// The course's node, and a demand of four of its requests per second.
const COURSE_CORES: f64 = 8.0;
const COURSE_DEMAND: f64 = 4.0 * 2.0 / 3.0;

/// The course's function: 1.5 requests per second and core.
fn course_function() -> FunctionProfile {
    FunctionProfile {
        name: "course".to_owned(),
        cpu: SimDuration::from_millis(667),
        ..crate::by_name("primes").expect("it is in the catalogue")
    }
}

impl FaasConfig {
    /// Profiles the functions and makes everything ready for environments.
    pub fn build(&self) -> Result<FaasPlan> {
        self.validate()?;
        let nodes = self.functions.div_ceil(self.functions_per_node);
        let memory = Bytes::new((self.memory_per_node_gib * f64::from(1 << 30)) as u64);
        let platform = PlatformConfig {
            contention: self.strains()?.scaled(self.contention)?,
            timeout: SimDuration::from_seconds(self.timeout_s)?,
            ..PlatformConfig::uniform(nodes, self.cores_per_node, memory)
        };
        platform.validate()?;
        let bounds = self.allocation_bounds()?;
        let course = PlatformConfig {
            nodes: vec![NodeConfig { cores: COURSE_CORES, memory: platform.nodes[0].memory }],
            ..platform.clone()
        };
        let course_bounds = AllocationBounds { replicas: Bounds::try_new(0, 20)?, ..bounds };
        let course_demand = Self { demand_cores: COURSE_DEMAND, ..self.clone() };
        let course = course_demand.plan(course, vec![course_function()], course_bounds, None)?;
        self.plan(platform, catalogue(), bounds, Some(Arc::new(course)))
    }

    fn plan(
        &self,
        platform: PlatformConfig,
        profiles: Vec<FunctionProfile>,
        bounds: AllocationBounds,
        course: Option<Arc<FaasPlan>>,
    ) -> Result<FaasPlan> {
        for profile in &profiles {
            self.load_of(profile).validate()?;
        }
        let relaxation = self.objective_over_isolated;
        let objectives =
            profiles.iter().map(|profile| Objective::profile(profile, &platform, relaxation));
        let seconds = |seconds: f64| SimDuration::from_seconds(seconds);
        Ok(FaasPlan {
            objectives: objectives.collect::<Result<Vec<_>>>()?.into(),
            profiles: profiles.into(),
            bounds,
            window: seconds(self.window_s)?,
            delay: if self.oracle { SimDuration::ZERO } else { seconds(self.telemetry_delay_s)? },
            noise: if self.oracle { 0.0 } else { self.telemetry_noise },
            platform,
            config: Arc::new(self.clone()),
            course,
            chains: Arc::default(),
            chained: Arc::default(),
        })
    }

    /// What a function may be given.
    pub(super) fn allocation_bounds(&self) -> Result<AllocationBounds> {
        let memory = Bounds::try_new(MIN_MEMORY, Bytes::from_mib(self.most_memory_mib))?;
        let replicas = Bounds::try_new(u32::from(!self.scale_to_zero), self.most_containers)?;
        Ok(AllocationBounds::with_dissertation_cpu(replicas, memory))
    }

    fn strains(&self) -> Result<Contention> {
        let settings = [
            ("strain_cpu", self.strain_cpu),
            ("strain_memory", self.strain_memory),
            ("strain_io", self.strain_io),
            ("strain_data", self.strain_data),
        ];
        for (setting, numbers) in settings {
            if !numbers.iter().all(|number| (0.0..=100.0).contains(number)) {
                return Err(Error::OutOfRange {
                    what: format!("faas.{setting}"),
                    value: format!("{numbers:?}"),
                    expected: "both numbers must lie from 0 to 100".to_owned(),
                });
            }
        }
        let strain = |[shared, overload]: [f64; 2]| ContentionCost { shared, overload };
        Contention::new(settings.map(|(_, numbers)| strain(numbers)))
    }

    fn load_of(&self, profile: &FunctionProfile) -> LoadShape {
        self.load_at(self.demand_cores / profile.cpu.seconds())
    }

    /// A load with this mean rate.
    pub(super) fn load_at(&self, per_second: f64) -> LoadShape {
        let window_s = self.window_s;
        let episode_s = window_s * f64::from(self.steps);
        match self.load {
            LoadKind::Poisson => LoadShape::Poisson { per_second },
            // The walk of the first study: a spread of 0.45 in the logarithm of the rate, and
            // a correlation of 0.92 from one step to the next.
            LoadKind::Fluctuating => LoadShape::Fluctuating {
                per_second,
                spread: 0.45,
                persistence: 0.92,
                every_s: window_s,
            },
            LoadKind::Diurnal => {
                LoadShape::Diurnal { per_second, swing: 0.8, period_s: 20.0 * window_s }
            }
            LoadKind::Bursty => LoadShape::Bursty {
                calm_per_second: 0.75 * per_second,
                burst_per_second: 2.0 * per_second,
                calm_s: 16.0 * window_s,
                burst_s: 4.0 * window_s,
            },
            LoadKind::Spike => LoadShape::Spike {
                base_per_second: 0.75 * per_second,
                peak_per_second: 2.0 * per_second,
                start_s: 0.4 * episode_s,
                length_s: 0.2 * episode_s,
            },
        }
    }

    /// Refuses what cannot be played, with the setting's name.
    pub fn validate(&self) -> Result<()> {
        let refuse = |setting: &str, value: String, expected: &str| {
            Err(Error::OutOfRange {
                what: format!("faas.{setting}"),
                value,
                expected: expected.to_owned(),
            })
        };
        if self.function != EACH && crate::by_name(&self.function).is_none() {
            let names: Vec<_> = crate::names().collect();
            let expected = format!("there are \"each\", {}", names.join(", "));
            return refuse("function", format!("\"{}\"", self.function), &expected);
        }
        if PolicyConfig::by_name(&self.tenants).is_err() {
            let expected = format!("there are {}", PolicyConfig::names().join(", "));
            return refuse("tenants", format!("\"{}\"", self.tenants), &expected);
        }
        let counts = [
            ("functions", self.functions, 1..=100_000),
            ("functions_per_node", self.functions_per_node, 1..=1000),
            ("steps", self.steps as usize, 1..=1_000_000),
            ("most_containers", self.most_containers as usize, 1..=1000),
            ("most_memory_mib", self.most_memory_mib as usize, 512..=1_048_576),
        ];
        for (setting, value, range) in counts {
            if !range.contains(&value) {
                let expected = format!("it must lie from {} to {}", range.start(), range.end());
                return refuse(setting, value.to_string(), &expected);
            }
        }
        let numbers = [
            ("container_price", self.container_price, 0.0..=1.0),
            ("objective_over_isolated", self.objective_over_isolated, 0.01..=1000.0),
            ("window_s", self.window_s, 0.1..=86_400.0),
            ("demand_cores", self.demand_cores, 0.001..=1000.0),
            ("cores_per_node", self.cores_per_node, 0.1..=4096.0),
            ("memory_per_node_gib", self.memory_per_node_gib, 1.0..=100_000.0),
            ("contention", self.contention, 0.0..=100.0),
            ("timeout_s", self.timeout_s, 0.1..=86_400.0),
            ("telemetry_noise", self.telemetry_noise, 0.0..=1.0),
            ("churn", self.churn, 0.0..=1000.0),
        ];
        for (setting, value, range) in numbers {
            if !range.contains(&value) {
                let expected = format!("it must lie from {} to {}", range.start(), range.end());
                return refuse(setting, value.to_string(), &expected);
            }
        }
        if self.most_memory_mib as f64 > self.memory_per_node_gib * 1024.0 {
            let expected =
                format!("a container must fit on a node of {} GiB", self.memory_per_node_gib);
            return refuse("most_memory_mib", self.most_memory_mib.to_string(), &expected);
        }
        if !(0.0..self.window_s).contains(&self.telemetry_delay_s) {
            let expected = "it must be 0 or more and shorter than faas.window_s";
            return refuse("telemetry_delay_s", self.telemetry_delay_s.to_string(), expected);
        }
        graphs(&self.chains).map(|_| ())
    }
}

/// A validated configuration with everything that environments share: SLOs, bounds, times.
#[derive(Debug, Clone)]
pub struct FaasPlan {
    pub(crate) config: Arc<FaasConfig>,
    pub(crate) platform: PlatformConfig,
    pub(crate) profiles: Arc<[FunctionProfile]>,
    pub(crate) objectives: Arc<[Objective]>,
    pub(crate) bounds: AllocationBounds,
    pub(crate) window: SimDuration,
    pub(crate) delay: SimDuration,
    pub(crate) noise: f64,
    /// The same settings for the course's function and node.
    pub(super) course: Option<Arc<FaasPlan>>,
    /// Laid over the functions, if they are stages.
    pub(super) chains: Arc<[PlannedChain]>,
    /// The same settings for the stages of the chains, made when first needed.
    pub(super) chained: Arc<OnceLock<FaasPlan>>,
}

impl FaasPlan {
    /// The settings.
    pub fn config(&self) -> &FaasConfig {
        &self.config
    }

    /// The cluster.
    pub fn platform(&self) -> &PlatformConfig {
        &self.platform
    }

    /// The functions with their SLOs, in the order of the catalogue.
    pub fn functions(&self) -> impl Iterator<Item = (&FunctionProfile, Objective)> {
        self.profiles.iter().zip(self.objectives.iter().copied())
    }

    /// The same settings on this many nodes.
    pub fn with_nodes(mut self, nodes: usize) -> Result<Self> {
        let node = self.platform.nodes[0];
        self.platform.nodes = vec![node; nodes];
        self.platform.validate()?;
        Ok(self)
    }

    /// What decides the number of containers of a function that has a controller.
    pub fn scaling(&self) -> Scaling {
        if self.config.scale_to_zero { Scaling::ManagedFromZero } else { Scaling::Managed }
    }

    /// What allocations are allowed.
    pub fn bounds(&self) -> &AllocationBounds {
        &self.bounds
    }

    /// Length of a step.
    pub fn window(&self) -> SimDuration {
        self.window
    }

    pub(crate) fn course(&self) -> &Self {
        self.course.as_deref().unwrap_or(self)
    }

    /// Mean CPU demand over cores when every function is there.
    pub fn mean_load(&self) -> f64 {
        let cores: f64 = self.platform.nodes.iter().map(|node| node.cores).sum();
        self.config.demand_cores * self.config.functions as f64 / cores
    }

    /// The place in the catalogue of the function that agent `agent` controls.
    pub(crate) fn function_of(&self, agent: u32) -> usize {
        let named = self.profiles.iter().position(|profile| profile.name == self.config.function);
        named.unwrap_or(agent as usize % self.profiles.len())
    }

    /// The load of a function of the catalogue.
    pub(crate) fn load_of(&self, function: usize) -> LoadShape {
        self.config.load_of(&self.profiles[function])
    }
}
