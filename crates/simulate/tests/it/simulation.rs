//! Simulations of controllers on the serverless platform.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use homeostat_core::SimDuration;
use homeostat_rl::Sampling;
use homeostat_sim_faas::FaasConfig;
use homeostat_simulate::{
    Controllers, FinishedSimulation, Scenario, Simulation, SimulationFacts, TraceScenario,
    TracedPlatform, run_simulation,
};

fn simulation(policy: &str, scenario: Scenario) -> Simulation {
    let plan = FaasConfig { functions: 4, ..FaasConfig::default() }.build().unwrap();
    let controllers = Controllers::parse(policy, Sampling::Greedy).unwrap();
    let duration = SimDuration::from_secs(200);
    Simulation { system: Arc::new(plan), scenario, controllers, duration }
}

#[test]
fn every_controller_plays_and_every_request_is_settled_or_inside() {
    for name in Controllers::names() {
        for scenario in [Scenario::Together, Scenario::Alone] {
            let outcome = simulation(name, scenario).run(1, &mut |_| Ok(())).unwrap();
            assert_eq!(outcome.functions.len(), 4);
            assert!(outcome.total.requests > 500, "{name}: {outcome:?}");
            assert!((0.0..=1.0).contains(&outcome.total.slo_violation_ratio), "{name}");
            assert_eq!(outcome.refused, 0, "{name}");
        }
    }
}

#[test]
fn all_policies_of_a_seed_meet_the_same_requests() {
    let arrivals = |policy: &str| {
        let mut rates = Vec::new();
        simulation(policy, Scenario::Together)
            .run(7, &mut |record| {
                rates.push(record.window.observation.arrivals_per_s);
                Ok(())
            })
            .unwrap();
        rates
    };
    let expect = arrivals("none");
    for name in Controllers::names() {
        assert_eq!(arrivals(name), expect, "{name}");
    }
}

#[test]
fn every_decision_carries_its_reasons() {
    for name in Controllers::names() {
        simulation(name, Scenario::Together)
            .run(1, &mut |record| {
                assert!(!record.decision.reasons().is_empty(), "{name}");
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn a_day_of_a_trace_is_played_on_demand() {
    let trace = TraceScenario::generate(20, 60, 3);
    let requests = trace.requests();
    let simulation = Simulation {
        duration: trace.duration(),
        system: Arc::new(TracedPlatform::new(FaasConfig::default().build().unwrap(), trace)),
        ..simulation("on-demand", Scenario::Together)
    };
    let outcome = simulation.run(1, &mut |_| Ok(())).unwrap();
    let settled = outcome.total.requests;
    assert!(settled <= requests && settled > requests * 9 / 10, "{settled} of {requests}");
    assert!(outcome.total.cold_starts > 0);
}

#[test]
fn a_finished_simulation_reads_back_and_an_unfinished_one_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let simulation = simulation("ensure", Scenario::Together);
    let facts = simulation.facts(None, vec![1, 2, 3]);
    let run = |name: &str, stop: bool| {
        let path = directory.path().join(name);
        let stop = AtomicBool::new(stop);
        (path.clone(), run_simulation(&simulation, &facts, "", &path, &|_, _| {}, &stop))
    };
    let (path, finished) = run("whole", false);
    let read = FinishedSimulation::open(&path).unwrap();
    assert_eq!((&read.facts, read.outcomes), (&facts, finished.unwrap().outcomes));
    let (path, interrupted) = run("half", true);
    assert!(interrupted.is_err());
    let error = FinishedSimulation::open(&path).unwrap_err().to_string();
    assert!(error.contains("interrupted before its end"), "{error}");
}

#[test]
fn a_summary_of_the_release_before_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let simulation = simulation("none", Scenario::Together);
    let facts = simulation.facts(None, vec![1]);
    let stop = AtomicBool::new(false);
    let finished = run_simulation(&simulation, &facts, "", &path, &|_, _| {}, &stop).unwrap();
    let ratio = finished.outcomes[0].total.slo_violation_ratio;
    assert!(ratio > 0.0, "nothing to tell apart");
    // It had `miss_pct` alone, in percent.
    let file = path.join("summary.json");
    let summary = std::fs::read_to_string(&file).unwrap();
    assert!(summary.contains("\"miss_pct\""), "{summary}");
    std::fs::write(&file, summary.replace("\"slo_violation_ratio\"", "\"not_there_yet\"")).unwrap();
    let read = FinishedSimulation::open(&path).unwrap();
    assert!((read.outcomes[0].total.slo_violation_ratio - ratio).abs() < 1e-12);
}

#[test]
fn an_unknown_policy_is_answered_with_the_known_ones() {
    let error = Controllers::parse("hpaa", Sampling::Greedy).unwrap_err().to_string();
    assert!(error.contains("hpaa") && error.contains("did you mean `hpa`?"), "{error}");
}

#[test]
fn recorded_decisions_say_what_was_asked_for_and_what_followed() {
    use homeostat_core::trajectory::{End, Record};

    let place = tempfile::tempdir().unwrap();
    let simulation = simulation("hpa+vpa", Scenario::Together);
    let facts = SimulationFacts { recorded: true, ..simulation.facts(None, vec![3, 4]) };
    let record = |name: &str| {
        let path = place.path().join(name);
        let stop = AtomicBool::new(false);
        run_simulation(&simulation, &facts, "", &path, &|_, _| {}, &stop).unwrap();
        std::fs::read_to_string(path.join("decisions.jsonl")).unwrap()
    };
    let text = record("first");
    assert_eq!(text, record("second"), "the same simulation gives the same file");
    let records: Vec<Record> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut rewards = std::collections::BTreeMap::new();
    for seed in [3, 4] {
        simulation
            .run(seed, &mut |window| {
                rewards.entry((seed, window.function)).or_insert_with(Vec::new).push(window.reward);
                Ok(())
            })
            .unwrap();
    }
    let mut expect = rewards.into_values();
    let mut open = Vec::new();
    for record in records {
        match record {
            Record::Trajectory(origin) => {
                assert_eq!(origin.policy, "hpa+vpa");
                assert_eq!(origin.schema.action.id, "pods/ratios-v1");
                open.clear();
            }
            Record::Transition(transition) => {
                assert_eq!((transition.observation.len(), transition.action.len()), (7, 3));
                open.push(transition.reward);
            }
            Record::End { how, .. } => {
                assert_eq!(how, End::Truncated);
                // What follows from a decision is the reward of the next window.
                assert_eq!(open, expect.next().unwrap()[1..]);
            }
        }
    }
    assert_eq!(expect.next(), None, "every function of every seed has a trajectory");
}
