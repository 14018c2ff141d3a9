//! One training run from start to end: rounds, metrics, checkpoints, policies,
//! summary. An observer gets every round and may ask to stop.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use homeostat_core::AgentId;
use homeostat_env::ServiceTotals;
use homeostat_lab::{
    Assignment, Environments, Error, FoundCheckpoint, Result, RunConfig, RunDirectory, Settings,
    Summary, UserLayers,
};
use serde_json::{Value, json};

use crate::episode_stats::{AgentRound, TimeSplit};
use crate::metrics::{ExtraWriters, MetricWriters, RoundTiming, write_csv};
use crate::provenance::provenance;
use crate::trainer::Trainer;

/// Observes a run.
pub trait Watcher {
    /// After every round.
    fn round(&mut self, progress: &Progress<'_>);

    /// Something worth a line.
    fn note(&mut self, text: &str);

    /// Asked after every round; true ends the run with a checkpoint.
    fn wants_to_stop(&self) -> bool;
}

/// A watcher that shows nothing and never stops a run.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Watcher for Silent {
    fn round(&mut self, _progress: &Progress<'_>) {}

    fn note(&mut self, _text: &str) {}

    fn wants_to_stop(&self) -> bool {
        false
    }
}

/// Where a run stands.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Steps of each agent so far.
    pub step: u64,
    /// Steps of each agent in all.
    pub total_steps: u64,
    /// The round of every agent.
    pub agents: &'a [AgentRound],
    /// What the clock says.
    pub timing: RoundTiming,
}

/// SLO violations and cost of all agents in a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Fraction of the requests that violated the SLO, if there were requests.
    pub slo_violation_ratio: Option<f64>,
    /// Containers of all agents together, mean over steps.
    pub containers: f64,
}

impl Service {
    /// Of these agents; none in an environment without requests.
    fn of(agents: &[AgentRound]) -> Option<Self> {
        let mut all = ServiceTotals::default();
        agents.iter().for_each(|agent| all.add(agent.service));
        let containers = agents.iter().filter_map(|agent| agent.service.mean_containers()).sum();
        let slo_violation_ratio = all.slo_violation_ratio();
        (all.steps > 0.0).then_some(Self { slo_violation_ratio, containers })
    }
}

impl Progress<'_> {
    /// SLO violations and cost of this round; none in an environment without requests.
    pub fn service(&self) -> Option<Service> {
        Service::of(self.agents)
    }

    /// Mean over agents of the mean return of their last hundred episodes.
    pub fn recent_return(&self) -> Option<f64> {
        let returns: Vec<f64> =
            self.agents.iter().filter_map(|agent| agent.recent_return).collect();
        Summary::of(&returns).map(|summary| summary.mean)
    }
}

/// A run that is ready to go.
pub struct Training {
    config: RunConfig,
    directory: RunDirectory,
    trainer: Trainer,
    writers: MetricWriters,
    extra: ExtraWriters,
    last: Vec<AgentRound>,
    /// Whose policy is not on the disk as it is now.
    unsaved: BTreeSet<AgentId>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSummary {
    /// Figures that follow from the seed, for `summary.json` and the terminal.
    pub figures: Value,
    /// Figures of the clock.
    pub timing: Value,
    /// Errors of agents that stopped.
    pub stopped: Vec<String>,
}

impl TrainingSummary {
    /// The names of [`TrainingSummary::figures`] that are numbers.
    pub const FIGURES: [&'static str; 11] = [
        "seed",
        "agents",
        "agents_stopped",
        "steps",
        "episodes",
        "return_mean",
        "return_interval",
        "return_min",
        "return_max",
        "slo_violation_ratio",
        "containers",
    ];

    /// Why the run failed, if agents stopped on errors.
    pub fn failure(&self) -> Option<String> {
        let first = self.stopped.first()?;
        Some(format!("agents stopped early: {}; the first: {first}", self.stopped.len()))
    }
}

impl Training {
    /// A new run in a new run directory.
    pub fn start(config: RunConfig, path: &Path, extra: ExtraWriters) -> Result<Self> {
        let trainer = Trainer::new(&config)?;
        let directory = RunDirectory::create(path)?;
        directory.write("config.toml", config.toml.as_bytes())?;
        let facts = json!({
            "homeostat": env!("CARGO_PKG_VERSION"),
            "algorithm": config.algorithm_name(),
            "env": config.env,
            "seed": config.seed,
            "agents": config.agents,
            "kernel": config.kernel.to_string(),
        });
        directory.write("run.json", format!("{facts:#}\n").as_bytes())?;
        let writers = MetricWriters::open(&directory, extra, 0)?;
        let last = trainer.latest();
        let unsaved = last.iter().map(|agent| agent.agent).collect();
        Ok(Self { config, directory, trainer, writers, extra, last, unsaved })
    }

    /// Goes on with a run from its newest whole checkpoint; `steps` may raise the
    /// budget. Without any checkpoint the run starts again in its directory.
    pub fn resume(
        environments: &Environments,
        path: &Path,
        steps: Option<u64>,
        extra: ExtraWriters,
        watcher: &mut dyn Watcher,
    ) -> Result<Self> {
        let directory = RunDirectory::open_locked(path)?;
        let text = String::from_utf8_lossy(&directory.read("config.toml")?).into_owned();
        let name = directory.file("config.toml").display().to_string();
        let mut layers = UserLayers::of_file(name, text);
        let steps = steps.map(|steps| Assignment::new("run.steps", steps.to_string(), "--steps"));
        layers.flags.extend(steps);
        let settings = Settings::resolve(environments, &layers)?;
        settings.renamed().iter().for_each(|renamed| watcher.note(renamed));
        let config = settings.validate()?;
        let trainer = match directory.newest_checkpoint()? {
            Some(found) => {
                for refused in &found.refused {
                    watcher.note(&format!("passed over a damaged checkpoint: {refused}"));
                }
                Self::restore(&config, &found, watcher)?
            }
            None => {
                watcher.note("there is no checkpoint yet: starting from the beginning");
                Trainer::new(&config)?
            }
        };
        directory.write("config.toml", config.toml.as_bytes())?;
        let writers = MetricWriters::open(&directory, extra, trainer.step())?;
        let last = trainer.latest();
        let unsaved = last.iter().map(|agent| agent.agent).collect();
        Ok(Self { config, directory, trainer, writers, extra, last, unsaved })
    }

    fn restore(
        config: &RunConfig,
        found: &FoundCheckpoint,
        watcher: &mut dyn Watcher,
    ) -> Result<Trainer> {
        let step = found.checkpoint.step()?;
        if config.steps < step {
            return Err(Error::OutOfRange {
                key: "run.steps".to_owned(),
                value: config.steps.to_string(),
                source_text: "this call".to_owned(),
                expected: format!("the run has taken {step} steps already"),
            });
        }
        let trainer = Trainer::restore(config, &found.checkpoint)?;
        if trainer.is_done() {
            watcher.note("the run has nothing left to do; --steps gives it a larger budget");
        } else {
            watcher.note(&format!("going on from step {step} ({})", found.path.display()));
        }
        let (then, now) = (found.checkpoint.kernel(), config.kernel.to_string());
        if then != now {
            watcher.note(&format!(
                "kernel {now} goes on where {then} stopped: the last bits may differ"
            ));
        }
        Ok(trainer)
    }

    /// The run directory.
    pub fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    /// The run's settings.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// Trains until the budget is spent or the watcher wants to stop. Either way a
    /// checkpoint, the policies and a summary are written.
    pub fn run(mut self, watcher: &mut dyn Watcher) -> Result<TrainingSummary> {
        let start = Instant::now();
        let (first_step, first_steps) = (self.trainer.step(), self.trainer.steps_of_all());
        let mut split = TimeSplit::default();
        let mut next_checkpoint = next_multiple(first_step, self.config.checkpoint_every);
        let mut interrupted = false;
        while !self.trainer.is_done() && !interrupted {
            let (before, began) = (self.trainer.step(), Instant::now());
            let steps_before = self.trainer.steps_of_all();
            // Rounds end on the same steps whether or not a run was interrupted.
            let until = next_multiple(before, self.config.log_every);
            let (rounds, time) = self.trainer.round(until - before);
            let step = self.trainer.step();
            let steps = self.trainer.steps_of_all() - steps_before;
            let timing = RoundTiming {
                elapsed_s: start.elapsed().as_secs_f64(),
                steps_per_s: steps as f64 / began.elapsed().as_secs_f64(),
                split: time,
            };
            split += time;
            self.writers.write(step, &rounds, &timing)?;
            watcher.round(&Progress {
                step,
                total_steps: self.config.steps,
                agents: &rounds,
                timing,
            });
            for round in &rounds {
                let is_new = !self
                    .last
                    .iter()
                    .any(|last| last.agent == round.agent && last.stopped.is_some());
                if let (Some(reason), true) = (&round.stopped, is_new) {
                    watcher.note(reason);
                }
            }
            self.unsaved.extend(rounds.iter().map(|round| round.agent));
            self.last = rounds;
            interrupted = watcher.wants_to_stop() && !self.trainer.is_done();
            if step >= next_checkpoint || interrupted || self.trainer.is_done() {
                self.save()?;
                next_checkpoint = next_multiple(step, self.config.checkpoint_every);
            }
        }
        self.finish(interrupted, first_steps, start, split)
    }

    /// Metrics first, then the state, then the policies: whatever a crash leaves, no
    /// checkpoint is ahead of the metrics.
    fn save(&mut self) -> Result<()> {
        self.writers.sync()?;
        let checkpoint = self.trainer.checkpoint().to_bytes();
        self.directory.write_checkpoint(self.trainer.step(), &checkpoint)?;
        for (agent, policy) in self.trainer.policies() {
            // An agent that left long ago is written once, not again with every checkpoint.
            if self.unsaved.contains(&agent) {
                let policy = policy.with_run(Some(provenance(&self.config, self.config.steps)));
                self.directory.write(&format!("policies/{agent}.policy"), &policy.to_bytes())?;
            }
        }
        self.unsaved.clear();
        Ok(())
    }

    fn finish(
        self,
        interrupted: bool,
        first_steps: u64,
        start: Instant,
        split: TimeSplit,
    ) -> Result<TrainingSummary> {
        if self.extra.csv {
            write_csv(&self.directory)?;
        }
        // Of all agents that ever learnt: those that left are not part of the last round.
        let agents = self.trainer.latest();
        let returns: Vec<f64> = agents.iter().filter_map(|agent| agent.recent_return).collect();
        let summary = Summary::of(&returns);
        let stopped: Vec<String> =
            agents.iter().filter_map(|agent| agent.stopped.clone()).collect();
        let status = match (interrupted, stopped.is_empty()) {
            (true, _) => "interrupted",
            (false, true) => "finished",
            (false, false) => "agents stopped",
        };
        let mut figures = json!({
            "status": status,
            "algorithm": self.config.algorithm_name(),
            "env": self.config.env,
            "seed": self.config.seed,
            "agents": agents.len(),
            "agents_stopped": stopped.len(),
            "steps": agents.iter().map(|agent| agent.step).max(),
            "episodes": agents.iter().map(|agent| agent.episodes).sum::<u64>(),
            "return_mean": summary.map(|summary| summary.mean),
            "return_interval": summary.and_then(|summary| summary.interval()),
            "return_min": summary.map(|summary| summary.min),
            "return_max": summary.map(|summary| summary.max),
        });
        if let (Some(service), Some(fields)) = (Service::of(&self.last), figures.as_object_mut()) {
            fields.insert("slo_violation_ratio".to_owned(), json!(service.slo_violation_ratio));
            fields.insert("containers".to_owned(), json!(service.containers));
        }
        self.directory.write("summary.json", format!("{figures:#}\n").as_bytes())?;
        let elapsed = start.elapsed().as_secs_f64();
        let steps = self.trainer.steps_of_all() - first_steps;
        let timing = json!({
            "elapsed_s": elapsed,
            "steps_per_s": steps as f64 / elapsed,
            "env_s": split.env.as_secs_f64(),
            // The name in release 0.1.0; the next release removes it.
            "world_s": split.env.as_secs_f64(),
            "inference_s": split.inference.as_secs_f64(),
            "update_s": split.update.as_secs_f64(),
        });
        Ok(TrainingSummary { figures, timing, stopped })
    }
}

/// The next multiple of `unit` above `step`.
fn next_multiple(step: u64, unit: u64) -> u64 {
    (step / unit + 1).saturating_mul(unit)
}
