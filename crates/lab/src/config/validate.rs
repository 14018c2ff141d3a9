//! From settings to a validated [`RunConfig`].

use homeostat_nn::Kernel;
use homeostat_rl::{Algorithm, AlgorithmConfig, PpoConfig};
use homeostat_simppo::Method;
use serde::Deserialize;
use toml::Value;

use super::{PPO_NUM_ENVS, RunConfig, Setting, Settings, Source, TEAM, TEAM_NUM_ENVS, TeamMethod};
use crate::{EnvFactory, Result};

/// More threads than any machine has use for.
const MAX_THREADS: usize = 4096;

impl Settings {
    /// Reads and checks every value.
    pub fn validate(&self) -> Result<RunConfig> {
        let run: RawRun = self.section("run")?;
        let team = self.method().map(|preset| self.team(preset)).transpose()?;
        let config = match &team {
            Some(_) => AlgorithmConfig::Ppo(self.team_ppo()?),
            None => self.algorithm_config(self.algorithm(&run.algorithm)?)?,
        };
        config.validate().map_err(|error| self.with_source(error))?;
        let copies = match &team {
            Some(team) => Copies { key: TEAM_NUM_ENVS.to_owned(), count: team.method.num_envs },
            None => Copies {
                key: format!("{}.num_envs", config.algorithm().name()),
                count: config.num_envs(),
            },
        };
        let env_factory = self.env_factory()?;
        let shared_by = if env_factory.is_shared(&run.env) {
            Some(self.agents_that_share(&env_factory, &copies)?)
        } else {
            env_factory.make(&run.env, 0)?;
            None
        };
        if let (Some(team), None) = (&team, shared_by) {
            let reason = format!(
                "{} trains agents that share an environment, and this one is for a single agent: \
                 take one of {}",
                team.name,
                env_factory.shared_ids().join(", ")
            );
            return Err(self.out_of_range("run.env", &reason));
        }
        for (key, value) in [
            ("run.agents", run.agents),
            ("run.steps", run.steps),
            ("run.log_every", run.log_every),
            ("run.checkpoint_every", run.checkpoint_every),
        ] {
            if value == 0 {
                return Err(self.out_of_range(key, "it must be at least 1"));
            }
        }
        let agents = u32::try_from(shared_by.unwrap_or(run.agents))
            .map_err(|_| self.out_of_range("run.agents", "it must fit in 32 bits"))?;
        let kernel = self.kernel(&run.kernel)?;
        // All environments of an agent are stepped together: a budget is rounded up to that.
        let whole = |key: &str, steps: u64| {
            let rounded = steps.checked_next_multiple_of(copies.count as u64);
            rounded.ok_or_else(|| self.out_of_range(key, "it must be lower"))
        };
        let mut resolved = self.clone();
        for (key, value) in [
            ("run.kernel", Value::String(kernel.to_string())),
            ("run.agents", Value::Integer(i64::from(agents))),
        ] {
            resolved.apply(key, value, self.source(key))?;
        }
        Ok(RunConfig {
            env: run.env,
            env_factory,
            seed: run.seed,
            agents,
            steps: whole("run.steps", run.steps)?,
            log_every: whole("run.log_every", run.log_every)?,
            checkpoint_every: run.checkpoint_every,
            threads: self.threads(&run.threads)?,
            kernel,
            identity: resolved.identity(),
            toml: resolved.to_toml(),
            algorithm: config,
            team,
        })
    }

    /// Worker threads; nothing means all cores.
    fn threads(&self, threads: &Threads) -> Result<Option<usize>> {
        let refused = |expected| Err(self.out_of_range("run.threads", expected));
        match threads {
            Threads::Count(0) => refused("it must be at least 1, or \"auto\""),
            Threads::Count(count) if *count > MAX_THREADS => refused("it must be at most 4096"),
            Threads::Count(count) => Ok(Some(*count)),
            Threads::Word(word) if word == "auto" => Ok(None),
            Threads::Word(_) => refused("it must be a number or \"auto\""),
        }
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        if name == "auto" {
            return Ok(Kernel::best());
        }
        Kernel::by_name(name).ok_or_else(|| {
            let names: Vec<_> = Kernel::available().iter().map(Kernel::to_string).collect();
            let expected = format!("this machine has {} and \"auto\"", names.join(", "));
            self.out_of_range("run.kernel", &expected)
        })
    }

    /// The environments of these settings; that of the run is prepared.
    pub fn env_factory(&self) -> Result<EnvFactory> {
        self.prepare(None)
    }

    /// [`Settings::env_factory`], with environments that were made before of the same settings of
    /// their simulator.
    pub fn prepare(&self, made: Option<EnvFactory>) -> Result<EnvFactory> {
        let factory = made.map_or_else(|| self.simulators(), Ok)?;
        let id = self.word("run.env");
        let prefix = self.environments.of(id).map_or("", |simulator| simulator.prefix());
        factory.prepare(id).map_err(|error| self.refused_by(prefix, error))?;
        Ok(factory)
    }

    /// Every simulator with its settings.
    pub(crate) fn simulators(&self) -> Result<EnvFactory> {
        let configured = self.environments.iter().map(|simulator| {
            let prefix = simulator.prefix();
            let configured = simulator.configure(&self.table(prefix));
            configured.map_err(|error| self.refused_by(prefix, error))
        });
        Ok(EnvFactory::new(self.environments.clone(), configured.collect::<Result<_>>()?))
    }

    /// How many agents begin in a shared environment. The environment decides; a setting that
    /// says otherwise is refused.
    fn agents_that_share(&self, env_factory: &EnvFactory, copies: &Copies) -> Result<u64> {
        let id = self.word("run.env");
        let mut env = env_factory.make_multi_agent(id)?;
        let is_open = env.possible_agents().is_none();
        if is_open && copies.count > 1 {
            let reason = format!(
                "agents of {id} come and go, and those of two copies would differ: it must be 1"
            );
            return Err(self.out_of_range(&copies.key, &reason));
        }
        env.reset(Some(0))?;
        let agents = env.agents().len() as u64;
        let asked = &self.values["run.agents"];
        if asked.source != Source::Default && asked.value.as_integer() != Some(agents as i64) {
            let origin = env_factory.agents_come_from(id);
            let origin = origin.map_or(String::new(), |origin| format!(", {origin}"));
            let reason = format!("{id} is shared by {agents} agents{origin}: leave it out");
            return Err(self.out_of_range("run.agents", &reason));
        }
        Ok(agents)
    }

    fn team(&self, preset: homeostat_simppo::Preset) -> Result<TeamMethod> {
        let method: Method = self.section(TEAM)?;
        method.validate().map_err(|error| match error {
            homeostat_simppo::Error::Setting { setting, need, .. } => {
                self.out_of_range(setting, &format!("it must be {need}"))
            }
            other => other.into(),
        })?;
        Ok(TeamMethod { name: preset.name, method })
    }

    /// How each network of a team learns. The number of environments is the team's, so that
    /// the algorithm's own is refused.
    fn team_ppo(&self) -> Result<PpoConfig> {
        let Setting { value, source } = &self.values[PPO_NUM_ENVS];
        let is_asked = !matches!(source, Source::Default | Source::Preset(_) | Source::Method(_));
        if is_asked && value.as_integer() != Some(1) {
            let reason = format!("a team plays {TEAM_NUM_ENVS} environments: leave it out");
            return Err(self.out_of_range(PPO_NUM_ENVS, &reason));
        }
        Ok(PpoConfig { num_envs: 1, ..self.section("ppo")? })
    }

    fn algorithm_config(&self, algorithm: Algorithm) -> Result<AlgorithmConfig> {
        Ok(match algorithm {
            Algorithm::Ppo => AlgorithmConfig::Ppo(self.section("ppo")?),
            Algorithm::Dqn => AlgorithmConfig::Dqn(self.section("dqn")?),
            Algorithm::Ddpg => AlgorithmConfig::Ddpg(self.section("ddpg")?),
            Algorithm::QLearning => AlgorithmConfig::QLearning(self.section("q-learning")?),
            Algorithm::Reinforce => AlgorithmConfig::Reinforce(self.section("reinforce")?),
        })
    }
}

/// How many copies of an environment are stepped together, and the setting that says so.
struct Copies {
    key: String,
    count: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRun {
    pub(super) algorithm: String,
    pub(super) env: String,
    pub(super) preset: String,
    seed: u64,
    agents: u64,
    steps: u64,
    log_every: u64,
    checkpoint_every: u64,
    threads: Threads,
    kernel: String,
}

/// A number or a word; the only setting with two types.
enum Threads {
    Count(usize),
    Word(String),
}

impl<'de> Deserialize<'de> for Threads {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Integer(count) => {
                usize::try_from(count).map(Self::Count).map_err(serde::de::Error::custom)
            }
            Value::String(word) => Ok(Self::Word(word)),
            other => Err(serde::de::Error::custom(format!(
                "`threads` must be a number or \"auto\", got {other}"
            ))),
        }
    }
}
