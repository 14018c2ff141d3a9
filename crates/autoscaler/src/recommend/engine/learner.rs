//! The engine with an external learner.

use homeostat_decide::ScalingAction;
use homeostat_env::Action;
use serde_json::json;

use super::tests::{at, container, engine, inputs};
use super::*;
use crate::measure::Source;

const MIN_REPLICAS: u32 = 2;

fn throughput_engine() -> Engine {
    let goals = json!({"slo": {"throughput": {"threshold": "100", "query": "q"}}});
    engine(goals, (MIN_REPLICAS, 10))
}

/// Two pods that answer this many requests per second.
fn answering(seconds: u64, requests_per_s: f64) -> Inputs {
    let pod = vec![container(seconds, "app", (500, 512), (300, 300))];
    let reading = Reading { value: requests_per_s, at: at(seconds), source: Source::Prometheus };
    let objective = Some(Ok(reading));
    Inputs { objective, ..inputs(seconds, at(0), vec![pod; MIN_REPLICAS as usize]) }
}

/// The change of the arrival rate needs the rate before, and the reward needs the penalty of the last
/// action: a restart must keep both.
#[test]
fn a_learner_sees_the_same_transition_after_a_restart() {
    let mut unbroken = throughput_engine();
    unbroken.show(&answering(0, 120.0)).expect("there are pods");
    // It cannot be applied at the minimum, and costs a penalty.
    let illegal = Advice::Act(Action::Discrete(ScalingAction::ReplicasDown.index()));
    unbroken.recommend(&answering(0, 120.0), None, Some(&illegal)).expect("there are pods");

    let mut checkpoint = Snapshot::default();
    unbroken.save("engine", &mut checkpoint);
    let mut restarted = throughput_engine();
    restarted.load("engine", &checkpoint).expect("just saved");

    let next = answering(15, 240.0);
    let transition = unbroken.show(&next).expect("there are pods");
    assert_eq!(restarted.show(&next), Some(transition.clone()));
    let fresh = throughput_engine().show(&next).expect("there are pods");
    assert_ne!(transition.state, fresh.state, "the arrival rate before is lost");
    assert_eq!(transition.reward, fresh.reward - 1.0);
}
