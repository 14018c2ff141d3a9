//! Where coordination wins: `simppo+` against every rival, at four loads.

use homeostat_lab::{FormerPercentage, Result, with_former_percentages};
use homeostat_report::{Cell, Finding, Line, Picture, Spread, Table};
use homeostat_sim_faas::{FaasConfig, RewardPreset};
use homeostat_simppo::Preset;
use homeostat_simulate::{Scenario, SimulationOutcome};
use serde_json::{Value, json};

use super::bench::{
    Bench, LOAD, by_seed, finding, mean, mean_function_violation_pct, plan, plan_from, spread,
};

/// Key and cores over demand of each load.
const LOADS: [(&str, f64); 4] =
    [("load48", 0.475), ("load63", 0.95 / 1.5), ("load76", 0.76), ("load95", 0.95)];

/// The policies that `simppo+` is compared with.
const RIVALS: [&str; 5] = ["s-rl", "s-rl, trained together", "hpa+vpa", "kpa", "ensure"];

/// The policies that need no training.
const UNTRAINED: [&str; 7] =
    ["ensure", "kpa", "hpa+vpa", "staffing", "short-first", "none", "random"];

/// The policies that are drawn: with all of them the lines could not be told apart.
const DRAWN: [&str; 6] = ["simppo+", "short-first", "ensure", "s-rl", "hpa+vpa", "simppo"];

/// The percentages that facts of 0.1.0 had.
const FORMER: [FormerPercentage; 3] = [
    FormerPercentage { new: "slo_violation_ratio", old: "miss_pct" },
    FormerPercentage { new: "mean_function_slo_violation_ratio", old: "mean_function_miss_pct" },
    FormerPercentage { new: "paired_slo_violation_ratio", old: "paired_diff" },
];

struct Played {
    name: &'static str,
    outcomes: Vec<Vec<SimulationOutcome>>,
}

impl Played {
    fn violations_pct(&self) -> Vec<f64> {
        by_seed(&self.outcomes, |run| run.total.slo_violation_pct())
    }

    fn facts(&self) -> Value {
        let figure = |figure: fn(&SimulationOutcome) -> f64| mean(&by_seed(&self.outcomes, figure));
        json!({
            "name": self.name,
            "slo_violation_ratio": figure(|run| run.total.slo_violation_ratio),
            "container_s": figure(|run| run.total.container_s),
            "p99_over_slo": figure(|run| run.total.p99_over_slo),
            "mean_function_slo_violation_ratio": figure(mean_function_violation_pct) / 100.0,
        })
    }
}

pub(super) fn coordination(bench: &Bench<'_>) -> Result<Finding> {
    let mut finding = finding();
    let reward = RewardPreset::Slo;
    let episodes = bench.choose(120, 600);
    let alone = bench.train_alone(reward, episodes)?;
    let mut lines = DRAWN.map(|name| Line { name: name.to_owned(), points: Vec::new() });
    for (key, load) in LOADS {
        let plan = plan(12, load, reward)?;
        let together = Scenario::Together;
        let mut played = Vec::new();
        for (name, method) in
            [("simppo+", "simppo+"), ("simppo", "simppo"), ("s-rl, trained together", "s-rl")]
        {
            let preset = Preset::by_name(method).expect("it is a method");
            let trained = bench.train(&preset, &plan, episodes)?;
            let outcomes =
                bench.play(&plan, &together, |place| trained[place].controllers.clone())?;
            played.push(Played { name, outcomes });
        }
        bench.say("simulating the other policies");
        let outcomes = bench.play(&plan, &together, |place| alone[place].controllers.clone())?;
        played.push(Played { name: "s-rl", outcomes });
        for name in UNTRAINED {
            played.push(Played { name, outcomes: bench.play_named(&plan, &together, name)? });
        }
        for line in &mut lines {
            let drawn = played.iter().find(|played| played.name == line.name);
            let violations = Spread::of(&drawn.expect("all policies were played").violations_pct());
            line.points.push((100.0 * load, violations.mean, violations.interval.unwrap_or(0.0)));
        }
        let (table, facts) = compare(load, &played);
        finding.tables.push(table);
        finding.facts.insert(key.to_owned(), facts);
    }
    finding.pictures.push(Picture {
        title: "SLO violations by load".to_owned(),
        x: "load, % of all cores".to_owned(),
        y: "SLO violations, %".to_owned(),
        marks: Vec::new(),
        lines: lines.into(),
    });
    finding.tables.push(from_plenty(bench, episodes)?);
    finding.notes = vec![
        "Pairs by seed: each seed trains its own agents, and all policies meet the same requests \
         on that seed's evaluation seeds. The difference is simppo+ less the best rival, in \
         percentage points of SLO violations, with its 95 % interval."
            .to_owned(),
        "The best other policy is the one with the fewest SLO violations of s-rl (trained alone or together), \
         hpa+vpa, kpa and ensure."
            .to_owned(),
        "staffing is the containers of set-points with fixed weights, short-first the same with \
         weights inverse to a request's CPU time: what simppo+ could do without learning, and what \
         it has to find out. Both are told the service time, as ensure and simppo+ are."
            .to_owned(),
        "Every episode begins with allocations drawn at random, except in the last table."
            .to_owned(),
    ];
    Ok(finding)
}

/// The same at 76 % load where every function begins with plenty, as the paper has it.
fn from_plenty(bench: &Bench<'_>, episodes: u64) -> Result<Table> {
    let base = FaasConfig { random_start: false, ..FaasConfig::default() };
    let plan = plan_from(base, 12, LOAD, RewardPreset::Slo)?;
    let preset = Preset::by_name("simppo+").expect("it is a method");
    let trained = bench.train(&preset, &plan, episodes)?;
    let controllers = |place: usize| trained[place].controllers.clone();
    let mut played = vec![Played {
        name: "simppo+",
        outcomes: bench.play(&plan, &Scenario::Together, controllers)?,
    }];
    for name in UNTRAINED {
        let outcomes = bench.play_named(&plan, &Scenario::Together, name)?;
        played.push(Played { name, outcomes });
    }
    let (mut table, _) = compare(LOAD, &played);
    table.title += ", every function with six containers at first";
    Ok(table)
}

fn compare(load: f64, played: &[Played]) -> (Table, Value) {
    let plus = &played[0];
    let rivals = played.iter().filter(|rival| RIVALS.contains(&rival.name));
    let best = rivals
        .min_by(|a, b| mean(&a.violations_pct()).total_cmp(&mean(&b.violations_pct())))
        .expect("there are rivals");
    let difference = |rival: &Played, figure: fn(&SimulationOutcome) -> f64| {
        let pairs = by_seed(&plus.outcomes, figure);
        let pairs = pairs.iter().zip(by_seed(&rival.outcomes, figure));
        Spread::of(&pairs.map(|(plus, rival)| plus - rival).collect::<Vec<_>>())
    };
    let mut table = Table::new(
        format!("at {:.0} % load", 100.0 * load),
        &[
            "policy",
            "SLO violations %",
            "SLO violations % of a function",
            "container-s",
            "p99 / SLO threshold",
            "simppo+ less this, points",
        ],
    );
    for rival in played {
        let is_plus = std::ptr::eq(rival, plus);
        let violations = difference(rival, |run| run.total.slo_violation_pct());
        table.push(vec![
            rival.name.into(),
            spread(&rival.outcomes, |run| run.total.slo_violation_pct()).into(),
            spread(&rival.outcomes, mean_function_violation_pct).into(),
            spread(&rival.outcomes, |run| run.total.container_s).into(),
            spread(&rival.outcomes, |run| run.total.p99_over_slo).into(),
            if is_plus { Cell::Nothing } else { violations.into() },
        ]);
    }
    let paired = |spread: Spread| {
        let interval = spread.interval.unwrap_or(f64::INFINITY);
        json!({
            "mean": spread.mean,
            "low": spread.mean - interval,
            "high": spread.mean + interval,
        })
    };
    let facts = json!({
        "simppo_plus": plus.facts(),
        "best_rival": best.facts(),
        "paired_slo_violation_ratio": paired(difference(best, |run| run.total.slo_violation_ratio)),
        "paired_container_s": paired(difference(best, |run| run.total.container_s)),
        "all": played.iter().map(Played::facts).collect::<Vec<_>>(),
    });
    (table, with_former_percentages(facts, &FORMER))
}
