//! How fast the simulators run. Serverless: bare requests, a day of Azure, agents, and S-RL.
//! Deployments: bare requests. Microservices: bare calls. Model serving: iterations.

use std::time::Instant;

use homeostat_core::{Bytes, Fraction, Millicores, SeedTree, SimDuration, SimTime, Slo, Stream};
use homeostat_decide::Allocation;
use homeostat_env::Action;
use homeostat_lab::{Assignment, Environments, Error, Result, Settings, UserLayers};
use homeostat_load::{Arrivals, LoadShape};
use homeostat_sim_deploy::{Application, Cluster, ClusterConfig, DeployConfig, DeploymentSetup};
use homeostat_sim_faas::{
    Contention, FaasConfig, FunctionProfile, FunctionSetup, KEEP_ALIVE, Platform, PlatformConfig,
    Scaling, Source, by_name, make_multi_agent,
};
use homeostat_sim_gpu::{
    Admission, Batching, Cost, Deployment as GpuDeployment, DeviceType, Executor, Instance,
    Request, ServedModel, ServiceOrder, Serving, Stage, StageCost,
};
use homeostat_sim_mesh::{Mesh, MeshConfig, Topology};
use homeostat_simulate::{TraceFiles, TraceScenario};
use homeostat_train::Trainer;
use serde::Serialize;

use super::link::LinkSpeeds;

/// What to time.
#[derive(Debug, Clone)]
pub struct SimBench {
    /// The tables of a trace for the Azure day; generated, if absent.
    pub trace: Option<TraceFiles>,
    /// Functions of a generated day.
    pub functions: usize,
    /// Simulated seconds of the bare request benchmarks.
    pub seconds: u64,
    /// Time this group of figures only, one of [`SimBench::GROUPS`]; none for all.
    pub only: Option<String>,
}

/// What was timed; nothing of a group that was not asked for. Everything runs on one core, but for
/// S-RL's update, which has one agent.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SimReport {
    /// Requests per second of wall-clock time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_s: Option<RequestSpeeds>,
    /// A day of functions on a hundred nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure_day: Option<AzureDay>,
    /// Agent steps per second of `faas/fleet-v3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_steps_per_s: Option<AgentSpeeds>,
    /// Training of one function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s_rl: Option<SrlSpeed>,
    /// Requests per second of wall-clock time in the simulator of Deployments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deploy_requests_per_s: Option<DeploySpeeds>,
    /// Calls per second of wall-clock time in the simulator of microservices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh_calls_per_s: Option<MeshSpeeds>,
    /// Scheduled iterations per second of wall-clock time in the simulator of model serving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_iterations_per_s: Option<GpuSpeeds>,
    /// Packets per second of wall-clock time in the simulator of network paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_packets_per_s: Option<LinkSpeeds>,
}

/// Calls of services, each with its request, its work and its answer.
#[derive(Debug, Clone, Serialize)]
pub struct MeshSpeeds {
    /// Of the slowest of the four topologies, at 500 requests per second.
    pub slowest: f64,
    /// The same, with a span recorded of every call.
    pub slowest_with_spans: f64,
}

/// Iterations of models with eight requests at once and a cache that is never full.
#[derive(Debug, Clone, Serialize)]
pub struct GpuSpeeds {
    /// One model on one device.
    pub alone: f64,
    /// Sixteen models that share eight devices, in pipelines of two stages.
    pub shared: f64,
}

/// Bare requests of eight Deployments with eight pods each, observed every fifteen seconds.
#[derive(Debug, Clone, Serialize)]
pub struct DeploySpeeds {
    /// Requests that need CPU alone, with pods within their requests.
    pub cpu: f64,
    /// Requests that also wait for disks.
    pub io: f64,
    /// Requests that need CPU alone; the limits of pods are twice the cores of their nodes.
    pub contended: f64,
}

/// Bare requests.
#[derive(Debug, Clone, Serialize)]
pub struct RequestSpeeds {
    /// One function with cores to spare.
    pub free: f64,
    /// A hundred busy containers of twelve functions with different shares on eight cores.
    pub contended: f64,
}

/// A day of functions that scale themselves.
#[derive(Debug, Clone, Serialize)]
pub struct AzureDay {
    /// Where it came from.
    pub trace: String,
    /// Functions.
    pub functions: usize,
    /// Requests.
    pub requests: u64,
    /// Requests that were answered, with cores to spare.
    pub completed: u64,
    /// Wall-clock seconds with cores to spare.
    pub seconds: f64,
    /// Mean use of the cores of the contended day.
    pub contended_use: f64,
    /// Wall-clock seconds with cores that are short.
    pub contended_seconds: f64,
    /// Largest size of this process until then, in megabytes.
    pub peak_mb: f64,
}

/// Agents in one shared environment.
#[derive(Debug, Clone, Serialize)]
pub struct AgentSpeeds {
    /// Of 12 agents together.
    pub n12: f64,
    /// Of 110 agents together.
    pub n110: f64,
}

/// S-RL.
#[derive(Debug, Clone, Serialize)]
pub struct SrlSpeed {
    /// Wall-clock seconds of 300 episodes of 50 steps.
    pub seconds_300_episodes: f64,
    /// Mean return of the last hundred of them, so that the work is known to be done.
    pub return_recent: f64,
}

/// Nodes of the Azure day, and the part of their cores that its requests keep busy when cores
/// are plenty and when they are short.
const NODES: usize = 100;
const PLENTY: f64 = 0.2;
const SHORT: f64 = 0.8;

impl SimBench {
    /// The groups of figures, in the order in which they are timed.
    pub const GROUPS: [&str; 8] = [
        "azure_day",
        "requests_per_s",
        "agent_steps_per_s",
        "deploy_requests_per_s",
        "mesh_calls_per_s",
        "gpu_iterations_per_s",
        "link_packets_per_s",
        "s_rl",
    ];

    /// Runs what was asked for; `progress` is called with what is being timed.
    pub fn run(&self, mut progress: impl FnMut(&str)) -> Result<SimReport> {
        let groups: Vec<&str> =
            Self::GROUPS.into_iter().filter(|key| self.is_wanted(key)).collect();
        if groups.is_empty() {
            return Err(Error::OutOfRange {
                key: "only".to_owned(),
                value: self.only.clone().unwrap_or_default(),
                source_text: "flag --only".to_owned(),
                expected: format!("there are {}", Self::GROUPS.join(", ")),
            });
        }
        let mut report = SimReport::default();
        for group in groups {
            match group {
                "azure_day" => report.azure_day = Some(self.azure_day(&mut progress)?),
                "requests_per_s" => report.requests_per_s = Some(self.requests(&mut progress)?),
                "agent_steps_per_s" => {
                    progress("shared environments of 12 and 110 agents");
                    let (n12, n110) = (agent_steps(12, 400)?, agent_steps(110, 60)?);
                    report.agent_steps_per_s = Some(AgentSpeeds { n12, n110 });
                }
                "deploy_requests_per_s" => {
                    progress("requests of Deployments");
                    report.deploy_requests_per_s = Some(self.deployments()?);
                }
                "mesh_calls_per_s" => {
                    progress("calls of microservices");
                    report.mesh_calls_per_s = Some(self.microservices()?);
                }
                "gpu_iterations_per_s" => {
                    progress("iterations of served models");
                    report.gpu_iterations_per_s = Some(GpuSpeeds {
                        alone: best_of(3, || gpu_iterations(1, 1, 1, self.seconds))?,
                        shared: best_of(3, || gpu_iterations(16, 8, 2, self.seconds))?,
                    });
                }
                "link_packets_per_s" => {
                    progress("packets on a path");
                    report.link_packets_per_s = Some(LinkSpeeds::measure(self.seconds)?);
                }
                _ => {
                    progress("300 episodes of S-RL");
                    report.s_rl = Some(s_rl()?);
                }
            }
        }
        Ok(report)
    }

    fn is_wanted(&self, group: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == group)
    }

    fn azure_day(&self, progress: &mut dyn FnMut(&str)) -> Result<AzureDay> {
        progress("reading or generating a day of functions");
        let (scenario, trace) = match &self.trace {
            Some(files) => {
                let name = files.counts.display().to_string();
                (TraceScenario::read(files, &mut |_| {})?, name)
            }
            None => (TraceScenario::generate(self.functions, 1440, 1), "generated".to_owned()),
        };
        progress("a day with cores to spare");
        let (seconds, completed, _) = azure_day(&scenario, PLENTY)?;
        progress("the same day with cores that are short");
        let (contended_seconds, _, contended_use) = azure_day(&scenario, SHORT)?;
        Ok(AzureDay {
            trace,
            functions: scenario.functions(),
            requests: scenario.requests(),
            completed,
            seconds,
            contended_use,
            contended_seconds,
            peak_mb: peak_megabytes(),
        })
    }

    fn requests(&self, progress: &mut dyn FnMut(&str)) -> Result<RequestSpeeds> {
        progress("requests with cores to spare");
        let free = best_of(3, || bare_requests(1, 40, 64.0, 0.5, self.seconds))?;
        progress("requests of a hundred busy containers on eight cores");
        let contended = best_of(3, || bare_requests(12, 9, 8.0, 1.1, self.seconds))?;
        Ok(RequestSpeeds { free, contended })
    }

    fn deployments(&self) -> Result<DeploySpeeds> {
        let bare = |application, limit_over_request| {
            best_of(3, || deploy_requests(application, limit_over_request, self.seconds))
        };
        Ok(DeploySpeeds {
            cpu: bare("json-parse", 1.0)?,
            io: bare("file-read+json-parse", 1.0)?,
            contended: bare("json-parse", 2.0)?,
        })
    }

    fn microservices(&self) -> Result<MeshSpeeds> {
        let calls = |record_every| {
            let speeds = Topology::names()
                .map(|name| best_of(3, || mesh_calls(name, record_every, self.seconds)));
            speeds.reduce(|a, b| Ok(a?.min(b?))).expect("there are topologies")
        };
        Ok(MeshSpeeds { slowest: calls(0)?, slowest_with_spans: calls(1)? })
    }
}

/// The fastest of several tries: others may use the machine too.
pub(super) fn best_of(tries: usize, mut speed: impl FnMut() -> Result<f64>) -> Result<f64> {
    let mut best = 0.0;
    for _ in 0..tries {
        best = f64::max(best, speed()?);
    }
    Ok(best)
}

/// Requests answered per second of wall-clock time.
fn bare_requests(
    functions: usize,
    containers: u32,
    cores: f64,
    demand: f64,
    seconds: u64,
) -> Result<f64> {
    let work = SimDuration::from_millis(50);
    let memory = Bytes::from_mib(256);
    let config = PlatformConfig {
        contention: Contention::MEASURED,
        ..PlatformConfig::uniform(1, cores, Bytes::from_mib(256 * 1024))
    };
    let seeds = SeedTree::new(1);
    let mut platform = Platform::new(config, &seeds)?;
    // Demand is a part of what the containers could do, or of the cores where these are fewer.
    let capacity = cores.min((functions as u32 * containers).into());
    let per_second = demand * capacity / work.seconds() / functions as f64;
    for number in 0..functions {
        let profile = FunctionProfile {
            cpu: work,
            payload_sigma: 0.3,
            memory,
            ..by_name("primes").expect("it is in the catalogue")
        };
        let rng = seeds.stream(&format!("arrivals/{number}"));
        let arrivals = Arrivals::new(&LoadShape::Poisson { per_second }, rng)
            .map_err(homeostat_sim_faas::Error::from)?;
        platform.add_function(FunctionSetup {
            profile,
            slo: Slo::try_new(Fraction::from_percent(99), SimDuration::from_secs(1))?,
            isolated_latency: work,
            allocation: Allocation {
                replicas: containers,
                cpu: Millicores::new(500 + 125 * number as u64),
                memory,
            },
            scaling: Scaling::Managed,
            arrivals: Some(Source::Shape(arrivals)),
        })?;
    }
    let start = Instant::now();
    platform.run_until(SimTime::ZERO + SimDuration::from_secs(seconds));
    let elapsed = start.elapsed().as_secs_f64();
    let ids: Vec<_> = platform.functions().collect();
    let completed: u64 = ids.into_iter().map(|id| platform.totals(id).completed).sum();
    Ok(completed as f64 / elapsed)
}

/// Requests of Deployments answered per second of wall-clock time.
fn deploy_requests(application: &str, limit_over_request: f64, seconds: u64) -> Result<f64> {
    const DEPLOYMENTS: usize = 8;
    const PODS: u32 = 8;
    let refused = |error: homeostat_sim_deploy::Error| homeostat_env::Error::from(error);
    let plan = DeployConfig::default().build().map_err(refused)?;
    let mut cluster = Cluster::new(ClusterConfig {
        nodes: DEPLOYMENTS,
        cores: f64::from(PODS),
        memory: Bytes::from_mib(64 * 1024),
        cpu_limit_over_request: limit_over_request,
        ..plan.cluster().clone()
    });
    let seeds = SeedTree::new(1);
    for number in 0..DEPLOYMENTS {
        let application = Application::parse(application).map_err(|error| refused(error.into()))?;
        let per_second = 0.6 * f64::from(PODS) / application.mean_cpu().seconds();
        let load = LoadShape::Poisson { per_second };
        let own = seeds.child(&format!("deployment/{number}"));
        cluster.add(DeploymentSetup {
            application,
            slo: Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(200))?,
            allocation: Allocation {
                replicas: PODS,
                cpu: Millicores::new(1000),
                memory: Bytes::from_mib(1024),
            },
            source: homeostat_sim_deploy::Source::shape(&load, own.stream("arrivals"))
                .map_err(|error| refused(error.into()))?,
            needs: own.stream("needs"),
        });
    }
    let start = Instant::now();
    for window in 1..=seconds.div_ceil(15) {
        cluster.run_until(SimTime::ZERO + SimDuration::from_secs(15 * window));
        for number in 0..DEPLOYMENTS {
            cluster.close_window(number);
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    let completed: u64 = (0..DEPLOYMENTS).map(|number| cluster.totals(number).completed).sum();
    Ok(completed as f64 / elapsed)
}

/// Calls of microservices handled per second of wall-clock time.
fn mesh_calls(topology: &str, record_every: u32, seconds: u64) -> Result<f64> {
    let refused = |error: homeostat_sim_mesh::Error| homeostat_env::Error::from(error);
    let config = MeshConfig {
        topology: topology.to_owned(),
        requests_per_s: 500.0,
        ..MeshConfig::default()
    };
    let mut setup = config.build().map_err(refused)?.setup();
    setup.record_every = record_every;
    let mut mesh = Mesh::new(setup, &SeedTree::new(1)).map_err(refused)?;
    let start = Instant::now();
    // A request consists of many calls.
    for _ in 0..(seconds / 250).max(1) {
        mesh.run_for(1.0);
        mesh.take_spans();
    }
    Ok(mesh.calls_handled() as f64 / start.elapsed().as_secs_f64())
}

/// Iterations of generating models per second of wall-clock time.
fn gpu_iterations(models: usize, devices: usize, stages: usize, seconds: u64) -> Result<f64> {
    let refused = |error: homeostat_sim_gpu::Error| Error::OutOfRange {
        key: "bench".to_owned(),
        value: "the served models".to_owned(),
        source_text: "bench sim".to_owned(),
        expected: error.to_string(),
    };
    let device = DeviceType::by_name("v100").map_err(refused)?;
    let cost = StageCost {
        base: Cost { fixed_s: 2e-3, scaled_s: 3e-3, compute_j: 0.5, memory_j: 0.2 },
        per_token: Cost { scaled_s: 1e-5, ..Cost::default() },
        ..StageCost::default()
    };
    let batching = Batching::Continuous { max_batch: 8 };
    let instance = |model: usize| Instance {
        model,
        stages: (0..stages)
            .map(|stage| Stage { executor: (model + stage) % devices, cost })
            .collect(),
        cache_tokens: Some(100_000),
        overhead: SimDuration::ZERO,
    };
    let served =
        ServedModel { name: "model".to_owned(), slo: SimDuration::from_secs(10), batching };
    let deployment = GpuDeployment {
        executors: vec![Executor { device, devices: 1 }; devices],
        models: vec![served; models],
        instances: (0..models).map(instance).collect(),
        admission: Admission::All,
        order: ServiceOrder::Turns,
    };
    let mut serving = Serving::new(deployment).map_err(refused)?;
    let mut rng = Stream::from_seed(1);
    // 200 tokens each, in batches of up to eight: the devices are busy nearly all the time.
    let gap_s = 200.0 * 5e-3 / (6.0 * devices as f64) * stages as f64;
    let mut at = 0.0;
    while at < seconds as f64 {
        at -= gap_s * (1.0 - rng.uniform()).ln();
        let (model, output) = (rng.below(models) as u32, 100 + rng.below(200) as u32);
        let arrival = SimTime::from_nanos((at * 1e9) as u64);
        let request = Request { arrival, model, prompt: 64, output, rank: 0.0 };
        serving.submit(request).map_err(refused)?;
    }
    let start = Instant::now();
    serving.advance(SimTime::ZERO + SimDuration::from_secs(seconds));
    Ok(serving.counts().iterations as f64 / start.elapsed().as_secs_f64())
}

/// Wall-clock seconds of a day, requests answered, and mean use of the cores.
fn azure_day(scenario: &TraceScenario, busy: f64) -> Result<(f64, u64, f64)> {
    let cores = (scenario.mean_cores() / busy / NODES as f64).max(1.0);
    let memory_per_node_gib = 64.0;
    let config = FaasConfig {
        functions: NODES,
        functions_per_node: 1,
        cores_per_node: cores,
        memory_per_node_gib,
        // As long as the longest functions of the trace, which run for minutes.
        timeout_s: 3600.0,
        ..FaasConfig::default()
    };
    let plan = config.build()?;
    let seeds = SeedTree::new(1);
    let mut platform = Platform::new(plan.platform().clone(), &seeds)?;
    for number in 0..scenario.functions() {
        let setup = scenario.setup(number, &plan, &seeds)?;
        platform.add_function(setup.on_demand(KEEP_ALIVE, 1000))?;
    }
    let start = Instant::now();
    platform.run_until(SimTime::ZERO + scenario.duration());
    let elapsed = start.elapsed().as_secs_f64();
    let ids: Vec<_> = platform.functions().collect();
    let totals: Vec<_> = ids.into_iter().map(|id| platform.totals(id)).collect();
    let used: f64 = totals.iter().map(|totals| totals.cpu_s).sum();
    let all = NODES as f64 * cores * scenario.duration().seconds();
    Ok((elapsed, totals.iter().map(|totals| totals.completed).sum(), used / all))
}

/// Steps of all agents per second of wall-clock time, with random actions.
fn agent_steps(agents: usize, steps: usize) -> Result<f64> {
    let plan = FaasConfig { functions: agents, ..FaasConfig::default() }.build()?;
    let mut fleet = make_multi_agent("faas/fleet-v3", &plan).expect("the id is one of its own");
    let mut rng = Stream::from_seed(1);
    fleet.reset(Some(1))?;
    let start = Instant::now();
    let mut actions = Vec::new();
    for _ in 0..steps {
        if fleet.agents().is_empty() {
            fleet.reset(None)?;
        }
        actions.clear();
        actions.extend(fleet.agents().iter().map(|_| Action::Discrete(rng.below(7))));
        fleet.step(&actions)?;
    }
    Ok((agents * steps) as f64 / start.elapsed().as_secs_f64())
}

fn s_rl() -> Result<SrlSpeed> {
    let flag = |key: &str, value: &str| Assignment::set(key, value);
    let flags = vec![
        flag("run.preset", "s-rl"),
        flag("run.env", "faas/function-v2"),
        flag("run.steps", "15000"),
        flag("faas.function", "primes"),
    ];
    let config =
        Settings::resolve(&Environments::builtin(), &UserLayers::of_flags(flags))?.validate()?;
    let mut trainer = Trainer::new(&config)?;
    let start = Instant::now();
    let (rounds, _) = trainer.round(config.steps);
    let seconds_300_episodes = start.elapsed().as_secs_f64();
    match rounds.first().and_then(|round| round.recent_return) {
        Some(return_recent) => Ok(SrlSpeed { seconds_300_episodes, return_recent }),
        None => Err(Error::Curves { reason: "S-RL finished no episode".to_owned() }),
    }
}

/// The largest size this process ever had, where the system reports it.
pub(super) fn peak_megabytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    kibibytes.map_or(f64::NAN, |kibibytes: f64| kibibytes * 1024.0 / 1e6)
}

impl SimReport {
    /// One row for each figure, for a table: group, point, name.
    pub fn rows(&self) -> Vec<(String, f64)> {
        let record = serde_json::to_value(self).expect("numbers and texts");
        let groups = record.as_object().into_iter().flatten();
        let figures = groups.flat_map(|(group, figures)| {
            let figures = figures.as_object().into_iter().flatten();
            figures
                .filter_map(move |(name, value)| Some((format!("{group}.{name}"), value.as_f64()?)))
        });
        figures.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(only: &str) -> SimBench {
        SimBench { trace: None, functions: 1, seconds: 20, only: Some(only.to_owned()) }
    }

    #[test]
    fn only_the_group_that_was_asked_for_is_timed() {
        let report = bench("requests_per_s").run(|_| {}).unwrap();
        let rows = report.rows();
        let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["requests_per_s.free", "requests_per_s.contended"]);
        assert!(rows.iter().all(|(_, speed)| *speed > 0.0), "{rows:?}");
        let error = bench("speed").run(|_| {}).unwrap_err().to_string();
        assert!(error.contains("only = speed") && error.contains("azure_day, "), "{error}");
    }
}
