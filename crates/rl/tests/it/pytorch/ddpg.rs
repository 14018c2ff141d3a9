//! DDPG's gradient steps of critic and actor, and their targets.

use homeostat_core::Persist;
use homeostat_env::Space;
use homeostat_nn::Kernel;
use homeostat_rl::{Ddpg, DdpgConfig, Workspace};
use serde::Deserialize;

use super::{
    FEATURES, Transition, assert_parameters, cases, edit, live_through, network, observation,
    saved_network,
};
use crate::play::{context, spec};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DdpgCase {
    name: String,
    config: DdpgConfig,
    actions: usize,
    transitions: Vec<Transition>,
    actor: Vec<f32>,
    actor_target: Vec<f32>,
    critic: Vec<f32>,
    critic_target: Vec<f32>,
    actor_after: Vec<f64>,
    actor_target_after: Vec<f64>,
    critic_after: Vec<f64>,
    critic_target_after: Vec<f64>,
}

#[test]
fn ddpg_agrees_with_pytorch() {
    for case in cases::<DdpgCase>(include_str!("../../fixtures/ddpg.json")) {
        let DdpgCase { name, config, actions, .. } = case;
        let actor = |parameters: &[f32]| network(FEATURES, &config.hidden, actions, parameters);
        let critic =
            |parameters: &[f32]| network(FEATURES + actions, &config.hidden, 1, parameters);
        for kernel in Kernel::available() {
            let space = Space::uniform_box(actions, -2.0, 2.0);
            let mut agent =
                Ddpg::new(&config, &context(&spec(observation(), space), 0, 0)).unwrap();
            edit(&mut agent, |state| {
                actor(&case.actor).save("agent/actor", state);
                actor(&case.actor_target).save("agent/actor_target", state);
                critic(&case.critic).save("agent/critic", state);
                critic(&case.critic_target).save("agent/critic_target", state);
            });
            live_through(&case.transitions, 0.0, &mut agent, &mut Workspace::new(kernel));
            for (which, like, expect) in [
                ("actor", actor(&case.actor), &case.actor_after),
                ("actor_target", actor(&case.actor), &case.actor_target_after),
                ("critic", critic(&case.critic), &case.critic_after),
                ("critic_target", critic(&case.critic), &case.critic_target_after),
            ] {
                let got = saved_network(&agent, which, &like);
                assert_parameters(&format!("{kernel} {name}: {which}"), &got, expect);
            }
        }
    }
}
