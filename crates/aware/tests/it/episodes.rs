//! How decisions become episodes.

use homeostat_aware::{
    Actor, Agent, Behaviour, Cause, Decided, Episode, EpisodeConfig, Profile, Stage, Verdict,
};
use homeostat_core::trajectory::Record;
use homeostat_core::{ActionSchema, ControlSchema, FeatureSchema};

const STEP_MS: i64 = 15_000;
/// Four decisions in an episode; a missed decision does not end it, two do.
const CUT: EpisodeConfig = EpisodeConfig { length_ms: 4 * STEP_MS, max_gap_ms: 2 * STEP_MS };

fn agent() -> Agent {
    let profile = Profile { episodes: 2, patience: 10, ..Profile::default() };
    Agent::new(profile, CUT).expect("valid")
}

fn behaviour(actor: Actor, policy: &str) -> Behaviour {
    Behaviour {
        actor,
        policy: policy.to_owned(),
        workload: "shop/checkout".to_owned(),
        schema: ControlSchema {
            features: FeatureSchema { id: "a/load-v1".into(), features: vec![], history: 1 },
            action: ActionSchema { id: "a/none-v1".into(), parts: vec![] },
            bounds: vec![],
        },
    }
}

fn decide(agent: &mut Agent, at_ms: i64, behaviour: Behaviour) -> Option<Episode> {
    let observation = vec![at_ms as f32];
    agent.decided(Decided { at_ms, observation, action: vec![0.5], probability: None, behaviour })
}

/// Observes and decides at these steps; returns the episodes and stages.
fn run(
    agent: &mut Agent,
    steps: impl IntoIterator<Item = i64>,
    reward: f64,
) -> (Vec<Episode>, Vec<Stage>) {
    let (mut episodes, mut stages) = (Vec::new(), Vec::new());
    for step in steps {
        let at_ms = step * STEP_MS;
        let observed = agent.observed(at_ms, &[at_ms as f32], reward);
        episodes.extend(observed.episode);
        stages.extend(observed.change.map(|change| change.to));
        let actor = agent.actor();
        let policy = if actor == Actor::Fallback { "hpa+vpa" } else { "shop.policy" };
        episodes.extend(decide(agent, at_ms, behaviour(actor, policy)));
    }
    (episodes, stages)
}

#[test]
fn an_episode_has_the_decisions_of_its_time_and_what_was_observed_after_the_last() {
    let mut agent = agent();
    let (episodes, stages) = run(&mut agent, 0..=8, 0.75);
    assert_eq!(stages, [Stage::Offline]);
    assert_eq!(episodes.len(), 2);
    let first = &episodes[0];
    assert!(first.is_whole);
    assert_eq!((first.began_ms, first.mean_reward()), (0, 0.75));
    let times: Vec<i64> = first.transitions.iter().map(|one| one.at_ms).collect();
    assert_eq!(times, [0, STEP_MS, 2 * STEP_MS, 3 * STEP_MS]);
    assert_eq!(first.last_observation, [4.0 * STEP_MS as f32]);
    // The decision at the end of an episode begins the next one: no decision is lost.
    assert_eq!(episodes[1].transitions[0].at_ms, 4 * STEP_MS);
    let records = first.clone().into_records();
    assert!(matches!(&records[0], Record::Trajectory(origin) if origin.recorded_ms == 0));
    assert!(matches!(records.last(), Some(Record::End { .. })));
    assert_eq!(records.len(), 6);
}

#[test]
fn a_gap_and_metrics_that_are_not_trusted_end_an_episode_that_counts_for_nothing() {
    let mut agent = agent();
    assert_eq!(run(&mut agent, [0, 1, 3], 0.75), (vec![], vec![]), "one missing decision");
    let (episodes, stages) = run(&mut agent, [6, 7], 0.75);
    assert_eq!((episodes.len(), stages), (1, vec![]));
    assert!(!episodes[0].is_whole);
    assert_eq!(episodes[0].transitions.len(), 2, "what follows the third is not known");
    let episode = agent.interrupted().expect("an episode was open");
    assert_eq!((episode.is_whole, episode.transitions.len()), (false, 1));
    assert_eq!(agent.interrupted(), None);
    assert_eq!(run(&mut agent, [8], f64::NAN).0, []);
    assert_eq!(run(&mut agent, [9], f64::NAN).0, [], "no reward, no transition");
}

#[test]
fn an_episode_in_which_another_stood_in_is_recorded_and_not_judged() {
    let mut agent = agent();
    agent.evaluated("one", Verdict { policy_low: 0.9, fallback: 0.8 });
    assert_eq!(run(&mut agent, 0..=8, 0.75).1, [Stage::Offline, Stage::Serving]);
    // The policy file is gone: the fallback decides in the stage of the policy, and badly.
    decide(&mut agent, 8 * STEP_MS, behaviour(Actor::Fallback, "hpa+vpa"));
    let mut recorded = Vec::new();
    for step in 9..=20 {
        let observed = agent.observed(step * STEP_MS, &[0.0], 0.1);
        assert_eq!(observed.change, None);
        recorded.extend(observed.episode);
        decide(&mut agent, step * STEP_MS, behaviour(Actor::Fallback, "hpa+vpa"));
    }
    assert_eq!(recorded.len(), 3);
    assert_eq!(agent.lifecycle().stage(), Stage::Serving);
}

#[test]
fn a_policy_that_failed_needs_a_new_evaluation() {
    let mut agent = agent();
    let good = Verdict { policy_low: 0.9, fallback: 0.8 };
    agent.evaluated("one", good);
    run(&mut agent, 0..=8, 0.75);
    assert_eq!(agent.actor(), Actor::Policy);
    let mut change = None;
    for step in 9..=16 {
        change = agent.observed(step * STEP_MS, &[0.0], 0.1).change.or(change);
        let (actor, policy) = match agent.actor() {
            Actor::Fallback => (Actor::Fallback, "hpa+vpa"),
            actor => (actor, "shop.policy"),
        };
        decide(&mut agent, step * STEP_MS, behaviour(actor, policy));
    }
    let change = change.expect("the trigger fires");
    assert!(matches!(change.cause, Cause::RewardTooLow { .. }), "{change:?}");
    assert_eq!((change.to, agent.actor()), (Stage::Offline, Actor::Fallback));
    // The same file is read again at every reconcile: its evaluation is older than its failure.
    agent.evaluated("one", good);
    assert_eq!(run(&mut agent, 17..=40, 0.9).1, []);
    agent.evaluated("two", good);
    assert_eq!(run(&mut agent, 41..=45, 0.9).1, [Stage::Serving]);
}

#[test]
fn a_policy_that_was_taken_out_of_service_needs_an_evaluation_to_come_back() {
    let mut agent = agent();
    let good = Verdict { policy_low: 0.9, fallback: 0.8 };
    agent.evaluated("one", good);
    assert_eq!(agent.withdraw(), None, "it does not act yet");
    assert_eq!(run(&mut agent, 0..=8, 0.75).1, [Stage::Offline]);
    agent.evaluated("one", good);
    assert_eq!(run(&mut agent, 9..=12, 0.75).1, [Stage::Serving]);
    let change = agent.withdraw().expect("it acted");
    assert_eq!((change.to, change.cause), (Stage::Offline, Cause::Withdrawn));
    assert_eq!(run(&mut agent, 13..=30, 0.75).1, []);
}

#[test]
fn an_agent_goes_on_as_before_after_it_was_saved() {
    let mut unbroken = agent();
    run(&mut unbroken, 0..=6, 0.75);
    let saved = serde_json::to_string(&unbroken).expect("plain data");
    let mut restored: Agent = serde_json::from_str(&saved).expect("just saved");
    assert_eq!(restored, unbroken);
    assert_eq!(run(&mut restored, 7..=20, 0.75), run(&mut unbroken, 7..=20, 0.75));
}
