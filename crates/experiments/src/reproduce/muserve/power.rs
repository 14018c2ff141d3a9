//! Power at equal attainment (figures 6.7 and 6.8): placements at the highest clocks and under MIAD, by SLO
//! scale, rate of requests and number of devices.

use homeostat_core::SeedTree;
use homeostat_lab::Result;
use homeostat_placement::{Method, Plan, Planner, PlannerConfig};
use homeostat_report::{Cell, Finding, Spread, Table};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::cluster::{Governor, Order, Played, Scenario, play};
use super::{MuserveOptions, refused_by_planner as refused};

/// The setting from which each axis departs. The SLO scale is the smallest of the axis at which every
/// placement meets its SLOs at the highest clocks.
const MAIN: (f64, f64, usize) = (12.0, 2.4, 8);

/// Part of the requests that must be within their SLO.
const ATTAINMENT: f64 = 0.99;

/// The seed of plans: they see other requests than those that are counted.
const PLANNING_SEED: u64 = 1;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Arm {
    /// The placement with the highest attainment, first come first served, highest clocks.
    AlpaServe,
    /// The same placement with MIAD, shortest predicted first.
    AlpaServeScaling,
    /// The power-aware placement with both.
    MuServe,
}

const ARMS: [(Arm, &str); 3] = [
    (Arm::AlpaServe, "alpaserve"),
    (Arm::AlpaServeScaling, "alpaserve_scaling"),
    (Arm::MuServe, "mu_serve"),
];

/// One axis of the figures, with what is printed about it.
struct Axis {
    name: &'static str,
    paper: &'static str,
    scenarios: Vec<(f64, Scenario)>,
}

pub(super) fn power(options: &MuserveOptions, progress: &(dyn Fn(&str) + Sync)) -> Result<Finding> {
    let seconds = if options.is_quick { 300 } else { 900 };
    let mut finding = Finding::default();
    let columns = [
        "setting",
        "placement and clocks",
        "within SLO %",
        "p99 / SLO",
        "W",
        "W while busy",
        "AlpaServe's W over these",
        "while busy",
    ];
    let mut ratios = [json!({}), json!({}), json!({}), json!({})];
    for axis in axes(options.is_quick) {
        let title =
            format!("by {} (paper: AlpaServe draws {} times mu-Serve's)", axis.name, axis.paper);
        let mut table = Table::new(title, &columns);
        let mut rows: [Vec<Value>; 4] = Default::default();
        for (place, scenario) in &axis.scenarios {
            progress(&format!("{} {place}: placing and serving", axis.name));
            let played = compare(scenario, seconds, options)?;
            let of = |arm: usize, figure: fn(&Played) -> f64| {
                Spread::of(&played.iter().map(|arms| figure(&arms[arm])).collect::<Vec<_>>())
            };
            let ratio = |over: usize, under: usize, figure: fn(&Played) -> f64| {
                let each = played.iter().map(|arms| figure(&arms[over]) / figure(&arms[under]));
                Spread::of(&each.collect::<Vec<_>>())
            };
            for (arm, (_, name)) in ARMS.iter().enumerate() {
                let attainment = of(arm, |played| 100.0 * played.attainment);
                let cells: [Cell; 8] = [
                    (*place).into(),
                    (*name).into(),
                    attainment.into(),
                    of(arm, |played| played.p99_over_slo).into(),
                    of(arm, |played| played.power_w).into(),
                    of(arm, |played| played.busy_power_w).into(),
                    ratio(0, arm, |played| played.power_w).into(),
                    ratio(0, arm, |played| played.busy_power_w).into(),
                ];
                table.push(cells.to_vec());
            }
            let met = |arm: usize| {
                of(arm, |played| played.attainment).mean
                    >= ATTAINMENT.min(of(0, |played| played.attainment).mean)
            };
            for (place_of_ratio, (over, figure)) in [
                (0, (|played: &Played| played.power_w) as fn(&Played) -> f64),
                (1, |played| played.power_w),
                (0, |played| played.busy_power_w),
                (1, |played| played.busy_power_w),
            ]
            .into_iter()
            .enumerate()
            {
                let spread = ratio(over, 2, figure);
                rows[place_of_ratio].push(json!({
                    "setting": place, "ratio": spread, "is_slo_met": met(over) && met(2),
                    "attainment": { ARMS[over].1: of(over, |played| played.attainment),
                        "mu_serve": of(2, |played| played.attainment) },
                }));
            }
        }
        for (ratio, rows) in ratios.iter_mut().zip(rows) {
            ratio[axis.name] = json!(rows);
        }
        finding.tables.push(table);
    }
    let [alpaserve, scaling, busy_alpaserve, busy_scaling] = ratios;
    finding.facts.insert(
        "power_ratio".to_owned(),
        json!({ "alpaserve": alpaserve, "alpaserve_scaling": scaling }),
    );
    finding.facts.insert(
        "busy_power_ratio".to_owned(),
        json!({ "alpaserve": busy_alpaserve, "alpaserve_scaling": busy_scaling }),
    );
    finding.facts.insert(
        "paper".to_owned(),
        json!({ "power_ratio": {
            "alpaserve": { "slo_scale": [1.51, 2.29], "rate": [1.85, 2.61], "devices": [1.23, 2.0] },
            "alpaserve_scaling": 1.4,
        }}),
    );
    finding.notes = vec![
        "power_ratio is the power of AlpaServe, or of AlpaServe with MIAD, over that of mu-Serve on the same \
         requests, over all the time. A setting counts as met where all arms have 99 % of the requests within \
         the SLO, or as many as AlpaServe where that has fewer."
            .to_owned(),
        "W while busy leaves out the power of idle time: what figure 6.2 of the chapter measures. Requests \
         arrive at a given rate, so a slower device is busy for longer: the energy of a request falls far \
         less than the power of a busy device, and the power without work does not fall at all."
            .to_owned(),
    ];
    Ok(finding)
}

fn axes(is_quick: bool) -> Vec<Axis> {
    let scenario = |slo_scale: f64, busy_devices: f64, devices: usize, copies: usize| Scenario {
        models: Vec::new(),
        copies,
        devices,
        slo_scale,
        busy_devices,
        output_tokens: 32.0,
    };
    let (scale, busy, devices) = MAIN;
    let chosen = |all: &[f64], quick: &[f64]| if is_quick { quick.to_vec() } else { all.to_vec() };
    vec![
        Axis {
            name: "slo_scale",
            paper: "1.51 to 2.29",
            scenarios: chosen(&[4.0, 8.0, 12.0, 16.0, 24.0], &[8.0, 16.0])
                .into_iter()
                .map(|scale| (scale, scenario(scale, busy, devices, 1)))
                .collect(),
        },
        Axis {
            name: "rate",
            paper: "1.85 to 2.61",
            scenarios: chosen(&[0.8, 1.6, 2.4, 3.2, 4.0], &[0.8, 3.2])
                .into_iter()
                .map(|busy| (busy, scenario(scale, busy, devices, 1)))
                .collect(),
        },
        Axis {
            name: "devices",
            paper: "1.23 to 2.0",
            // Two copies of each model need eight devices.
            scenarios: chosen(&[8.0, 10.0, 12.0, 14.0], &[8.0, 12.0])
                .into_iter()
                .map(|devices| (devices, scenario(scale, busy, devices as usize, 2)))
                .collect(),
        },
    ]
}

/// The arms on the same requests, for every seed.
fn compare(
    scenario: &Scenario,
    seconds: u64,
    options: &MuserveOptions,
) -> Result<Vec<[Played; 3]>> {
    let workload = scenario.workload().map_err(refused)?;
    let iterations = if options.is_quick { 20_000.0 } else { 60_000.0 };
    let config = PlannerConfig {
        search_iterations: iterations,
        evaluation_iterations: iterations,
        attainment: ATTAINMENT,
        ..PlannerConfig::default()
    };
    let cluster = scenario.cluster().map_err(refused)?;
    let planner = Planner::new(cluster, workload.clone(), None, config).map_err(refused)?;
    let plan = |method: Method| -> Result<Plan> {
        let seeds = SeedTree::new(PLANNING_SEED).child("muserve/power/plan");
        planner.plan(method, &seeds, &mut |_| {}).map_err(refused)
    };
    let (alpaserve, mu_serve) = (plan(Method::AlpaServe)?, plan(Method::MuServe)?);
    let of_seed = |seed: &u64| -> Result<[Played; 3]> {
        let seeds = SeedTree::new(*seed).child("muserve/power");
        let mut arms: [Played; 3] = Default::default();
        for (played, (arm, _)) in arms.iter_mut().zip(ARMS) {
            let (plan, order, governor) = match arm {
                Arm::AlpaServe => (&alpaserve, Order::Fcfs, Governor::Highest),
                Arm::AlpaServeScaling => (&alpaserve, Order::Ssjf, Governor::Miad),
                Arm::MuServe => (&mu_serve, Order::Ssjf, Governor::Miad),
            };
            let requests = scenario.requests(&workload, seconds, order, &seeds).map_err(refused)?;
            *played = play(plan.deployment(), requests, governor, seconds)?;
        }
        Ok(arms)
    };
    options.seeds.par_iter().map(of_seed).collect()
}
