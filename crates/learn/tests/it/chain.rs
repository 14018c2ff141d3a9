//! From HPA and VPA on a simulated cluster to a policy that controls it: record, learn, evaluate, serve.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use homeostat_core::SimDuration;
use homeostat_rl::{Policy, Sampling};
use homeostat_sim_deploy::DeployConfig;
use homeostat_simulate::{
    Controllers, FinishedSimulation, Scenario, Simulation, SimulationFacts, run_simulation,
};

use crate::Place;

/// What `homeostat sim deploy --policy POLICY --duration 30m` does.
fn simulate(policy: &str, seeds: std::ops::RangeInclusive<u64>, path: &Path) -> FinishedSimulation {
    let simulation = Simulation {
        system: Arc::new(DeployConfig::default().build().unwrap()),
        scenario: Scenario::Together,
        controllers: Controllers::parse(policy, Sampling::Greedy).unwrap(),
        duration: SimDuration::from_secs(1800),
    };
    let facts = SimulationFacts { recorded: true, ..simulation.facts(None, seeds.collect()) };
    let never = AtomicBool::new(false);
    run_simulation(&simulation, &facts, "", path, &|_, _| (), &never).unwrap()
}

fn mean_reward(finished: &FinishedSimulation) -> f64 {
    let rewards = finished.outcomes.iter().map(|outcome| outcome.total.reward);
    rewards.sum::<f64>() / finished.outcomes.len() as f64
}

#[test]
fn what_hpa_and_vpa_did_on_a_cluster_teaches_a_policy_that_controls_it() {
    let place = Place::new();
    simulate("hpa+vpa", 1..=10, &place.path("recorded"));
    let (code, learnt) =
        place.json("learn recorded/decisions.jsonl --out shop.policy --steps 5000 --margin 0.1 -q");
    assert_eq!(code, Some(0), "{learnt}");

    let policy = Policy::from_bytes(&std::fs::read(place.path("shop.policy")).unwrap()).unwrap();
    assert_eq!(policy.schema().action.id, "pods/allocation-v1");
    let provenance = policy.provenance();
    assert_eq!(provenance.env, "recorded/decisions-v1");
    let run = provenance.run.as_ref().unwrap();
    assert_eq!((run.seed, run.steps), (1, 5000));
    assert_eq!(run.settings["learn.algorithm"], "bcq");
    assert_eq!(run.settings["learn.behaviours"], "hpa+vpa");
    assert_eq!(run.settings["learn.decisions_sha256"].len(), 64);

    simulate("hpa+vpa", 101..=110, &place.path("fresh"));
    let (code, found) =
        place.json("evaluate-offline fresh/decisions.jsonl --policy shop.policy --margin 0.1");
    assert_eq!(code, Some(0), "{found}");

    // The policy serves through the same simulator, and is worth about what its teacher is.
    let file = place.path("shop.policy");
    let served = simulate(file.to_str().unwrap(), 101..=110, &place.path("served"));
    let teacher = FinishedSimulation::open(&place.path("fresh")).unwrap();
    assert_eq!(served.facts.policy, "shop");
    let (ours, theirs) = (mean_reward(&served), mean_reward(&teacher));
    assert!(ours > theirs - 0.1, "{ours} against {theirs}: {found}");
}
