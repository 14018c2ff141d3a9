//! Which autoscaler violates the SLO least often on a serverless platform, and at what cost?
//!
//! Kubernetes' HPA, HPA with VPA, and ENSURE scale the same functions under the same requests, so
//! differences are paired by seed.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use homeostat_core::SimDuration;
use homeostat_lab::{Environments, Settings, UserLayers};
use homeostat_report::compare::{OpenedRuns, signed};
use homeostat_rl::Sampling;
use homeostat_simulate::{Controllers, Scenario, Simulation, run_simulation};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let environments = Environments::builtin();
    let config = Settings::resolve(&environments, &UserLayers::default())?.validate()?;
    let directory = std::env::temp_dir().join(format!("autoscalers-{}", std::process::id()));
    let mut runs: Vec<PathBuf> = Vec::new();
    for policy in ["hpa", "hpa+vpa", "ensure"] {
        let simulation = Simulation {
            system: config.env_factory.plants("faas")?,
            scenario: Scenario::Together,
            controllers: Controllers::parse(policy, Sampling::Greedy)?,
            duration: SimDuration::from_secs(1200),
        };
        let facts = simulation.facts(None, (1..=5).collect());
        let path = directory.join(policy);
        let stop = AtomicBool::new(false);
        run_simulation(&simulation, &facts, &config.toml, &path, &|_, _| {}, &stop)?;
        runs.push(path);
    }

    let comparison = OpenedRuns::open(&runs, None)?.total()?;
    for run in &comparison.runs {
        println!("{} on {} seeds", run.label, run.trials);
        for (metric, figure) in run.figures.iter().filter(|(metric, _)| metric.is_compared) {
            println!("  {:24} {} {}", metric.label, metric.text(figure), metric.unit);
        }
        for difference in &run.differences {
            let (mean, interval) = difference.in_unit();
            let shown = signed(mean, interval);
            println!(
                "  {:24} {shown} against hpa: {}",
                difference.metric.label,
                difference.verdict()
            );
        }
    }
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
