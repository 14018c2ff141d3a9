//! Learners that read the embedding of the pair that they act in.

use homeostat_core::{AgentId, SeedTree, Snapshot, Stream};
use homeostat_env::{Action, EnvSpec, Space, make};
use homeostat_nn::Kernel;
use homeostat_rl::{
    AgentContext, AlgorithmConfig, ConditionedLearner, DdpgConfig, DqnConfig, EmbeddingTable,
    Learner, Outcome, PpoConfig, Sampling, Workspace,
};

/// Environments: two of each pair.
const ENVS: usize = 4;
const PAIRS: usize = 2;

fn algorithms() -> [AlgorithmConfig; 3] {
    [
        AlgorithmConfig::Ppo(PpoConfig {
            num_envs: ENVS,
            steps_per_update: 32,
            epochs: 4,
            minibatch: 32,
            hidden: vec![16],
            actor_learning_rate: 1e-2,
            critic_learning_rate: 1e-2,
            gamma: 0.0,
            ..PpoConfig::default()
        }),
        AlgorithmConfig::Dqn(DqnConfig {
            num_envs: ENVS,
            learning_starts: 64,
            train_every: 1,
            minibatch: 32,
            hidden: vec![16],
            learning_rate: 1e-2,
            gamma: 0.0,
            epsilon_decay_steps: 500,
            ..DqnConfig::default()
        }),
        AlgorithmConfig::Ddpg(DdpgConfig {
            num_envs: ENVS,
            learning_starts: 200,
            hidden: vec![16],
            actor_learning_rate: 3e-3,
            critic_learning_rate: 1e-2,
            gamma: 0.0,
            soft_update: 0.05,
            ..DdpgConfig::default()
        }),
    ]
}

/// Nothing to see; the right action is a secret of the pair.
fn context(config: &AlgorithmConfig, seed: u64) -> AgentContext {
    let action = match config {
        AlgorithmConfig::Dqn(_) => Space::Discrete(2),
        _ => Space::uniform_box(1, -1.0, 1.0),
    };
    let spec = EnvSpec {
        observation: Space::uniform_box(1, -1.0, 1.0),
        action,
        ..make("toy/identity-v1").expect("the settings and spaces fit").spec().clone()
    };
    AgentContext { agent: AgentId::new(0), spec, seeds: SeedTree::new(seed) }
}

/// One for the right action: at the lower end for the first pair, at the upper end for the second.
fn reward(pair: usize, action: &Action) -> f64 {
    let place = match action {
        Action::Discrete(choice) => *choice as f64,
        other => {
            f64::from((other.continuous().expect("the settings and spaces fit")[0] + 1.0) / 2.0)
                .clamp(0.0, 1.0)
        }
    };
    1.0 - (place - pair as f64).abs()
}

fn train<L: Learner + ?Sized>(
    learner: &mut L,
    steps: usize,
    mut after_step: impl FnMut(&mut L),
) -> Vec<Action> {
    let mut workspace = Workspace::new(Kernel::best());
    let mut actions = vec![Action::Discrete(0); ENVS];
    let mut taken = Vec::new();
    for step in 0..steps {
        learner
            .act(&[0.5; ENVS], &mut actions, &mut workspace)
            .expect("the settings and spaces fit");
        for (env, action) in actions.iter().enumerate() {
            let outcome = Outcome {
                reward: reward(env % PAIRS, action),
                terminated: false,
                truncated: step % 10 == 9,
                next_obs: &[0.5],
            };
            learner.record(env, outcome, &mut workspace).expect("the settings and spaces fit");
        }
        learner.learn(0.0, &mut workspace).expect("the settings and spaces fit");
        taken.extend(actions.iter().cloned());
        after_step(learner);
    }
    taken
}

fn conditioned(config: &AlgorithmConfig, width: usize, seed: u64) -> Box<dyn ConditionedLearner> {
    let mut table = EmbeddingTable::new(PAIRS, width, ENVS);
    (0..ENVS).for_each(|env| table.assign(env, env % PAIRS));
    config.build_conditioned(&context(config, seed), table).expect("the settings and spaces fit")
}

/// The mean reward of the policies of both pairs.
fn served(learner: &dyn ConditionedLearner) -> f64 {
    let (mut rng, mut workspace) = (Stream::from_seed(0), Workspace::new(Kernel::best()));
    let mut sum = 0.0;
    for pair in 0..PAIRS {
        let policy = learner.policy_of(pair);
        let mut action = Action::Discrete(0);
        policy.act(&[0.5], Sampling::Greedy, &mut rng, &mut action, &mut workspace);
        sum += reward(pair, &action);
    }
    sum / PAIRS as f64
}

#[test]
fn each_pair_gets_its_own_action_where_embeddings_differ() {
    for config in algorithms() {
        let name = config.algorithm().name();
        let mut learner = conditioned(&config, 2, 1);
        learner.embeddings_mut().set(0, &[1.0, 0.0]);
        learner.embeddings_mut().set(1, &[0.0, 1.0]);
        train(&mut *learner, 1500, |_| {});
        let found = served(&*learner);
        assert!(found > 0.9, "{name}: {found}");
        // Without a difference between the pairs nothing better than one half can be done.
        let mut blind = conditioned(&config, 0, 1);
        train(&mut *blind, 1500, |_| {});
        let found = served(&*blind);
        assert!((found - 0.5).abs() < 0.05, "{name}: {found}");
    }
}

#[test]
fn embeddings_that_follow_their_gradient_tell_pairs_apart() {
    for config in algorithms() {
        let mut learner = conditioned(&config, 2, 2);
        // Nearly alike: only their gradients can drive them apart.
        learner.embeddings_mut().set(0, &[0.01, 0.0]);
        learner.embeddings_mut().set(1, &[0.0, 0.01]);
        let distance = |learner: &dyn ConditionedLearner| -> f32 {
            let table = learner.embeddings();
            table.get(0).iter().zip(table.get(1)).map(|(a, b)| (a - b).abs()).sum()
        };
        let before = distance(&*learner);
        train(&mut *learner, 2500, |learner| {
            let table = learner.embeddings_mut();
            for pair in 0..PAIRS {
                let mut gradient = [0.0; 2];
                table.gradient(pair, &mut gradient);
                let moved: Vec<f32> =
                    table.get(pair).iter().zip(gradient).map(|(e, d)| e - 0.3 * d).collect();
                table.set(pair, &moved);
            }
            table.clear_gradients();
        });
        let (name, after) = (config.algorithm().name(), distance(&*learner));
        assert!(after > 10.0 * before, "{name}: {before} to {after}");
        let found = served(&*learner);
        assert!(found > 0.9, "{name}: {found}");
    }
}

#[test]
fn a_learner_with_one_pair_and_no_embedding_is_the_plain_one() {
    for config in algorithms() {
        let context = context(&config, 3);
        let mut plain = config.build(&context).unwrap();
        let table = EmbeddingTable::new(1, 0, ENVS);
        let mut conditioned = config.build_conditioned(&context, table).unwrap();
        let expect = train(&mut *plain, 300, |_| {});
        let found = train(&mut *conditioned, 300, |_| {});
        // With several environments of one pair, replay draws which of them first.
        if matches!(config, AlgorithmConfig::Ppo(_)) {
            assert_eq!(found, expect);
        } else {
            assert_eq!(found[..ENVS * 16], expect[..ENVS * 16], "before replay begins");
        }
    }
}

#[test]
fn the_weights_of_a_learner_start_another_one() {
    for config in algorithms() {
        let mut known = conditioned(&config, 2, 4);
        known.embeddings_mut().set(0, &[1.0, 0.0]);
        known.embeddings_mut().set(1, &[0.0, 1.0]);
        train(&mut *known, 1500, |_| {});
        let mut networks = Snapshot::default();
        known.save_networks(&mut networks);
        let mut new = conditioned(&config, 2, 5);
        new.load_networks(&networks).unwrap();
        for pair in 0..PAIRS {
            let embedding = known.embeddings().get(pair).to_vec();
            new.embeddings_mut().set(pair, &embedding);
        }
        assert_eq!(served(&*new), served(&*known), "{}", config.algorithm().name());
        let error = conditioned(&config, 3, 5).load_networks(&networks).unwrap_err().to_string();
        assert!(error.contains("expected"), "{error}");
    }
}

#[test]
fn a_conditioned_learner_goes_on_from_a_snapshot() {
    for config in algorithms() {
        let mut unbroken = conditioned(&config, 2, 6);
        train(&mut *unbroken, 320, |_| {});
        let mut snapshot = Snapshot::default();
        unbroken.save("learner", &mut snapshot);
        let mut resumed = conditioned(&config, 2, 7);
        resumed.load("learner", &snapshot).unwrap();
        let expect = train(&mut *unbroken, 64, |_| {});
        let found = train(&mut *resumed, 64, |_| {});
        assert_eq!(found, expect, "{}", config.algorithm().name());
    }
}

#[test]
fn algorithms_without_embeddings_say_so() {
    let config = homeostat_rl::Algorithm::QLearning.default_config();
    let refused = config.build_conditioned(&context(&config, 1), EmbeddingTable::new(1, 1, 1));
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("q-learning") && error.contains("ppo, dqn or ddpg"), "{error}");
}
