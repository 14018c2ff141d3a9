//! The environment, and what a higher frequency is worth in it.

use homeostat_core::SeedTree;
use homeostat_decide::{
    CpuFrequency, FrequencyProposal, Guards, GuardsConfig, Plant, PreparedProposal, decide,
};
use homeostat_env::{Action, Env, SettingsTable, Simulator, check_env};
use homeostat_sim_node::{NodeConfig, NodePlant, PROCESSORS, SIMULATOR};

fn environment(changes: &[(&str, &str)]) -> Box<dyn Env> {
    let mut settings: SettingsTable = SIMULATOR.default_toml().parse().expect("a test reads it");
    let section = settings["cpufreq"].as_table_mut().expect("a section");
    for (key, value) in changes {
        let parsed: SettingsTable = format!("value = {value}").parse().expect("TOML");
        section.insert((*key).to_owned(), parsed["value"].clone());
    }
    let configured = SIMULATOR.configure(section).expect("the settings can be read");
    configured.make("cpufreq/frequency-v1", 0).expect("the settings are possible")
}

/// The mean reward of always choosing this level.
fn mean_reward(changes: &[(&str, &str)], level: usize) -> f64 {
    let mut env = environment(changes);
    let (mut sum, mut steps) = (0.0, 0);
    for seed in 0..4 {
        env.reset(Some(seed)).expect("it can be reset");
        loop {
            let step = env.step(&Action::Discrete(level)).expect("the level exists");
            sum += step.reward;
            steps += 1;
            if step.done() {
                break;
            }
        }
    }
    sum / f64::from(steps)
}

#[test]
fn the_environment_keeps_its_contract() {
    let findings = check_env(&|| environment(&[("steps", "20")]));
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn overclocking_pays_under_load_and_costs_without() {
    let busy = [("load", "\"poisson\""), ("demand", "0.95"), ("power_weight", "0.2")];
    let (low, high) = (mean_reward(&busy, 0), mean_reward(&busy, 5));
    assert!(high > low + 0.1, "busy: {low} and {high}");
    let idle = [("load", "\"poisson\""), ("demand", "0.05"), ("power_weight", "0.2")];
    let (low, high) = (mean_reward(&idle, 0), mean_reward(&idle, 5));
    assert!(low > high + 0.1, "idle: {low} and {high}");
}

#[test]
fn the_printed_reward_pays_for_lowering_and_raising_the_frequency() {
    // It has no term for power: at a load that any frequency serves, back and forth beats every constant frequency.
    let settings = [
        ("load", "\"poisson\""),
        ("demand", "1.5"),
        ("cores", "2"),
        ("reward", "\"paper\""),
        ("alpha", "0.9"),
    ];
    let mut env = environment(&settings);
    env.reset(Some(1)).unwrap();
    let (mut sum, steps) = (0.0, 100);
    for step in 0..steps {
        sum += env.step(&Action::Discrete(5 * (step % 2))).unwrap().reward;
    }
    let alternating = sum / steps as f64;
    for level in 0..6 {
        let constant = mean_reward(&settings, level);
        assert!(alternating > constant, "{alternating}, level {level}: {constant}");
    }
}

#[test]
fn a_decision_sets_a_frequency_of_the_processor() {
    for processor in &PROCESSORS {
        let config = NodeConfig { processor: processor.name.to_owned(), ..NodeConfig::default() };
        let mut plant = NodePlant::of(&config, &SeedTree::new(1)).unwrap();
        let bounds = processor.bounds();
        let mut guards: Guards<CpuFrequency> =
            Guards::try_new(GuardsConfig::bounds_only(bounds)).unwrap();
        for (khz, expect) in [(9e6, processor.max), (0.0, processor.base)] {
            let mut chosen = PreparedProposal::new(FrequencyProposal { khz, reasons: Vec::new() });
            let decision = decide(&mut chosen, &mut guards, plant.observe(0));
            let Ok(applied) = plant.apply(0, &decision);
            assert_eq!(applied, expect, "{}", processor.name);
        }
        let Ok(()) = plant.advance();
        assert_eq!(plant.observe(0).frequency, processor.base);
    }
}
