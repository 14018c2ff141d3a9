//! The settings of a run: layers of TOML, each value with the place it came from,
//! then one validated [`RunConfig`]. Only the second is passed on.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use homeostat_env::MultiAgentEnv;
use homeostat_nn::Kernel;
use homeostat_rl::{Algorithm, AlgorithmConfig, PpoConfig, presets};
use homeostat_sim_faas::FaasConfig;
use homeostat_simppo::Method;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::worlds::{CHAINS, is_faas};
use crate::{Error, Result, Worlds};

/// The commented reference of every setting.
pub const DEFAULT_TOML: &str = include_str!("default.toml");

/// Optional settings are switched off by this word, since TOML has no null.
const OFF: &str = "off";

/// More threads than any machine has use for.
const MOST_THREADS: usize = 4096;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The embedded reference.
    Default,
    /// A preset.
    Preset(String),
    /// The method of a team.
    Method(String),
    /// A file.
    File(String),
    /// An environment variable.
    Environment(String),
    /// The command line.
    Flag(String),
    /// A keyword of a call, for example from Python.
    Keyword(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Preset(name) => write!(f, "preset {name}"),
            Self::Method(name) => write!(f, "method {name}"),
            Self::File(path) => write!(f, "file {path}"),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
            Self::Keyword(keyword) => write!(f, "keyword {keyword}"),
        }
    }
}

/// Every setting, by `section.key`, with its source. Later layers win.
#[derive(Debug, Clone)]
pub struct Settings {
    values: BTreeMap<String, (Value, Source)>,
    /// The order of the reference, for people.
    order: Vec<String>,
}

/// What the user gave, from the weakest layer to the strongest.
#[derive(Debug, Clone, Default)]
pub struct UserLayers {
    /// Name and text of a configuration file.
    pub file: Option<(String, String)>,
    /// Environment variables that start with `HOMEOSTAT_`.
    pub environment: Vec<(String, String)>,
    /// Keys and values of flags, with the flag as written.
    pub flags: Vec<(String, String, String)>,
    /// Keys and values of the keywords of a call, with the keyword as written.
    pub keywords: Vec<(String, String, String)>,
}

/// Where a coordinator's token may come from; it is a secret and no setting.
pub const TOKEN_VARIABLE: &str = "HOMEOSTAT_COORDINATOR_TOKEN";

impl UserLayers {
    /// The same with a file of settings.
    pub fn with_file(self, path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::Unreadable {
            source_text: format!("file {}", path.display()),
            reason: error.to_string(),
        })?;
        Ok(Self { file: Some((path.display().to_string(), text)), ..self })
    }

    /// The same with the settings of this process's environment. `HOMEOSTAT_TEST_*` steers
    /// this project's own tests and is none.
    pub fn with_environment(self) -> Result<Self> {
        let mut environment = Vec::new();
        for (name, value) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            let is_other = name.starts_with("HOMEOSTAT_TEST_") || name == TOKEN_VARIABLE;
            if !name.starts_with("HOMEOSTAT_") || is_other {
                continue;
            }
            let value = value.into_string().map_err(|_| Error::Unreadable {
                source_text: format!("environment {name}"),
                reason: "its value is not text".to_owned(),
            })?;
            environment.push((name, value));
        }
        Ok(Self { environment, ..self })
    }
}

impl Settings {
    /// The reference alone.
    pub fn defaults() -> Self {
        let table: Table = DEFAULT_TOML.parse().expect("the embedded reference is tested to parse");
        let mut this = Self { values: BTreeMap::new(), order: Vec::new() };
        for (key, value) in leaves(&table) {
            this.order.push(key.clone());
            this.values.insert(key, (value, Source::Default));
        }
        this
    }

    /// All layers, the method and the preset they name included.
    pub fn resolve(layers: &UserLayers) -> Result<Self> {
        let mut user = Self::defaults();
        user.apply_user(layers)?;
        let (method, preset) = (user.method(), user.preset()?);
        // Both lie under what the user gave: start again with them below.
        let mut settings = Self::defaults();
        if let Some(method) = &method {
            settings.apply_method(method, user.word("run.preset") != OFF)?;
        }
        if let Some(preset) = &preset {
            settings.apply_preset(preset)?;
        }
        settings.apply_user(layers)?;
        if let Some(preset) = preset {
            let name = Value::String(preset.name.to_owned());
            settings.apply("run.preset", name, user.source("run.preset"))?;
        }
        Ok(settings)
    }

    /// Every setting in the order of the reference.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value, &Source)> {
        self.order.iter().map(|key| {
            let (value, source) = &self.values[key];
            (key.as_str(), value, source)
        })
    }

    /// [`Settings::iter`] without the settings of algorithms and worlds that this run does
    /// not use.
    pub fn used(&self) -> impl Iterator<Item = (&str, &Value, &Source)> {
        let (algorithm, env) = (self.word("run.algorithm"), self.word("run.env"));
        let is_team = self.method().is_some();
        self.iter().filter(move |(key, ..)| {
            let (section, _) = section_and_name(key);
            let is_of_the_world = match *key {
                "faas.chains" => env == CHAINS,
                _ => section == "faas" && is_faas(env),
            };
            let is_of_the_team =
                is_team && *key != TEAM_LANES && (section == TEAM || section == "ppo");
            let is_of_the_algorithm = section == algorithm && !is_team;
            section == "run" || is_of_the_algorithm || is_of_the_team || is_of_the_world
        })
    }

    /// The settings that this run uses as TOML.
    pub fn to_toml(&self) -> String {
        let mut table = Table::new();
        for (key, value, _) in self.used() {
            let (section, name) = section_and_name(key);
            let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            section
                .as_table_mut()
                .expect("made a table above")
                .insert(name.to_owned(), value.clone());
        }
        toml::to_string(&table).expect("plain values")
    }

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
            Some(team) => Copies { key: TEAM_WORLDS.to_owned(), count: team.method.worlds },
            None => Copies {
                key: format!("{}.lanes", config.algorithm().name()),
                count: config.lanes(),
            },
        };
        let worlds = self.worlds()?;
        let shared_by = match worlds.make_multi_agent(&run.env) {
            Ok(world) => Some(self.agents_that_share(world, &copies)?),
            Err(_) => worlds.make(&run.env, 0).map(|_| None)?,
        };
        if let (Some(team), None) = (&team, shared_by) {
            let reason = format!(
                "{} trains agents that share a world, and this one is for a single agent: take \
                 faas/fleet-v1 or faas/fleet-v2",
                team.name
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
        let threads = match run.threads {
            Threads::Count(0) => {
                return Err(self.out_of_range("run.threads", "it must be at least 1, or \"auto\""));
            }
            Threads::Count(count) if count > MOST_THREADS => {
                return Err(self.out_of_range("run.threads", "it must be at most 4096"));
            }
            Threads::Count(count) => Some(count),
            Threads::Word(word) if word == "auto" => None,
            Threads::Word(_) => {
                return Err(self.out_of_range("run.threads", "it must be a number or \"auto\""));
            }
        };
        let kernel = match run.kernel.as_str() {
            "auto" => Kernel::best(),
            name => Kernel::by_name(name).ok_or_else(|| {
                let names: Vec<_> = Kernel::available().iter().map(Kernel::to_string).collect();
                self.out_of_range(
                    "run.kernel",
                    &format!("this machine has {} and \"auto\"", names.join(", ")),
                )
            })?,
        };
        // Agents play whole rows of lanes: a budget is rounded up to them.
        let lanes = copies.count as u64;
        let whole = |key: &str, steps: u64| {
            let rounded = steps.checked_next_multiple_of(lanes);
            rounded.ok_or_else(|| self.out_of_range(key, "it must leave room for whole lanes"))
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
            worlds,
            seed: run.seed,
            agents,
            steps: whole("run.steps", run.steps)?,
            log_every: whole("run.log_every", run.log_every)?,
            checkpoint_every: run.checkpoint_every,
            threads,
            kernel,
            identity: resolved.identity(),
            toml: resolved.to_toml(),
            algorithm: config,
            team,
        })
    }

    /// The worlds that the environment of these settings needs, without a run in them.
    pub fn worlds(&self) -> Result<Worlds> {
        let faas: FaasConfig = self.section("faas")?;
        Worlds::new(self.word("run.env"), &faas).map_err(|error| self.of_a_world(error))
    }

    /// How many agents begin in a shared world. It says so itself; whoever sets another
    /// number is told.
    fn agents_that_share(&self, mut world: Box<dyn MultiAgentEnv>, copies: &Copies) -> Result<u64> {
        let id = world.spec().id.to_string();
        let is_open = world.possible_agents().is_none();
        if is_open && copies.count > 1 {
            let reason = format!(
                "agents of {id} come and go, and those of two copies would differ: it must be 1"
            );
            return Err(self.out_of_range(&copies.key, &reason));
        }
        world.reset(Some(0))?;
        let agents = world.agents().len() as u64;
        let (asked, source) = &self.values["run.agents"];
        if *source != Source::Default && asked.as_integer() != Some(agents as i64) {
            let setting = match id.as_str() {
                CHAINS => ", the stages of faas.chains",
                id if is_faas(id) => ", which is faas.functions",
                _ => "",
            };
            let reason = format!("{id} is shared by {agents} agents{setting}: leave it out");
            return Err(self.out_of_range("run.agents", &reason));
        }
        Ok(agents)
    }

    fn identity(&self) -> BTreeMap<String, String> {
        let parts = self.used().filter(|(key, ..)| !CHANGEABLE.contains(key));
        parts.map(|(key, value, _)| (key.to_owned(), value.to_string())).collect()
    }

    fn apply_user(&mut self, layers: &UserLayers) -> Result<()> {
        if let Some((name, text)) = &layers.file {
            let source = Source::File(name.clone());
            let table: Table = text.parse().map_err(|error: toml::de::Error| {
                Error::Unreadable { source_text: source.to_string(), reason: error.to_string() }
            })?;
            for (key, value) in leaves(&table) {
                self.apply(&key, value, source.clone())?;
            }
        }
        for (variable, text) in &layers.environment {
            let source = Source::Environment(variable.clone());
            let key =
                self.key_of_variable(variable).ok_or_else(|| self.unknown(variable, &source))?;
            self.apply(&key, value_of_text(text), source)?;
        }
        for (key, text, flag) in &layers.flags {
            self.apply(key, value_of_text(text), Source::Flag(flag.clone()))?;
        }
        for (key, text, keyword) in &layers.keywords {
            self.apply(key, value_of_text(text), Source::Keyword(keyword.clone()))?;
        }
        Ok(())
    }

    fn apply_preset(&mut self, preset: &presets::Preset) -> Result<()> {
        let section = preset.config.algorithm().name();
        let source = Source::Preset(preset.name.to_owned());
        match &preset.config {
            AlgorithmConfig::Ppo(config) => self.apply_section(section, config, &source),
            AlgorithmConfig::Dqn(config) => self.apply_section(section, config, &source),
            AlgorithmConfig::Ddpg(config) => self.apply_section(section, config, &source),
            AlgorithmConfig::QLearning(config) => self.apply_section(section, config, &source),
            AlgorithmConfig::Reinforce(config) => self.apply_section(section, config, &source),
        }?;
        self.apply("run.algorithm", Value::String(section.to_owned()), source)
    }

    /// How a team learns, where, and with which numbers.
    fn apply_method(
        &mut self,
        preset: &homeostat_simppo::Preset,
        with_numbers: bool,
    ) -> Result<()> {
        let source = Source::Method(preset.name.to_owned());
        self.apply_section(TEAM, &preset.method, &source)?;
        if with_numbers {
            self.apply_section("ppo", &preset.ppo, &source)?;
        }
        self.apply("run.env", Value::String(preset.env.to_owned()), source)
    }

    /// Every setting of a section; what `config` leaves out is off.
    fn apply_section(
        &mut self,
        section: &str,
        config: &impl Serialize,
        source: &Source,
    ) -> Result<()> {
        let table = Table::try_from(config).expect("settings are plain values");
        let keys: Vec<_> = self
            .order
            .iter()
            .filter(|key| key.starts_with(&format!("{section}.")))
            .cloned()
            .collect();
        for key in keys {
            let name = &key[section.len() + 1..];
            let value = table.get(name).map_or(Value::String(OFF.to_owned()), shorten_floats);
            self.apply(&key, value, source.clone())?;
        }
        Ok(())
    }

    /// The method of a team, if the algorithm is the name of one.
    fn method(&self) -> Option<homeostat_simppo::Preset> {
        homeostat_simppo::Preset::by_name(self.word("run.algorithm"))
    }

    fn word(&self, key: &str) -> &str {
        self.values[key].0.as_str().unwrap_or_default()
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

    /// How each network of a team learns. It has as many lanes as it plays for agents in
    /// copies of the world: whoever sets another number is told.
    fn team_ppo(&self) -> Result<PpoConfig> {
        let (lanes, source) = &self.values[TEAM_LANES];
        let is_asked = !matches!(source, Source::Default | Source::Preset(_) | Source::Method(_));
        if is_asked && lanes.as_integer() != Some(1) {
            let reason = format!("a team plays {TEAM_WORLDS} copies of the world: leave it out");
            return Err(self.out_of_range(TEAM_LANES, &reason));
        }
        Ok(PpoConfig { lanes: 1, ..self.section("ppo")? })
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

    fn preset(&self) -> Result<Option<presets::Preset>> {
        let run: RawRun = self.section("run")?;
        let is_team = self.method().is_some();
        match run.preset.as_str() {
            OFF => Ok(None),
            // A method has numbers of its own.
            "auto" if is_team => Ok(None),
            "auto" => Ok(presets::for_task(self.algorithm(&run.algorithm)?, &run.env)),
            name => {
                let preset = presets::by_name(name).ok_or_else(|| {
                    let names: Vec<_> = presets::all().iter().map(|preset| preset.name).collect();
                    let hint = nearest(name, names.iter().copied());
                    self.out_of_range(
                        "run.preset",
                        &format!("there are {}{hint}", names.join(", ")),
                    )
                })?;
                // A preset of another algorithm than the one asked for would be ignored.
                let asked = self.source("run.algorithm");
                let own = preset.config.algorithm();
                let taken = if is_team { Algorithm::Ppo.name() } else { &run.algorithm };
                if asked != Source::Default && taken != own.name() {
                    return Err(self.out_of_range(
                        "run.preset",
                        &format!("it is a preset of {}, not of {taken}", own.name()),
                    ));
                }
                Ok(Some(preset))
            }
        }
    }

    fn apply(&mut self, key: &str, value: Value, source: Source) -> Result<()> {
        match self.values.get_mut(key) {
            Some(slot) => {
                *slot = (value, source);
                Ok(())
            }
            None => Err(self.unknown(key, &source)),
        }
    }

    fn source(&self, key: &str) -> Source {
        self.values[key].1.clone()
    }

    /// One section, read by serde; whatever is off is left out.
    fn section<T: for<'de> Deserialize<'de>>(&self, section: &str) -> Result<T> {
        let prefix = format!("{section}.");
        let mut table = Table::new();
        for (key, (value, _)) in &self.values {
            let Some(name) = key.strip_prefix(&prefix) else { continue };
            if section == "run" || value.as_str() != Some(OFF) {
                table.insert(name.to_owned(), value.clone());
            }
        }
        T::deserialize(Value::Table(table.clone())).map_err(|error| {
            let reason = error.to_string();
            let culprit = self.culprit(section, &table, &reason);
            let (key, source) = culprit.map_or((section.to_owned(), Source::Default), |key| {
                (key.clone(), self.source(&key))
            });
            Error::Unreadable {
                source_text: format!("{key} (from {source})"),
                reason: reason.lines().next().unwrap_or_default().to_owned(),
            }
        })
    }

    /// The setting that made a section unreadable: the one that the reason names, whose value
    /// it names, or that is not of the default's type; those that the user gave first.
    fn culprit(&self, section: &str, table: &Table, reason: &str) -> Option<String> {
        let defaults = Self::defaults();
        let mut changed: Vec<_> = table
            .keys()
            .map(|name| format!("{section}.{name}"))
            .filter(|key| self.source(key) != Source::Default)
            .collect();
        changed
            .sort_by_key(|key| matches!(self.source(key), Source::Preset(_) | Source::Method(_)));
        let names = |text: &str| reason.contains(&format!("`{text}`"));
        let text_of = |key: &String| {
            let value = &self.values[key].0;
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        };
        let by_name = changed.iter().find(|key| names(&key[section.len() + 1..]));
        let by_value = changed.iter().find(|key| names(&text_of(key)));
        let by_type =
            changed.iter().find(|key| !same_type(&self.values[*key].0, &defaults.values[*key].0));
        by_name.or(by_value).or(by_type).or(changed.first()).cloned()
    }

    fn algorithm(&self, name: &str) -> Result<Algorithm> {
        Algorithm::by_name(name).ok_or_else(|| {
            let names = Algorithm::ALL.map(Algorithm::name);
            let teams = homeostat_simppo::Preset::all();
            let teams: Vec<_> = teams.iter().map(|preset| preset.name).collect();
            let hint = nearest(name, names.into_iter().chain(teams.iter().copied()));
            let (names, teams) = (names.join(", "), teams.join(", "));
            let expected = format!("there are {names}, and for teams {teams}{hint}");
            self.out_of_range("run.algorithm", &expected)
        })
    }

    fn out_of_range(&self, key: &str, expected: &str) -> Error {
        let (value, source) = &self.values[key];
        Error::OutOfRange {
            key: key.to_owned(),
            value: value.to_string(),
            source_text: source.to_string(),
            expected: expected.to_owned(),
        }
    }

    fn with_source(&self, error: homeostat_rl::Error) -> Error {
        match error {
            homeostat_rl::Error::Setting { setting, expected, .. }
                if self.values.contains_key(&setting) =>
            {
                self.out_of_range(&setting, &expected)
            }
            other => other.into(),
        }
    }

    /// What a world refused, with the place its setting came from.
    fn of_a_world(&self, error: Error) -> Error {
        match error {
            Error::Faas(homeostat_sim_faas::Error::OutOfRange { what, expected, .. })
                if self.values.contains_key(&what) =>
            {
                self.out_of_range(&what, &expected)
            }
            other => other,
        }
    }

    fn unknown(&self, key: &str, source: &Source) -> Error {
        let hint = match source {
            Source::Environment(_) => {
                let variables: Vec<_> = self.order.iter().map(|key| variable_of_key(key)).collect();
                nearest(key, variables.iter().map(String::as_str))
            }
            _ => nearest(key, self.order.iter().map(String::as_str)),
        };
        Error::UnknownKey { key: key.to_owned(), source_text: source.to_string(), hint }
    }

    fn key_of_variable(&self, variable: &str) -> Option<String> {
        self.order.iter().find(|key| variable_of_key(key) == variable).cloned()
    }
}

/// The section of teams, and its setting that takes the place of lanes.
const TEAM: &str = "simppo";
const TEAM_WORLDS: &str = "simppo.worlds";
const TEAM_LANES: &str = "ppo.lanes";

/// How many copies of a world are played at once, and the setting that says so.
struct Copies {
    key: String,
    count: usize,
}

/// How a team of agents learns.
#[derive(Debug, Clone, PartialEq)]
pub struct TeamMethod {
    /// The name that was asked for.
    pub name: &'static str,
    /// The method of that name, with the settings that were changed.
    pub method: Method,
}

/// A validated run.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// Environment id.
    pub env: String,
    /// Where its environments come from.
    pub worlds: Worlds,
    /// Root of all randomness.
    pub seed: u64,
    /// Independent learners; in a shared world those that it begins with.
    pub agents: u32,
    /// Steps of each agent.
    pub steps: u64,
    /// Steps between two lines of metrics.
    pub log_every: u64,
    /// Steps between two checkpoints.
    pub checkpoint_every: u64,
    /// Worker threads; all cores if absent.
    pub threads: Option<usize>,
    /// Kernel of the networks.
    pub kernel: Kernel,
    /// Algorithm and its settings; of each network, if agents learn as a team.
    pub algorithm: AlgorithmConfig,
    /// How agents learn as a team, if they do.
    pub team: Option<TeamMethod>,
    /// The same as text, for the run folder.
    pub toml: String,
    /// The settings that make this run and no other: all but budget, rhythm and threads.
    pub identity: BTreeMap<String, String>,
}

impl RunConfig {
    /// What was asked to learn: an algorithm, or the method of a team.
    pub fn algorithm_name(&self) -> &'static str {
        self.team.as_ref().map_or(self.algorithm.algorithm().name(), |team| team.name)
    }

    /// What its folder is called unless somebody says otherwise: `ppo-cartpole-v1-seed7`.
    pub fn run_name(&self) -> String {
        let env = self.env.split_once('/').map_or(self.env.as_str(), |(_, name)| name);
        format!("{}-{env}-seed{}", self.algorithm_name(), self.seed)
    }
}

/// Settings that a run may change when it goes on.
const CHANGEABLE: [&str; 6] = [
    "run.steps",
    "run.log_every",
    "run.checkpoint_every",
    "run.threads",
    "run.kernel",
    "run.preset",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRun {
    algorithm: String,
    env: String,
    preset: String,
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

fn section_and_name(key: &str) -> (&str, &str) {
    key.split_once('.').expect("every setting has a section")
}

/// `section.key` and value of every setting of a table of sections. A value may be
/// a table itself (an enum with fields): only the first level is split.
fn leaves(table: &Table) -> Vec<(String, Value)> {
    let mut leaves = Vec::new();
    for (section, value) in table {
        match value {
            Value::Table(inner) => {
                leaves.extend(
                    inner.iter().map(|(key, value)| (format!("{section}.{key}"), value.clone())),
                );
            }
            other => leaves.push((section.clone(), other.clone())),
        }
    }
    leaves
}

/// The text of a flag or variable as a TOML value; what is none is a string.
fn value_of_text(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>();
    match parsed.ok().and_then(|mut table| table.remove("value")) {
        Some(value) => value,
        None => Value::String(text.to_owned()),
    }
}

fn variable_of_key(key: &str) -> String {
    format!("HOMEOSTAT_{}", key.to_uppercase().replace(['.', '-'], "_"))
}

fn same_type(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| value.is_integer() || value.is_float();
    a.same_type(b) || (number(a) && number(b))
}

/// 0.0003 in single precision is 0.0003000000142 in double: back to the short form.
fn shorten_floats(value: &Value) -> Value {
    match value {
        Value::Float(number) => {
            Value::Float((*number as f32).to_string().parse().unwrap_or(*number))
        }
        Value::Table(table) => Value::Table(
            table.iter().map(|(key, value)| (key.clone(), shorten_floats(value))).collect(),
        ),
        other => other.clone(),
    }
}

/// ", did you mean `...`?" if something is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = known
        .map(|name| (strsim::jaro_winkler(word, name), name))
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    near.map_or(String::new(), |(_, name)| format!(", did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(key: &str, value: &str) -> (String, String, String) {
        (key.to_owned(), value.to_owned(), format!("--set {key}"))
    }

    fn resolve(layers: UserLayers) -> Result<RunConfig> {
        Settings::resolve(&layers)?.validate()
    }

    #[test]
    fn the_reference_file_states_the_defaults_of_the_code() {
        for algorithm in Algorithm::ALL {
            let flags = vec![flag("run.algorithm", algorithm.name()), flag("run.preset", "off")];
            let config = resolve(UserLayers { flags, ..UserLayers::default() }).unwrap();
            assert_eq!(config.algorithm, algorithm.default_config());
        }
        let method: Method = Settings::defaults().section(TEAM).unwrap();
        assert_eq!(method, Method::default());
        let flags = vec![flag("run.env", "faas/function-v1")];
        let config = resolve(UserLayers { flags, ..UserLayers::default() }).unwrap();
        assert_eq!(config.worlds.faas().unwrap().config(), &FaasConfig::default());
    }

    #[test]
    fn every_method_arrives_unchanged_with_its_environment() {
        for preset in homeostat_simppo::Preset::all() {
            let flags = vec![flag("run.algorithm", preset.name)];
            let config = resolve(UserLayers { flags, ..UserLayers::default() }).unwrap();
            assert_eq!(config.algorithm, AlgorithmConfig::Ppo(preset.ppo), "{}", preset.name);
            let team = TeamMethod { name: preset.name, method: preset.method };
            assert_eq!((config.team, config.env.as_str()), (Some(team), preset.env));
        }
        // The same words name presets, and those are for agents that learn by themselves.
        let flags = vec![flag("run.preset", "simppo"), flag("run.env", "faas/fleet-v1")];
        let config = resolve(UserLayers { flags, ..UserLayers::default() }).unwrap();
        assert_eq!((config.team.as_ref(), config.algorithm_name()), (None, "ppo"));
    }

    #[test]
    fn the_settings_of_a_team_have_sources_and_read_back() {
        let flags = vec![
            flag("run.algorithm", "simppo+"),
            flag("simppo.worlds", "2"),
            flag("ppo.clip", "0.1"),
            flag("faas.functions", "3"),
        ];
        let settings = Settings::resolve(&UserLayers { flags, ..UserLayers::default() }).unwrap();
        let check = |key: &str, expect: Option<(&str, &str)>| {
            let found = settings.used().find(|(name, ..)| *name == key);
            let found = found.map(|(_, value, source)| (value.to_string(), source.to_string()));
            let expect = expect.map(|(value, source)| (value.to_owned(), source.to_owned()));
            assert_eq!(found, expect, "{key}");
        };
        check("simppo.worlds", Some(("2", "flag --set simppo.worlds")));
        check("simppo.sharing", Some(("\"all\"", "method simppo+")));
        check("ppo.gamma", Some(("0.9", "method simppo+")));
        check("ppo.clip", Some(("0.1", "flag --set ppo.clip")));
        check("run.env", Some(("\"faas/fleet-v2\"", "method simppo+")));
        check("run.algorithm", Some(("\"simppo+\"", "flag --set run.algorithm")));
        check("ppo.lanes", None);
        check("dqn.double", None);
        let first = settings.validate().unwrap();
        assert_eq!(first.identity["simppo.worlds"], "2");
        let file = Some(("config.toml".to_owned(), first.toml.clone()));
        let second = resolve(UserLayers { file, ..UserLayers::default() }).unwrap();
        assert_eq!(
            (second.algorithm, second.team, second.toml, second.identity),
            (first.algorithm, first.team, first.toml, first.identity)
        );
        // A preset of PPO lends its numbers, "off" the plain ones; the method stays.
        for (preset, minibatch) in [("s-rl", 10), ("off", 64)] {
            let flags = vec![flag("run.algorithm", "simppo"), flag("run.preset", preset)];
            let config = resolve(UserLayers { flags, ..UserLayers::default() }).unwrap();
            let AlgorithmConfig::Ppo(ppo) = &config.algorithm else { panic!("it is PPO") };
            assert_eq!((ppo.minibatch, ppo.lanes), (minibatch, 1));
            assert_eq!(config.team.unwrap().method, Method::default());
        }
    }

    #[test]
    fn every_preset_arrives_unchanged() {
        for preset in presets::all() {
            let flags = vec![flag("run.preset", preset.name)];
            let config = resolve(UserLayers { flags, ..UserLayers::default() }).unwrap();
            assert_eq!(config.algorithm, preset.config, "{}", preset.name);
        }
    }

    #[test]
    fn keyword_beats_flag_beats_environment_beats_file_beats_preset_beats_default() {
        let mut layers = UserLayers {
            file: Some((
                "my.toml".to_owned(),
                "[ppo]\nclip = 0.3\ngamma = 0.5\nepochs = 3\n".to_owned(),
            )),
            environment: vec![
                ("HOMEOSTAT_PPO_CLIP".to_owned(), "0.4".to_owned()),
                ("HOMEOSTAT_PPO_GAMMA".to_owned(), "0.6".to_owned()),
            ],
            flags: vec![
                flag("ppo.clip", "0.5"),
                flag("ppo.gae_lambda", "0.7"),
                flag("run.preset", "simppo"),
            ],
            keywords: vec![("ppo.gae_lambda".to_owned(), "0.8".to_owned(), "ppo".to_owned())],
        };
        let settings = Settings::resolve(&layers).unwrap();
        let check = |key: &str, value: &str, source: &str| {
            let found = settings.iter().find(|(name, ..)| *name == key).unwrap();
            assert_eq!(
                (found.1.to_string().as_str(), found.2.to_string().as_str()),
                (value, source),
                "{key}"
            );
        };
        check("ppo.clip", "0.5", "flag --set ppo.clip");
        check("ppo.gae_lambda", "0.8", "keyword ppo");
        check("ppo.gamma", "0.6", "environment HOMEOSTAT_PPO_GAMMA");
        check("ppo.epochs", "3", "file my.toml");
        check("ppo.minibatch", "5", "preset simppo");
        check("dqn.double", "true", "default");
        layers.flags.clear();
        assert!(resolve(layers).is_ok());
    }

    #[test]
    fn mistakes_are_named_with_their_place_and_the_nearest_word() {
        let check = |layers: UserLayers, expect: &str| {
            let error = resolve(layers).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        let flags = |flags: &[(&str, &str)]| UserLayers {
            flags: flags.iter().map(|(key, value)| flag(key, value)).collect(),
            ..UserLayers::default()
        };
        let file = |text: &str| UserLayers {
            file: Some(("my.toml".to_owned(), text.to_owned())),
            ..UserLayers::default()
        };
        check(
            flags(&[("ppo.clipp", "0.1")]),
            "unknown setting `ppo.clipp` from flag --set ppo.clipp, did you mean `ppo.clip`?",
        );
        check(
            file("[ppo]\nepoch = 3"),
            "unknown setting `ppo.epoch` from file my.toml, did you mean `ppo.epochs`?",
        );
        check(file("[ppo\n"), "cannot use file my.toml");
        check(
            flags(&[("ppo.clip", "-1")]),
            "ppo.clip = -1 (from flag --set ppo.clip) is out of range",
        );
        check(flags(&[("ppo.clip", "nan")]), "ppo.clip = nan");
        check(flags(&[("ppo.clip", "wide")]), "cannot use ppo.clip (from flag --set ppo.clip)");
        check(flags(&[("run.steps", "0")]), "run.steps = 0");
        check(flags(&[("run.seed", "-3")]), "run.seed (from flag --set run.seed)");
        check(flags(&[("run.env", "classic/cartpol-v1")]), "did you mean `classic/cartpole-v1`?");
        check(flags(&[("run.algorithm", "pppo")]), "did you mean `ppo`?");
        check(flags(&[("run.preset", "simpo")]), "did you mean `simppo`?");
        check(
            flags(&[("run.algorithm", "dqn"), ("run.preset", "simppo")]),
            "it is a preset of ppo, not of dqn",
        );
        check(flags(&[("run.kernel", "avx1024")]), "this machine has");
        let team = |key, value| flags(&[("run.algorithm", "simppo"), (key, value)]);
        check(flags(&[("run.algorithm", "simpo")]), "did you mean `simppo`?");
        check(
            team("simppo.pay", "mean"),
            "cannot use simppo.pay (from flag --set simppo.pay): unknown variant `mean`, expected \
             one of `own`, `team`, `total`",
        );
        check(team("simppo.sharing", "3"), "cannot use simppo.sharing (from flag");
        check(
            team("simppo.worlds", "0"),
            "simppo.worlds = 0 (from flag --set simppo.worlds) is out of range: it must be from 1",
        );
        check(team("simppo.worlds", "-1"), "cannot use simppo.worlds (from flag");
        check(team("simppo.wolrds", "2"), "did you mean `simppo.worlds`?");
        check(
            team("ppo.lanes", "4"),
            "ppo.lanes = 4 (from flag --set ppo.lanes) is out of range: a team plays simppo.worlds",
        );
        check(
            team("run.env", "classic/cartpole-v1"),
            "run.env = \"classic/cartpole-v1\" (from flag --set run.env) is out of range: simppo \
             trains agents that share a world",
        );
        check(team("run.env", "faas/flet-v1"), "did you mean `faas/fleet-v1`?");
        check(team("run.preset", "firm"), "it is a preset of ddpg, not of ppo");
        check(
            flags(&[("run.algorithm", "simppo+"), ("faas.churn", "0.1")]),
            "simppo.worlds = 4 (from method simppo+) is out of range: agents of faas/fleet-v2 come \
             and go, and those of two copies would differ: it must be 1",
        );
        let environment = vec![("HOMEOSTAT_PPO_CLIPP".to_owned(), "1".to_owned())];
        check(
            UserLayers { environment, ..UserLayers::default() },
            "did you mean `HOMEOSTAT_PPO_CLIP`?",
        );
    }

    #[test]
    fn the_written_config_reads_back_as_the_same_run() {
        let flags =
            vec![flag("run.preset", "simppo"), flag("ppo.clip", "0.1"), flag("run.seed", "9")];
        let first = resolve(UserLayers { flags, ..UserLayers::default() }).unwrap();
        let file = Some(("config.toml".to_owned(), first.toml.clone()));
        let second = resolve(UserLayers { file, ..UserLayers::default() }).unwrap();
        assert_eq!(
            (second.algorithm, second.seed, second.toml),
            (first.algorithm, 9, first.toml.clone())
        );
    }
}
