//! What is to be simulated, as a caller asks for it: checked, and made ready to run.

use std::sync::Arc;

use homeostat_core::SimDuration;
use homeostat_decide::PlantSource;
use homeostat_lab::{Error, Result, RunConfig};
use homeostat_rl::Sampling;

use super::controllers::Controllers;
use super::engine::{Scenario, Simulation};
use super::run::SimulationFacts;
use super::trace::{TraceFiles, TraceScenario, TracedPlatform};

/// A simulation before anything is read.
#[derive(Debug, Clone)]
pub struct SimulationRequest {
    /// The name of a policy, a run directory or a policy file.
    pub policy: String,
    /// Most probable actions or draws of a learned policy.
    pub sampling: Sampling,
    /// A trace to play.
    pub files: Option<TraceFiles>,
    /// Nodes of the cluster of a trace; as many as it needs if none are given.
    pub nodes: Option<usize>,
    /// The SLO of each function of a trace over its mean run time.
    pub slo_over_mean: f64,
    /// Each function on its own platform.
    pub alone: bool,
    /// How long; five hundred seconds or all of a shorter trace if nothing is given.
    pub duration: Option<SimDuration>,
    /// Whether silence after the end of a trace is played, as runs of 0.1.0 did.
    pub may_outlast_trace: bool,
    /// The seeds.
    pub seeds: Vec<u64>,
}

/// A simulation that can run.
pub struct PreparedSimulation {
    /// What runs.
    pub simulation: Simulation,
    /// What it is.
    pub facts: SimulationFacts,
    /// The settings, as validated.
    pub config: RunConfig,
    /// The cluster of a trace in words.
    pub cluster: Option<String>,
}

/// The duration if none is given.
const USUAL_DURATION: SimDuration = SimDuration::from_secs(500);

impl SimulationRequest {
    /// Reads the trace and the policies, and checks everything.
    pub fn prepare(&self, config: RunConfig) -> Result<PreparedSimulation> {
        let controllers = Controllers::parse(&self.policy, self.sampling)?;
        let scenario = if self.alone { Scenario::Alone } else { Scenario::Together };
        let traced = match &self.files {
            Some(files) => {
                let trace = TraceScenario::read(files, &mut |_| {})?;
                let trace = trace.with_slo_over_mean(self.slo_over_mean);
                Some(Arc::new(TracedPlatform::of_run(&config, trace, self.nodes)?))
            }
            None => None,
        };
        let system: Arc<dyn PlantSource> = match &traced {
            Some(traced) => Arc::clone(traced) as Arc<dyn PlantSource>,
            None => config.env_factory.plants(prefix_of(&config.env))?,
        };
        let trace = traced.as_ref().map(|traced| traced.trace().duration());
        let duration = match trace {
            Some(trace) => {
                let window = system.window();
                part_of_trace(self.duration, window, trace, self.may_outlast_trace)?
            }
            None => whole_windows(self.duration, system.window())?,
        };
        let simulation = Simulation { system, scenario, controllers, duration };
        let facts = SimulationFacts {
            nodes: traced.as_ref().map(|traced| traced.nodes()),
            slo_over_mean: traced.is_some().then_some(self.slo_over_mean),
            ..simulation.facts(self.files.clone(), self.seeds.clone())
        };
        let cluster = traced.map(|traced| traced.cluster());
        Ok(PreparedSimulation { simulation, facts, config, cluster })
    }
}

/// How long is played: whole windows, five hundred seconds if nothing is asked for.
pub fn whole_windows(duration: Option<SimDuration>, window: SimDuration) -> Result<SimDuration> {
    let Some(duration) = duration else { return Ok(USUAL_DURATION) };
    let windows = duration.nanos() / window.nanos();
    if window * windows == duration && windows > 0 {
        return Ok(duration);
    }
    let (less, more) = (window * windows, window * (windows + 1));
    let write = if windows == 0 { more.to_string() } else { format!("{less} or {more}") };
    Err(refused(
        duration,
        format!("{duration} is not a whole number of windows of {window}: write {write}"),
    ))
}

/// The same with a trace: no silence after its end, unless that is asked for.
fn part_of_trace(
    duration: Option<SimDuration>,
    window: SimDuration,
    trace: SimDuration,
    may_outlast: bool,
) -> Result<SimDuration> {
    // Whole windows are played of it.
    let Some(duration) = duration else { return Ok(trace.min(USUAL_DURATION)) };
    let duration = whole_windows(Some(duration), window)?;
    // A trace need not end with a window.
    let longest = window * trace.nanos().div_ceil(window.nanos());
    if duration > longest && !may_outlast {
        return Err(refused(duration, format!("the trace lasts {trace}")));
    }
    Ok(duration)
}

fn refused(duration: SimDuration, expected: String) -> Error {
    Error::OutOfRange {
        key: "duration".to_owned(),
        value: duration.to_string(),
        source_text: "flag --duration".to_owned(),
        expected,
    }
}

/// The simulator of an environment.
fn prefix_of(env: &str) -> &str {
    env.split_once('/').map_or(env, |(prefix, _)| prefix)
}
