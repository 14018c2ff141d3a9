//! The environment keeps its contract, and its reward is what its card says.

use homeostat_env::{Action, Env, SettingsTable, Simulator, check_env};
use homeostat_sim_link::{LinkConfig, SIMULATOR};

const RATE: &str = "link/rate-v1";

fn settings(text: &str) -> SettingsTable {
    let defaults: SettingsTable = toml::from_str(SIMULATOR.default_toml()).unwrap();
    let mut section = defaults["link"].as_table().unwrap().clone();
    section.extend(toml::from_str::<SettingsTable>(text).unwrap());
    section
}

fn env(text: &str) -> Box<dyn Env> {
    SIMULATOR.configure(&settings(text)).unwrap().make(RATE, 0).unwrap()
}

/// Information of the last step by name.
fn named(info: &[(&'static str, f64)], name: &str) -> f64 {
    info.iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn it_keeps_the_contract_of_environments() {
    let findings = check_env(&|| env("steps = 60"));
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn the_defaults_are_those_of_the_file() {
    let configured = SIMULATOR.configure(&settings("")).unwrap();
    assert_eq!(configured.specs()[0].observation.len(), 3 * LinkConfig::default().history);
}

#[test]
fn sending_faster_than_the_path_raises_latency_until_packets_are_lost() {
    let mut env = env(
        "bandwidth_mbps = [6.0, 6.0]\ndelay_ms = [50.0, 50.0]\nqueue = [50.0, 50.0]\nloss = [0.0, 0.0]",
    );
    env.reset(Some(3)).unwrap();
    let (mut most_used, mut last) = (0.0_f64, Vec::new());
    for _ in 0..200 {
        let step = env.step(&Action::Continuous(vec![1.0])).unwrap();
        most_used = most_used.max(named(&step.info, "utilization"));
        last = step.info;
    }
    assert!(most_used > 0.98, "{most_used}");
    // 100 ms of propagation and 50 packets of 2 ms each.
    assert!((named(&last, "latency_ratio") - 2.0).abs() < 0.1, "{last:?}");
    assert!(named(&last, "loss_ratio") > 0.2, "{last:?}");
}

#[test]
fn the_reward_is_auroras() {
    let mut env = env(
        "bandwidth_mbps = [12.0, 12.0]\ndelay_ms = [20.0, 20.0]\nqueue = [100.0, 100.0]\nloss = [0.0, 0.0]",
    );
    env.reset(Some(5)).unwrap();
    for _ in 0..50 {
        let step = env.step(&Action::Continuous(vec![0.2])).unwrap();
        let packets = named(&step.info, "throughput_mbps") * 1e6 / 12_000.0;
        // The least round-trip time is at least 41 ms; the card's formula gives the rest.
        let most = 1e-3 * (10.0 * packets - 41.0 - 2e3 * named(&step.info, "loss_ratio"));
        assert!(step.reward <= most + 1e-6, "{} above {most}", step.reward);
        assert!(step.reward > most - 0.2, "{} far below {most}", step.reward);
    }
}

#[test]
fn each_numbered_condition_makes_an_environment() {
    for condition in (0..625).step_by(89) {
        let mut env = env(&format!("paths = \"numbered\"\ncondition = {condition}\nsteps = 5"));
        env.reset(Some(1)).unwrap();
        for _ in 0..5 {
            assert!(env.step(&Action::Continuous(vec![0.0])).unwrap().reward.is_finite());
        }
    }
}

#[test]
fn flows_of_todays_controllers_take_their_share() {
    let quiet = "bandwidth_mbps = [6.0, 6.0]\ndelay_ms = [20.0, 20.0]\nqueue = [40.0, 40.0]\nloss = [0.0, 0.0]";
    let loss = |rivals: &str| {
        let mut env = env(&format!("{quiet}\nrivals = [{rivals}]"));
        env.reset(Some(2)).unwrap();
        let mut sum = 0.0;
        for _ in 0..300 {
            sum += named(&env.step(&Action::Continuous(vec![0.0])).unwrap().info, "loss_ratio");
        }
        sum / 300.0
    };
    let (alone, beside) = (loss(""), loss("\"cubic\", \"cubic\", \"cubic\""));
    assert!(beside > alone, "{alone} alone, {beside} beside three flows");
}
