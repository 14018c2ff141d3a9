//! Mitigation (figures 3.6b and 3.7): how long a single anomaly violates SLOs, and what a campaign of anomalies
//! costs, under FIRM and under the rules that it is compared with. Agents and extractor are trained on
//! Train-Ticket; the applications of DeathStarBench are the validation.

use std::collections::BTreeMap;

use homeostat_anomalies::{AnomalyKind, Campaign, RandomAnomalies};
use homeostat_core::SeedTree;
use homeostat_decide::{Figure, MeasuredPlant, Plant};
use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Spread, Table};
use homeostat_sim_mesh::{MeshPlan, MeshPlant, Topology};
use rayon::prelude::*;
use serde_json::json;

use super::agents::{Schedule, Task, train};
use super::controllers::{Arm, Controllers, FirmModels};
use super::localisation::trained_extractor;
use super::training::TOPOLOGY;
use super::trials::{Repair, Trial};
use super::{FirmOptions, plan_of, refused};

/// Mean time to repair that the paper prints for FIRM; AIMD needs up to 9 times as long, Kubernetes up to 30.
const PAPER_S: f64 = 1.7;
const PAPER_TIMES: [(Arm, f64); 2] = [(Arm::Aimd, 9.0), (Arm::Hpa, 30.0)];

/// Anomalies in a second of a campaign (3.3.1), and their mean length, which the paper does not print.
const ANOMALIES_PER_S: f64 = 0.33;
const ANOMALY_S: f64 = 5.0;

/// How much is played.
#[derive(Debug, Clone, Copy)]
struct Size {
    episodes: usize,
    extractor_windows: usize,
    trials: usize,
    campaign_s: u32,
}

/// One application with one seed.
struct Played {
    /// Each anomaly that violates SLOs while nothing is done, under each arm.
    repairs: Vec<(AnomalyKind, BTreeMap<Arm, Repair>)>,
    campaign: BTreeMap<Arm, Vec<Figure>>,
}

pub(super) fn mitigation(
    options: &FirmOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let size = if options.is_quick {
        Size { episodes: 30, extractor_windows: 30, trials: 5, campaign_s: 60 }
    } else {
        Size { episodes: 200, extractor_windows: 120, trials: 10, campaign_s: 180 }
    };
    let mut plans = Vec::new();
    for name in Topology::names() {
        plans.push(plan_of(name)?);
    }
    let task = Task::new(TOPOLOGY, "any")?;
    let played: Vec<Vec<Played>> = options
        .seeds
        .par_iter()
        .map(|seed| {
            let seeds = SeedTree::new(*seed).child("firm/mitigation");
            progress(&format!("seed {seed}: training on {TOPOLOGY}"));
            let schedule = Schedule { episodes: size.episodes };
            let agent = train(&task, schedule, usize::MAX, None, &seeds.child("agent"))?;
            let trained_on = plans.iter().find(|plan| plan.topology().name() == TOPOLOGY);
            let trained_on = trained_on.expect("it is among the topologies");
            let extractor =
                trained_extractor(trained_on, size.extractor_windows, &seeds.child("extractor"))?;
            let models = FirmModels { extractor, agent: agent.policy().clone() };
            let play = |plan: &MeshPlan| {
                let name = plan.topology().name();
                progress(&format!("seed {seed}, {name}: anomalies"));
                play(plan, size, &models, &seeds.child(name))
            };
            plans.iter().map(play).collect::<Result<Vec<Played>>>()
        })
        .collect::<Result<_>>()?;
    Ok(report(&played, size))
}

fn play(plan: &MeshPlan, size: Size, models: &FirmModels, seeds: &SeedTree) -> Result<Played> {
    let mut repairs = Vec::new();
    // Anomalies that violate nothing, or pass by themselves, need no repair.
    for number in 0..5 * size.trials {
        if repairs.len() == size.trials {
            break;
        }
        let trial = Trial::draw(plan, number, seeds);
        let untouched = trial.play(plan, Arm::Nothing, models)?;
        if untouched.violated < 0.5 {
            continue;
        }
        let mut by_arm = BTreeMap::from([(Arm::Nothing, untouched)]);
        for arm in Arm::ALL.into_iter().filter(|arm| *arm != Arm::Nothing) {
            by_arm.insert(arm, trial.play(plan, arm, models)?);
        }
        repairs.push((trial.kind, by_arm));
    }
    let mut campaign = BTreeMap::new();
    for arm in Arm::ALL {
        campaign.insert(arm, campaign_under(arm, plan, size.campaign_s, models, seeds)?);
    }
    Ok(Played { repairs, campaign })
}

/// Figures of a campaign under one arm: the same requests and anomalies for all.
fn campaign_under(
    arm: Arm,
    plan: &MeshPlan,
    seconds: u32,
    models: &FirmModels,
    seeds: &SeedTree,
) -> Result<Vec<Figure>> {
    let anomalies = RandomAnomalies::new(ANOMALIES_PER_S, ANOMALY_S);
    let campaign = Campaign::random(anomalies).map_err(refused)?;
    let injections = campaign.injections(&plan.service_names(), seeds).map_err(refused)?;
    let mut plant = MeshPlant::new(plan, seeds).map_err(refused)?.with_injections(injections);
    let mut controllers = Controllers::new(arm, &mut plant, models)?;
    for _ in 0..seconds {
        plant.advance()?;
        controllers.step(&mut plant, plan)?;
    }
    Ok(plant.system_totals())
}

fn figure(figures: &[Figure], name: &str) -> f64 {
    figures.iter().find(|(known, _)| *known == name).map_or(f64::NAN, |(_, value)| *value)
}

fn report(played: &[Vec<Played>], size: Size) -> Finding {
    let mut finding = Finding::default();
    let names: Vec<&str> = Topology::names().collect();
    // The trained application apart from those of validation.
    let groups = [("train-ticket (trained on)", true), ("DeathStarBench (validation)", false)];
    let columns = [
        "application",
        "controller",
        "anomalies",
        "time to repair s",
        "repaired",
        "time with network delays s",
        "paper s",
    ];
    let mut repair =
        Table::new("one anomaly of a minute that violates SLOs while nothing is done", &columns);
    let columns = [
        "application",
        "controller",
        "SLO violations %",
        "dropped %",
        "CPU limit cores",
        "CPU utilisation %",
    ];
    let mut campaign = Table::new("a campaign of anomalies in all services", &columns);
    for (group, is_trained_on) in groups {
        let is_member = |name: &&str| (*name == TOPOLOGY) == is_trained_on;
        for arm in Arm::ALL {
            let members = |seed: &Vec<Played>, is_wanted: fn(AnomalyKind) -> bool| {
                let of = seed.iter().zip(&names).filter(|(_, name)| is_member(name));
                repairs_of(of.map(|(played, _)| played), arm, is_wanted)
            };
            let by_seed: Vec<Vec<Repair>> =
                played.iter().map(|seed| members(seed, needs_resources)).collect();
            let with_delays: Vec<Vec<Repair>> =
                played.iter().map(|seed| members(seed, |_| true)).collect();
            let paper = match arm {
                Arm::Firm => PAPER_S.into(),
                _ => PAPER_TIMES
                    .iter()
                    .find(|(known, _)| *known == arm)
                    .map_or(Cell::Nothing, |(_, times)| {
                        format!("up to {:.0}", PAPER_S * times).into()
                    }),
            };
            repair.push(vec![
                group.into(),
                arm.name().into(),
                (by_seed.iter().map(Vec::len).sum::<usize>() as f64).into(),
                over(&by_seed, &|repair| repair.seconds).into(),
                over(&by_seed, &|repair| f64::from(repair.is_repaired)).into(),
                over(&with_delays, &|repair| repair.seconds).into(),
                paper,
            ]);
            let of_campaign = |name: &str, scale: f64| {
                let mean = |seed: &Vec<Played>| {
                    let of = seed.iter().zip(&names).filter(|(_, name)| is_member(name));
                    let values: Vec<f64> = of
                        .map(|(played, _)| scale * figure(&played.campaign[&arm], name))
                        .collect();
                    values.iter().sum::<f64>() / values.len() as f64
                };
                Spread::of(&played.iter().map(mean).collect::<Vec<_>>())
            };
            campaign.push(vec![
                group.into(),
                arm.name().into(),
                of_campaign("slo_violation_ratio", 100.0).into(),
                of_campaign("dropped_ratio", 100.0).into(),
                of_campaign("cpu_limit_cores", 1.0).into(),
                of_campaign("cpu_utilization_ratio", 100.0).into(),
            ]);
        }
    }
    let columns = ["anomaly", "anomalies", "firm", "aimd", "hpa", "hpa-1s"];
    let mut kinds = Table::new("repaired, by type of anomaly, all applications", &columns);
    for kind in AnomalyKind::ALL {
        let of_kind = |arm: Arm| -> Vec<Vec<Repair>> {
            let of_seed = |seed: &Vec<Played>| {
                let all = seed.iter().flat_map(|played| &played.repairs);
                all.filter(|(known, _)| *known == kind).map(|(_, arms)| arms[&arm]).collect()
            };
            played.iter().map(of_seed).collect()
        };
        let count = of_kind(Arm::Firm).iter().map(Vec::len).sum::<usize>();
        let mut row: Vec<Cell> = vec![kind.name().into(), (count as f64).into()];
        for arm in [Arm::Firm, Arm::Aimd, Arm::Hpa, Arm::HpaEverySecond] {
            row.push(over(&of_kind(arm), &|repair| f64::from(repair.is_repaired)).into());
        }
        kinds.push(row);
    }
    finding.tables = vec![repair, kinds, campaign];
    add_facts(&mut finding, played);
    finding.notes = vec![
        format!(
            "Trained on {TOPOLOGY} only: {} episodes (the paper: 15 000) and {} windows of anomalies. Decisions are made \
             every second. An anomaly that is not repaired counts with the time to its end. No resource shortens a delay of \
             the network: times leave such anomalies out, but for one column.",
            size.episodes, size.extractor_windows
        ),
        "Limits reach from an eighth to eight times of those at the start, and never beyond a node. AIMD moves all limits \
         that are used by half or more; Kubernetes' autoscaler moves replicas, every 15 s (hpa) or every second (hpa-1s)."
            .to_owned(),
    ];
    finding
}

/// No resource shortens a delay of the network.
fn needs_resources(kind: AnomalyKind) -> bool {
    kind != AnomalyKind::NetworkDelay
}

/// The repairs of these applications under one arm.
fn repairs_of<'a>(
    played: impl Iterator<Item = &'a Played>,
    arm: Arm,
    is_wanted: fn(AnomalyKind) -> bool,
) -> Vec<Repair> {
    let all = played.flat_map(|played| &played.repairs);
    all.filter(|(kind, _)| is_wanted(*kind)).map(|(_, arms)| arms[&arm]).collect()
}

/// The mean of a figure over seeds; seeds without anomalies have none.
fn over(by_seed: &[Vec<Repair>], of: &dyn Fn(&Repair) -> f64) -> Spread {
    let means = by_seed.iter().filter(|repairs| !repairs.is_empty());
    let means = means.map(|repairs| repairs.iter().map(of).sum::<f64>() / repairs.len() as f64);
    Spread::of(&means.collect::<Vec<_>>())
}

/// The figures that programs look for, over all applications.
fn add_facts(finding: &mut Finding, played: &[Vec<Played>]) {
    let mean = |seed: &[Played], arm: Arm, name: &str| {
        let sum: f64 = seed.iter().map(|played| figure(&played.campaign[&arm], name)).sum();
        sum / seed.len() as f64
    };
    let over_firm = |arm: Arm, name: &str| {
        let ratio = |seed: &Vec<Played>| mean(seed, arm, name) / mean(seed, Arm::Firm, name);
        Spread::of(&played.iter().map(ratio).collect::<Vec<_>>())
    };
    let (mut times, mut violations, mut cpu, mut dropped) =
        (json!({}), json!({}), json!({}), json!({}));
    for arm in Arm::ALL {
        let all = |seed: &Vec<Played>| repairs_of(seed.iter(), arm, needs_resources);
        let by_seed: Vec<Vec<Repair>> = played.iter().map(all).collect();
        times[arm.name()] = json!(over(&by_seed, &|repair| repair.seconds));
        if arm == Arm::Firm {
            continue;
        }
        violations[arm.name()] = json!(over_firm(arm, "slo_violation_ratio"));
        dropped[arm.name()] = json!(over_firm(arm, "dropped_ratio"));
        let change = |seed: &Vec<Played>| {
            let name = "cpu_limit_cores";
            100.0 * (mean(seed, Arm::Firm, name) / mean(seed, arm, name) - 1.0)
        };
        cpu[arm.name()] = json!(Spread::of(&played.iter().map(change).collect::<Vec<_>>()));
    }
    for (name, value) in [
        ("mitigation_s", times),
        ("violations_ratio", violations),
        ("cpu_limit_change_pct", cpu),
        ("dropped_ratio", dropped),
        (
            "paper",
            json!({
                "mitigation_s": { "firm": PAPER_S },
                "violations_ratio": { "aimd": 9.0, "hpa": 16.0 },
                "cpu_limit_change_pct": { "least": -29.0, "most": -62.0 },
                "dropped_ratio": { "most": 8.0 },
            }),
        ),
    ] {
        finding.facts.insert(name.to_owned(), value);
    }
}
