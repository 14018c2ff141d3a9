use homeostat_core::{SeedTree, SimDuration};
use homeostat_decide::{Guards, Plant, PreparedProposal, Proposal, SimulatedPlant, decide};
use homeostat_env::{Action, ConfiguredSimulator, Env, Simulator, check_env};
use homeostat_sim_deploy::{Change, DeployConfig, DeployPlan, DeployPlant, LoadKind, SIMULATOR};
use std::sync::Arc;
use toml::Table;

use crate::setup::allocation;

fn configured(text: &str) -> Arc<dyn ConfiguredSimulator> {
    let reference: Table = SIMULATOR.default_toml().parse().unwrap();
    let mut section = reference["deploy"].as_table().unwrap().clone();
    section.extend(text.parse::<Table>().unwrap());
    SIMULATOR.configure(&section).unwrap()
}

#[test]
fn the_service_keeps_the_contract_of_environments() {
    let configured = configured("steps = 12");
    let findings = check_env(&|| configured.make("deploy/service-v1", 3).unwrap());
    assert!(findings.is_empty(), "{findings:?}");
    assert!(configured.make("deploy/service-v2", 0).is_err());
}

#[test]
fn a_saved_episode_goes_on_bit_for_bit() {
    let configured = configured("change = \"load\"\nchange_at_s = 150.0");
    let play = |env: &mut dyn Env| -> Vec<f64> {
        (0..20).map(|step| env.step(&Action::Discrete(step * 5 % 7)).unwrap().reward).collect()
    };
    let mut unbroken = configured.make("deploy/service-v1", 1).unwrap();
    unbroken.reset(Some(3)).unwrap();
    play(unbroken.as_mut());
    let mut saved = homeostat_core::Snapshot::default();
    unbroken.save("env", &mut saved);
    let mut resumed = configured.make("deploy/service-v1", 1).unwrap();
    resumed.load("env", &saved).unwrap();
    assert_eq!(play(unbroken.as_mut()), play(resumed.as_mut()));
}

/// Requests and CPU seconds of parts of an hour, with pods that are large enough before and after: what
/// is compared is the work, not a controller.
fn parts<const N: usize>(plan: &DeployPlan, number: usize) -> [(f64, f64); N] {
    let mut plant = DeployPlant::new(plan, &[number], &SeedTree::new(5));
    let large = Proposal::keep(&allocation(8, 2000, 2048));
    let mut guards = Guards::bounds_only(*plan.bounds()).unwrap();
    let decision = decide(&mut PreparedProposal::new(large), &mut guards, plant.observe(0));
    plant.apply(0, &decision).unwrap();
    let mut sums = [(0.0, 0.0); N];
    for window in 0..240 {
        plant.advance().unwrap();
        let figures = plant.window(0).unwrap();
        let part = &mut sums[window * N / 240];
        part.0 += figures.settled() as f64;
        part.1 += figures.cpu_s;
    }
    sums
}

#[test]
fn a_workload_changes_and_is_again_as_it_was() {
    let config = DeployConfig {
        application: "compression".to_owned(),
        demand_cores: 0.4,
        load: LoadKind::Poisson,
        ..DeployConfig::default()
    };
    let changes = [(1200, Change::FileSize), (2400, Change::None)];
    let changes = changes.map(|(at, change)| (SimDuration::from_secs(at), change));
    let plan = config.build().unwrap().with_changes(changes.to_vec());
    let [before, during, after] = parts(&plan, 0).map(|(requests, cpu_s)| cpu_s / requests);
    assert!(during / before > 2.0, "{before} {during}");
    assert!((after / before - 1.0).abs() < 0.1, "{before} {after}");
}

#[test]
fn every_scenario_changes_the_applications_that_it_affects_and_no_others() {
    for change in Change::SCENARIOS {
        let config = DeployConfig {
            change,
            change_at_s: 1800.0,
            demand_cores: 0.4,
            load: LoadKind::Poisson,
            ..DeployConfig::default()
        };
        let plan = config.build().unwrap();
        for affected in [true, false] {
            let mut numbers = 0..800;
            let Some(number) = numbers.find(|n| change.affects(plan.application(*n)) == affected)
            else {
                continue; // The load affects all.
            };
            let [before, after] = parts(&plan, number);
            let cpu_ratio = (after.1 / after.0) / (before.1 / before.0);
            let rate_ratio = after.0 / before.0;
            if change == Change::Load {
                assert!(rate_ratio < 0.85, "{rate_ratio}");
            } else if affected {
                assert!(cpu_ratio > 1.1, "{change:?}: {cpu_ratio}");
            } else {
                assert!((0.9..1.1).contains(&cpu_ratio), "{change:?}: {cpu_ratio}");
            }
        }
    }
}
