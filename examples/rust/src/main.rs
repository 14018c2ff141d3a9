//! A system of one's own: PPO learns to scale a queue, then meets the horizontal pod autoscaler.
//!
//!     cargo run --release -p homeostat-examples -- runs/queue

mod queue;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use homeostat_core::SimDuration;
use homeostat_lab::{Assignment, Environments, Result, RunConfig, Settings, UserLayers};
use homeostat_report::compare::{OpenedRuns, with_interval};
use homeostat_rl::Sampling;
use homeostat_simulate::{Controllers, Scenario, Simulation, run_simulation};
use homeostat_train::{ExtraWriters, Silent, Training};

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or("runs/queue".to_owned()));
    let environments = Environments::builtin().with_plants(&queue::SIMULATOR);
    let flags = [("run.env", "queue/mmc-v1"), ("run.steps", "60000"), ("ppo.gamma", "0.95")];
    let layers = UserLayers::of_flags(flags.map(|(key, value)| Assignment::set(key, value)));
    let config = Settings::resolve(&environments, &layers)?.validate()?;

    let learned = folder.join("ppo");
    Training::start(config.clone(), &learned, ExtraWriters::default())?.run(&mut Silent)?;
    let mut runs = Vec::new();
    for policy in ["hpa", &learned.display().to_string()] {
        runs.push(simulate(&config, policy, &folder)?);
    }

    for run in OpenedRuns::open(&runs, None)?.total()?.runs {
        println!("{}", run.label);
        for (metric, figure) in run.figures.iter().filter(|(metric, _)| metric.is_compared) {
            let shown = with_interval(figure.mean, figure.interval());
            println!("  {:24} {shown} {}", metric.label, metric.unit);
        }
    }
    Ok(())
}

/// Plays a policy on the queue for an hour, on five seeds.
fn simulate(config: &RunConfig, policy: &str, folder: &std::path::Path) -> Result<PathBuf> {
    let simulation = Simulation {
        system: config.env_factory.plants("queue")?,
        scenario: Scenario::Together,
        controllers: Controllers::parse(policy, Sampling::Greedy)?,
        duration: SimDuration::from_secs(3600),
    };
    let facts = simulation.facts(None, (1..=5).collect());
    let path = folder.join(format!("sim-{}", facts.policy));
    run_simulation(&simulation, &facts, &config.toml, &path, &|_, _| {}, &AtomicBool::new(false))?;
    Ok(path)
}
