//! The environment and the plant of a small cluster.

use std::sync::Arc;

use homeostat_core::{SeedTree, Snapshot};
use homeostat_decide::Plant;
use homeostat_env::{Action, ConfiguredSimulator, Env, Simulator, check_env};
use homeostat_sim_gpu::{GpuConfig, GpuPlant, SIMULATOR};
use toml::Table;

fn configured(text: &str) -> Arc<dyn ConfiguredSimulator> {
    let reference: Table = SIMULATOR.default_toml().parse().unwrap();
    let mut section = reference["gpu"].as_table().unwrap().clone();
    section.extend(text.parse::<Table>().unwrap());
    SIMULATOR.configure(&section).unwrap()
}

#[test]
fn the_clock_keeps_the_contract_of_environments() {
    let configured = configured("steps = 12");
    let findings = check_env(&|| configured.make("gpu/clock-v1", 1).unwrap());
    assert!(findings.is_empty(), "{findings:?}");
    assert!(configured.make("gpu/clock-v9", 0).is_err());
}

#[test]
fn a_saved_episode_goes_on_bit_for_bit() {
    let configured = configured("load = \"bursty\"");
    let play = |env: &mut dyn Env| -> Vec<f64> {
        (0..20).map(|step| env.step(&Action::Discrete(step * 5 % 3)).unwrap().reward).collect()
    };
    let mut unbroken = configured.make("gpu/clock-v1", 2).unwrap();
    unbroken.reset(Some(3)).unwrap();
    play(unbroken.as_mut());
    let mut saved = Snapshot::default();
    unbroken.save("env", &mut saved);
    let mut resumed = configured.make("gpu/clock-v1", 2).unwrap();
    resumed.load("env", &saved).unwrap();
    assert_eq!(play(unbroken.as_mut()), play(resumed.as_mut()));
}

#[test]
fn the_devices_are_as_busy_as_the_settings_say() {
    let config = GpuConfig {
        load: homeostat_sim_gpu::GpuLoad::Poisson,
        batching: homeostat_sim_gpu::BatchingKind::None,
        ..GpuConfig::default()
    };
    let plan = config.build().unwrap();
    let mut plant = GpuPlant::of_plan(&plan, &[0, 1, 2, 3], &SeedTree::new(4)).unwrap();
    let mut busy = 0.0;
    for _ in 0..600 {
        plant.advance().unwrap();
        busy += (0..4).map(|device| plant.observe(device).busy).sum::<f64>() / 4.0;
    }
    // Squares of long prompts cost more than the square of the mean.
    let mean = busy / 600.0;
    assert!((0.27..0.36).contains(&mean), "{mean}");
}

#[test]
fn the_default_setting_meets_its_slos_at_the_highest_clocks() {
    let plan = GpuConfig::default().build().unwrap();
    for seed in 1..=3 {
        let mut plant = GpuPlant::of_plan(&plan, &[0, 1, 2, 3], &SeedTree::new(seed)).unwrap();
        for _ in 0..600 {
            plant.advance().unwrap();
        }
        let totals = plant.all_totals();
        assert!(totals.requests > 1000, "{totals:?}");
        assert!(100 * totals.slo_violations <= totals.requests, "seed {seed}: {totals:?}");
    }
}
