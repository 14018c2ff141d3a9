//! Training with and without bootstrapping (figure 5.10).

use homeostat_aware::{Exploration, Stage};
use homeostat_core::Stream;
use homeostat_decide::Policy;
use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Line, Picture, Spread, Table};
use homeostat_rl::{LearnedPolicy, Sampling};
use homeostat_simulate::{ManagedConfig, ManagedPolicy};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::play::Played;
use super::ratio::Ratio;
use super::workload::{EPISODE, Workload, aware, ddpg, without_bootstrapping};
use super::{AwareOptions, finding};

/// Key, and what it is.
const ARMS: [(&str, &str); 5] = [
    ("aware", "AWARE"),
    ("aware_never_explores", "AWARE, never exploring"),
    ("no_bootstrap", "no bootstrapping, DDPG (Table 5.2)"),
    ("rule_based", "HPA and VPA"),
    ("converged", "the policy at AWARE's end"),
];
const AWARE: usize = 0;
const NO_BOOTSTRAP: usize = 2;
const RULE: usize = 3;

struct Test {
    arms: Vec<Played>,
    /// Episodes until AWARE first left the fallback, if it did; and what serves at its end.
    admitted_after: Option<f64>,
    end: Stage,
}

pub(super) fn bootstrapping(
    options: &AwareOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let episodes = if options.is_quick { 80 } else { 400 };
    let tests = options.seeds.par_iter().map(|seed| test(*seed, episodes, progress));
    let tests = tests.collect::<Result<Vec<Test>>>()?;
    let of = |arm: usize, figure: fn(&Played) -> f64| -> Spread {
        Spread::of(&tests.iter().map(|test| figure(&test.arms[arm])).collect::<Vec<_>>())
    };
    let ratio = |over: usize, under: usize, figure: fn(&Played) -> f64| {
        let pairs = tests.iter().map(|test| (figure(&test.arms[over]), figure(&test.arms[under])));
        Ratio::of(&pairs.collect::<Vec<_>>())
    };
    let gain = |figure: fn(&Played) -> f64| {
        let of_test = |test: &Test| {
            100.0 * (figure(&test.arms[AWARE]) / figure(&test.arms[NO_BOOTSTRAP]) - 1.0)
        };
        Spread::of(&tests.iter().map(of_test).collect::<Vec<_>>())
    };
    let mut table = Table::new(
        format!("the first {episodes} episodes of 100 decisions"),
        &[
            "arm",
            "reward of a decision",
            "CPU utilisation, %",
            "memory utilisation, %",
            "windows that violate the SLO, %",
            "requests that violate it, %",
            "worst hour's reward against HPA and VPA",
        ],
    );
    let mut arms = Map::new();
    for (arm, (key, name)) in ARMS.into_iter().enumerate() {
        let worst = worst_hour(&tests, arm);
        let percent = |figure| of(arm, figure).scaled(100.0);
        let figures = [
            of(arm, Played::reward),
            percent(Played::cpu),
            percent(Played::memory),
            percent(Played::violated_windows),
            percent(Played::violating_requests),
            worst,
        ];
        let mut row: Vec<Cell> = vec![name.into()];
        row.extend(figures.map(Cell::from));
        table.push(row);
        let [reward, cpu, memory, windows, requests, worst] = figures;
        arms.insert(
            key.to_owned(),
            json!({
                "reward": reward,
                "cpu_util_pct": cpu,
                "memory_util_pct": memory,
                "violated_windows_pct": windows,
                "violating_requests_pct": requests,
                "worst_hour_vs_fallback": worst,
            }),
        );
    }
    let violations = ratio(NO_BOOTSTRAP, AWARE, Played::violated_windows);
    let (cpu, memory) = (gain(Played::cpu), gain(Played::memory));
    let mut beside =
        Table::new("without bootstrapping against AWARE", &["figure", "here", "paper"]);
    beside.push(vec!["times the SLO violations".into(), violations.into(), 16.9.into()]);
    beside.push(vec!["AWARE's CPU utilisation is higher by, %".into(), cpu.into(), 47.5.into()]);
    beside.push(vec![
        "AWARE's memory utilisation is higher by, %".into(),
        memory.into(),
        39.2.into(),
    ]);
    let reward = gain(Played::reward);
    beside.push(vec!["AWARE's reward is higher by, %".into(), reward.into(), 47.3.into()]);

    let admitted: Vec<f64> = tests.iter().filter_map(|test| test.admitted_after).collect();
    let serving = tests.iter().filter(|test| test.end == Stage::Serving).count();
    let facts = json!({
        "violations_ratio_no_bootstrap": violations,
        "request_violations_ratio_no_bootstrap": ratio(NO_BOOTSTRAP, AWARE, Played::violating_requests),
        "violations_ratio_vs_fallback": ratio(AWARE, RULE, Played::violated_windows),
        "cpu_util_gain_pct": cpu,
        "memory_util_gain_pct": memory,
        "reward_gain_pct": reward,
        "worst_hour_vs_fallback": worst_hour(&tests, AWARE),
        "admitted": admitted.len(),
        "admitted_after_episodes": Spread::of(&admitted),
        "serving_at_the_end": serving,
        "arms": Value::Object(arms),
        "paper": {
            "violations_ratio_no_bootstrap": 16.9,
            "cpu_util_gain_pct": 47.5,
            "memory_util_gain_pct": 39.2,
            "reward_gain_pct": 47.3,
        },
    });
    let admission = format!(
        "Off-policy evaluation admitted a policy in {} of {} tests; at the end {serving} served one.",
        admitted.len(),
        tests.len()
    );
    let mut found = finding(
        vec![table, beside],
        &[
            "All arms meet the same requests. An SLO violation is a window of 15 s whose p99 is above the SLO. Ratios \
             are those of the sums over the tests, with intervals by the jackknife.",
            "The worst hour is the hour in which the arm's mean reward is lowest against that of HPA and VPA in the \
             same hour.",
            &admission,
        ],
        facts,
    );
    let curve = |arm: usize| {
        let curves: Vec<Vec<f64>> = tests.iter().map(|test| test.arms[arm].rewards()).collect();
        Line::over_seeds(ARMS[arm].1, &curves)
    };
    found.pictures.push(Picture {
        title: "reward with and without bootstrapping".to_owned(),
        x: "episode".to_owned(),
        y: "mean reward of a decision".to_owned(),
        marks: Vec::new(),
        lines: (0..ARMS.len()).map(curve).collect(),
    });
    Ok(found)
}

fn worst_hour(tests: &[Test], arm: usize) -> Spread {
    let of_test = |test: &Test| {
        let (ours, rule) = (&test.arms[arm], &test.arms[RULE]);
        let (ours, rule) =
            (ours.hourly(|window| window.reward), rule.hourly(|window| window.reward));
        ours.iter().zip(&rule).map(|(ours, rule)| ours - rule).fold(f64::INFINITY, f64::min)
    };
    Spread::of(&tests.iter().map(of_test).collect::<Vec<_>>())
}

fn test(seed: u64, episodes: usize, progress: &(dyn Fn(&str) + Sync)) -> Result<Test> {
    let windows = episodes * EPISODE;
    let workload = Workload::of_seed(seed, 960)?;
    progress(&format!("seed {seed}: {}", workload.rule_name));
    let rule = workload.play(workload.fallback()?.as_mut(), windows)?;
    let config = aware(rule.reward());
    let mut managed = workload.managed(config.clone())?;
    let with_bootstrapping = workload.play(&mut managed, windows)?;
    let left = managed.stages().iter().find(|entry| entry.change.from == Stage::Offline);
    let admitted_after = left.map(|entry| entry.at.seconds() / (15.0 * EPISODE as f64));
    for entry in managed.stages() {
        progress(&format!(
            "seed {seed}: {} to {} after {:.0} h: {}",
            entry.change.from,
            entry.change.to,
            entry.at.seconds() / 3600.0,
            entry.change.cause
        ));
    }
    let mut quiet = config.clone();
    quiet.profile.exploration = Exploration::Never;
    let never_explores = play_managed(&workload, quiet, windows)?;
    let of_ddpg = play_managed(&workload, without_bootstrapping(ddpg()), windows)?;
    let mut converged = serve(&workload, &managed)?;
    let converged = workload.play(converged.as_mut(), windows)?;
    progress(&format!("seed {seed}: done"));
    Ok(Test {
        arms: vec![with_bootstrapping, never_explores, of_ddpg, rule, converged],
        admitted_after,
        end: managed.stage(),
    })
}

fn play_managed(workload: &Workload, config: ManagedConfig, windows: usize) -> Result<Played> {
    let mut managed = workload.managed(config)?;
    workload.play(&mut managed, windows)
}

/// The agent's present policy, which no longer learns.
pub(super) fn serve(workload: &Workload, managed: &ManagedPolicy) -> Result<Box<dyn Policy>> {
    let (bounds, rng) = (*workload.plan.bounds(), Stream::from_seed(0));
    let policy = managed.policy();
    Ok(Box::new(LearnedPolicy::new("converged", &policy, bounds, Sampling::Greedy, rng)?))
}
