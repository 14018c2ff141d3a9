//! An epoch ends when the policy has moved too far from the one that played.

use homeostat_env::Space;
use homeostat_rl::{Batch, Ppo, PpoConfig};

use crate::agents;
use crate::play::{context, spec, workspace};

const ROWS: usize = 12;
const MINIBATCH: usize = 4;

fn agent(target_kl: Option<f32>) -> Ppo {
    let config = PpoConfig { minibatch: MINIBATCH, target_kl, ..agents::ppo() };
    let spec = spec(Space::uniform_box(1, -1.0, 1.0), Space::Discrete(2));
    Ppo::new(&config, &context(&spec, 0, 1)).expect("the settings are in range")
}

/// The actor's parameters after one epoch in this order.
fn actor_after(target_kl: Option<f32>, order: &[u32]) -> Vec<f32> {
    let mut agent = agent(target_kl);
    let numbers = |step: f32| (0..ROWS).map(|row| row as f32 * step).collect::<Vec<f32>>();
    let batch = Batch {
        features: numbers(0.1),
        actions: vec![1.0; ROWS],
        // Far from the even odds of a fresh policy, which are ln 0.5.
        log_prob: vec![-1.5; ROWS],
        value: numbers(0.0),
        advantage: numbers(1.0),
        target: numbers(0.2),
    };
    agent.epoch(&batch, order, 0.0, &mut workspace()).expect("finite numbers stay finite");
    agent.networks().0.params().to_vec()
}

#[test]
fn the_epoch_ends_after_the_minibatch_that_went_too_far() {
    let order: Vec<u32> = (0..ROWS as u32).collect();
    let first_minibatch = &order[..MINIBATCH];
    assert_eq!(actor_after(Some(0.01), &order), actor_after(None, first_minibatch));
}

#[test]
fn a_target_that_is_not_reached_changes_nothing() {
    let order: Vec<u32> = (0..ROWS as u32).collect();
    assert_eq!(actor_after(Some(100.0), &order), actor_after(None, &order));
}

#[test]
fn an_epoch_over_nothing_changes_nothing() {
    assert_eq!(actor_after(None, &[]), agent(None).networks().0.params());
}
