//! Several copies stepped together.

use homeostat_core::{Persist, SeedTree, Snapshot, Stream};
use homeostat_env::{Action, AutoresetMode, EpisodeSummary, Error, SubEnvStep, VecEnv, make};

/// A `SubEnvStep` that outlives the callback, with the sub-environment's observation afterwards.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    reward: f64,
    terminated: bool,
    truncated: bool,
    final_obs: Vec<f32>,
    episode: Option<EpisodeSummary>,
    obs: Vec<f32>,
}

fn vec_env(id: &str, envs: usize, mode: AutoresetMode) -> VecEnv {
    VecEnv::new(|| make(id), envs, mode, &SeedTree::new(5)).expect("the id is registered")
}

fn step(envs: &mut VecEnv, actions: &[Action]) -> Vec<Seen> {
    let mut seen = Vec::new();
    envs.step(actions, |index, step| {
        assert_eq!(index, seen.len(), "sub-environments are reported in order");
        seen.push(Seen {
            reward: step.reward,
            terminated: step.terminated,
            truncated: step.truncated,
            final_obs: step.final_obs.to_vec(),
            episode: step.episode,
            obs: Vec::new(),
        });
    })
    .expect("the actions are legal");
    let width = envs.spec().observation.len();
    for (seen, obs) in seen.iter_mut().zip(envs.obs().chunks(width)) {
        seen.obs = obs.to_vec();
    }
    seen
}

/// The shortest way through the grid world: four right, four down.
fn walk_to_the_goal(envs: &mut VecEnv) -> Seen {
    let mut last = None;
    for direction in [1, 1, 1, 1, 2, 2, 2, 2] {
        assert!(last.is_none_or(|seen: Seen| seen.episode.is_none()), "the goal came early");
        last = step(envs, &[Action::Discrete(direction)]).pop();
    }
    last.expect("eight steps were played")
}

const GOAL: [f32; 1] = [24.0];
const START: [f32; 1] = [0.0];
const WHOLE_WAY: EpisodeSummary = EpisodeSummary { episode_return: -8.0, length: 8 };

#[test]
fn same_step_resets_at_once_and_keeps_the_final_observation() {
    let mut envs = vec_env("toy/grid-world-v1", 1, AutoresetMode::SameStep);
    for _ in 0..2 {
        let end = walk_to_the_goal(&mut envs);
        assert!(end.terminated && !end.truncated);
        assert_eq!((end.final_obs.as_slice(), end.obs.as_slice()), (&GOAL[..], &START[..]));
        // The second time too: sums restart with the episode.
        assert_eq!(end.episode, Some(WHOLE_WAY));
    }
}

#[test]
fn next_step_shows_the_end_and_spends_a_step_on_the_reset() {
    let mut envs = vec_env("toy/grid-world-v1", 1, AutoresetMode::NextStep);
    for _ in 0..2 {
        let end = walk_to_the_goal(&mut envs);
        assert_eq!((end.final_obs.as_slice(), end.obs.as_slice()), (&GOAL[..], &GOAL[..]));
        assert_eq!(end.episode, Some(WHOLE_WAY));
        // The action is ignored, even one that no state would take.
        let reset = &step(&mut envs, &[Action::Discrete(99)])[0];
        assert_eq!((reset.reward, reset.terminated, reset.truncated), (0.0, false, false));
        assert_eq!((reset.obs.as_slice(), reset.episode), (&START[..], None));
    }
}

#[test]
fn disabled_waits_for_the_caller() {
    let mut envs = vec_env("toy/grid-world-v1", 1, AutoresetMode::Disabled);
    let end = walk_to_the_goal(&mut envs);
    assert_eq!((end.obs.as_slice(), end.episode), (&GOAL[..], Some(WHOLE_WAY)));
    let error = envs.step(&[Action::Discrete(1)], |_, _| {}).unwrap_err();
    assert!(matches!(error, Error::StepAfterEnd { .. }), "{error}");
    envs.reset_env(0, None).unwrap();
    assert_eq!(envs.obs(), START);
    assert_eq!(walk_to_the_goal(&mut envs).episode, Some(WHOLE_WAY));
}

#[test]
fn a_truncated_episode_is_reported_as_such_with_return_and_length() {
    let mut envs = vec_env("toy/identity-v1", 2, AutoresetMode::SameStep);
    let mut sums = [0.0; 2];
    for index in 1..=200 {
        let shown = envs.obs()[0] as usize;
        // Environment 0 repeats what it sees, environment 1 always says 0.
        let seen = step(&mut envs, &[Action::Discrete(shown), Action::Discrete(0)]);
        for (sum, seen) in sums.iter_mut().zip(&seen) {
            *sum += seen.reward;
            let expect = EpisodeSummary { episode_return: *sum, length: 100 };
            assert_eq!(seen.episode, (index % 100 == 0).then_some(expect));
            assert_eq!((seen.terminated, seen.truncated), (false, index % 100 == 0));
        }
        if index % 100 == 0 {
            assert_eq!(sums[0], 100.0);
            sums = [0.0; 2];
        }
    }
}

/// Random actions for every environment, the same for the same stream.
fn random_actions(envs: &VecEnv, rngs: &mut [Stream]) -> Vec<Action> {
    rngs.iter_mut().map(|rng| envs.spec().action.sample(rng)).collect()
}

fn action_streams(envs: usize) -> Vec<Stream> {
    (0..envs).map(|env| SeedTree::new(6).stream(&format!("lane/{env}"))).collect()
}

#[test]
fn restored_lanes_go_on_as_if_nothing_had_happened() {
    for mode in [AutoresetMode::SameStep, AutoresetMode::NextStep] {
        for id in ["classic/cartpole-v1", "classic/pendulum-v1", "toy/identity-multi-v1"] {
            let mut envs = vec_env(id, 3, mode);
            let mut rngs = action_streams(3);
            for _ in 0..137 {
                let actions = random_actions(&envs, &mut rngs);
                step(&mut envs, &actions);
            }
            let mut snapshot = Snapshot::default();
            envs.save("envs", &mut snapshot);
            let mut restored = vec_env(id, 3, mode);
            restored.load("envs", &snapshot).unwrap();
            assert_eq!(restored.obs(), envs.obs());
            let mut episodes = 0;
            for _ in 0..300 {
                let actions = random_actions(&envs, &mut rngs);
                let seen = step(&mut envs, &actions);
                assert_eq!(step(&mut restored, &actions), seen, "{id} {mode:?}");
                episodes += seen.iter().filter(|seen| seen.episode.is_some()).count();
            }
            assert!(episodes > 0, "the sums of a broken episode were never compared");
        }
    }
}

#[test]
fn a_sub_env_saved_between_its_end_and_its_reset_still_waits_for_the_reset() {
    let mut envs = vec_env("toy/grid-world-v1", 1, AutoresetMode::NextStep);
    walk_to_the_goal(&mut envs);
    let mut snapshot = Snapshot::default();
    envs.save("envs", &mut snapshot);
    let mut restored = vec_env("toy/grid-world-v1", 1, AutoresetMode::NextStep);
    restored.load("envs", &snapshot).unwrap();
    assert_eq!(step(&mut restored, &[Action::Discrete(1)])[0].obs, START);
}

#[test]
fn another_number_of_lanes_is_refused() {
    let mut snapshot = Snapshot::default();
    vec_env("toy/identity-v1", 2, AutoresetMode::SameStep).save("envs", &mut snapshot);
    let mut more = vec_env("toy/identity-v1", 3, AutoresetMode::SameStep);
    assert!(more.load("envs", &snapshot).is_err());
}

#[test]
fn a_lane_does_not_depend_on_how_many_there_are() {
    let (mut few, mut many) = (
        vec_env("classic/cartpole-v1", 2, AutoresetMode::SameStep),
        vec_env("classic/cartpole-v1", 5, AutoresetMode::SameStep),
    );
    let mut rngs = action_streams(5);
    assert_ne!(many.obs()[..4], many.obs()[4..8], "sub-environments have seeds of their own");
    for _ in 0..300 {
        let actions = random_actions(&many, &mut rngs);
        let seen = step(&mut many, &actions);
        assert_eq!(step(&mut few, &actions[..2]), seen[..2]);
    }
}

#[test]
fn a_refused_step_moves_no_sub_env() {
    let mut envs = vec_env("toy/grid-world-v1", 2, AutoresetMode::SameStep);
    let check = |envs: &mut VecEnv, actions: &[Action], expect: &str| {
        let mut reported = 0;
        let error = envs.step(actions, |_, _| reported += 1).unwrap_err().to_string();
        assert_eq!((error.as_str(), reported), (expect, 0));
        assert_eq!(envs.obs(), [0.0, 0.0]);
    };
    let right = Action::Discrete(1);
    check(&mut envs, std::slice::from_ref(&right), "toy/grid-world-v1 expects 2 actions, got 1");
    check(
        &mut envs,
        &[right.clone(), Action::Discrete(4)],
        "action 4 is outside the action space Discrete(4) of toy/grid-world-v1",
    );
    assert_eq!(step(&mut envs, &[right.clone(), right])[0].obs, [1.0]);
}

#[test]
fn sub_envs_that_do_not_exist_are_refused() {
    let seeds = SeedTree::new(0);
    let make_grid = || make("toy/grid-world-v1");
    let none = VecEnv::new(make_grid, 0, AutoresetMode::SameStep, &seeds);
    assert!(matches!(none.err(), Some(Error::NoEnvs { .. })));
    let mut envs = VecEnv::new(make_grid, 2, AutoresetMode::Disabled, &seeds).unwrap();
    let error = envs.reset_env(2, None).unwrap_err().to_string();
    assert_eq!(error, "toy/grid-world-v1 has no sub-environment 2: it has 2, counted from 0");
}

#[test]
fn lanes_play_the_same_on_threads() {
    let play = |mode: AutoresetMode, threads: Option<usize>| {
        let mut envs = vec_env("classic/cartpole-v1", 5, mode);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(1));
        let pool = pool.build().expect("threads can be started");
        let mut seen = Vec::new();
        for number in 0..200 {
            let actions: Vec<_> = (0..5).map(|env| Action::Discrete((number + env) % 2)).collect();
            let each = |env: usize, step: SubEnvStep<'_>| {
                let ends = (step.terminated, step.truncated, step.episode);
                seen.push((env, step.reward, ends, step.final_obs.to_vec()));
            };
            let stepped = match threads {
                None => envs.step(&actions, each),
                Some(_) => pool.install(|| envs.step_on_threads(&actions, each)),
            };
            stepped.expect("the actions are legal");
        }
        (seen, envs.obs().to_vec())
    };
    for mode in [AutoresetMode::SameStep, AutoresetMode::NextStep] {
        let alone = play(mode, None);
        assert!(alone.0.iter().any(|(_, _, (terminated, ..), _)| *terminated));
        for threads in [1, 2, 4] {
            assert_eq!(play(mode, Some(threads)), alone, "{mode:?} on {threads} threads");
        }
    }
}

#[test]
fn a_refused_step_on_threads_moves_no_sub_env() {
    let mut envs = vec_env("classic/cartpole-v1", 2, AutoresetMode::SameStep);
    let before = envs.obs().to_vec();
    let actions = [Action::Discrete(0), Action::Discrete(7)];
    let refused = envs.step_on_threads(&actions, |_, _| unreachable!("no sub-environment moved"));
    assert!(matches!(refused, Err(Error::ActionOutsideSpace { .. })), "{refused:?}");
    assert_eq!(envs.obs(), before);
    assert!(!envs.are_worth_threads(), "a cart is moved sooner than handed over");
}
