//! A conditioned base learner with its meta learner: it finds out what a new pair is like by what it observes.

use homeostat_core::{Persist, SeedTree, Snapshot, Stream};
use homeostat_env::{Action, Card, Dynamics, EnvSpec, Episode, Field, Outcome, Space};
use homeostat_flash::{
    Adaptation, BufferConfig, Memory, MetaLearnerConfig, Pair, PairEnvironment,
    ReinforcementConfig, ReinforcementLearner,
};
use homeostat_rl::{AlgorithmConfig, DqnConfig, PpoConfig, Sampling};

const STEPS: usize = 20;

/// The right action is a secret of the pair. Each observation is that secret with noise three times as large.
struct HiddenTarget {
    target: f32,
    seen: f32,
}

impl HiddenTarget {
    fn new(target: f32) -> Self {
        Self { target, seen: 0.0 }
    }

    fn look(&mut self, rng: &mut Stream) {
        self.seen = (f64::from(self.target) + 1.5 * rng.normal()).clamp(-4.0, 4.0) as f32;
    }
}

fn spec(is_discrete: bool) -> EnvSpec {
    EnvSpec {
        id: "test/hidden-target-v1".parse().expect("the id is well-formed"),
        observation: Space::uniform_box(1, -4.0, 4.0),
        action: if is_discrete { Space::Discrete(5) } else { Space::uniform_box(1, -1.0, 1.0) },
        time_limit: Some(STEPS as u32),
        card: Card {
            summary: "Find the target.",
            observation: vec![Field::new("hint", "the target with noise, -4 to 4")],
            action: vec![Field::new("guess", "where the target is")],
            reward: "one less the distance to the target",
            termination: "never",
            source: "this test",
        },
        control: None,
    }
}

impl Dynamics for HiddenTarget {
    fn spec(&self) -> EnvSpec {
        spec(false)
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.look(rng);
    }

    fn step(&mut self, action: &Action, rng: &mut Stream) -> Outcome {
        let guess = action.continuous().expect("the settings and spaces fit")[0].clamp(-1.0, 1.0);
        self.look(rng);
        Outcome { reward: 1.0 - f64::from((guess - self.target).abs()), terminated: false }
    }

    fn observe(&self, obs: &mut [f32]) {
        obs[0] = self.seen;
    }

    fn render(&self) -> String {
        String::new()
    }
}

impl Persist for HiddenTarget {
    fn save(&self, _: &str, _: &mut Snapshot) {}

    fn load(&mut self, _: &str, _: &Snapshot) -> homeostat_core::Result<()> {
        Ok(())
    }
}

/// The same with five choices.
struct HiddenChoice(HiddenTarget);

impl Dynamics for HiddenChoice {
    fn spec(&self) -> EnvSpec {
        spec(true)
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.0.look(rng);
    }

    fn step(&mut self, action: &Action, rng: &mut Stream) -> Outcome {
        let guess = action.discrete().expect("the settings and spaces fit") as f32 / 2.0 - 1.0;
        self.0.step(&Action::Continuous(vec![guess]), rng)
    }

    fn observe(&self, obs: &mut [f32]) {
        self.0.observe(obs);
    }

    fn render(&self) -> String {
        String::new()
    }
}

impl Persist for HiddenChoice {
    fn save(&self, _: &str, _: &mut Snapshot) {}

    fn load(&mut self, _: &str, _: &Snapshot) -> homeostat_core::Result<()> {
        Ok(())
    }
}

fn pair(target: f32, is_discrete: bool) -> PairEnvironment {
    let name = Pair::new(format!("target {target:.3}"), "here");
    PairEnvironment::new(name, vec![target], move || {
        Ok(if is_discrete {
            Box::new(Episode::new(HiddenChoice(HiddenTarget::new(target))))
        } else {
            Box::new(Episode::new(HiddenTarget::new(target)))
        })
    })
}

fn pool(is_discrete: bool) -> Vec<PairEnvironment> {
    (0..48).map(|place| pair(place as f32 / 23.5 - 1.0, is_discrete)).collect()
}

fn config(adaptation: Adaptation, memory: Memory) -> ReinforcementConfig {
    ReinforcementConfig {
        algorithm: AlgorithmConfig::Ppo(PpoConfig {
            epochs: 5,
            minibatch: 40,
            hidden: vec![32],
            actor_learning_rate: 3e-3,
            critic_learning_rate: 3e-3,
            gamma: 0.0,
            ..PpoConfig::default()
        }),
        adaptation,
        meta: MetaLearnerConfig {
            input: 16,
            hidden: 16,
            layers: 1,
            embedding: 4,
            learning_rate: 1e-3,
            buffer: BufferConfig { warm_up: 0, ..MetaLearnerConfig::flash().buffer },
            ..MetaLearnerConfig::flash()
        },
        memory_units: 16,
        pairs_per_visit: 4,
        episodes_per_visit: 2,
        memory,
    }
}

fn learner(config: ReinforcementConfig, seed: u64) -> ReinforcementLearner {
    let is_discrete = matches!(config.algorithm, AlgorithmConfig::Dqn(_));
    let pool = pool(is_discrete);
    ReinforcementLearner::new(config, &spec(is_discrete), &pool, &SeedTree::new(seed))
        .expect("the settings and spaces fit")
}

/// The mean reward in unseen pairs, after one episode of exposure.
fn reward_in_unseen_pairs(config: ReinforcementConfig, visits: u64) -> f64 {
    let is_discrete = matches!(config.algorithm, AlgorithmConfig::Dqn(_));
    let mut learner = learner(config.clone(), 1);
    learner.pretrain(&pool(is_discrete), visits, &mut |_| {}).expect("the settings and spaces fit");
    let unseen = [-0.99, -0.7, -0.37, 0.1, 0.53, 0.91];
    let mut sum = 0.0;
    for target in unseen {
        let pair = pair(target, is_discrete);
        let seeds = SeedTree::new(2);
        let mut new = learner
            .for_new_pair(&pair, config.algorithm.clone(), &seeds)
            .expect("the settings and spaces fit");
        new.serve(&pair, 1, Sampling::Stochastic).expect("the settings and spaces fit");
        sum +=
            new.judge(&pair, 2, &seeds).expect("the settings and spaces fit").iter().sum::<f64>();
    }
    sum / (2 * unseen.len() * STEPS) as f64
}

/// A third of what the truth is worth must come from an embedding of one episode. With the seeds 1 to 3 it was 0.72,
/// 0.85 and 0.37 with PPO, and 0.68 to 0.82 with DQN.
fn check_rewards([plain, flash, oracle]: [f64; 3]) {
    let text = format!("plain {plain:.3}, FLASH {flash:.3}, oracle {oracle:.3}");
    // Without the hint the middle is the best guess, and one half is lost on average; one hint helps little.
    assert!(plain < 0.65 && oracle > 0.85, "{text}");
    assert!(flash - plain > (oracle - plain) / 3.0, "{text}");
}

const ARMS: [Adaptation; 3] = [Adaptation::Plain, Adaptation::Flash, Adaptation::Oracle];

#[test]
fn an_embedding_serves_unseen_pairs_better_than_none() {
    let reward = |adaptation| reward_in_unseen_pairs(config(adaptation, Memory::PresentVisit), 800);
    check_rewards(ARMS.map(reward));
}

#[test]
fn a_recurrent_policy_needs_no_embedding() {
    let config = config(Adaptation::Rl2, Memory::PresentVisit);
    let reward = reward_in_unseen_pairs(config.clone(), 800);
    let plain = reward_in_unseen_pairs(
        ReinforcementConfig { adaptation: Adaptation::Plain, ..config },
        800,
    );
    assert!(reward > plain + 0.15, "RL2 {reward:.3}, plain {plain:.3}");
}

#[test]
fn judging_a_recurrent_policy_leaves_its_memory() {
    let config = config(Adaptation::Rl2, Memory::PresentVisit);
    let known = learner(config.clone(), 3);
    let pair = pair(0.4, false);
    let seeds = SeedTree::new(4);
    let mut new = known.for_new_pair(&pair, config.algorithm, &seeds).unwrap();
    new.serve(&pair, 1, Sampling::Stochastic).unwrap();
    let first = new.judge(&pair, 2, &seeds).unwrap();
    assert_eq!(new.judge(&pair, 2, &seeds).unwrap(), first);
    let error = new.policy(0).unwrap_err().to_string();
    assert!(error.contains("rl2"), "{error}");
}

#[test]
fn deep_q_networks_read_embeddings_too() {
    let dqn = AlgorithmConfig::Dqn(DqnConfig {
        replay_capacity: 400,
        learning_starts: 160,
        train_every: 4,
        minibatch: 32,
        hidden: vec![32],
        learning_rate: 2e-3,
        gamma: 0.0,
        epsilon_end: 0.2,
        epsilon_decay_steps: 8000,
        ..DqnConfig::default()
    });
    let reward = |adaptation| {
        let config = config(adaptation, Memory::PresentVisit);
        reward_in_unseen_pairs(ReinforcementConfig { algorithm: dqn.clone(), ..config }, 800)
    };
    check_rewards(ARMS.map(reward));
}

#[test]
fn the_meta_learner_is_frozen_while_a_new_pair_is_learnt() {
    let config = config(Adaptation::Flash, Memory::AllVisits);
    let mut learner = learner(config.clone(), 3);
    learner.pretrain(&pool(false), 8, &mut |_| {}).unwrap();
    let new_pair = pair(0.4, false);
    let seeds = SeedTree::new(4);
    let mut new = learner.for_new_pair(&new_pair, config.algorithm, &seeds).unwrap();
    new.serve(&new_pair, 2, Sampling::Stochastic).unwrap();
    let saved = |learner: &ReinforcementLearner| {
        let mut snapshot = Snapshot::default();
        learner.save("learner", &mut snapshot);
        let meta = snapshot.iter().filter(|(name, _)| name.starts_with("learner/m"));
        let meta: Vec<_> = meta.map(|(name, array)| (name.to_owned(), array.clone())).collect();
        assert!(meta.len() > 10);
        meta
    };
    let before = saved(&new);
    let returns = new.adapt(&new_pair, 3).unwrap();
    assert_eq!(returns.len(), 12, "three rounds of four episodes");
    assert_eq!(saved(&new), before);
}

#[test]
fn pretraining_goes_on_from_a_checkpoint_as_if_it_had_not_stopped() {
    let (all, present) = (Memory::AllVisits, Memory::PresentVisit);
    for (adaptation, memory) in
        [(Adaptation::Flash, all), (Adaptation::Flash, present), (Adaptation::Rl2, present)]
    {
        let config = config(adaptation, memory);
        let mut unbroken = learner(config.clone(), 5);
        let visits = |learner: &mut ReinforcementLearner, until: u64| {
            let mut visits = Vec::new();
            // The whole budget is the same for both, since schedules read it.
            let mut each = |visit: &homeostat_flash::Visit| visits.push(visit.clone());
            learner.pretrain(&pool(false), until, &mut each).unwrap();
            visits
        };
        visits(&mut unbroken, 6);
        let mut snapshot = Snapshot::default();
        unbroken.save("learner", &mut snapshot);
        let mut resumed = learner(config, 5);
        resumed.load("learner", &snapshot).unwrap();
        assert_eq!(
            visits(&mut resumed, 12),
            visits(&mut unbroken, 12),
            "{adaptation:?} {memory:?}"
        );
    }
}

#[test]
fn what_cannot_be_learnt_from_is_refused() {
    let refused = |config: ReinforcementConfig, pool: &[PairEnvironment], expect: &str| {
        let learner = ReinforcementLearner::new(config, &spec(false), pool, &SeedTree::new(1));
        let error = learner.err().expect("it is refused").to_string();
        assert!(error.contains(expect), "{error}");
    };
    let config = || config(Adaptation::Flash, Memory::AllVisits);
    refused(config(), &[], "pool is 0");
    refused(
        ReinforcementConfig { pairs_per_visit: 0, ..config() },
        &pool(false),
        "pairs_per_visit",
    );
    let two = PairEnvironment::new(Pair::new("two", "here"), vec![0.0; 2], || {
        Ok(Box::new(Episode::new(HiddenTarget::new(0.0))))
    });
    refused(config(), &[pair(0.0, false), two], "a pair has 2 numbers");
}
