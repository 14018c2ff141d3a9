//! What do agents that share a platform gain from learning as a team?
//!
//! Trains `simppo+` on four serverless functions, then runs the team and the horizontal pod
//! autoscaler on requests that neither has met.

use homeostat_core::SimDuration;
use homeostat_lab::{Assignment, Environments, Result, Settings, UserLayers};
use homeostat_rl::Sampling;
use homeostat_simulate::{Controllers, Scenario, Simulation};
use homeostat_train::{ExtraWriters, Silent, Training};

fn main() -> Result<()> {
    let flags = [
        ("run.algorithm", "simppo+"),
        ("run.env", "faas/fleet-set-points-v1"),
        ("run.steps", "6000"),
        ("faas.functions", "4"),
    ];
    let layers = UserLayers::of_flags(flags.map(|(key, value)| Assignment::set(key, value)));
    let config = Settings::resolve(&Environments::builtin(), &layers)?.validate()?;
    let directory = std::env::temp_dir().join(format!("team-{}", std::process::id()));
    Training::start(config.clone(), &directory, ExtraWriters::default())?.run(&mut Silent)?;

    for policy in ["hpa", &directory.display().to_string()] {
        let simulation = Simulation {
            system: config.env_factory.plants("faas")?,
            scenario: Scenario::Together,
            controllers: Controllers::parse(policy, Sampling::Greedy)?,
            duration: SimDuration::from_secs(1200),
        };
        let outcome = simulation.run(1, &mut |_| Ok(()))?;
        println!(
            "{:8} {:5.1} % SLO violations, {:4.1} containers",
            if policy == "hpa" { "hpa" } else { "simppo+" },
            outcome.total.slo_violation_pct(),
            outcome.total.container_s / outcome.duration_s,
        );
        for function in &outcome.functions {
            println!("  {:20} {:5.1} %", function.name, function.figures.slo_violation_pct());
        }
    }
    if let Err(error) = std::fs::remove_dir_all(&directory) {
        println!("cannot remove {}: {error}", directory.display());
    }
    Ok(())
}
