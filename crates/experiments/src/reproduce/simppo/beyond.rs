//! Beyond the chapter: a thousand functions, typed virtual agents, and chains.

use homeostat_core::SeedTree;
use homeostat_decide::{PreparedProposal, ScalingAction, StageFeatures};
use homeostat_env::Action;
use homeostat_lab::Result;
use homeostat_nn::Kernel;
use homeostat_report::{Cell, Finding, Spread, Table};
use homeostat_rl::{Policy, Sampling, Workspace};
use homeostat_sim_faas::{FaasConfig, FaasPlan, RewardPreset, Tenants, heuristic};
use homeostat_simppo::{Preset, Training};
use homeostat_simulate::Scenario;

use super::bench::{
    Bench, LOAD, finding, mean, mean_function_violation_pct, plan, spread, task_types_of, team,
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
            let policies: Vec<Policy> =
                training.policies().into_iter().map(|(_, policy)| policy).collect();
            play_chains(bench, &plan, seed, &Stage::Learned(&policies))
        })?;
        push_chain(&mut table, name, &played);
    }
    for name in ["ensure", "hpa+vpa", "kpa", "none"] {
        let played = bench.for_seeds(|seed| {
            let name = if name == "none" { "fixed" } else { name };
            play_chains(bench, &plan, seed, &Stage::Heuristic(name))
        })?;
        push_chain(&mut table, name, &played);
    }
    let played = bench.for_seeds(|seed| play_chains(bench, &plan, seed, &Stage::Random))?;
    push_chain(&mut table, "random", &played);
    Ok(table)
}

fn push_chain(table: &mut Table, name: &str, played: &[(f64, f64)]) {
    let (violations, containers): (Vec<f64>, Vec<f64>) = played.iter().copied().unzip();
    table.push(vec![name.into(), Spread::of(&violations).into(), Spread::of(&containers).into()]);
}

/// The policies of the stages.
enum Stage<'a> {
    Learned(&'a [Policy]),
    Heuristic(&'a str),
    Random,
}

/// SLO violations of all chains in percent, and container-seconds, mean over evaluation episodes.
fn play_chains(
    bench: &Bench<'_>,
    plan: &FaasPlan,
    seed: u64,
    stage: &Stage<'_>,
) -> Result<(f64, f64)> {
    let plan = plan.chained()?;
    let first = first_evaluation_seed(seed);
    let (mut violations, mut containers) = (Vec::new(), Vec::new());
    for trial in 0..bench.evaluations(8) {
        let seeds = SeedTree::new(first.wrapping_add(trial));
        let mut tenants = Tenants::with_chains(plan, seeds.seed("world"))?;
        let ids: Vec<_> = tenants.ids().collect();
        let mut heuristics = Vec::new();
        if let Stage::Heuristic(name) = stage {
            for id in &ids {
                let profile = tenants.platform().profile(*id).clone();
                heuristics.push(heuristic(name, plan, &profile)?.build()?);
            }
        }
        let mut rng = seeds.stream("controller");
        let mut workspace = Workspace::new(Kernel::best());
        for _ in 0..plan.config().steps {
            tenants.advance();
            for place in 0..ids.len() {
                let action = match stage {
                    Stage::Heuristic(_) => {
                        tenants.control(place, heuristics[place].as_mut())?;
                        continue;
                    }
                    Stage::Random => rng.below(ScalingAction::ALL.len()),
                    Stage::Learned(policies) => {
                        let features: &[f32; StageFeatures::COUNT] = tenants.stage_features(place);
                        let mut action = Action::Discrete(0);
                        policies[place].act(
                            features,
                            Sampling::Stochastic,
                            &mut rng,
                            &mut action,
                            &mut workspace,
                        );
                        action.discrete().unwrap_or(0)
                    }
                };
                let action = ScalingAction::from_index(action).unwrap_or(ScalingAction::Hold);
                let proposal = action.propose(&tenants.seen(place).allocation);
                tenants.control(place, &mut PreparedProposal::new(proposal))?;
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
