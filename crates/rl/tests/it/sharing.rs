//! One agent that plays for several: environments that open and close, and a critic that sees more
//! than the actor.

use homeostat_core::{AgentId, Persist, SeedTree, Snapshot};
use homeostat_env::{Action, Space};
use homeostat_rl::{AgentContext, Learner, Outcome, Ppo, PpoConfig};

use crate::play::{spec, workspace};

const STEPS: usize = 4;

fn agent(envs: usize, extra: usize) -> Ppo {
    let config = PpoConfig {
        num_envs: envs,
        steps_per_update: STEPS,
        minibatch: 2,
        epochs: 2,
        ..PpoConfig::default()
    };
    let context = AgentContext {
        agent: AgentId::new(0),
        spec: spec(Space::uniform_box(2, -1.0, 1.0), Space::Discrete(3)),
        seeds: SeedTree::new(7),
    };
    Ppo::with_critic_extra(&config, &context, extra).expect("sound settings")
}

fn play(ppo: &mut Ppo, envs: &[usize], width: usize) {
    let mut workspace = workspace();
    let obs: Vec<f32> = (0..envs.len() * width).map(|k| (k as f32 * 0.37).sin()).collect();
    let mut actions = vec![Action::Discrete(0); envs.len()];
    ppo.act_in(envs, &obs, &mut actions, &mut workspace).expect("finite numbers");
    for env in envs {
        let outcome = Outcome {
            reward: *env as f64,
            terminated: false,
            truncated: false,
            next_obs: &obs[..width],
        };
        ppo.record(*env, outcome, &mut workspace).expect("finite numbers");
    }
}

#[test]
fn lanes_open_and_close_while_others_play_on() {
    let mut ppo = agent(1, 0);
    play(&mut ppo, &[0], 2);
    let late = ppo.add_env();
    assert_eq!(late, 1);
    play(&mut ppo, &[0, late], 2);
    ppo.remove_env(0);
    assert_eq!(ppo.add_env(), 2, "what was seen in environment 0 is not overwritten");
    for _ in 0..STEPS - 1 {
        play(&mut ppo, &[late, 2], 2);
    }
    assert!(ppo.learn(0.0, &mut workspace()).expect("finite numbers").is_some());
    assert_eq!(ppo.add_env(), 0, "environment 0 was learnt from and is free");
}

#[test]
fn an_agent_with_opened_lanes_goes_on_bit_for_bit() {
    let mut first = agent(1, 3);
    let late = first.add_env();
    play(&mut first, &[0, late], 5);
    let mut saved = Snapshot::default();
    first.save("ppo", &mut saved);
    let mut second = agent(1, 3);
    second.load("ppo", &saved).expect("its own state");
    for ppo in [&mut first, &mut second] {
        for _ in 1..STEPS {
            play(ppo, &[0, late], 5);
        }
        ppo.learn(0.0, &mut workspace()).expect("finite numbers").expect("a full rollout");
    }
    assert_eq!(first.networks().0.params(), second.networks().0.params());
    assert_eq!(first.networks().1.params(), second.networks().1.params());
}

#[test]
fn the_actor_does_not_see_what_only_the_critic_is_shown() {
    let ppo = agent(1, 3);
    let value = |extra: f32| ppo.value(&[0.5, 0.5, extra, extra, extra], &mut workspace());
    assert_ne!(value(0.0), value(1.0));
    assert_eq!(ppo.networks().0.shape().inputs(), 2);
    assert_eq!(ppo.policy().env(), "test/spaces-v1");
}
