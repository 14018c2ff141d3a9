//! The type of a function (section 4.7.2), found by running it on a small platform.

use homeostat_core::{Bytes, Fraction, Millicores, SeedTree, SimDuration, Slo};
use homeostat_decide::Allocation;
use homeostat_env::{Task, TaskType};
use homeostat_load::{Arrivals, LoadShape};

use crate::{
    Contention, FaasPlan, FunctionProfile, FunctionSetup, Platform, PlatformConfig, Result,
    Scaling, Source, by_name,
};

impl FaasPlan {
    /// What an agent of each function controls, in the order of the functions.
    pub fn tasks(&self) -> Result<Vec<Task>> {
        let task = |profile: &FunctionProfile| {
            let task_type = probe_task_type(profile, self.platform().contention)?;
            Ok(Task { name: profile.name.clone(), task_type })
        };
        self.functions().map(|(profile, _)| task(profile)).collect()
    }

    /// The types of [`FaasPlan::tasks`].
    pub fn task_types(&self) -> Result<Vec<TaskType>> {
        Ok(self.tasks()?.iter().map(|task| task.task_type).collect())
    }
}

/// Runs a function on a small platform of its own: alone, with half a core for each of its
/// requests, and among neighbours that keep every other core busy moving memory.
pub fn probe_task_type(profile: &FunctionProfile, contention: Contention) -> Result<TaskType> {
    let alone = median_latency(profile, contention, CORES, false)?;
    let contended = median_latency(profile, contention, CORES, true)?;
    if contended > alone * SENSITIVE_TO_NEIGHBOURS {
        return Ok(TaskType::Memory);
    }
    let slowed = median_latency(profile, contention, 0.5, false)?;
    Ok(if slowed > alone * SENSITIVE_TO_CPU { TaskType::Cpu } else { TaskType::Io })
}

const CORES: f64 = 4.0;

/// Slower by a seventh among busy neighbours: twice what contention costs functions that only
/// compute, and half of what it costs those that move memory.
const SENSITIVE_TO_NEIGHBOURS: f64 = 1.15;

/// With half the CPU a request of pure computation takes twice as long, one that spends as much
/// time waiting for a disk one and a half times.
const SENSITIVE_TO_CPU: f64 = 1.5;

/// Median latency of a trickle of requests that never meet.
fn median_latency(
    profile: &FunctionProfile,
    contention: Contention,
    cores: f64,
    has_neighbours: bool,
) -> Result<f64> {
    const REQUESTS: f64 = 400.0;
    let memory = Bytes::from_mib(64 * 1024);
    let config = PlatformConfig { contention, ..PlatformConfig::uniform(1, cores, memory) };
    let seeds = SeedTree::new(0).child("probe").child(&profile.name);
    let mut platform = Platform::new(config, &seeds)?;
    // The platform is idle half the time, even at half the speed.
    let per_second = 0.25 / profile.service_time().total().seconds().max(1e-3);
    let id = platform.add_function(setup(profile, per_second, 2, &seeds)?)?;
    if has_neighbours {
        let neighbour = by_name("base64").expect("it is in the catalogue");
        let busy = CORES as u32 - 1;
        // Twice what its containers can serve: they are always busy.
        let per_second = 2.0 * f64::from(busy) / neighbour.cpu.seconds();
        platform.add_function(setup(&neighbour, per_second, busy, &seeds.child("neighbour"))?)?;
    }
    platform.run_for(SimDuration::from_seconds(REQUESTS / per_second)?);
    let latency = platform.totals(id).latency.quantile(Fraction::from_percent(50));
    Ok(latency.map_or(0.0, SimDuration::seconds))
}

fn setup(
    profile: &FunctionProfile,
    per_second: f64,
    replicas: u32,
    seeds: &SeedTree,
) -> Result<FunctionSetup> {
    let never = SimDuration::from_secs(3600);
    let arrivals = Arrivals::new(&LoadShape::Poisson { per_second }, seeds.stream("arrivals"))?;
    Ok(FunctionSetup {
        slo: Slo::try_new(Fraction::from_percent(99), never)?,
        isolated_latency: never,
        allocation: Allocation {
            replicas,
            cpu: Millicores::new(1000),
            memory: Bytes::new(2 * profile.memory.bytes()),
        },
        scaling: Scaling::Managed,
        arrivals: Some(Source::Shape(arrivals)),
        profile: profile.clone(),
    })
}
