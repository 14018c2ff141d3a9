//! DQN's gradient steps and its target network.

use homeostat_core::Persist;
use homeostat_env::Space;
use homeostat_nn::Kernel;
use homeostat_rl::{Dqn, DqnConfig, Workspace};
use serde::Deserialize;

use super::{
    FEATURES, Transition, assert_parameters, cases, edit, live_through, network, observation,
    saved_network,
};
use crate::play::{context, spec};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DqnCase {
    name: String,
    config: DqnConfig,
    choices: usize,
    progress: f64,
    transitions: Vec<Transition>,
    online: Vec<f32>,
    target: Vec<f32>,
    online_after: Vec<f64>,
    target_after: Vec<f64>,
}

#[test]
fn dqn_agrees_with_pytorch() {
    for case in cases::<DqnCase>(include_str!("../../fixtures/dqn.json")) {
        let DqnCase { name, config, choices, .. } = case;
        let before = |parameters: &[f32]| network(FEATURES, &config.hidden, choices, parameters);
        for kernel in Kernel::available() {
            let context = context(&spec(observation(), Space::Discrete(choices)), 0, 0);
            let mut agent = Dqn::new(&config, &context).unwrap();
            edit(&mut agent, |state| {
                before(&case.online).save("agent/online", state);
                before(&case.target).save("agent/target", state);
            });
            let mut workspace = Workspace::new(kernel);
            live_through(&case.transitions, case.progress, &mut agent, &mut workspace);
            let check = |which: &str, expect: &[f64]| {
                let got = saved_network(&agent, which, &before(&case.online));
                assert_parameters(&format!("{kernel} {name}: {which}"), &got, expect);
            };
            check("online", &case.online_after);
            check("target", &case.target_after);
        }
    }
}
