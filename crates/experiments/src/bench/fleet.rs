//! Teams that learn together on one platform: how long they take, how many decisions one core
//! makes for them, what they weigh, and how all of it grows with their number.

use std::hint::black_box;
use std::time::Instant;

use homeostat_core::Stream;
use homeostat_decide::{Features, ScalingAction};
use homeostat_env::{Action, MultiAgentEnv};
use homeostat_lab::{Error, Result};
use homeostat_nn::Kernel;
use homeostat_rl::{Policy, Sampling, Workspace};
use homeostat_sim_faas::{FaasConfig, make_multi_agent, specs};
use homeostat_simppo::{
    Contribution, Learners, Preset, TaskType, TeamConfig, Training, VirtualAgent,
};
use serde_json::{Map, Value, json};

use super::idle_env::IdleEnv;
use super::learn::resident_bytes;
use super::sim::best_of;

/// What to time.
#[derive(Debug, Clone)]
pub struct FleetBench {
    /// One figure, or the first words of several, as `train_s`; all, if absent.
    pub only: Option<String>,
    /// A hundredth of the work: figures to try the command with, not to quote.
    pub quick: bool,
    /// The kernel to run on.
    pub kernel: Kernel,
}

/// What was timed.
#[derive(Debug, Clone)]
pub struct FleetReport {
    /// Kernel in use.
    pub kernel: String,
    /// Threads in use.
    pub threads: usize,
    /// Whether it was a hundredth of the work.
    pub quick: bool,
    /// In the order of [`FleetBench::KEYS`].
    pub figures: Vec<FleetFigure>,
}

/// One figure beside what it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetFigure {
    /// Its name.
    pub key: &'static str,
    /// Its value.
    pub value: f64,
    /// The goal of this project.
    pub aim: Option<Aim>,
    /// What the dissertation says of its own system, on its own machines.
    pub paper: &'static str,
}

/// What a figure should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// Less than this.
    Below(f64),
    /// More than this.
    Above(f64),
}

impl Aim {
    /// Whether a value is as it should be.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::Below(limit) => value < limit,
            Self::Above(limit) => value > limit,
        }
    }
}

impl std::fmt::Display for Aim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Below(limit) => write!(f, "< {limit}"),
            Self::Above(limit) => write!(f, "> {limit}"),
        }
    }
}

const PAPER_TRAINING: &str = "about 2 h";
const PAPER_STEP: &str = "240 ms a step";
const PAPER_BYTES: &str = "2 MB";

/// Every figure, its aim, and what the paper says.
const FIGURES: [(&str, Option<Aim>, &str); 11] = [
    ("train_s.n12", Some(Aim::Below(10.0)), PAPER_TRAINING),
    ("train_s.n110", Some(Aim::Below(120.0)), PAPER_TRAINING),
    ("train_s.n1000_50ep", None, ""),
    ("decisions_per_s.n110", Some(Aim::Above(300_000.0)), PAPER_STEP),
    ("decisions_per_s.n1000", Some(Aim::Above(300_000.0)), PAPER_STEP),
    ("bytes_per_agent.training", Some(Aim::Below(400_000.0)), PAPER_BYTES),
    ("bytes_per_agent.serving", Some(Aim::Below(60_000.0)), ""),
    ("growth.n12_to_n1000", Some(Aim::Below(1.3)), ""),
    ("growth.n110_to_n1000", Some(Aim::Below(1.3)), ""),
    ("growth.n110_to_n1000_cpu", Some(Aim::Below(1.3)), ""),
    ("growth.n12_to_n1000_without_simulator", None, ""),
];

/// Agents that memory is measured with.
const WEIGHED: usize = 1000;

impl FleetBench {
    /// The names of all figures.
    pub const KEYS: [&str; FIGURES.len()] = {
        let mut keys = [""; FIGURES.len()];
        let mut k = 0;
        while k < keys.len() {
            keys[k] = FIGURES[k].0;
            k += 1;
        }
        keys
    };

    /// Runs what was asked for; `progress` is called with what is being timed.
    pub fn run(&self, mut progress: impl FnMut(&str)) -> Result<FleetReport> {
        let wanted: Vec<&'static str> =
            Self::KEYS.into_iter().filter(|key| self.is_wanted(key)).collect();
        if wanted.is_empty() {
            return Err(Error::OutOfRange {
                key: "only".to_owned(),
                value: self.only.clone().unwrap_or_default(),
                source_text: "flag --only".to_owned(),
                expected: format!("there are {}", Self::KEYS.join(", ")),
            });
        }
        let mut bench = Bench {
            kernel: self.kernel,
            quick: self.quick,
            trained: [None; TEAMS.len()],
            weighed: None,
            progress: &mut progress,
        };
        let mut values: Vec<Option<f64>> = vec![None; Self::KEYS.len()];
        // Memory first: a process that has grown takes what it needs from what it has.
        let mut order: Vec<usize> = (0..Self::KEYS.len()).collect();
        order.sort_by_key(|place| !Self::KEYS[*place].starts_with("bytes"));
        for place in order.into_iter().filter(|place| wanted.contains(&Self::KEYS[*place])) {
            values[place] = Some(bench.measure(Self::KEYS[place])?);
        }
        let figures = FIGURES.into_iter().zip(values).filter_map(|((key, aim, paper), value)| {
            value.map(|value| FleetFigure { key, value, aim, paper })
        });
        Ok(FleetReport {
            kernel: self.kernel.to_string(),
            threads: rayon::current_num_threads(),
            quick: self.quick,
            figures: figures.collect(),
        })
    }

    fn is_wanted(&self, key: &str) -> bool {
        let Some(only) = &self.only else { return true };
        key.strip_prefix(only.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl FleetReport {
    /// The figures as `train_s.n12` and so on.
    pub fn to_json(&self) -> Value {
        let mut record = Map::new();
        record.insert("kernel".to_owned(), json!(self.kernel));
        record.insert("threads".to_owned(), json!(self.threads));
        if self.quick {
            record.insert("quick".to_owned(), json!(true));
        }
        for figure in &self.figures {
            let value = json!(figure.value);
            match figure.key.split_once('.') {
                None => record.insert(figure.key.to_owned(), value),
                Some((group, name)) => record
                    .entry(group)
                    .or_insert_with(|| json!({}))
                    .as_object_mut()
                    .expect("made an object above")
                    .insert(name.to_owned(), value),
            };
        }
        Value::Object(record)
    }
}

/// The teams whose training is timed: agents and episodes. The last one takes as many episodes as
/// the thousand, with which it is compared.
const TEAMS: [(usize, usize); 4] = [(12, 500), (110, 500), (1000, 50), (110, 50)];

/// What a team's training took.
#[derive(Clone, Copy)]
struct TrainingTime {
    wall_s: f64,
    /// CPU time of all threads, in ticks of the system.
    cpu_ticks: f64,
}

struct Bench<'a> {
    kernel: Kernel,
    quick: bool,
    /// The time of each of the teams, once they were trained.
    trained: [Option<TrainingTime>; TEAMS.len()],
    /// Bytes of each agent that learns and that decides, once they were weighed.
    weighed: Option<[f64; 2]>,
    progress: &'a mut dyn FnMut(&str),
}

impl Bench<'_> {
    fn measure(&mut self, key: &str) -> Result<f64> {
        match key {
            "train_s.n12" => Ok(self.time_of(0)?.wall_s),
            "train_s.n110" => Ok(self.time_of(1)?.wall_s),
            "train_s.n1000_50ep" => Ok(self.time_of(2)?.wall_s),
            "decisions_per_s.n110" => self.decisions(110),
            "decisions_per_s.n1000" => self.decisions(1000),
            "bytes_per_agent.training" => Ok(self.weigh()?[0]),
            "bytes_per_agent.serving" => Ok(self.weigh()?[1]),
            "growth.n12_to_n1000" => self.growth(0, |time| time.wall_s),
            "growth.n110_to_n1000" => self.growth(3, |time| time.wall_s),
            "growth.n110_to_n1000_cpu" => self.growth(3, |time| time.cpu_ticks),
            _ => self.growth_without_simulator(),
        }
    }

    /// A part of the work, if that is all that is wanted.
    fn some(&self, of: usize) -> usize {
        if self.quick { of.div_ceil(100) } else { of }
    }

    /// The time of a team's training, which is done once.
    fn time_of(&mut self, team: usize) -> Result<TrainingTime> {
        if let Some(time) = self.trained[team] {
            return Ok(time);
        }
        let (agents, episodes) = TEAMS[team];
        let episodes = self.some(episodes);
        (self.progress)(&format!("{episodes} episodes of {agents} agents on one platform"));
        let time = train(agents, episodes, self.kernel)?;
        self.trained[team] = Some(time);
        Ok(time)
    }

    /// Time of one step of one agent among a thousand over that in a smaller team.
    fn growth(&mut self, smaller: usize, of: fn(TrainingTime) -> f64) -> Result<f64> {
        let mut each = |team: usize| -> Result<f64> {
            let (agents, episodes) = TEAMS[team];
            Ok(of(self.time_of(team)?) / (agents * self.some(episodes)) as f64)
        };
        Ok(each(2)? / each(smaller)?)
    }

    /// The same in an environment that takes no time: choosing, coordinating and learning alone.
    fn growth_without_simulator(&mut self) -> Result<f64> {
        (self.progress)("12 and 1000 agents without a simulator");
        let each = |agents: usize, episodes: usize| -> Result<f64> {
            let mut team = idle_team(agents, self.kernel)?;
            // The first episode fills what is then reused.
            team.episode()?;
            let start = Instant::now();
            for _ in 0..episodes {
                team.episode()?;
            }
            Ok(start.elapsed().as_secs_f64() / (agents * episodes) as f64)
        };
        Ok(each(1000, self.some(10))? / each(12, self.some(800))?)
    }

    /// Decisions per second of one core, in rounds of all agents: what each agent contributes,
    /// what each sees of the others, and the answer of each agent's own network.
    fn decisions(&mut self, agents: usize) -> Result<f64> {
        (self.progress)(&format!("decisions of {agents} agents"));
        let policies = idle_team(agents, self.kernel)?.policies();
        let mut round =
            Round::new(policies.into_iter().map(|(_, policy)| policy).collect(), self.kernel);
        let rounds = self.some(400_000).div_ceil(agents);
        round.play();
        best_of(5, || {
            let start = Instant::now();
            (0..rounds).for_each(|_| round.play());
            Ok((rounds * agents) as f64 / start.elapsed().as_secs_f64())
        })
    }

    /// Bytes of each agent, as the process grew or as its parts are counted, whichever is more:
    /// of a team that has learnt, without the environment; and of one that only decides, each policy
    /// as loaded from its file, with its part of a round.
    fn weigh(&mut self) -> Result<[f64; 2]> {
        if let Some(weighed) = self.weighed {
            return Ok(weighed);
        }
        (self.progress)(&format!("the memory of {WEIGHED} agents"));
        let file = idle_team(1, self.kernel)?.policies()[0].1.to_bytes();
        let before = resident_bytes();
        let policies: Result<Vec<_>, _> = (0..WEIGHED).map(|_| Policy::from_bytes(&file)).collect();
        let mut round = Round::new(policies?, self.kernel);
        round.play();
        let serving = resident_bytes().saturating_sub(before).max(file.len() * WEIGHED);
        let before = resident_bytes();
        let mut team = idle_team(WEIGHED, self.kernel)?;
        team.episode()?;
        let training = resident_bytes().saturating_sub(before).max(team.bytes());
        // Until here, so that what it holds was not taken for the team.
        drop(round);
        let weighed = [training, serving].map(|bytes| bytes as f64 / WEIGHED as f64);
        self.weighed = Some(weighed);
        Ok(weighed)
    }
}

/// SIMPPO as the dissertation has it.
fn preset() -> Preset {
    Preset::by_name("simppo").expect("it is one of the methods")
}

fn team_config(task_types: Vec<TaskType>, kernel: Kernel, total_steps: u64) -> TeamConfig {
    let Preset { method, ppo, .. } = preset();
    let learners = Learners::Coordinated { method, ppo };
    TeamConfig { learners, task_types, kernel, seed: 1, total_steps }
}

/// The time of training so many agents, environment included; what is known of the functions before
/// (SLOs, task types) is not.
fn train(agents: usize, episodes: usize, kernel: Kernel) -> Result<TrainingTime> {
    let plan = FaasConfig { functions: agents, ..FaasConfig::default() }.build()?;
    let task_types = plan.task_types()?;
    let steps = u64::from(plan.config().steps) * episodes as u64;
    let make = || Ok(make_multi_agent(preset().env, &plan).expect("the id is one of its own"));
    let (start, ticks) = (Instant::now(), cpu_ticks());
    let mut team = Training::new(&team_config(task_types, kernel, steps), &make)?;
    for _ in 0..episodes {
        team.episode()?;
    }
    Ok(TrainingTime { wall_s: start.elapsed().as_secs_f64(), cpu_ticks: cpu_ticks() - ticks })
}

/// CPU time of this process so far, all threads; not a number where the system does not tell.
fn cpu_ticks() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in brackets, may contain spaces. User and system time follow as the
    // 12th and 13th field.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let times: Option<Vec<f64>> =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse().ok()).collect();
    times.filter(|times| times.len() == 2).map_or(f64::NAN, |times| times.iter().sum())
}

/// A team in an environment that takes no time and no memory worth counting.
fn idle_team(agents: usize, kernel: Kernel) -> Result<Training> {
    let config = FaasConfig::default();
    let env = preset().env;
    let spec = specs(&config).into_iter().find(|spec| spec.id.to_string() == env);
    let spec = spec.expect("the id is one of its own");
    let make = || -> homeostat_simppo::Result<Box<dyn MultiAgentEnv>> {
        Ok(Box::new(IdleEnv::new(spec.clone(), agents, config.steps)))
    };
    let team = team_config(Vec::new(), kernel, u64::from(config.steps));
    Ok(Training::new(&team, &make)?)
}

/// One decision of every agent.
struct Round {
    policies: Vec<Policy>,
    states: Vec<[f32; Features::COUNT]>,
    actions: Vec<Action>,
    parts: Vec<Contribution>,
    rng: Stream,
    workspace: Workspace,
}

impl Round {
    fn new(policies: Vec<Policy>, kernel: Kernel) -> Self {
        let mut rng = Stream::from_seed(1);
        let states = policies.iter().map(|_| std::array::from_fn(|_| rng.uniform() as f32));
        Self {
            states: states.collect(),
            actions: vec![Action::Discrete(0); policies.len()],
            parts: Vec::with_capacity(policies.len()),
            rng,
            workspace: Workspace::new(kernel),
            policies,
        }
    }

    fn play(&mut self) {
        // Every agent sees something else than in the round before.
        self.states.rotate_left(1);
        let mut all = VirtualAgent::default();
        self.parts.clear();
        for (state, action) in self.states.iter().zip(&self.actions) {
            let action = action.discrete().and_then(ScalingAction::from_index);
            let part = Contribution::new(state, action.unwrap_or(ScalingAction::Hold));
            let part = part.expect("the states are finite");
            all.add(&part);
            self.parts.push(part);
        }
        let per = self.policies.len().max(2) as f64 - 1.0;
        for (((policy, state), part), action) in
            self.policies.iter().zip(&self.states).zip(&self.parts).zip(&mut self.actions)
        {
            black_box(all.of_others(part).features(per));
            let Self { rng, workspace, .. } = self;
            policy.act(state, Sampling::Greedy, rng, action, workspace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(only: &str) -> FleetBench {
        FleetBench { only: Some(only.to_owned()), quick: true, kernel: Kernel::best() }
    }

    #[test]
    fn a_key_is_a_figure_or_all_below_a_word() {
        let wanted = |only: &str| -> Vec<_> {
            FleetBench::KEYS.into_iter().filter(|key| bench(only).is_wanted(key)).collect()
        };
        assert_eq!(wanted("growth").len(), 4);
        assert_eq!(wanted("train_s.n110"), ["train_s.n110"]);
        assert_eq!(wanted("decisions_per_s"), ["decisions_per_s.n110", "decisions_per_s.n1000"]);
        assert!(wanted("train").is_empty() && wanted("train_s.n1").is_empty());
        let error = bench("speed").run(|_| {}).unwrap_err().to_string();
        assert!(
            error.contains("only = speed")
                && error.ends_with("growth.n12_to_n1000_without_simulator"),
            "{error}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cpu_time_of_all_threads_is_counted() {
        let before = cpu_ticks();
        let spin = || {
            let start = Instant::now();
            while start.elapsed().as_millis() < 200 {
                black_box(start);
            }
        };
        std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(spin))));
        assert!(cpu_ticks() > before, "{before}");
    }

    #[test]
    fn an_agent_weighs_what_its_team_counts_or_more() {
        let report = bench("bytes_per_agent").run(|_| {}).unwrap();
        let [training, serving] = [&report.figures[0], &report.figures[1]];
        let mut team = idle_team(3, Kernel::best()).unwrap();
        team.episode().unwrap();
        let counted = team.bytes() as f64 / 3.0;
        assert!(training.value >= 0.99 * counted, "{} against {counted}", training.value);
        assert!(serving.value > 10_000.0 && serving.value < training.value, "{}", serving.value);
        let json = report.to_json();
        assert_eq!(json["bytes_per_agent"]["serving"].as_f64(), Some(serving.value));
        assert!(serving.aim.is_some_and(|aim| aim.is_met(serving.value)));
    }

    #[test]
    fn a_round_decides_for_all_agents() {
        let policies = idle_team(5, Kernel::best()).unwrap().policies();
        let policies: Vec<_> = policies.into_iter().map(|(_, policy)| policy).collect();
        let mut round = Round::new(policies, Kernel::best());
        (0..3).for_each(|_| round.play());
        let choices = round.actions.iter().map(|action| action.discrete());
        assert!(choices.into_iter().all(|choice| choice.is_some_and(|choice| choice < 7)));
        assert_eq!(round.parts.len(), 5);
    }
}
