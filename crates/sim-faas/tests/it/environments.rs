//! The environments keep their contracts, and pay for what they say.

use homeostat_core::AgentId;
use homeostat_env::{Action, Env, MultiAgentEnv, check_env, check_multi_agent_env};
use homeostat_sim_faas::{
    FaasConfig, FaasPlan, Fleet, LoadKind, RewardPreset, make, make_multi_agent, specs,
};

fn plan(change: impl FnOnce(&mut FaasConfig)) -> FaasPlan {
    let mut config = FaasConfig { functions: 4, steps: 12, ..FaasConfig::default() };
    change(&mut config);
    config.build().unwrap()
}

fn env(id: &str, plan: &FaasPlan) -> Box<dyn Env> {
    make(id, plan, 1).unwrap()
}

#[test]
fn every_policy_with_a_history_of_use_reads_it_by_the_clock_of_the_platform() {
    let faas = homeostat_sim_faas::FaasConfig::default().build().unwrap();
    let seeds = homeostat_core::SeedTree::new(1);
    let scaled_by = homeostat_decide::ScaledBy::Controllers;
    let plant = homeostat_decide::PlantSource::make(&faas, &[0], &seeds, scaled_by).unwrap();
    let history = |name: &str| match plant.heuristic(name, 0).unwrap() {
        homeostat_decide::PolicyConfig::Vpa(vpa) => format!("{vpa:?}"),
        homeostat_decide::PolicyConfig::HpaVpa(both) => format!("{:?}", both.vpa),
        homeostat_decide::PolicyConfig::Joint(joint) => format!("{:?}", joint.vpa),
        other => panic!("{other:?}"),
    };
    assert_eq!(history("joint"), history("vpa"));
    assert_eq!(history("hpa+vpa"), history("vpa"));
}

#[test]
fn every_world_keeps_the_contract() {
    let plan = plan(|_| {});
    for spec in specs(plan.config()) {
        let id = spec.id.to_string();
        let findings = match make_multi_agent(&id, &plan) {
            Some(_) => check_multi_agent_env(&|| make_multi_agent(&id, &plan).unwrap()),
            None => check_env(&|| env(&id, &plan)),
        };
        assert!(findings.is_empty(), "{id}: {findings:?}");
    }
}

#[test]
fn a_fleet_with_churn_keeps_the_contract() {
    let plan = plan(|config| config.churn = 0.7);
    for id in ["faas/fleet-v3", "faas/fleet-set-points-v1", "faas/fleet-set-points-team-v1"] {
        let findings = check_multi_agent_env(&|| make_multi_agent(id, &plan).unwrap());
        assert!(findings.is_empty(), "{id}: {findings:?}");
    }
    let mut fleet = make_multi_agent("faas/fleet-v3", &plan).unwrap();
    fleet.reset(Some(3)).unwrap();
    let mut joined = 0;
    while !fleet.agents().is_empty() {
        let actions = vec![Action::Discrete(0); fleet.agents().len()];
        joined += fleet.step(&actions).unwrap().joined.len();
    }
    assert!(joined > 2, "{joined}");
}

#[test]
fn a_roster_says_who_controls_what() {
    let roster = [(AgentId::new(3), 8), (AgentId::new(7), 1)];
    let mut fleet = Fleet::with_steps(plan(|_| {})).with_roster(&roster);
    fleet.reset(Some(1)).unwrap();
    assert_eq!(fleet.agents(), [AgentId::new(3), AgentId::new(7)]);
    assert_eq!(fleet.task(AgentId::new(3)), Some(8));
    assert_eq!(fleet.task(AgentId::new(4)), None);
}

#[test]
fn agents_with_set_points_are_paid_the_part_of_all_requests_that_is_late() {
    let price = 0.01;
    let plan = plan(|config| {
        // Two cores for a demand of nearly four: plenty of requests are late.
        config.cores_per_node = 2.0;
        config.container_price = price;
    });
    let mut fleet = Fleet::with_set_points(plan);
    fleet.reset(Some(2)).unwrap();
    let (mut late, mut paid) = (0.0, 0.0);
    for _ in 0..12 {
        let step = fleet.step(&vec![Action::MultiDiscrete(vec![2, 2]); 4]).unwrap();
        paid += step.agents.iter().map(|agent| agent.reward).sum::<f64>() / 4.0;
        let windows = (0..4).map(|place| fleet.tenants().unwrap().window(place).unwrap());
        let (mut slo_violations, mut settled, mut containers) = (0.0, 0.0, 0.0);
        for window in windows {
            slo_violations += window.slo_violations as f64;
            settled += (window.completed + window.timed_out + window.failed) as f64;
            containers += window.container_s / window.observation.window.seconds() / 4.0;
        }
        late += slo_violations / settled + price * containers;
    }
    assert!(late > 3.0, "{late}");
    assert!((paid + late).abs() < 1e-9, "{paid} for {late}");
}

#[test]
fn illegal_and_undone_actions_cost_a_point() {
    let plan = plan(|config| {
        config.oracle = true;
        config.load = LoadKind::Poisson;
    });
    let play = |actions: &[usize]| {
        let mut env = env("faas/function-v2", &plan);
        env.reset(Some(5)).unwrap();
        let reward = |action: &usize| env.step(&Action::Discrete(*action)).unwrap().reward;
        actions.iter().map(reward).collect::<Vec<f64>>()
    };
    // CPU up and down again: the second undoes the first.
    let (undone, held) = (play(&[1, 2]), play(&[1, 0]));
    assert!(undone[0] > 0.0 && (undone[1] - held[1] + 1.0).abs() < 0.2, "{undone:?} {held:?}");
    // Down to one container and below: the last one is illegal and leaves it there.
    let fall = play(&[6; 11]);
    assert!(*fall.last().unwrap() < 0.0, "{fall:?}");
}

#[test]
fn a_curriculum_begins_with_short_episodes() {
    let plan = plan(|config| config.curriculum = true);
    let mut env = env("faas/function-v2", &plan);
    env.reset(Some(1)).unwrap();
    let steps = (1..).find(|_| env.step(&Action::Discrete(0)).unwrap().truncated).unwrap();
    assert_eq!(steps, 10);
}

#[test]
fn an_oracle_sees_more_than_monitoring() {
    let first = |oracle| {
        let plan = plan(|config| config.oracle = oracle);
        env("faas/function-v2", &plan).reset(Some(9)).unwrap().to_vec()
    };
    assert_ne!(first(true), first(false));
}

#[test]
fn the_cost_reward_never_lets_savings_make_up_for_a_miss() {
    use homeostat_decide::Features;
    let plan = plan(|_| {});
    let mut platform = crate::setup::platform(crate::setup::ideal(1, 2.0, 8));
    let allocation = crate::setup::allocation(12, 1000, 1024);
    let setup = crate::setup::quiet(crate::setup::exact(100, 0), allocation);
    let id = platform.add_function(setup).unwrap();
    platform.run_until(crate::setup::at(1.0));
    let obs = platform.close_window(id).observation;
    let of = |preservation: f32| {
        let mut features = [0.0; Features::COUNT];
        features[0] = preservation;
        RewardPreset::Cost.of(&features, &obs, plan.bounds())
    };
    assert_eq!(of(1.0), 0.0, "the largest allocation that keeps the objective is worth nothing");
    assert!(of(0.99) < 0.0);
}

#[test]
fn settings_that_cannot_be_played_are_refused_by_name() {
    let check = |change: fn(&mut FaasConfig), expect: &str| {
        let mut config = FaasConfig::default();
        change(&mut config);
        let error = config.build().unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(|config| config.function = "prime".to_owned(), "faas.function is \"prime\"");
    check(|config| config.window_s = 0.0, "faas.window_s is 0: it must lie from 0.1");
    check(|config| config.cores_per_node = f64::NAN, "faas.cores_per_node is NaN");
    check(|config| config.telemetry_delay_s = 10.0, "shorter than faas.window_s");
    check(|config| config.tenants = "hpaa".to_owned(), "faas.tenants is \"hpaa\"");
    check(|config| config.functions = 0, "faas.functions is 0");
    check(|config| config.objective_over_isolated = 0.3, "is below its mean service time of");
    check(|config| config.strain_io = [0.0, -1.0], "faas.strain_io is [0.0, -1.0]");
}
