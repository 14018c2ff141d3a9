//! A family of pairs in which a hidden number decides the answer: the features do not tell it, a
//! few labelled samples of the pair do.

use homeostat_core::{Persist, SeedTree, Snapshot, Stream};
use homeostat_flash::{
    Adaptation, Episode, MetaLearnerConfig, Pair, PoolPair, Query, SampleShape, SupervisedConfig,
    SupervisedLearner,
};

const SHAPE: SampleShape = SampleShape { features: 1, context: 2 };

fn config(adaptation: Adaptation) -> SupervisedConfig {
    SupervisedConfig {
        hidden: vec![32; 2],
        l2: 0.0,
        meta: MetaLearnerConfig {
            input: 16,
            hidden: 16,
            embedding: 4,
            learning_rate: 3e-3,
            ..MetaLearnerConfig::flash()
        },
        ..SupervisedConfig::sizeless(adaptation)
    }
}

/// The label is `exp(slope x)`, and each pair has a slope of its own.
fn episode(slope: f64, shots: &[f64]) -> Episode {
    let label = |x: f64| (slope * x).exp();
    let row = |x: &f64| vec![*x as f32, label(*x).ln() as f32];
    let places = (0..8).map(|place| f64::from(place) / 4.0 - 1.0);
    let query = |x: f64| Query { features: vec![x as f32], reference: 1.0, label: label(x) };
    Episode { context: shots.iter().map(row).collect(), queries: places.map(query).collect() }
}

fn pool(pairs: usize, rng: &mut Stream) -> Vec<PoolPair> {
    let mut pair = |place: usize| {
        let slope = rng.range(-1.0, 1.0);
        let shots = |count: usize, rng: &mut Stream| -> Vec<f64> {
            (0..count).map(|_| rng.range(-1.0, 1.0)).collect()
        };
        let episodes = (1..=3).map(|count| episode(slope, &shots(count, rng))).collect();
        PoolPair { pair: Pair::new(format!("application {place}"), "machine"), episodes }
    };
    (0..pairs).map(&mut pair).collect()
}

fn error(learner: &mut SupervisedLearner, pairs: &[PoolPair]) -> f64 {
    let mut errors = Vec::new();
    for episode in pairs.iter().flat_map(|pair| &pair.episodes) {
        let predicted = learner.predict(episode).expect("the episodes fit the learner");
        let pairs = episode.queries.iter().zip(predicted);
        errors.extend(pairs.map(|(query, found)| (found / query.label - 1.0).abs()));
    }
    errors.iter().sum::<f64>() / errors.len() as f64
}

fn trained(adaptation: Adaptation, pool: &[PoolPair]) -> SupervisedLearner {
    let seeds = SeedTree::new(1);
    let mut learner = SupervisedLearner::new(config(adaptation), SHAPE, pool, &seeds)
        .expect("the settings are possible");
    learner.pretrain(pool, 1500).expect("the pool is good");
    learner
}

#[test]
fn an_embedding_halves_the_error_on_pairs_never_seen() {
    let mut rng = Stream::from_seed(1);
    let (known, unseen) = (pool(60, &mut rng), pool(40, &mut rng));
    let plain = error(&mut trained(Adaptation::Plain, &known), &unseen);
    let mut flash = trained(Adaptation::Flash, &known);
    let found = error(&mut flash, &unseen);
    assert!(found < 0.5 * plain, "plain {plain}, FLASH {found}");
    // Alike pairs have alike embeddings.
    let mut embed = |slope| flash.embedding(&episode(slope, &[0.5, -0.5]).context).unwrap().0;
    let (one, near, far) = (embed(0.6), embed(0.65), embed(-0.6));
    let similar = |other: &[f32]| homeostat_flash::similarity(&one, other).unwrap();
    assert!(similar(&near) > similar(&far) + 0.3, "{} and {}", similar(&near), similar(&far));
}

#[test]
fn adaptation_trains_the_base_learner_and_leaves_the_meta_learner() {
    let mut rng = Stream::from_seed(2);
    let known = pool(20, &mut rng);
    let pair = episode(0.8, &[0.3]);
    for adaptation in [Adaptation::Transfer, Adaptation::Flash] {
        let seeds = SeedTree::new(1);
        let mut learner =
            SupervisedLearner::new(config(adaptation), SHAPE, &known, &seeds).unwrap();
        learner.pretrain(&known, 100).unwrap();
        let meta = |learner: &SupervisedLearner| {
            let mut snapshot = Snapshot::default();
            learner.save("learner", &mut snapshot);
            snapshot.f32s("learner/meta/input/0/weight", 32).unwrap().to_vec()
        };
        let weights = meta(&learner);
        let tasks = [PoolPair { pair: Pair::new("new", "machine"), episodes: vec![pair.clone()] }];
        let before = error(&mut learner, &tasks);
        learner.adapt(&pair, 200).unwrap();
        let after = error(&mut learner, &tasks);
        assert!(after < 0.5 * before, "{adaptation:?}: from {before} to {after}");
        assert_eq!(meta(&learner), weights);
    }
}

#[test]
fn pretraining_goes_on_from_a_snapshot_bit_for_bit() {
    let known = pool(10, &mut Stream::from_seed(3));
    let new = || {
        let seeds = SeedTree::new(1);
        SupervisedLearner::new(config(Adaptation::Flash), SHAPE, &known, &seeds).unwrap()
    };
    let snapshot = |learner: &SupervisedLearner| {
        let mut snapshot = Snapshot::default();
        learner.save("learner", &mut snapshot);
        snapshot
    };
    let mut unbroken = new();
    unbroken.pretrain(&known, 21).unwrap();
    let mut first = new();
    first.pretrain(&known, 8).unwrap();
    let saved = snapshot(&first);
    let mut second = new();
    second.load("learner", &saved).unwrap();
    assert_eq!(second.updates(), 8);
    second.pretrain(&known, 13).unwrap();
    assert_eq!(snapshot(&second), snapshot(&unbroken));
}

#[test]
fn bad_samples_are_refused_and_nothing_is_lost() {
    let known = pool(4, &mut Stream::from_seed(4));
    let seeds = SeedTree::new(1);
    let mut learner =
        SupervisedLearner::new(config(Adaptation::Flash), SHAPE, &known, &seeds).unwrap();
    let good = episode(0.5, &[0.1]);
    let before = learner.predict(&good).unwrap();
    let check = |learner: &mut SupervisedLearner, change: &dyn Fn(&mut Episode), expect: &str| {
        let mut bad = good.clone();
        change(&mut bad);
        let refused = learner.adapt(&bad, 1).unwrap_err().to_string();
        assert!(refused.contains(expect), "{refused}");
    };
    check(&mut learner, &|bad| bad.queries[0].label = 0.0, "the label is 0");
    check(&mut learner, &|bad| bad.queries[0].reference = f64::NAN, "the reference is NaN");
    check(&mut learner, &|bad| bad.queries[0].features.push(1.0), "a query has 2 numbers");
    check(&mut learner, &|bad| bad.context[0][1] = f32::INFINITY, "the context is inf");
    let empty = SupervisedLearner::new(config(Adaptation::Plain), SHAPE, &[], &seeds);
    assert!(empty.unwrap_err().to_string().contains("pool is empty"));
    assert_eq!(learner.predict(&good).unwrap(), before);
}
