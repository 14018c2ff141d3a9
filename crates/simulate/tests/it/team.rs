//! Policies that read the other members of their team.

use std::sync::Arc;

use homeostat_core::{AgentId, Millicores, SeedTree, SimDuration};
use homeostat_decide::{Reason, SetPoint};
use homeostat_lab::{Candidate, places_that_serve};
use homeostat_nn::{decode, encode};
use homeostat_rl::{AgentContext, AlgorithmConfig, Policy, PpoConfig, Sampling};
use homeostat_sim_faas::FaasConfig;
use homeostat_simulate::{Controllers, Scenario, Simulation};

/// A policy of set-points: 2000m for a target whose others have replicas, 125m for one without
/// others.
fn policy() -> Policy {
    let specs = homeostat_sim_faas::specs(&FaasConfig::default());
    let spec = specs.into_iter().find(|spec| spec.id.name() == "fleet-set-points-team").unwrap();
    let features = &spec.control.as_ref().unwrap().features.features;
    let others_replicas = features.iter().position(|one| one.name == "team NC").unwrap();
    let context = AgentContext { agent: AgentId::new(0), spec, seeds: SeedTree::new(1) };
    let ppo = PpoConfig { hidden: vec![1], ..PpoConfig::default() };
    let learner = AlgorithmConfig::Ppo(ppo).build(&context).unwrap();

    let mut file = decode(&learner.policy().to_bytes(), "homeostat-policy/2").unwrap();
    let mut set = |name: &str, len: usize, index: usize, value: f32| {
        let mut numbers = vec![0.0; len];
        numbers[index] = value;
        file.arrays.put_f32(name, numbers);
    };
    let inputs = context.spec.observation.len();
    let choices = SetPoint::WEIGHTS.len() + SetPoint::SPARES.len();
    set("network/0/weight", inputs, others_replicas, 10.0);
    set("network/0/bias", 1, 0, 0.0);
    set("network/1/weight", choices, SetPoint::WEIGHTS.len() - 1, 1.0);
    set("network/1/bias", choices, 0, 0.1);
    Policy::from_bytes(&encode(&file)).unwrap()
}

#[test]
fn a_policy_of_a_team_sees_the_others_on_its_platform() {
    let policy = policy();
    assert_eq!(places_that_serve(&policy), ["sim", "replay", "operator"]);
    let candidate = Candidate { name: "agent-0".to_owned(), agent: 0, policy };
    let weights = |scenario: Scenario| {
        let controllers = Controllers::Learned {
            name: "team".to_owned(),
            file: None,
            candidates: vec![candidate.clone()],
            sampling: Sampling::Greedy,
            takes_turns: false,
        };
        let plan = FaasConfig { functions: 3, ..FaasConfig::default() }.build().unwrap();
        let duration = SimDuration::from_secs(50);
        let simulation = Simulation { system: Arc::new(plan), scenario, controllers, duration };
        let mut weights = Vec::new();
        let mut note = |reason: &Reason| {
            if let Reason::SetPoint { action } = reason {
                weights.push(SetPoint::WEIGHTS[action.weight]);
            }
        };
        simulation
            .run(1, &mut |record| {
                record.decision.reasons().iter().for_each(&mut note);
                Ok(())
            })
            .unwrap();
        weights.dedup();
        weights
    };
    assert_eq!(weights(Scenario::Together), [Millicores::new(2000)]);
    assert_eq!(weights(Scenario::Alone), [Millicores::new(125)]);
}
