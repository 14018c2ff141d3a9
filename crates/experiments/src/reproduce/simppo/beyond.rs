//! Beyond the chapter: a thousand functions, typed virtual agents, and chains.

use homeostat_core::SeedTree;
use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Spread, Table};
use homeostat_rl::Sampling;
use homeostat_sim_faas::{FaasConfig, FaasPlan, RewardPreset, Tenants, heuristic};
use homeostat_simppo::{Preset, Training};
use homeostat_simulate::{Controllers, Scenario};

use super::bench::{
    Bench, LOAD, controllers_of, finding, mean, mean_function_violation_pct, plan, spread,
    task_types_of, team,
};
use crate::reproduce::evaluation::first_evaluation_seed;

pub(super) fn beyond(bench: &Bench<'_>) -> Result<Finding> {
    let mut finding = finding();
    finding.tables = vec![many(bench)?, typed_virtual_agents(bench)?, chains(bench)?];
    finding.notes = vec![
        "simppo+ learns with twelve functions and serves a thousand with the same network."
            .to_owned(),
    ];
    Ok(finding)
}

/// The policies of twelve functions on a platform of many.
fn many(bench: &Bench<'_>) -> Result<Table> {
    let functions = bench.choose(120, 1000) as usize;
    let (small, large) =
        (plan(12, LOAD, RewardPreset::Slo)?, plan(functions, LOAD, RewardPreset::Slo)?);
    let mut table = Table::new(
        format!("{functions} functions at 76 % load"),
        &[
            "policy",
            "SLO violations %",
            "SLO violations % of a function",
            "p99 / SLO threshold",
            "container-s of a function",
        ],
    );
    let mut row = |name: &str, played: &[Vec<_>]| {
        table.push(vec![
            name.into(),
            spread(played, |run| run.total.slo_violation_pct()).into(),
            spread(played, mean_function_violation_pct).into(),
            spread(played, |run| run.total.p99_over_slo).into(),
            spread(played, |run| run.total.container_s / functions as f64).into(),
        ]);
    };
    for (name, episodes) in [("simppo+", bench.choose(120, 600)), ("simppo", bench.choose(80, 500))]
    {
        let preset = Preset::by_name(name).expect("it is a method");
        let trained = bench.train(&preset, &small, episodes)?;
        bench.say(&format!("simulating {functions} functions under {name}"));
        let played =
            bench.play(&large, &Scenario::Together, |place| trained[place].controllers.clone())?;
        row(name, &played);
    }
    for name in ["ensure", "short-first", "hpa+vpa", "kpa", "none", "random"] {
        row(name, &bench.play_named(&large, &Scenario::Together, name)?);
    }
    Ok(table)
}

/// One virtual agent against typed virtual agents.
fn typed_virtual_agents(bench: &Bench<'_>) -> Result<Table> {
    let plan = plan(12, LOAD, RewardPreset::Slo)?;
    let mut table = Table::new(
        "typed virtual agents, 12 functions at 76 % load",
        &["method", "training reward", "SLO violations %", "p99 / SLO threshold", "container-s"],
    );
    for name in ["simppo", "simppo-typed"] {
        let preset = Preset::by_name(name).expect("it is a method");
        let trained = bench.train(&preset, &plan, bench.choose(80, 500))?;
        let ends: Vec<f64> =
            trained.iter().map(|trained| super::bench::end_of(&trained.curve)).collect();
        let played =
            bench.play(&plan, &Scenario::Together, |place| trained[place].controllers.clone())?;
        table.push(vec![
            name.into(),
            Spread::of(&ends).into(),
            spread(&played, |run| run.total.slo_violation_pct()).into(),
            spread(&played, |run| run.total.p99_over_slo).into(),
            spread(&played, |run| run.total.container_s).into(),
        ]);
    }
    for name in ["none", "random"] {
        let played = bench.play_named(&plan, &Scenario::Together, name)?;
        table.push(vec![
            name.into(),
            Cell::Nothing,
            spread(&played, |run| run.total.slo_violation_pct()).into(),
            spread(&played, |run| run.total.p99_over_slo).into(),
            spread(&played, |run| run.total.container_s).into(),
        ]);
    }
    Ok(table)
}

/// Agents of chains, each rewarded for its chain's SLO.
fn chains(bench: &Bench<'_>) -> Result<Table> {
    let base = FaasConfig::default();
    // Two chains of four stages each on two nodes.
    let cores_per_node = 8.0 * base.demand_cores / (2.0 * LOAD);
    let plan = FaasConfig { cores_per_node, ..base }.build()?;
    let mut table = Table::new(
        "two chains of four functions with end-to-end SLOs, 76 % load",
        &["policy", "chains' SLO violations %", "container-s"],
    );
    let episodes = bench.choose(80, 500);
    for name in ["s-rl", "il-rl", "simppo"] {
        let mut preset = Preset::by_name(name).expect("it is a method");
        preset.env = "faas/chain-v2";
        bench.say(&format!("training {name} on chains"));
        let task_types = task_types_of(plan.chained()?)?;
        let played = bench.for_seeds(|seed| {
            let mut training: Training = team(&preset, &plan, &task_types, seed, episodes)?;
            for _ in 0..episodes {
                training.episode()?;
            }
            play_chains(bench, &plan, seed, &controllers_of(&preset, &training))
        })?;
        push_chain(&mut table, name, &played);
    }
    for name in ["ensure", "hpa+vpa", "kpa", "none", "random"] {
        let controllers = Controllers::parse(name, Sampling::Stochastic)?;
        let played = bench.for_seeds(|seed| play_chains(bench, &plan, seed, &controllers))?;
        push_chain(&mut table, name, &played);
    }
    Ok(table)
}

fn push_chain(table: &mut Table, name: &str, played: &[(f64, f64)]) {
    let (violations, containers): (Vec<f64>, Vec<f64>) = played.iter().copied().unzip();
    table.push(vec![name.into(), Spread::of(&violations).into(), Spread::of(&containers).into()]);
}

/// SLO violations of all chains in percent, and container-seconds, mean over evaluation episodes.
fn play_chains(
    bench: &Bench<'_>,
    plan: &FaasPlan,
    seed: u64,
    controllers: &Controllers,
) -> Result<(f64, f64)> {
    let plan = plan.chained()?;
    let first = first_evaluation_seed(seed);
    let (mut violations, mut containers) = (Vec::new(), Vec::new());
    for trial in 0..bench.evaluations(8) {
        let seeds = SeedTree::new(first.wrapping_add(trial));
        let mut tenants = Tenants::with_chains(plan, seeds.seed("world"))?;
        let ids: Vec<_> = tenants.ids().collect();
        let mut policies = Vec::with_capacity(ids.len());
        for (place, id) in ids.iter().enumerate() {
            let profile = tenants.platform().profile(*id).clone();
            let heuristic = |name: &str| heuristic(name, plan, &profile);
            policies.push(controllers.build(place, &heuristic, *plan.bounds(), &seeds)?);
        }
        for _ in 0..plan.config().steps {
            tenants.advance();
            for (place, policy) in policies.iter_mut().enumerate() {
                tenants.control(place, policy.as_mut())?;
            }
        }
        let chains: Vec<_> = tenants.chains().collect();
        let (mut late, mut all) = (0.0, 0.0);
        for chain in chains {
            let totals = tenants.platform().final_chain_totals(chain);
            late += totals.slo_violation_ratio() * totals.judged() as f64;
            all += totals.judged() as f64;
        }
        violations.push(100.0 * late / f64::max(all, 1.0));
        let of = ids.iter().map(|id| tenants.platform().final_totals(*id).container_s);
        containers.push(of.sum::<f64>());
    }
    Ok((mean(&violations), mean(&containers)))
}
