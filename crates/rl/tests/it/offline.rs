//! What the offline algorithms promise: they learn more from recorded transitions than the recorded
//! behaviour knew, stop on numbers that are not finite, repeat themselves to the bit, and what they
//! learnt survives a file. Their updates are compared with PyTorch's in `src/offline/pytorch_tests.rs`.

use homeostat_core::{Array, Snapshot, Stream};
use homeostat_env::{Action, EnvSpec, Space, make};
use homeostat_rl::{
    BcqConfig, IqlConfig, OfflineAlgorithm, OfflineConfig, OfflineDataset, OfflineLearner, Policy,
    Recorded, Sampling, Td3BcConfig,
};

use crate::play::{context, greedy_return, spec, workspace};

const POINT: &str = "toy/identity-box-v1";

/// Settings that learn within a second.
fn configs() -> [OfflineConfig; 3] {
    let hidden = vec![32];
    [
        OfflineConfig::Bcq(BcqConfig {
            minibatch: 64,
            hidden: hidden.clone(),
            learning_rate: 3e-3,
            gamma: 0.5,
            perturbation: 0.2,
            target_candidates: 4,
            served_candidates: 50,
            ..BcqConfig::default()
        }),
        OfflineConfig::Iql(IqlConfig {
            minibatch: 64,
            hidden: hidden.clone(),
            learning_rate: 3e-3,
            gamma: 0.5,
            inverse_temperature: 10.0,
            ..IqlConfig::default()
        }),
        OfflineConfig::Td3Bc(Td3BcConfig {
            minibatch: 64,
            hidden,
            learning_rate: 3e-3,
            gamma: 0.5,
            alpha: 10.0,
            ..Td3BcConfig::default()
        }),
    ]
}

/// How the recorded behaviour answers: a third of a unit beside the point, and scattered.
const BEHAVIOUR_BIAS: f32 = 0.3;
const BEHAVIOUR_SPREAD: f32 = 0.3;

fn spec_of(env: &str) -> EnvSpec {
    make(env).expect("it exists").spec().clone()
}

/// Transitions of the behaviour, and its return in an episode of 100 steps.
fn recorded(steps: usize, seed: u64) -> (OfflineDataset, f64) {
    let mut env = make(POINT).expect("it exists");
    let mut data = OfflineDataset::new(env.spec()).expect("its actions are a box");
    let mut rng = Stream::from_seed(seed);
    let mut obs = env.reset(Some(seed)).expect("a reset needs no luck").to_vec();
    let mut sum = 0.0;
    for _ in 0..steps {
        let answer = |shown: &f32| {
            let noise = BEHAVIOUR_SPREAD * rng.normal() as f32;
            (shown + BEHAVIOUR_BIAS + noise).clamp(-1.0, 1.0)
        };
        let action: Vec<f32> = obs.iter().map(answer).collect();
        let step = env.step(&Action::Continuous(action.clone())).expect("it is in the space");
        let (reward, terminated, is_over) = (step.reward, step.terminated, step.done());
        let next_obs = step.obs;
        data.push(&Recorded { obs: &obs, action: &action, reward, next_obs, terminated })
            .expect("all numbers are finite");
        sum += reward;
        obs.copy_from_slice(next_obs);
        if is_over {
            obs.copy_from_slice(env.reset(None).expect("a reset needs no luck"));
        }
    }
    (data, sum / steps as f64 * 100.0)
}

fn taught(config: &OfflineConfig, data: &OfflineDataset, steps: usize) -> Box<dyn OfflineLearner> {
    let mut learner = config.build(&context(&spec_of(POINT), 0, 1)).expect("the spaces suit it");
    let mut workspace = workspace();
    for _ in 0..steps {
        learner.learn(data, &mut workspace).expect("all numbers are finite");
    }
    learner
}

#[test]
fn every_algorithm_does_better_than_the_recorded_behaviour_and_than_its_clone() {
    // A perfect clone of the behaviour is beside the point by its bias, where the box lets it.
    let clone = -100.0 * f64::from(BEHAVIOUR_BIAS * BEHAVIOUR_BIAS);
    for config in configs() {
        let name = config.algorithm().name();
        for seed in [1, 2, 3] {
            let (data, behaviour) = recorded(4_000, seed);
            let learner = taught(&config, &data, 3_000);
            let reached = greedy_return(&learner.policy(), POINT, &mut workspace());
            assert!(behaviour < clone, "the behaviour has {behaviour}: nothing is shown");
            assert!(reached > clone / 2.0, "{name}, seed {seed} gets {reached}");
        }
    }
}

#[test]
fn without_weight_on_the_value_td3_bc_clones_the_behaviour() {
    let config = Td3BcConfig { alpha: 0.0, learning_rate: 3e-3, ..Td3BcConfig::default() };
    let learner = taught(&OfflineConfig::Td3Bc(config), &recorded(4_000, 1).0, 2_000);
    let (policy, mut workspace) = (learner.policy(), workspace());
    let mut action = Action::Discrete(0);
    for shown in [[-0.5, 0.0], [0.0, -0.5], [-0.2, -0.8]] {
        policy.act(
            &shown,
            Sampling::Greedy,
            &mut Stream::from_seed(0),
            &mut action,
            &mut workspace,
        );
        let Action::Continuous(chosen) = &action else { panic!("{action} is no point") };
        for (chosen, shown) in chosen.iter().zip(shown) {
            assert!((chosen - shown - BEHAVIOUR_BIAS).abs() < 0.12, "{chosen} for {shown}");
        }
    }
}

fn snapshot(learner: &dyn OfflineLearner) -> Snapshot {
    let mut snapshot = Snapshot::default();
    learner.save("learner", &mut snapshot);
    snapshot
}

#[test]
fn the_same_seed_gives_the_same_agent_and_another_seed_another() {
    let (data, _) = recorded(500, 1);
    for config in configs() {
        let built = |seed: u64| {
            let mut learner = config.build(&context(&spec_of(POINT), 0, seed)).expect("suited");
            let mut workspace = workspace();
            for _ in 0..50 {
                learner.learn(&data, &mut workspace).expect("finite");
            }
            snapshot(&*learner)
        };
        assert_eq!(built(1), built(1), "{}", config.algorithm().name());
        assert_ne!(built(1), built(2), "{}", config.algorithm().name());
    }
}

#[test]
fn a_resumed_agent_equals_the_unbroken_one() {
    let (data, _) = recorded(500, 1);
    for config in configs() {
        let name = config.algorithm().name();
        let mut workspace = workspace();
        let mut unbroken = taught(&config, &data, 0);
        let mut saved = vec![snapshot(&*unbroken)];
        for _ in 0..20 {
            unbroken.learn(&data, &mut workspace).expect("finite");
            saved.push(snapshot(&*unbroken));
        }
        for step in [0, 1, 7, 19] {
            // Another seed: nothing of the fresh agent may be left.
            let mut resumed = config.build(&context(&spec_of(POINT), 0, 9)).expect("suited");
            resumed.load("learner", &saved[step]).expect("it was just saved");
            assert_eq!(resumed.steps(), step as u64);
            for _ in step..20 {
                resumed.learn(&data, &mut workspace).expect("finite");
            }
            assert_eq!(snapshot(&*resumed), saved[20], "{name}, resumed after step {step}");
        }
    }
}

#[test]
fn a_policy_acts_the_same_after_a_file() {
    let (data, _) = recorded(500, 1);
    let (mut workspace, mut rng) = (workspace(), Stream::from_seed(0));
    for config in configs() {
        let policy = taught(&config, &data, 30).policy();
        let read = Policy::from_bytes(&policy.to_bytes()).expect("it was just written");
        assert_eq!(read.algorithm(), config.algorithm().name());
        for shown in [[0.0, 0.0], [0.9, -0.4], [-1.0, 1.0]] {
            let mut actions = [Action::Discrete(0), Action::Discrete(0)];
            for (policy, action) in [&policy, &read].into_iter().zip(&mut actions) {
                policy.act(&shown, Sampling::Greedy, &mut rng, action, &mut workspace);
            }
            assert_eq!(actions[0], actions[1]);
            assert!(policy.action().contains(&actions[0]), "{}", actions[0]);
        }
    }
}

#[test]
fn a_damaged_file_of_a_constrained_policy_is_refused() {
    let (data, _) = recorded(100, 1);
    let bytes = taught(&configs()[0], &data, 1).policy().to_bytes();
    for cut in [bytes.len() / 3, bytes.len() - 1] {
        assert!(Policy::from_bytes(&bytes[..cut]).is_err(), "{cut} bytes");
    }
}

#[test]
fn numbers_that_are_not_finite_never_enter_a_dataset() {
    let mut data = OfflineDataset::new(&spec_of(POINT)).expect("a box");
    let row = [0.1, 0.2];
    let good = Recorded { obs: &row, action: &row, reward: 1.0, next_obs: &row, terminated: false };
    data.push(&good).expect("finite");
    let broken = [0.1, f32::NAN];
    let mut check = |recorded: Recorded<'_>, expect: &str| {
        let error = data.push(&recorded).expect_err("it must be refused").to_string();
        assert_eq!(error, format!("transition 1 of the dataset cannot be used: {expect}"));
        assert_eq!(data.len(), 1);
    };
    check(Recorded { obs: &broken, ..good }, "its observation is not finite (NaN)");
    check(Recorded { action: &broken, ..good }, "its action is not finite (NaN)");
    check(Recorded { next_obs: &broken, ..good }, "its next observation is not finite (NaN)");
    check(Recorded { reward: f64::INFINITY, ..good }, "its reward is not finite (inf)");
    check(Recorded { action: &row[..1], ..good }, "its action has 1 numbers, not 2");
}

#[test]
fn whatever_weight_or_moment_is_poisoned_the_agent_stops() {
    let (data, _) = recorded(100, 1);
    for config in configs() {
        let name = config.algorithm().name();
        let mut workspace = workspace();
        let healthy = snapshot(&*taught(&config, &data, 3));
        let kinds = ["/weight", "/bias", "/extra", "/mean", "/square"];
        let arrays = healthy.iter().filter_map(|(array, values)| match values {
            Array::F32(numbers) if kinds.iter().any(|kind| array.ends_with(kind)) => {
                Some((array.to_owned(), numbers.clone()))
            }
            _ => None,
        });
        let arrays: Vec<_> = arrays.collect();
        assert!(arrays.len() > 10, "{name} has {} arrays", arrays.len());
        for (array, numbers) in arrays {
            for (index, value) in [(0, f32::NAN), (numbers.len() - 1, f32::INFINITY)] {
                let mut poisoned = healthy.clone();
                let mut numbers = numbers.clone();
                numbers[index] = value;
                poisoned.put_f32(&array, numbers);
                let mut learner = taught(&config, &data, 0);
                learner.load("learner", &poisoned).expect("only numbers have changed");
                let stopped = (0..4).find_map(|_| learner.learn(&data, &mut workspace).err());
                let text = stopped.map(|error| error.to_string()).unwrap_or_default();
                assert!(
                    text.contains("is not finite"),
                    "{name} {array}[{index}] = {value}: {text}"
                );
                // A stopped agent that is driven on answers, it does not panic.
                drop(learner.learn(&data, &mut workspace));
                drop(learner.policy().to_bytes());
            }
        }
    }
}

#[test]
fn what_cannot_be_learned_is_refused_with_the_reason() {
    let error = OfflineDataset::new(&spec_of("classic/cartpole-v1")).expect_err("choices");
    assert_eq!(
        error.to_string(),
        "offline learning cannot learn on classic/cartpole-v1: its actions are Discrete(2), and it \
         needs a box"
    );
    let endless = spec(Space::Discrete(2), Space::uniform_box(1, 0.0, f32::INFINITY));
    for algorithm in OfflineAlgorithm::ALL {
        let result = algorithm.default_config().build(&context(&endless, 0, 0));
        let text = result.err().expect("it is unsuited").to_string();
        assert!(text.contains("infinite end"), "{text}");
        assert_eq!(OfflineAlgorithm::by_name(algorithm.name()), Some(algorithm));
    }
    let empty = OfflineDataset::new(&spec_of(POINT)).expect("a box");
    let other = recorded(5, 1).0;
    for config in configs() {
        let mut learner = taught(&config, &empty, 0);
        let error = learner.learn(&empty, &mut workspace()).expect_err("nothing to learn from");
        assert!(error.to_string().contains("record some first"), "{error}");
        let pendulum = spec_of("classic/pendulum-v1");
        let mut learner = config.build(&context(&pendulum, 0, 0)).expect("suited");
        let error = learner.learn(&other, &mut workspace()).expect_err("another environment");
        assert!(error.to_string().contains("not those of the agent"), "{error}");
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let check = |config: OfflineConfig, expect: &str| {
        let error = config.validate().expect_err("out of range").to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(
        OfflineConfig::Bcq(BcqConfig { served_candidates: 0, ..BcqConfig::default() }),
        "bcq.served_candidates = 0",
    );
    check(
        OfflineConfig::Iql(IqlConfig { expectile: 1.0, ..IqlConfig::default() }),
        "iql.expectile = 1",
    );
    check(
        OfflineConfig::Td3Bc(Td3BcConfig { alpha: f32::NAN, ..Td3BcConfig::default() }),
        "td3-bc.alpha = NaN",
    );
    configs().iter().for_each(|config| config.validate().expect("they are within their ranges"));
}
