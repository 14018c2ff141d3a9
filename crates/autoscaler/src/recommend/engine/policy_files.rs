//! The engine and policy files: what they read of the load and of the team, and what is done while
//! that is not known.

use std::sync::Arc;

use homeostat_core::{ActionSchema, AgentId, ControlSchema, FeatureSchema, SeedTree};
use homeostat_decide::{ScalingAction, SetPoints, TeamSnapshot};
use homeostat_env::{Card, EnvSpec, Space};
use homeostat_rl::{AgentContext, AlgorithmConfig, PpoConfig};
use serde_json::{Value, json};

use super::tests::{at, container};
use super::*;
use crate::learn::ServedPolicy;
use crate::measure::{Problem, Source};
use crate::recommend::LoadInputs;

/// An untrained policy with these schemas.
fn policy(features: FeatureSchema, action: ActionSchema) -> Advice {
    let (low, high) = features.features.iter().map(|one| (one.low, one.high)).unzip();
    let ends = |ends: Vec<Option<f32>>| ends.into_iter().map(Option::unwrap_or_default).collect();
    let choices: Vec<usize> = action.parts.iter().map(|part| part.choices.len()).collect();
    let spec = EnvSpec {
        id: "test/pods-v1".parse().expect("an id"),
        observation: Space::Box { low: ends(low), high: ends(high) },
        action: match choices[..] {
            [one] => Space::Discrete(one),
            _ => Space::MultiDiscrete(choices),
        },
        time_limit: None,
        card: Card {
            summary: "",
            observation: Vec::new(),
            action: Vec::new(),
            reward: "",
            termination: "",
            source: "",
        },
        control: Some(ControlSchema { features, action, bounds: Vec::new() }.into()),
    };
    let context = AgentContext { agent: AgentId::new(0), spec, seeds: SeedTree::new(1) };
    let learner = AlgorithmConfig::Ppo(PpoConfig::default()).build(&context).expect("valid");
    let policy = Arc::new(learner.policy());
    Advice::Serve(ServedPolicy { version: "file".to_owned(), policy })
}

fn set_points() -> Advice {
    policy(SetPoints::feature_schema(), SetPoints::action_schema())
}

fn engine(goals: Value, load: Value) -> Engine {
    let spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout"},
        "mode": "Auto",
        "goals": goals,
        "load": load,
        "constraints": {"global": {"minReplicas": 1, "maxReplicas": 10}},
        "recommenders": [{"name": "policy", "policyFile": {"configMap": "a", "key": "b"}}],
    });
    let plan = Plan::try_new(&serde_json::from_value(spec).expect("valid")).expect("valid");
    Engine::new(plan, TrustConfig::default()).expect("it makes sense")
}

fn latency() -> Value {
    json!({"slo": {"latency": {"percentile": "99", "threshold": "250ms", "query": "q"}}})
}

fn mean_latency() -> Value {
    json!({"requestRateQuery": "q", "meanLatencyQuery": "q"})
}

fn read(value: f64) -> Option<Result<Reading, Problem>> {
    Some(Ok(Reading { value, at: at(0), source: Source::Prometheus }))
}

/// Two pods that use 200m of 500m each, with a latency of 100 ms.
fn inputs(load: LoadInputs) -> Inputs {
    let pod = |place: usize| PodInputs {
        name: format!("pod-{place}"),
        started: SimTime::ZERO,
        is_ready: true,
        served_throughout: None,
        containers: vec![container(0, "app", (500, 256), (200, 100))],
    };
    Inputs {
        now: at(0),
        window: SimDuration::from_secs(15),
        replicas: 2,
        pods: vec![pod(0), pod(1)],
        oom_kills: BTreeMap::new(),
        use_problem: None,
        objective: read(0.1),
        queries: Vec::new(),
        load,
        team: None,
    }
}

/// 40 requests a second that take 50 ms: two in flight.
fn load() -> LoadInputs {
    LoadInputs { request_rate: read(40.0), in_flight: read(0.05) }
}

/// What a policy read, by the names of its features.
fn features(outcome: &Outcome) -> BTreeMap<String, f32> {
    let read = outcome.decision.reasons().iter().find_map(|reason| match reason {
        Reason::Features { names, values } => Some((names.clone(), values.clone())),
        _ => None,
    });
    let (names, values) = read.unwrap_or_else(|| panic!("no features: {:?}", outcome.reasons));
    names.iter().cloned().zip(values).collect()
}

#[test]
fn a_policy_of_set_points_reads_the_load_of_the_workload() {
    let check = |load_plan: Value, load: LoadInputs, expect: [f32; 4]| {
        let mut engine = engine(latency(), load_plan);
        let advice = set_points();
        let outcome = engine.recommend(&inputs(load), None, Some(&advice)).expect("pods");
        assert_eq!(outcome.absence, None);
        let read = features(&outcome);
        let found = ["load", "CPU time", "waiting", "contention"].map(|name| read[name]);
        let is_near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-3;
        assert!(found.iter().zip(&expect).all(is_near), "{read:?}, expected {expect:?}");
    };
    // 400m for 40 requests a second are 10 ms each: a load of 0.4, and Little's law has 2 in flight.
    let cpu_time = (0.01_f32 / 0.25).log2() / 2.0;
    check(mean_latency(), load(), [0.1, cpu_time, 0.0, 2.0]);
    // A count is taken as it is; two pods serve two, and two wait.
    let count = json!({"requestRateQuery": "q", "requestsInFlightQuery": "q"});
    let four = LoadInputs { in_flight: read(4.0), ..load() };
    check(count, four, [0.1, cpu_time, 3_f32.ln() / 3.0, 3.0]);
    // A profile counts before the estimate.
    let mut profiled = mean_latency();
    profiled["serviceTime"] = json!({"cpu": "20ms", "io": "30ms"});
    let cpu_time = (0.02_f32 / 0.25).log2() / 2.0;
    check(profiled, load(), [0.5, cpu_time, 0.0, 0.5]);
    // Without requests nothing is in flight, and their mean latency is no number.
    let none = LoadInputs { request_rate: read(0.0), in_flight: read(f64::NAN) };
    let mut profiled = mean_latency();
    profiled["serviceTime"] = json!({"cpu": "250ms"});
    check(profiled, none, [0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn joint_stands_in_while_the_load_is_not_known_and_the_reason_names_the_fix() {
    let check = |goals: Value, load_plan: Value, load: LoadInputs, expect: &str| {
        let mut engine = engine(goals, load_plan);
        let advice = set_points();
        let outcome = engine.recommend(&inputs(load), None, Some(&advice)).expect("pods");
        let absence = outcome.absence.unwrap_or_else(|| panic!("served: {expect}"));
        assert_eq!(absence.reason, ConditionReason::RecommenderUnavailable);
        let expect = format!("file: {expect}; joint recommends in its place");
        assert_eq!(absence.message, expect);
    };
    let rate_alone = || json!({"requestRateQuery": "q"});
    check(json!({}), mean_latency(), load(), "it needs an SLO: set spec.goals.slo");
    check(
        latency(),
        Value::Null,
        LoadInputs::default(),
        "it needs the request rate: set spec.load.requestRateQuery",
    );
    check(
        latency(),
        rate_alone(),
        LoadInputs { in_flight: None, ..load() },
        "it needs the requests in flight: set spec.load.meanLatencyQuery or \
         spec.load.requestsInFlightQuery",
    );
    let missing = Some(Err(Problem::Missing { source: Source::Prometheus }));
    check(
        latency(),
        mean_latency(),
        LoadInputs { request_rate: missing, ..load() },
        "it needs the request rate: prometheus has no such metric",
    );
}

#[test]
fn a_throughput_is_the_request_rate() {
    let goals = json!({"slo": {"throughput": {"threshold": "20", "query": "q"}}});
    let mut engine = engine(goals, json!({"meanLatencyQuery": "q"}));
    let advice = set_points();
    let inputs = Inputs {
        objective: read(40.0),
        ..inputs(LoadInputs { request_rate: None, in_flight: read(0.05) })
    };
    let outcome = engine.recommend(&inputs, None, Some(&advice)).expect("pods");
    assert!((features(&outcome)["load"] - 0.1).abs() < 1e-6);
}

#[test]
fn a_policy_of_steps_is_served_without_a_request_rate_and_says_so() {
    let mut engine = engine(json!({}), Value::Null);
    let advice = policy(Features::schema(), ScalingAction::schema());
    let inputs = Inputs { objective: None, ..inputs(LoadInputs::default()) };
    let outcome = engine.recommend(&inputs, None, Some(&advice)).expect("pods");
    assert_eq!((&outcome.absence, features(&outcome)["AC"]), (&None, 0.0));
    let said = outcome.reasons.iter().any(|reason| reason.contains("spec.load.requestRateQuery"));
    assert!(said, "{:?}", outcome.reasons);
}

#[test]
fn a_policy_of_a_team_reads_the_other_members() {
    let advice = policy(SetPoints::team_feature_schema(), SetPoints::action_schema());
    let member = || {
        let mut engine = engine(latency(), mean_latency());
        let outcome = engine.recommend(&inputs(load()), None, None).expect("pods");
        outcome.member.expect("its metrics are trusted")
    };
    let members = [("a", member()), ("b", member())];
    let team = TeamSnapshot::new(members.into_iter().collect());
    let mut engine = engine(latency(), mean_latency());
    let inputs = Inputs { team: Some(team.others(&"a")), ..inputs(load()) };
    let outcome = engine.recommend(&inputs, None, Some(&advice)).expect("pods");
    let read = features(&outcome);
    assert_eq!(read["team load"], read["load"]);
    assert_eq!(read["team NC"], read["NC"]);
    assert_eq!(read["team load deviation"], 0.0);
}

#[test]
fn after_a_restart_the_team_is_as_it_was_until_the_other_members_are_known() {
    let advice = policy(SetPoints::team_feature_schema(), SetPoints::action_schema());
    let member = engine(latency(), mean_latency()).recommend(&inputs(load()), None, None);
    let member = member.expect("pods").member.expect("its metrics are trusted");
    let team = TeamSnapshot::new([("a", member), ("b", member)].into_iter().collect());
    let team_load = |engine: &mut Engine, team| {
        let inputs = Inputs { team, ..inputs(load()) };
        features(&engine.recommend(&inputs, None, Some(&advice)).expect("pods"))["team load"]
    };
    let mut unbroken = engine(latency(), mean_latency());
    let before = team_load(&mut unbroken, Some(team.others(&"a")));
    assert!(before > 0.0);
    let mut checkpoint = Snapshot::default();
    unbroken.save("engine", &mut checkpoint);
    let mut restarted = engine(latency(), mean_latency());
    restarted.load("engine", &checkpoint).expect("just saved");
    assert_eq!(team_load(&mut restarted, None), before);
    assert_eq!(team_load(&mut restarted, None), before);
    // The others are gone.
    assert_eq!(team_load(&mut restarted, Some(TeamState::default())), 0.0);
    assert_eq!(team_load(&mut restarted, None), 0.0);
}

#[test]
fn nothing_is_shown_to_the_team_of_metrics_that_are_not_trusted() {
    let mut engine = engine(latency(), mean_latency());
    let inputs = Inputs { objective: read(f64::NAN), ..inputs(load()) };
    let outcome = engine.recommend(&inputs, None, None).expect("pods");
    assert_eq!(outcome.member, None, "{:?}", outcome.verdict);
}

/// Its last step counts: it has one pod more than before.
#[test]
fn the_team_sees_the_same_member_after_a_restart() {
    let mut after = inputs(load());
    after.pods.push(PodInputs { name: "pod-2".to_owned(), ..after.pods[0].clone() });
    after.replicas = 3;
    after.now = at(15);
    let mut unbroken = engine(latency(), mean_latency());
    unbroken.recommend(&inputs(load()), None, None).expect("pods");
    let mut checkpoint = Snapshot::default();
    unbroken.save("engine", &mut checkpoint);
    let mut restarted = engine(latency(), mean_latency());
    restarted.load("engine", &checkpoint).expect("just saved");

    let member = |engine: &mut Engine| engine.recommend(&after, None, None).expect("pods").member;
    let expect = member(&mut unbroken);
    assert!(expect.is_some());
    assert_eq!(member(&mut restarted), expect);
    assert_ne!(member(&mut engine(latency(), mean_latency())), expect, "the restart lost nothing");
}

#[test]
fn the_state_of_a_policy_file_survives_a_checkpoint_before_the_file_is_read_again() {
    let checkpoint = |engine: &Engine| {
        let mut checkpoint = Snapshot::default();
        engine.save("engine", &mut checkpoint);
        checkpoint
    };
    let policy_state = |checkpoint: &Snapshot| {
        let arrays = checkpoint.iter().filter(|(name, _)| name.starts_with("engine/learned/"));
        arrays.map(|(name, array)| (name.to_owned(), array.clone())).collect::<Vec<_>>()
    };
    let mut served = engine(latency(), mean_latency());
    served.recommend(&inputs(load()), None, Some(&set_points())).expect("pods");
    let before = checkpoint(&served);
    assert_ne!(policy_state(&before), []);

    let mut restarted = engine(latency(), mean_latency());
    restarted.load("engine", &before).expect("just saved");
    let unavailable = Advice::Unavailable { why: "no config map".to_owned() };
    restarted.recommend(&inputs(load()), None, Some(&unavailable)).expect("pods");
    assert_eq!(policy_state(&checkpoint(&restarted)), policy_state(&before));
}
