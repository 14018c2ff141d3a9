//! Requests that share cores, against theory.

use homeostat_core::SeedTree;
use homeostat_decide::{CpuObservation, Plant};
use homeostat_sim_node::{NodeConfig, NodeLoad, NodePlant};

fn config(cores: u32, demand: f64) -> NodeConfig {
    NodeConfig {
        cores,
        demand,
        load: NodeLoad::Poisson,
        application: "float-operations".to_owned(),
        ..NodeConfig::default()
    }
}

/// Seconds of a machine at its nominal frequency.
fn play(config: &NodeConfig, seconds: usize, seed: u64) -> (NodePlant, Vec<CpuObservation>) {
    let mut plant = NodePlant::of(config, &SeedTree::new(seed)).expect("the settings are possible");
    let seen = (0..seconds).map(|_| {
        let Ok(()) = plant.advance();
        plant.observe(0).clone()
    });
    let seen = seen.collect();
    (plant, seen)
}

#[test]
fn requests_are_conserved() {
    for (cores, demand) in [(1, 0.5), (4, 0.9), (2, 1.5)] {
        let (plant, _) = play(&config(cores, demand), 200, 1);
        let totals = plant.machine().totals();
        assert!(totals.arrived > 1000);
        assert_eq!(totals.arrived, totals.answered + plant.machine().inside() as u64);
    }
}

#[test]
fn the_usage_is_the_demand() {
    let (_, seen) = play(&config(4, 0.6), 2000, 2);
    let usage = seen.iter().map(|obs| obs.cpu_usage).sum::<f64>() / seen.len() as f64;
    assert!((usage - 0.6).abs() < 0.01, "{usage}");
}

#[test]
fn the_mean_number_inside_is_that_of_processor_sharing() {
    // M/G/1 with processor sharing: load / (1 - load), whatever the distribution of the work.
    let config = config(1, 0.7);
    let mut plant = NodePlant::of(&config, &SeedTree::new(3)).unwrap();
    let (mut sum, seconds) = (0.0, 40_000);
    for _ in 0..seconds {
        let Ok(()) = plant.advance();
        sum += plant.machine().inside() as f64;
    }
    let (found, expect) = (sum / f64::from(seconds), 0.7 / 0.3);
    assert!((found / expect - 1.0).abs() < 0.05, "{found}, expected {expect}");
}

#[test]
fn more_than_the_cores_can_do_violates_the_slo() {
    let mean = |demand| {
        let (_, seen) = play(&config(2, demand), 200, 4);
        seen.iter().map(CpuObservation::slo_preservation).sum::<f64>() / seen.len() as f64
    };
    let (light, heavy) = (mean(0.1), mean(1.3));
    assert!(light > 0.95 && heavy < 0.3, "{light} {heavy}");
}
