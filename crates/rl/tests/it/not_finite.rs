//! NaN and infinity stop an agent where they appear, with its name, its step and
//! the tensor; and a stopped agent that is driven on answers, it does not panic.

mod subject;

use homeostat_nn::Activation;
use homeostat_rl::{AlgorithmConfig, PpoConfig};

use crate::play::spec;
use subject::{
    CHOICES, Kind, Subject, ddpg, dqn, kinds, plane, ppo, ppo_config, q_learning, reinforce,
};

const BROKEN: [(f32, &str); 3] =
    [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")];

/// `numbers` with the last one replaced, and the index of that one.
fn with_last(numbers: &[f32], last: f32) -> (Vec<f32>, usize) {
    let mut numbers = numbers.to_vec();
    let index = numbers.len() - 1;
    numbers[index] = last;
    (numbers, index)
}

#[test]
fn an_observation_stops_the_agent() {
    for kind in kinds() {
        for (value, text) in BROKEN {
            let mut subject = Subject::new(&kind);
            let (obs, index) = with_last(&subject.obs, value);
            let error = subject.step_with(&obs, 1.0, &[]).unwrap_err().to_string();
            let expect =
                format!("agent-7 stopped at step 3: observation[{index}] is not finite ({text})");
            assert_eq!(error, expect, "{:?}", kind.0.algorithm());
            subject.is_still_answering();
        }
    }
}

#[test]
fn a_next_observation_stops_the_agent() {
    for kind in kinds() {
        for (value, text) in BROKEN {
            let mut subject = Subject::new(&kind);
            let obs = subject.obs.clone();
            let (next_obs, index) = with_last(&obs, value);
            let error = subject.step_with(&obs, 1.0, &next_obs).unwrap_err().to_string();
            let expect = format!(
                "agent-7 stopped at step 4: next observation[{index}] is not finite ({text})"
            );
            assert_eq!(error, expect, "{:?}", kind.0.algorithm());
            subject.is_still_answering();
        }
    }
}

#[test]
fn a_reward_stops_the_agent() {
    // The last is finite in the environment but not in the agent.
    let rewards = [(f64::NAN, "NaN"), (f64::INFINITY, "inf"), (-1e300, "-inf")];
    for kind in kinds() {
        for (reward, text) in rewards {
            let mut subject = Subject::new(&kind);
            let obs = subject.obs.clone();
            let error = subject.step_with(&obs, reward, &obs).unwrap_err().to_string();
            let expect = format!("agent-7 stopped at step 4: reward is not finite ({text})");
            assert_eq!(error, expect, "{:?}", kind.0.algorithm());
            subject.is_still_answering();
        }
    }
}

/// The agent stops with this text within a few steps of the change.
fn check_stop(subject: &mut Subject, what: &str, expect: &str) {
    let expect = format!("agent-7 stopped at step {expect}");
    assert_eq!(subject.stopped().as_deref(), Some(expect.as_str()), "{what}");
}

#[test]
fn a_poisoned_array_stops_the_agent_by_name() {
    let check = |kind: Kind, array: &str, expect: &str| {
        let mut subject = Subject::new(&kind);
        subject.edit(array, |numbers| numbers[0] = f32::NAN);
        check_stop(&mut subject, &format!("{:?} {array}", kind.0.algorithm()), expect);
    };
    check(ppo(CHOICES), "actor/0/weight", "3: policy output[0] is not finite (NaN)");
    check(ppo(plane()), "actor/extra", "3: action[0] is not finite (NaN)");
    check(ppo(CHOICES), "critic/0/weight", "3: value[0] is not finite (NaN)");
    check(ppo(CHOICES), "actor_adam/mean", "4: policy loss[0] is not finite (NaN)");
    check(ppo(CHOICES), "critic_adam/mean", "4: value loss[0] is not finite (NaN)");
    check(ppo(CHOICES), "rollout/reward", "4: advantages[0] is not finite (NaN)");
    check(ppo(CHOICES), "rollout/log_prob", "4: policy loss[0] is not finite (NaN)");
    check(dqn(), "online/1/bias", "3: q values[0] is not finite (NaN)");
    check(dqn(), "target/0/weight", "4: q loss is not finite (NaN)");
    check(dqn(), "online_adam/square", "4: q weights[0] is not finite (NaN)");
    check(dqn(), "replay/rewards", "4: q loss is not finite (NaN)");
    check(ddpg(), "actor/0/bias", "3: policy output[0] is not finite (NaN)");
    check(ddpg(), "critic/0/weight", "5: critic loss[0] is not finite (NaN)");
    check(ddpg(), "actor_target/0/weight", "5: critic loss[0] is not finite (NaN)");
    check(ddpg(), "critic_target/0/weight", "5: critic loss[0] is not finite (NaN)");
    check(ddpg(), "actor_adam/mean", "5: actor weights[0] is not finite (NaN)");
    check(q_learning(), "table", "3: q values[0] is not finite (NaN)");
    check(reinforce(CHOICES), "policy/0/weight", "3: policy output[0] is not finite (NaN)");
    check(reinforce(plane()), "policy/extra", "3: action[0] is not finite (NaN)");
    check(reinforce(CHOICES), "baseline/0/weight", "4: advantages[0] is not finite (NaN)");
    check(reinforce(CHOICES), "policy_adam/mean", "4: policy weights[0] is not finite (NaN)");
}

#[test]
fn whatever_weight_or_moment_is_poisoned_the_agent_stops() {
    for kind in kinds() {
        let arrays = Subject::new(&kind).weights_and_moments();
        assert!(!arrays.is_empty());
        // DQN's target is a copy: what is not read of it is written over.
        for (array, len) in arrays.iter().filter(|(array, _)| !array.starts_with("target/")) {
            for index in 0..*len {
                for (value, text) in BROKEN {
                    let mut subject = Subject::new(&kind);
                    subject.edit(array, |numbers| numbers[index] = value);
                    let algorithm = kind.0.algorithm();
                    assert!(
                        subject.stopped().is_some(),
                        "{algorithm:?} goes on with {array}[{index}] = {text}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_infinite_weight_that_a_tanh_hides_is_found_after_the_update() {
    let config = PpoConfig { activation: Activation::Tanh, ..ppo_config() };
    let mut subject = Subject::new(&(AlgorithmConfig::Ppo(config), spec(plane(), CHOICES)));
    subject.edit("actor/0/weight", |numbers| numbers[0] = f32::INFINITY);
    check_stop(&mut subject, "ppo", "4: actor weights[0] is not finite (inf)");
}

/// A hidden unit that turns an observation of 1e25 into an output near one, although
/// the product of its gradient with the observation is beyond single precision.
fn make_steep(subject: &mut Subject, network: &str) {
    subject.edit(&format!("{network}/0/weight"), |numbers| numbers.fill(0.0));
    subject.edit(&format!("{network}/0/bias"), |numbers| numbers.fill(1e-20));
    subject.edit(&format!("{network}/1/weight"), |numbers| {
        numbers.fill(0.0);
        numbers[0] = 1e20;
    });
    subject.edit(&format!("{network}/1/bias"), |numbers| numbers.fill(0.0));
}

/// A network that overlooks the observation.
fn make_blind(subject: &mut Subject, network: &str) {
    subject.edit(&format!("{network}/0/weight"), |numbers| numbers[..2].fill(0.0));
}

#[test]
fn a_gradient_that_overflows_stops_the_agent() {
    let check = |kind: Kind, steep: &str, blind: &[&str], expect: &str| {
        let mut subject = Subject::new(&kind);
        make_steep(&mut subject, steep);
        blind.iter().for_each(|network| make_blind(&mut subject, network));
        subject.obs.fill(1e25);
        check_stop(&mut subject, &format!("{:?} {steep}", kind.0.algorithm()), expect);
    };
    check(ppo(CHOICES), "actor", &["critic"], "4: actor gradient is not finite (NaN)");
    check(ppo(CHOICES), "critic", &["actor"], "4: critic gradient is not finite (NaN)");
    check(dqn(), "online", &["target"], "4: q gradient is not finite (NaN)");
    let targets = ["actor_target", "critic_target"];
    check(
        ddpg(),
        "actor",
        &["critic", targets[0], targets[1]],
        "5: actor gradient is not finite (NaN)",
    );
    check(
        ddpg(),
        "critic",
        &["actor", targets[0], targets[1]],
        "5: critic gradient is not finite (NaN)",
    );
    check(reinforce(CHOICES), "policy", &["baseline"], "4: policy gradient is not finite (NaN)");
    check(reinforce(CHOICES), "baseline", &["policy"], "4: baseline gradient is not finite (NaN)");
}
