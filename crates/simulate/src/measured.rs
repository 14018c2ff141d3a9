//! Simulations of systems of any control domain: every target under a policy of its own, window by
//! window, through `decide()`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use homeostat_core::{SeedTree, SimDuration};
use homeostat_decide::{
    Decision, Figure, Guards, GuardsConfig, MeasuredSource, Policy, Setting, decide,
};
use homeostat_lab::{Error, Result, RunDirectory, Summary as Spread, file_error};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use crate::domain_policies::{DomainPolicies, NamedPolicies};
use crate::run::{SimulationFacts, pretty};

/// A system and the policy of each of its targets.
#[derive(Debug, Clone)]
pub struct MeasuredSimulation<D: NamedPolicies> {
    /// The system, its targets and their load.
    pub system: Arc<dyn MeasuredSource<D>>,
    /// The policies of its targets.
    pub policies: DomainPolicies,
    /// Simulated time, rounded up to whole windows.
    pub duration: SimDuration,
}

/// The exact figures of one seed.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredOutcome {
    /// The seed.
    pub seed: u64,
    /// Of the whole system.
    pub total: Vec<Figure>,
    /// Of each target, with its name.
    pub targets: Vec<(String, Vec<Figure>)>,
}

/// A finished simulation, as it was written.
#[derive(Debug, Clone)]
pub struct FinishedMeasured {
    /// Its directory.
    pub path: PathBuf,
    /// What it was.
    pub facts: SimulationFacts,
    /// Each seed's figures.
    pub outcomes: Vec<MeasuredOutcome>,
}

/// Called with the name of a target, the figures of a window, and the decision at its end.
type WindowRecorder<'a, D> = dyn FnMut(&str, &[Figure], &Decision<D>) -> Result<()> + 'a;

type Controller<D> = (Box<dyn Policy<D>>, Guards<D>);

impl<D: NamedPolicies> MeasuredSimulation<D> {
    /// Refuses policies that cannot be served to the targets.
    pub fn validate(&self) -> Result<()> {
        let plant = self.system.make(&SeedTree::new(0))?;
        (0..plant.targets()).try_for_each(|target| {
            let rng = SeedTree::new(0).stream("checked");
            self.policies.build::<D>(target, &plant.bounds(target), rng).map(drop)
        })
    }

    /// Windows that are played: the duration in whole ones.
    pub fn windows(&self) -> u64 {
        self.duration.nanos().div_ceil(self.system.window().nanos()).max(1)
    }

    /// The facts of a run of these seeds, as `run.json` has them.
    pub fn facts(&self, seeds: Vec<u64>) -> SimulationFacts {
        SimulationFacts {
            kind: D::KIND.to_owned(),
            homeostat: env!("CARGO_PKG_VERSION").to_owned(),
            policy: self.policies.name(),
            policy_file: self.policies.file().map(Path::to_owned),
            scenario: "together".to_owned(),
            trace: None,
            nodes: None,
            slo_over_mean: None,
            load: self.system.load(),
            functions: self.system.targets(),
            mean_load: None,
            duration_s: (self.system.window() * self.windows()).seconds(),
            window_s: self.system.window().seconds(),
            seeds,
            recorded: false,
        }
    }

    /// The names of the figures of the whole system.
    pub fn figure_names(&self) -> Result<Vec<&'static str>> {
        let mut plant = self.system.make(&SeedTree::new(0))?;
        Ok(plant.system_totals().into_iter().map(|(name, _)| name).collect())
    }

    /// Plays one seed. `record` is called with every window of every target: its name, its figures
    /// and the decision at its end; its error ends the run.
    pub fn run(&self, seed: u64, record: &mut WindowRecorder<'_, D>) -> Result<MeasuredOutcome> {
        let seeds = SeedTree::new(seed).child("measured");
        let mut plant = self.system.make(&seeds)?;
        let mut controllers: Vec<Controller<D>> = Vec::new();
        for target in 0..plant.targets() {
            let rng = seeds.stream(&format!("controller/{target}"));
            let bounds = plant.bounds(target);
            let policy = self.policies.build(target, &bounds, rng)?;
            controllers.push((policy, Guards::try_new(GuardsConfig::bounds_only(bounds))?));
        }
        for _ in 0..self.windows() {
            plant.advance()?;
            for (target, (policy, guards)) in controllers.iter_mut().enumerate() {
                let decision = decide(policy.as_mut(), guards, plant.observe(target));
                plant.apply(target, &decision)?;
                record(plant.name(target), &plant.window(target), &decision)?;
            }
        }
        let targets = 0..plant.targets();
        Ok(MeasuredOutcome {
            seed,
            total: plant.system_totals(),
            targets: targets
                .map(|target| (plant.name(target).to_owned(), plant.totals(target)))
                .collect(),
        })
    }

    /// Plays every seed, several at once, and writes the directory, with the windows of the first
    /// seed. `progress` is called with how many of all windows are done, from any thread; once `stop`
    /// is set, the run ends with an error.
    pub fn run_into(
        &self,
        facts: &SimulationFacts,
        config_toml: &str,
        path: &Path,
        progress: &(dyn Fn(u64, u64) + Sync),
        stop: &AtomicBool,
    ) -> Result<FinishedMeasured> {
        self.validate()?;
        let directory = RunDirectory::create_plain(path)?;
        directory.write("config.toml", config_toml.as_bytes())?;
        directory.write("run.json", pretty(facts).as_bytes())?;
        let windows = directory.file("windows.jsonl");
        let file = File::create(&windows).map_err(file_error("create", &windows))?;
        let writer = Mutex::new(BufWriter::new(file));
        let total = self.windows() * (facts.functions * facts.seeds.len()) as u64;
        let done = AtomicU64::new(0);
        let outcomes = facts.seeds.par_iter().enumerate().map(|(place, seed)| {
            self.run(*seed, &mut |name, figures, decision| {
                if stop.load(Ordering::Relaxed) {
                    return Err(Error::Interrupted);
                }
                progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
                if place > 0 {
                    return Ok(());
                }
                let mut writer = writer.lock().expect("no writer panics");
                let line = line_of(name, figures, decision);
                writeln!(writer, "{line}").map_err(file_error("write", &windows))
            })
        });
        let outcomes: Vec<MeasuredOutcome> = outcomes.collect::<Result<_>>()?;
        let mut writer = writer.into_inner().expect("no writer panics");
        writer.flush().map_err(file_error("write", &windows))?;
        let of_seed = |outcome: &MeasuredOutcome| {
            let target = |(name, figures): &(String, Vec<Figure>)| {
                let mut record = Map::from_iter([("name".to_owned(), json!(name))]);
                record.extend(fields(figures));
                Value::Object(record)
            };
            json!({
                "seed": outcome.seed,
                "total": fields(&outcome.total),
                "targets": outcome.targets.iter().map(target).collect::<Vec<_>>(),
            })
        };
        let outcomes_json: Vec<Value> = outcomes.iter().map(of_seed).collect();
        let summary = json!({ "policy": facts.policy, "outcomes": outcomes_json });
        directory.write("summary.json", pretty(&summary).as_bytes())?;
        Ok(FinishedMeasured { path: path.to_owned(), facts: facts.clone(), outcomes })
    }
}

impl FinishedMeasured {
    /// Means over seeds with their intervals: a record for people and programs.
    pub fn summary(&self) -> Value {
        let mut record = Map::new();
        record.insert("policy".to_owned(), json!(self.facts.policy));
        record.insert("seeds".to_owned(), json!(self.outcomes.len()));
        record.extend(over_seeds(self.outcomes.iter().map(|outcome| &outcome.total)));
        record.insert("run".to_owned(), json!(self.path.display().to_string()));
        Value::Object(record)
    }

    /// Means over seeds of each target.
    pub fn target_records(&self) -> Vec<Value> {
        let first = self.outcomes.first().map(|outcome| outcome.targets.as_slice());
        let record = |(place, (name, _)): (usize, &(String, Vec<Figure>))| {
            let mut record = Map::new();
            record.insert("policy".to_owned(), json!(self.facts.policy));
            record.insert("target".to_owned(), json!(name));
            let of = self.outcomes.iter().map(|outcome| &outcome.targets[place].1);
            record.extend(over_seeds(of));
            Value::Object(record)
        };
        first.unwrap_or_default().iter().enumerate().map(record).collect()
    }
}

/// The mean of each figure over seeds, with its interval.
fn over_seeds<'a>(seeds: impl Iterator<Item = &'a Vec<Figure>>) -> Map<String, Value> {
    let seeds: Vec<&Vec<Figure>> = seeds.collect();
    let mut record = Map::new();
    for (place, (name, _)) in seeds.first().iter().flat_map(|figures| figures.iter().enumerate()) {
        let values: Vec<f64> = seeds.iter().map(|figures| figures[place].1).collect();
        let Some(spread) = Spread::of(&values) else { continue };
        record.insert((*name).to_owned(), json!(spread.mean));
        record.insert(format!("{name}_interval"), json!(spread.interval()));
    }
    record
}

fn fields(figures: &[Figure]) -> Map<String, Value> {
    figures.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}

/// A window as one line of JSON.
fn line_of<D: NamedPolicies>(name: &str, figures: &[Figure], decision: &Decision<D>) -> Value {
    let setting = |setting: &D::Setting| -> Map<String, Value> {
        let dimensions = D::Setting::DIMENSIONS.iter().enumerate();
        let amount = dimensions.map(|(place, dimension)| {
            (dimension.name.replace(' ', "_").to_lowercase(), json!(setting.amount(place)))
        });
        amount.collect()
    };
    let reasons: Vec<String> = decision.reasons().iter().map(ToString::to_string).collect();
    let mut line = Map::new();
    line.insert("t_s".to_owned(), json!(decision.at().seconds()));
    line.insert("name".to_owned(), json!(name));
    line.extend(fields(figures));
    line.insert("setting".to_owned(), Value::Object(setting(decision.from())));
    let mut decided = setting(decision.applied());
    decided.insert("reasons".to_owned(), json!(reasons));
    line.insert("decided".to_owned(), Value::Object(decided));
    Value::Object(line)
}
