use std::sync::Arc;

use homeostat_core::Snapshot;
use homeostat_env::{Action, ConfiguredSimulator, Env, Simulator, check_env};
use homeostat_sim_mesh::SIMULATOR;
use toml::Table;

fn configured(text: &str) -> Arc<dyn ConfiguredSimulator> {
    let reference: Table = SIMULATOR.default_toml().parse().unwrap();
    let mut section = reference["mesh"].as_table().unwrap().clone();
    section.extend(text.parse::<Table>().unwrap());
    SIMULATOR.configure(&section).unwrap()
}

const SMALL: &str = "topology = \"hotel-reservation\"\nsteps = 8\nrequests_per_s = 60.0";

#[test]
fn the_container_keeps_the_contract_of_environments() {
    let configured = configured(SMALL);
    let findings = check_env(&|| configured.make("mesh/container-v1", 3).unwrap());
    assert!(findings.is_empty(), "{findings:?}");
    assert!(configured.make("mesh/container-v2", 0).is_err());
}

#[test]
fn a_saved_episode_goes_on_bit_for_bit() {
    let configured = configured(SMALL);
    let play = |env: &mut dyn Env, steps: std::ops::Range<u32>| -> Vec<f64> {
        let action = |step: u32| Action::Continuous(vec![(step as f32 * 0.37).sin(); 5]);
        steps.map(|step| env.step(&action(step)).unwrap().reward).collect()
    };
    let mut unbroken = configured.make("mesh/container-v1", 1).unwrap();
    unbroken.reset(Some(3)).unwrap();
    play(unbroken.as_mut(), 0..4);
    let mut saved = Snapshot::default();
    unbroken.save("env", &mut saved);
    let mut resumed = configured.make("mesh/container-v1", 1).unwrap();
    resumed.load("env", &saved).unwrap();
    assert_eq!(play(unbroken.as_mut(), 4..8), play(resumed.as_mut(), 4..8));
}
