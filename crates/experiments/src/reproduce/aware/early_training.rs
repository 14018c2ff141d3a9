//! What an agent without bootstrapping loses against HPA and VPA in the first 400 episodes, by hundreds
//! (Table 5.3).

use homeostat_lab::Result;
use homeostat_report::{Finding, Line, Picture, Spread, Table};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::play::Played;
use super::ratio::Ratio;
use super::workload::{EPISODE, Workload, ddpg, without_bootstrapping};
use super::{AwareOptions, finding};

const SEGMENTS: usize = 4;

/// CPU and memory utilisation against the rule-based autoscaler's in percent, and times the SLO violations
/// (Table 5.3).
const PAPER: [(f64, f64, f64); SEGMENTS] =
    [(-32.3, -28.8, 56.1), (-42.9, -30.5, 22.2), (-22.1, -26.5, 12.7), (-10.0, -7.8, 10.1)];

struct Test {
    agent: Played,
    rule: Played,
}

pub(super) fn early_training(
    options: &AwareOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let segment = if options.is_quick { 20 } else { 100 };
    let windows = SEGMENTS * segment * EPISODE;
    let tests = options.seeds.par_iter().map(|seed| {
        let workload = Workload::of_seed(*seed, 960)?;
        progress(&format!("seed {seed}: {}", workload.rule_name));
        let rule = workload.play(workload.fallback()?.as_mut(), windows)?;
        let mut agent = workload.managed(without_bootstrapping(ddpg()))?;
        let agent = workload.play(&mut agent, windows)?;
        progress(&format!("seed {seed}: done"));
        Ok(Test { agent, rule })
    });
    let tests = tests.collect::<Result<Vec<Test>>>()?;

    let mut table = Table::new(
        "an agent without bootstrapping against HPA and VPA on the same requests",
        &[
            "episodes",
            "CPU utilisation, %",
            "paper's CPU",
            "memory utilisation, %",
            "paper's memory",
            "times the SLO violations",
            "paper's times",
            "windows that violate the SLO, %",
            "with HPA and VPA, %",
        ],
    );
    let mut segments: Vec<Value> = Vec::new();
    for (place, paper) in PAPER.into_iter().enumerate() {
        let (from, to) = (place * segment, (place + 1) * segment);
        let parts: Vec<(Played, Played)> = tests
            .iter()
            .map(|test| (test.agent.episodes(from, to), test.rule.episodes(from, to)))
            .collect();
        let over = |figure: &dyn Fn(&Played, &Played) -> f64| {
            Spread::of(&parts.iter().map(|(agent, rule)| figure(agent, rule)).collect::<Vec<_>>())
        };
        let cpu = over(&|agent, rule| 100.0 * (agent.cpu() / rule.cpu() - 1.0));
        let memory = over(&|agent, rule| 100.0 * (agent.memory() / rule.memory() - 1.0));
        let ratio = |figure: fn(&Played) -> f64| {
            Ratio::of(
                &parts
                    .iter()
                    .map(|(agent, rule)| (figure(agent), figure(rule)))
                    .collect::<Vec<_>>(),
            )
        };
        let violations = ratio(Played::violated_windows);
        let of_agent = over(&|agent, _| 100.0 * agent.violated_windows());
        let of_rule = over(&|_, rule| 100.0 * rule.violated_windows());
        table.push(vec![
            format!("{} to {to}", from + 1).into(),
            cpu.into(),
            paper.0.into(),
            memory.into(),
            paper.1.into(),
            violations.into(),
            paper.2.into(),
            of_agent.into(),
            of_rule.into(),
        ]);
        segments.push(json!({
            "episodes": [from + 1, to],
            "cpu_util_deficit_pct": cpu,
            "memory_util_deficit_pct": memory,
            "violations_ratio": violations,
            "request_violations_ratio": ratio(Played::violating_requests),
            "violated_windows_pct": { "agent": of_agent, "rule_based": of_rule },
            "paper": {
                "cpu_util_deficit_pct": paper.0,
                "memory_util_deficit_pct": paper.1,
                "violations_ratio": paper.2,
            },
        }));
    }
    let curve = |name: &str, of: fn(&Test) -> &Played| {
        Line::over_seeds(name, &tests.iter().map(|test| of(test).rewards()).collect::<Vec<_>>())
    };
    let mut found = finding(
        vec![table],
        &[
            "Agent: DDPG with Table 5.2, from random weights, actions on replicas, CPU and memory. Rule-based: HPA \
             and VPA with the CPU target, and the resources that VPA sizes, that were best on other hours of the \
             same workload.",
            "An SLO violation is a window of 15 s whose p99 is above the SLO. The ratio is that of the sums over \
             the tests, its interval is by the jackknife.",
        ],
        json!({ "segments": segments }),
    );
    found.pictures.push(Picture {
        title: "reward while the agent begins to learn".to_owned(),
        x: "episode".to_owned(),
        y: "mean reward of a decision".to_owned(),
        marks: Vec::new(),
        lines: vec![curve("agent", |test| &test.agent), curve("HPA and VPA", |test| &test.rule)],
    });
    Ok(found)
}
