//! The same seed gives the same agent, bit for bit: on any number of threads, in any
//! company, and when its life was interrupted.

use homeostat_core::{Array, Snapshot};
use homeostat_env::make;
use homeostat_nn::{Kernel, StateFile, decode, encode};
use homeostat_rl::{AlgorithmConfig, DqnConfig, PpoConfig, for_each_agent};
use rayon::ThreadPoolBuilder;

use crate::agents;
use crate::play::{Play, workspace};

/// Every agent has learnt something by then.
const ROUNDS: usize = 250;

/// The first difference. Unlike `==` it knows that NaN is NaN.
fn difference(left: &Snapshot, right: &Snapshot) -> Option<String> {
    let bits = |array: &Array| -> Vec<u64> {
        match array {
            Array::F32(items) => items.iter().map(|item| u64::from(item.to_bits())).collect(),
            Array::F64(items) => items.iter().map(|item| item.to_bits()).collect(),
            Array::U64(items) => items.clone(),
            Array::U8(items) => items.iter().map(|item| u64::from(*item)).collect(),
        }
    };
    let named = |snapshot: &Snapshot| -> Vec<(String, Vec<u64>)> {
        snapshot.iter().map(|(name, array)| (name.to_owned(), bits(array))).collect()
    };
    let (left, right) = (named(left), named(right));
    if left.len() != right.len() {
        return Some(format!("{} and {} arrays", left.len(), right.len()));
    }
    left.into_iter().zip(right).find(|(left, right)| left != right).map(|(left, _)| left.0)
}

fn assert_same(what: &str, left: &Snapshot, right: &Snapshot) {
    if let Some(difference) = difference(left, right) {
        panic!("{what}: {difference} differs");
    }
}

/// Agents 0 to `count`, after they have played on this many threads.
fn fleet(env_id: &str, config: &AlgorithmConfig, count: u32, threads: usize) -> Vec<Snapshot> {
    let mut fleet: Vec<_> =
        (0..count).map(|agent| Play::new(|| make(env_id), config, agent, 5)).collect();
    let pool =
        ThreadPoolBuilder::new().num_threads(threads).build().expect("a few threads are to be had");
    pool.install(|| {
        for_each_agent(Kernel::best(), &mut fleet, |play, workspace| {
            play.rounds(ROUNDS, workspace);
        });
    });
    fleet.iter().map(Play::snapshot).collect()
}

#[test]
fn neither_threads_nor_company_change_an_agent() {
    for (env_id, config) in agents::of_every_kind() {
        let what = format!("{:?} on {env_id}", config.algorithm());
        let alone = fleet(env_id, &config, 1, 1);
        let few = fleet(env_id, &config, 3, 1);
        let many = fleet(env_id, &config, 7, 2);
        assert_same(&what, &alone[0], &few[0]);
        for (few, many) in few.iter().zip(&many) {
            assert_same(&what, few, many);
        }
        assert!(difference(&few[0], &few[1]).is_some(), "{what}: two agents are one");
    }
}

#[test]
fn what_another_agent_left_in_the_workspace_plays_no_part() {
    let mut used = workspace();
    for (env_id, config) in agents::of_every_kind() {
        Play::new(|| make(env_id), &config, 0, 1).rounds(ROUNDS, &mut used);
    }
    for (env_id, config) in agents::of_every_kind() {
        let mut plays = [0, 1].map(|_| Play::new(|| make(env_id), &config, 0, 5));
        plays[0].rounds(ROUNDS, &mut workspace());
        plays[1].rounds(ROUNDS, &mut used);
        let [fresh, used] = plays.map(|play| play.snapshot());
        assert_same(&format!("{:?} on {env_id}", config.algorithm()), &fresh, &used);
    }
}

/// A snapshot as it comes back from a file.
fn through_bytes(arrays: Snapshot) -> Snapshot {
    let kind = "test/1".to_owned();
    let bytes = encode(&StateFile { kind, arrays, ..StateFile::default() });
    decode(&bytes, "test/1").expect("it was just written").arrays
}

#[test]
fn a_resumed_run_equals_the_unbroken_one() {
    for (env_id, config) in agents::of_every_kind() {
        let what = format!("{:?} on {env_id}", config.algorithm());
        let mut workspace = workspace();
        let mut unbroken = Play::new(|| make(env_id), &config, 3, 5);
        let weights = |play: &Play| decode(&play.learner.policy().to_bytes(), "homeostat-policy/2");
        let untaught = weights(&unbroken).unwrap();
        let mut saved = vec![unbroken.snapshot()];
        for _ in 0..ROUNDS {
            unbroken.rounds(1, &mut workspace);
            saved.push(unbroken.snapshot());
        }
        assert_ne!(weights(&unbroken).unwrap(), untaught, "{what} learnt nothing");
        // Before the first step, between updates, right after them, in mid-episode.
        for round in [0, 1, 4, 9, 10, 66, 81, 100, 199, 230] {
            // Another seed: nothing of the fresh agent may be left.
            let mut resumed = Play::new(|| make(env_id), &config, 3, 6);
            resumed.restore(&through_bytes(saved[round].clone())).unwrap();
            assert_same(&format!("{what}, just loaded"), &resumed.snapshot(), &saved[round]);
            resumed.rounds(ROUNDS - round, &mut workspace);
            let what = format!("{what}, resumed after round {round}");
            assert_same(&what, &resumed.snapshot(), &saved[ROUNDS]);
        }
    }
}

/// Loading fails with this text, and leaves an agent that still plays.
fn check_refused(env_id: &str, config: &AlgorithmConfig, snapshot: &Snapshot, expect: &str) {
    let mut play = Play::new(|| make(env_id), config, 0, 1);
    let error = play.restore(snapshot).expect_err("it must be refused").to_string();
    assert_eq!(error, expect, "{:?} on {env_id}", config.algorithm());
    play.rounds(ROUNDS, &mut workspace());
}

fn played(env_id: &str, config: &AlgorithmConfig) -> Snapshot {
    let mut play = Play::new(|| make(env_id), config, 0, 1);
    play.rounds(ROUNDS, &mut workspace());
    play.snapshot()
}

#[test]
fn the_state_of_another_shape_is_refused() {
    let env_id = "classic/cartpole-v1";
    let ppo = |steps_per_update, hidden| {
        AlgorithmConfig::Ppo(PpoConfig { steps_per_update, hidden, ..agents::ppo() })
    };
    check_refused(
        env_id,
        &ppo(9, vec![16]),
        &played(env_id, &ppo(9, vec![32])),
        "snapshot array `learner/actor/0/weight` is 128 f32, expected 64 f32",
    );
    check_refused(
        env_id,
        &ppo(9, vec![32, 8]),
        &played(env_id, &ppo(9, vec![32])),
        "snapshot array `learner/actor/1/weight` is 64 f32, expected 256 f32",
    );
    check_refused(
        env_id,
        &ppo(10, vec![32]),
        &played(env_id, &ppo(9, vec![32])),
        "snapshot array `learner/rollout/features` is 144 f32, expected 160 f32",
    );
    let dqn =
        |replay_capacity| AlgorithmConfig::Dqn(DqnConfig { replay_capacity, ..agents::dqn() });
    check_refused(
        env_id,
        &dqn(90),
        &played(env_id, &dqn(70)),
        "snapshot array `learner/replay/ring` is a ring of 70 transitions that goes on at 40, \
         expected one with room for 90",
    );
}

#[test]
fn the_state_of_another_algorithm_is_refused() {
    let agents = agents::of_every_kind();
    for (env_id, config) in &agents {
        for (other_env, other) in &agents {
            let (ours, theirs) = (config.algorithm(), other.algorithm());
            let mut play = Play::new(|| make(env_id), config, 0, 1);
            let result = play.restore(&played(other_env, other));
            if ours != theirs || env_id != other_env {
                assert!(result.is_err(), "{ours:?} on {env_id} took {theirs:?} on {other_env}");
                play.rounds(ROUNDS, &mut workspace());
            }
        }
    }
}
