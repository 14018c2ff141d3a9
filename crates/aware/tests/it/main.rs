//! The life cycle of an agent, as a specification.

mod episodes;

use homeostat_aware::{
    Actor, Cause, Error, Exploration, Lifecycle, Profile, Stage, StageChange, Verdict, Waiting,
};
use proptest::prelude::*;

const GOOD: Verdict = Verdict { policy_low: 0.9, fallback: 0.8 };
const BAD: Verdict = Verdict { policy_low: 0.5, fallback: 0.8 };

/// Three episodes, a reward of 0.6 to go online, 0.7 to serve, a deviation of 0.1.
fn profile(exploration: Exploration) -> Profile {
    Profile {
        online_reward: 0.6,
        serving_reward: 0.7,
        serving_deviation: 0.1,
        episodes: 3,
        exploration,
        patience: 10,
        ..Profile::default()
    }
}

fn lifecycle(exploration: Exploration) -> Lifecycle {
    Lifecycle::new(profile(exploration)).expect("the profile is valid")
}

/// The stage after these rewards, and the last change.
fn after(lifecycle: &mut Lifecycle, rewards: &[f64]) -> (Stage, Option<StageChange>) {
    let mut last = None;
    for reward in rewards {
        last = lifecycle.episode(*reward).expect("finite").or(last);
    }
    (lifecycle.stage(), last)
}

#[test]
fn an_agent_that_may_explore_goes_through_every_stage() {
    let mut agent = lifecycle(Exploration::Allowed);
    assert_eq!((agent.stage(), agent.actor()), (Stage::Initialised, Actor::Fallback));
    agent.evaluated(GOOD);
    assert_eq!(after(&mut agent, &[0.6, 0.6]).0, Stage::Offline);
    assert_eq!(agent.actor(), Actor::Fallback);
    let (stage, change) = after(&mut agent, &[0.6]);
    assert_eq!((stage, agent.actor()), (Stage::Online, Actor::Learner));
    assert!(matches!(change.unwrap().cause, Cause::RewardReached { .. }));
    // Not yet enough to serve, then varying, then both.
    assert_eq!(after(&mut agent, &[0.65, 0.65, 0.65]).0, Stage::Online);
    assert_eq!(after(&mut agent, &[1.0]).0, Stage::Online);
    assert!(matches!(agent.waiting(), Some(Waiting::Deviation { .. })));
    assert_eq!(after(&mut agent, &[0.9, 0.9, 0.9]).0, Stage::Serving);
    assert_eq!((agent.actor(), agent.waiting()), (Actor::Policy, None));
}

#[test]
fn an_agent_that_never_explores_goes_from_offline_to_serving_and_back() {
    let mut agent = lifecycle(Exploration::Never);
    agent.evaluated(GOOD);
    assert_eq!(after(&mut agent, &[0.6, 0.6, 0.6]).0, Stage::Serving);
    let (stage, change) = after(&mut agent, &[0.1, 0.1, 0.1]);
    assert_eq!((stage, agent.actor()), (Stage::Offline, Actor::Fallback));
    assert_eq!(change.unwrap().from, Stage::Serving);
    // The policy that failed does not come back by its old evaluation.
    assert_eq!(after(&mut agent, &[0.8, 0.8, 0.8]).0, Stage::Offline);
    assert_eq!(agent.waiting(), Some(Waiting::Evaluation));
    agent.evaluated(GOOD);
    assert_eq!(after(&mut agent, &[0.8]).0, Stage::Serving);
}

#[test]
fn an_agent_that_trains_online_gives_way_below_its_floor() {
    let profile = Profile { online_floor: Some(0.55), ..profile(Exploration::Allowed) };
    let mut agent = Lifecycle::new(profile).unwrap();
    agent.evaluated(GOOD);
    assert_eq!(after(&mut agent, &[0.6, 0.6, 0.6]).0, Stage::Online);
    assert_eq!(after(&mut agent, &[0.6, 0.6, 0.5]).0, Stage::Online);
    let (stage, change) = after(&mut agent, &[0.5]);
    assert_eq!((stage, agent.actor()), (Stage::Offline, Actor::Fallback));
    assert!(matches!(change.unwrap().cause, Cause::RewardTooLow { threshold: 0.55, .. }));
}

#[test]
fn without_bootstrapping_an_agent_begins_online() {
    let profile = Profile { bootstrap: false, ..profile(Exploration::Allowed) };
    let mut agent = Lifecycle::new(profile).unwrap();
    assert_eq!(after(&mut agent, &[0.1]).0, Stage::Online);
}

#[test]
fn retraining_is_triggered_by_the_mean_and_by_the_deviation() {
    let check = |rewards: &[f64], expect: Stage| {
        let mut agent = lifecycle(Exploration::Allowed);
        agent.evaluated(GOOD);
        after(&mut agent, &[0.6; 3]);
        assert_eq!(after(&mut agent, &[0.8; 3]).0, Stage::Serving);
        assert_eq!(after(&mut agent, rewards).0, expect, "{rewards:?}");
    };
    check(&[0.8; 20], Stage::Serving);
    check(&[0.71; 3], Stage::Serving);
    check(&[0.69; 3], Stage::Online);
    check(&[0.6, 0.9, 0.9], Stage::Online);
    check(&[0.75, 0.85, 0.9], Stage::Serving);
    // Two episodes are no evidence.
    check(&[0.0; 2], Stage::Serving);
}

#[test]
fn no_policy_acts_that_evaluation_does_not_admit() {
    for exploration in [Exploration::Allowed, Exploration::Never] {
        let mut agent = lifecycle(exploration);
        assert_eq!(after(&mut agent, &[0.9; 5]).0, Stage::Offline);
        assert_eq!(agent.waiting(), Some(Waiting::Evaluation));
        agent.evaluated(BAD);
        assert_eq!(after(&mut agent, &[0.9; 5]).0, Stage::Offline);
        assert_eq!(agent.waiting(), Some(Waiting::Admission(BAD)));
        agent.evaluated(Verdict { policy_low: f64::NAN, fallback: 0.8 });
        assert_eq!(after(&mut agent, &[0.9; 5]).0, Stage::Offline);
    }
}

#[test]
fn the_margin_is_what_a_user_accepts_to_lose() {
    let check = |margin: Option<f64>, verdict: Verdict, expect: Stage| {
        let profile = Profile { activation_margin: margin, ..profile(Exploration::Never) };
        let mut agent = Lifecycle::new(profile).unwrap();
        agent.evaluated(verdict);
        assert_eq!(after(&mut agent, &[0.9; 3]).0, expect, "{margin:?} {verdict}");
    };
    let equal = Verdict { policy_low: 0.8, fallback: 0.8 };
    let less = Verdict { policy_low: 0.75, fallback: 0.8 };
    check(Some(0.0), equal, Stage::Serving);
    check(Some(0.0), less, Stage::Offline);
    check(Some(0.0625), less, Stage::Serving);
    // As printed, without a gate.
    check(None, BAD, Stage::Serving);
}

#[test]
fn a_policy_that_a_newer_evaluation_rejects_gives_way_at_once() {
    let mut agent = lifecycle(Exploration::Allowed);
    agent.evaluated(GOOD);
    after(&mut agent, &[0.6; 3]);
    after(&mut agent, &[0.8; 3]);
    let change = agent.evaluated(BAD).expect("the policy acts");
    assert_eq!((change.from, change.to), (Stage::Serving, Stage::Offline));
    assert_eq!(change.cause, Cause::PolicyRejected(BAD));
    assert_eq!(agent.evaluated(BAD), None, "the fallback acts already");
}

#[test]
fn a_threshold_that_is_never_met_is_reported_and_the_fallback_acts() {
    let profile = Profile { online_reward: 5.0, ..profile(Exploration::Never) };
    let mut agent = Lifecycle::new(profile).unwrap();
    agent.evaluated(GOOD);
    after(&mut agent, &[0.9; 9]);
    assert!(!agent.is_stuck());
    after(&mut agent, &[0.9]);
    assert!(agent.is_stuck());
    assert_eq!(agent.actor(), Actor::Fallback);
    let text = agent.waiting().unwrap().to_string();
    assert_eq!(text, "the mean of recent rewards, 0.900, is below 5.000");
}

#[test]
fn a_new_profile_judges_the_next_episode() {
    let mut agent = lifecycle(Exploration::Never);
    agent.evaluated(GOOD);
    after(&mut agent, &[0.5; 3]);
    agent.set_profile(Profile { online_reward: 0.4, ..profile(Exploration::Never) }).unwrap();
    assert_eq!(agent.stage(), Stage::Offline);
    assert_eq!(after(&mut agent, &[0.5]).0, Stage::Serving);
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let check = |change: &dyn Fn(&mut Profile), expect: &str| {
        let mut changed = profile(Exploration::Never);
        change(&mut changed);
        let error = Lifecycle::new(changed).expect_err("refused").to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(&|profile| profile.episodes = 1, "episodes = 1 is out of range");
    check(&|profile| profile.serving_deviation = -0.1, "servingDeviation = -0.1");
    check(&|profile| profile.online_reward = f64::NAN, "onlineReward = NaN");
    check(&|profile| profile.activation_margin = Some(-1.0), "activationMargin = -1");
    check(&|profile| profile.patience = 2, "patience = 2");
    check(&|profile| profile.bootstrap = false, "neither bootstraps nor explores");
    let mut agent = lifecycle(Exploration::Never);
    let before = agent.clone();
    assert!(matches!(agent.episode(f64::NAN), Err(Error::Reward { .. })));
    assert_eq!(agent, before);
}

proptest! {
    #[test]
    fn whatever_happens_the_promises_hold(
        explores in any::<bool>(),
        events in prop::collection::vec((0_u8..64, 0_u8..4), 0..80),
        restart in 0_usize..80,
    ) {
        let exploration = if explores { Exploration::Allowed } else { Exploration::Never };
        let mut agent = lifecycle(exploration);
        let mut admitted = false;
        for (index, (reward, event)) in events.into_iter().enumerate() {
            if index == restart {
                let saved = serde_json::to_string(&agent).unwrap();
                let restored: Lifecycle = serde_json::from_str(&saved).unwrap();
                prop_assert_eq!(&restored, &agent);
                agent = restored;
            }
            let before = agent.stage();
            let change = match event {
                0 => { admitted = true; agent.evaluated(GOOD) }
                1 => { admitted = false; agent.evaluated(BAD) }
                _ => agent.episode(f64::from(reward) / 64.0).unwrap(),
            };
            if let Some(change) = &change {
                prop_assert_eq!(change.to, agent.stage());
                prop_assert_ne!(change.from, change.to);
            } else {
                prop_assert_eq!(before, agent.stage());
            }
            // A policy acts only while the last evaluation admits it, and never explores if it may not.
            prop_assert!(admitted || agent.actor() == Actor::Fallback);
            prop_assert!(explores || agent.stage() != Stage::Online);
            prop_assert!(agent.waiting().is_some() || agent.stage() == Stage::Serving || admitted);
        }
    }
}
