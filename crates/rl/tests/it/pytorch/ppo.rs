//! PPO's epochs.

use homeostat_nn::Kernel;
use homeostat_rl::{Batch, Ppo, PpoConfig, Workspace};
use serde::Deserialize;

use super::{FEATURES, HeadCase, assert_parameters, cases, network, observation};
use crate::play::{context, spec};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PpoCase {
    name: String,
    config: PpoConfig,
    head: HeadCase,
    progress: f64,
    features: Vec<f32>,
    actions: Vec<f32>,
    log_prob: Vec<f32>,
    value: Vec<f32>,
    advantage: Vec<f32>,
    target: Vec<f32>,
    orders: Vec<Vec<u32>>,
    actor: Vec<f32>,
    critic: Vec<f32>,
    actor_after: Vec<f64>,
    critic_after: Vec<f64>,
}

#[test]
fn ppo_agrees_with_pytorch() {
    for case in cases::<PpoCase>(include_str!("../../fixtures/ppo.json")) {
        let PpoCase { name, config, head, .. } = case;
        let batch = Batch {
            features: case.features,
            actions: case.actions,
            log_prob: case.log_prob,
            value: case.value,
            advantage: case.advantage,
            target: case.target,
        };
        for kernel in Kernel::available() {
            let context = context(&spec(observation(), head.space()), 0, 0);
            let mut agent = Ppo::new(&config, &context).unwrap();
            let (actor, critic) = agent.networks_mut();
            let before = network(FEATURES, &config.hidden, head.outputs(), &case.actor);
            actor.params_mut().copy_from_slice(before.params());
            let before = network(FEATURES, &config.hidden, 1, &case.critic);
            critic.params_mut().copy_from_slice(before.params());
            let mut workspace = Workspace::new(kernel);
            for order in &case.orders {
                agent.epoch(&batch, order, case.progress, &mut workspace).unwrap();
            }
            let (actor, critic) = agent.networks();
            assert_parameters(&format!("{kernel} {name}: actor"), actor, &case.actor_after);
            assert_parameters(&format!("{kernel} {name}: critic"), critic, &case.critic_after);
        }
    }
}
