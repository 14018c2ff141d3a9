//! The functions of a trace on a platform.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use homeostat_core::{Bytes, Fraction, Millicores, SeedTree, SimDuration, Slo};
use homeostat_decide::{Allocation, PlantSource, ScaledBy, SimulatedPlant};
use homeostat_env::Simulator;
use homeostat_lab::{Error, FileProgress, Result, RunConfig};
use homeostat_load::TraceArrivals;
use homeostat_load::trace::{FunctionKey, TraceReader};
use homeostat_load::traffic::TrafficModel;
use homeostat_sim_faas::{
    Category, ConfiguredFaas, FaasPlan, FaasPlant, FunctionProfile, FunctionSetup, KEEP_ALIVE,
    SIMULATOR, Source, Tenants,
};
use serde::{Deserialize, Serialize};

use crate::trace_file::read_trace;
use crate::trace_report::count_by_minute;

/// The tables of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceFiles {
    /// Requests per minute.
    pub counts: PathBuf,
    /// Run times.
    pub durations: Option<PathBuf>,
    /// Memory.
    pub memory: Option<PathBuf>,
}

impl TraceFiles {
    /// The files that there are, each with the flag that names it.
    pub fn flags(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("--trace", Some(&self.counts)),
            ("--durations", self.durations.as_ref()),
            ("--memory", self.memory.as_ref()),
        ];
        files.into_iter().filter_map(|(flag, file)| Some((flag, file?.as_path())))
    }
}

/// Functions with their requests per minute, run times and memory.
#[derive(Debug, Clone)]
pub struct TraceScenario {
    functions: Arc<[TracedFunction]>,
    /// The SLO of each function over its mean run time.
    slo_over_mean: f64,
}

#[derive(Debug, Clone)]
struct TracedFunction {
    name: String,
    /// Its application, which memory tables are about.
    app: String,
    counts: Vec<u32>,
    duration: SimDuration,
    spread: f64,
    memory: Bytes,
}

/// The platform behind the trace ended functions after ten minutes.
const LONGEST_RUN: SimDuration = SimDuration::from_secs(600);

/// Traces have no SLOs: a request violates the SLO where it takes this many times the mean run time
/// of its function.
pub const SLO_OVER_MEAN: f64 = 5.0;

/// The part of a cluster that the busiest minute of a trace may fill.
const MAX_FILL: f64 = 0.7;

/// Nodes of a cluster at most.
const MAX_NODES: usize = 100_000;

impl TraceScenario {
    /// Requests per minute from a file in the format of 2019, or invocations in that of 2021. Run times
    /// and memory come from the tables beside it; else run times from the invocations, and what is still
    /// missing from the model of the trace of 2019.
    pub fn read(files: &TraceFiles, watch: &mut dyn FnMut(FileProgress)) -> Result<Self> {
        let mut run_times = Vec::new();
        let rows = read_trace(&files.counts, watch, |reader| {
            let mut rows = Vec::new();
            match reader {
                TraceReader::Counts(mut reader) => {
                    while let Some(row) = reader.next_function()? {
                        rows.push((row.key, row.counts));
                    }
                }
                TraceReader::Invocations(reader) => {
                    for ((app, function), calls) in count_by_minute(reader)? {
                        run_times.push(calls.run_time());
                        let owner = app.clone();
                        rows.push((FunctionKey { owner, app, function }, calls.counts));
                    }
                }
                TraceReader::Durations(_) | TraceReader::Memory(_) => {}
            }
            Ok(rows)
        })?;
        if rows.is_empty() {
            return Err(holds_no(&files.counts, "requests"));
        }
        let mut this = Self::with_model(rows);
        let functions = Arc::make_mut(&mut this.functions);
        for (function, (mean, spread)) in functions.iter_mut().zip(run_times) {
            (function.duration, function.spread) = (mean.min(LONGEST_RUN), spread);
        }
        if let Some(path) = &files.durations {
            let table = read_durations(path, watch)?;
            let mut found = 0;
            for function in functions.iter_mut() {
                if let Some((mean, spread)) = table.get(&function.name) {
                    (function.duration, function.spread) = (*mean, *spread);
                    found += 1;
                }
            }
            if found == 0 {
                return Err(of_other_functions(path, &files.counts));
            }
        }
        if let Some(path) = &files.memory {
            let table = read_memory(path, watch)?;
            let mut found = 0;
            for function in functions.iter_mut() {
                if let Some(memory) = table.get(&function.app).or(table.get(&function.name)) {
                    function.memory = *memory;
                    found += 1;
                }
            }
            if found == 0 {
                return Err(of_other_functions(path, &files.counts));
            }
        }
        Ok(this)
    }

    /// Functions of the built-in model.
    pub fn generate(functions: usize, minutes: usize, seed: u64) -> Self {
        let model = TrafficModel::azure_2019();
        let seeds = SeedTree::new(seed).child("trace");
        let rows = (0..functions).map(|number| {
            let mut rng = seeds.stream(&format!("counts/{number}"));
            let traffic = model.draw(&mut rng);
            let name = format!("function-{number}");
            let key = FunctionKey { owner: name.clone(), app: name.clone(), function: name };
            (key, traffic.rhythm.minute_counts(minutes, &mut rng))
        });
        Self::with_model(rows.collect())
    }

    /// What the trace does not say is drawn from the model, for every seed of a simulation the
    /// same: it belongs to the trace.
    fn with_model(rows: Vec<(FunctionKey, Vec<u32>)>) -> Self {
        let model = TrafficModel::azure_2019();
        let seeds = SeedTree::new(0).child("trace");
        let functions = rows.into_iter().enumerate().map(|(number, (key, counts))| {
            let mut rng = seeds.stream(&format!("function/{number}"));
            let traffic = model.draw(&mut rng);
            TracedFunction {
                name: key.function,
                app: key.app,
                counts,
                duration: traffic.duration.mean().min(LONGEST_RUN),
                spread: traffic.duration.spread,
                memory: traffic.memory,
            }
        });
        Self { functions: functions.collect(), slo_over_mean: SLO_OVER_MEAN }
    }

    /// The same trace with another SLO: this many times the mean run time of each function.
    pub fn with_slo_over_mean(self, slo_over_mean: f64) -> Self {
        Self { slo_over_mean, ..self }
    }

    /// Nodes like those of `plan` that the busiest minute fills to at most 70 %: with its CPU demand, and
    /// with the memory of its containers, at least one for each function.
    pub fn fitting_nodes(&self, plan: &FaasPlan) -> usize {
        let node = plan.platform().nodes[0];
        let most = f64::from(plan.bounds().replicas.high());
        let minutes = self.functions.iter().map(|function| function.counts.len()).max();
        let (mut cores, mut memory) = (0.0f64, 0.0f64);
        for minute in 0..minutes.unwrap_or(0) {
            let (mut busy, mut set_aside) = (0.0, 0.0);
            for function in self.functions.iter() {
                let requests = function.counts.get(minute).copied().unwrap_or(0);
                let concurrency = f64::from(requests) * function.duration.seconds() / 60.0;
                let containers = concurrency.ceil().clamp(1.0, most);
                let size = plan.bounds().memory.clamp(function.memory).bytes() as f64;
                busy += concurrency.min(most);
                set_aside += containers * size;
            }
            (cores, memory) = (cores.max(busy), memory.max(set_aside));
        }
        let fullest = (cores / node.cores).max(memory / node.memory.bytes() as f64);
        ((fullest / MAX_FILL).ceil() as usize).clamp(1, MAX_NODES)
    }

    /// Number of functions.
    pub fn functions(&self) -> usize {
        self.functions.len()
    }

    /// Requests of all functions.
    pub fn requests(&self) -> u64 {
        let counts = self.functions.iter().flat_map(|function| &function.counts);
        counts.map(|count| u64::from(*count)).sum()
    }

    /// Cores that the requests would keep busy on average, each alone on its core.
    pub fn mean_cores(&self) -> f64 {
        let busy = |function: &TracedFunction| {
            let requests: u64 = function.counts.iter().map(|count| u64::from(*count)).sum();
            requests as f64 * function.duration.seconds()
        };
        self.functions.iter().map(busy).sum::<f64>() / self.duration().seconds().max(1.0)
    }

    /// Length of the longest row.
    pub fn duration(&self) -> SimDuration {
        let minutes = self.functions.iter().map(|function| function.counts.len()).max();
        SimDuration::from_secs(60) * minutes.unwrap_or(0) as u64
    }

    /// The function of row `number` as a platform takes it.
    pub fn setup(&self, number: usize, plan: &FaasPlan, seeds: &SeedTree) -> Result<FunctionSetup> {
        let function = &self.functions[number];
        let rng = seeds.stream(&format!("arrivals/{number}"));
        let threshold =
            SimDuration::from_seconds(function.duration.seconds() * self.slo_over_mean)?;
        let memory = plan.bounds().memory.clamp(function.memory);
        Ok(FunctionSetup {
            profile: FunctionProfile {
                name: function.name.clone(),
                category: Category::Cpu,
                cpu: function.duration,
                payload_share: Fraction::ONE,
                payload_sigma: function.spread,
                parallelism: 1.0,
                io: SimDuration::ZERO,
                io_sigma: 0.0,
                memory,
                anonymous: Fraction::from_percent(60),
                idle: Fraction::from_percent(50),
                start_cpu: SimDuration::from_millis(300),
            },
            slo: Slo::try_new(Fraction::from_percent(99), threshold)?,
            isolated_latency: function.duration,
            allocation: Allocation { replicas: 1, cpu: Millicores::new(1000), memory },
            scaling: plan.scaling(),
            arrivals: Some(Source::Trace(TraceArrivals::new(function.counts.clone(), rng))),
        })
    }
}

/// The functions of a trace on a serverless platform.
#[derive(Debug, Clone)]
pub struct TracedPlatform {
    plan: FaasPlan,
    trace: TraceScenario,
}

impl TracedPlatform {
    /// A platform as `plan` describes it, with the trace's functions instead of the plan's.
    pub fn new(plan: FaasPlan, trace: TraceScenario) -> Self {
        Self { plan, trace }
    }

    /// The trace's functions on nodes like those of a run: on this many, or as many as the trace needs.
    pub fn of_run(config: &RunConfig, trace: TraceScenario, nodes: Option<usize>) -> Result<Self> {
        let prefix = config.env.split_once('/').map_or("", |(prefix, _)| prefix);
        let faas = config.env_factory.simulator::<ConfiguredFaas>();
        let faas = faas.filter(|_| prefix == SIMULATOR.prefix());
        let faas = faas.ok_or_else(|| Error::OutOfRange {
            key: "simulator".to_owned(),
            value: prefix.to_owned(),
            source_text: "SIMULATOR".to_owned(),
            expected: format!(
                "traces of functions are played on a serverless platform: homeostat sim {}",
                SIMULATOR.prefix()
            ),
        })?;
        let plan = faas.plan()?;
        let nodes = nodes.unwrap_or_else(|| trace.fitting_nodes(plan));
        if !(1..=MAX_NODES).contains(&nodes) {
            return Err(Error::OutOfRange {
                key: "nodes".to_owned(),
                value: nodes.to_string(),
                source_text: "flag --nodes".to_owned(),
                expected: format!("it must lie from 1 to {MAX_NODES}"),
            });
        }
        Ok(Self::new(plan.clone().with_nodes(nodes)?, trace))
    }

    /// What is played on it.
    pub fn trace(&self) -> &TraceScenario {
        &self.trace
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.plan.platform().nodes.len()
    }

    /// The cluster in words.
    pub fn cluster(&self) -> String {
        let node = self.plan.platform().nodes[0];
        let nodes = if self.nodes() == 1 { "node" } else { "nodes" };
        format!("{} {nodes} of {} cores and {}", self.nodes(), node.cores, node.memory)
    }
}

impl PlantSource for TracedPlatform {
    fn targets(&self) -> usize {
        self.trace.functions()
    }

    fn window(&self) -> SimDuration {
        self.plan.window()
    }

    fn load(&self) -> String {
        "trace".to_owned()
    }

    fn make(
        &self,
        targets: &[usize],
        seeds: &SeedTree,
        scaled_by: ScaledBy,
    ) -> homeostat_decide::Result<Box<dyn SimulatedPlant>> {
        let mut tenants = Tenants::new(&self.plan, seeds.seed("world"));
        for number in targets {
            let setup = self
                .trace
                .setup(*number, &self.plan, seeds)
                .map_err(homeostat_decide::Error::plant)?;
            let setup = match scaled_by {
                ScaledBy::Controllers => setup,
                ScaledBy::Itself => setup.on_demand(KEEP_ALIVE, self.plan.bounds().replicas.high()),
            };
            tenants.join_with(setup).map_err(homeostat_decide::Error::plant)?;
        }
        Ok(Box::new(FaasPlant::new(tenants)))
    }
}

fn of_other_functions(path: &Path, counts: &Path) -> Error {
    Error::File {
        action: "use",
        path: path.to_owned(),
        reason: format!("none of its rows is of a function in {}", counts.display()),
    }
}

fn holds_no(path: &Path, what: &str) -> Error {
    Error::File {
        action: "read",
        path: path.to_owned(),
        reason: format!("it holds no {what}; `homeostat trace inspect` says what it holds"),
    }
}

/// Mean and spread of the run times of each function.
fn read_durations(
    path: &Path,
    watch: &mut dyn FnMut(FileProgress),
) -> Result<BTreeMap<String, (SimDuration, f64)>> {
    let table = read_trace(path, watch, |reader| {
        let mut table = BTreeMap::new();
        if let TraceReader::Durations(mut reader) = reader {
            while let Some(row) = reader.next_function()? {
                // Of 0, 1, 25, 50, 75, 99 and 100 %, the quartiles: 0.674 deviations apart
                // from the median.
                let [lower, upper] = [row.percentiles_ms[2], row.percentiles_ms[4]];
                let spread = if lower > 0.0 { (upper / lower).ln() / (2.0 * 0.674) } else { 0.0 };
                let mean = SimDuration::from_nanos((row.average_ms.max(1.0) * 1e6) as u64);
                table.insert(row.key.function, (mean, spread.clamp(0.0, 3.0)));
            }
        }
        Ok(table)
    })?;
    if table.is_empty() { Err(holds_no(path, "run times")) } else { Ok(table) }
}

/// Memory of each application; in tables with a row for each function, of each function.
fn read_memory(
    path: &Path,
    watch: &mut dyn FnMut(FileProgress),
) -> Result<BTreeMap<String, Bytes>> {
    let table = read_trace(path, watch, |reader| {
        let mut table = BTreeMap::new();
        if let TraceReader::Memory(mut reader) = reader {
            while let Some(row) = reader.next_app()? {
                table.insert(row.app, Bytes::new((row.average_mb * 1e6) as u64));
            }
        }
        Ok(table)
    })?;
    if table.is_empty() { Err(holds_no(path, "memory")) } else { Ok(table) }
}
