//! Where power can be saved (figures 6.13 and 6.14): clocks against a changing load, and savings against the
//! part of insensitive operators and the length of answers.

use homeostat_core::{SeedTree, SimDuration, SimTime};
use homeostat_lab::Result;
use homeostat_placement::{Method, Planner, PlannerConfig};
use homeostat_report::{Cell, Finding, Line, Picture, Spread, Table};
use homeostat_sim_gpu::{Batching, DeviceType, Model, Request, Work, single_device};
use rayon::prelude::*;
use serde_json::json;

use super::cluster::{Governor, Order, Played, Scenario, play};
use super::{MuserveOptions, refused_by_planner as refused, refused_by_simulator};

const SLO_SCALE: f64 = 12.0;

/// Part of the time in which a device is busy at its highest clock.
const BUSY: f64 = 0.3;

/// When the rate of figure 6.13 triples and falls again, s.
const SURGE: [u64; 2] = [60, 90];

pub(super) fn sensitivity(
    options: &MuserveOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let mut finding = Finding::default();
    progress("clocks against a changing load");
    trace(options, &mut finding)?;
    progress("savings against the part of insensitive operators");
    insensitive_operators(options, &mut finding)?;
    output_lengths(options, &mut finding, progress)?;
    finding.facts.insert(
        "paper".to_owned(),
        json!({
            "insensitive_operators": "the reduction grows 2.2 times from 10 % to 60 % insensitive operators",
            "saving_pct_by_output_length": "from 59 % to 10 %",
        }),
    );
    finding.notes = vec![
        "Savings compare MIAD with the highest clock on the same requests: of the power over all the time, \
         and while busy (without the power of idle time)."
            .to_owned(),
        "An operator is insensitive if its score is below 1: halving the clock adds less than half to its \
         time. The part is that of the time of a token, at the highest clock."
            .to_owned(),
    ];
    Ok(finding)
}

/// The highest clock and MIAD on the same requests.
fn pair(
    deployment: &homeostat_sim_gpu::Deployment,
    requests: &[Request],
    seconds: u64,
) -> Result<[Played; 2]> {
    let mut both: [Played; 2] = Default::default();
    for (played, governor) in both.iter_mut().zip([Governor::Highest, Governor::Miad]) {
        *played = play(deployment.clone(), requests.to_vec(), governor, seconds)?;
    }
    Ok(both)
}

fn saving(both: &[Played; 2], figure: fn(&Played) -> f64) -> f64 {
    100.0 * (1.0 - figure(&both[1]) / figure(&both[0]))
}

/// One model on one device whose rate triples for half a minute.
fn trace(options: &MuserveOptions, finding: &mut Finding) -> Result<()> {
    let scenario = Scenario {
        models: vec!["bert-base".to_owned()],
        copies: 1,
        devices: 1,
        slo_scale: SLO_SCALE,
        busy_devices: BUSY,
        output_tokens: 32.0,
    };
    let workload = scenario.workload().map_err(refused)?;
    let v100 = DeviceType::by_name("v100").map_err(refused_by_simulator)?;
    let demand = &workload.models[0];
    let seconds = 180;
    let traces: Vec<(Vec<f64>, Vec<f64>)> = options
        .seeds
        .par_iter()
        .map(|seed| {
            let seeds = SeedTree::new(*seed).child("muserve/sensitivity/trace");
            let of =
                |name: &str| scenario.requests(&workload, seconds, Order::Ssjf, &seeds.child(name));
            let mut requests = of("always").map_err(refused)?;
            let [from, until] = SURGE.map(|second| SimTime::ZERO + SimDuration::from_secs(second));
            let is_surge = |request: &Request| (from..until).contains(&request.arrival);
            for name in ["surge", "second surge"] {
                let more = of(name).map_err(refused)?;
                requests.extend(more.into_iter().filter(is_surge));
            }
            requests.sort_by_key(|request| request.arrival);
            let mut arrivals = vec![0.0; seconds as usize];
            for request in &requests {
                arrivals[request.arrival.seconds() as usize] += 1.0;
            }
            let mut deployment =
                single_device(v100.clone(), &demand.model, Batching::Continuous { max_batch: 4 })
                    .map_err(refused_by_simulator)?;
            deployment.models[0].slo = demand.slo;
            let played = play(deployment, requests, Governor::Miad, seconds)?;
            Ok((played.clocks, arrivals))
        })
        .collect::<Result<_>>()?;
    let (clocks, arrivals): (Vec<_>, Vec<_>) = traces.into_iter().unzip();
    let mean_over = |curves: &[Vec<f64>], from: u64, until: u64| {
        let of = |curve: &Vec<f64>| {
            let part = &curve[from as usize..until as usize];
            part.iter().sum::<f64>() / part.len() as f64
        };
        Spread::of(&curves.iter().map(of).collect::<Vec<_>>())
    };
    let [from, until] = SURGE;
    let mut table = Table::new(
        "SM clock while the rate triples and falls again (figure 6.13)",
        &["part", "requests per s", "clock, MHz"],
    );
    let mut facts = Vec::new();
    for (name, from, until) in
        [("before", from - 20, from), ("surge", from + 5, until), ("after", until + 40, seconds)]
    {
        let (rate, clock) = (mean_over(&arrivals, from, until), mean_over(&clocks, from, until));
        table.push(vec![name.into(), rate.into(), clock.into()]);
        facts.push(json!({ "part": name, "requests_per_s": rate, "clock_mhz": clock }));
    }
    finding.tables.push(table);
    finding.facts.insert("clock_trace".to_owned(), json!(facts));
    let marks =
        vec![(from as f64, "rate triples".to_owned()), (until as f64, "rate falls".to_owned())];
    finding.pictures.push(Picture {
        title: "SM clock under MIAD while the rate triples".to_owned(),
        x: "s".to_owned(),
        y: "MHz".to_owned(),
        marks,
        lines: vec![Line::over_seeds("clock", &clocks)],
    });
    Ok(())
}

/// Every model alone on a device.
fn insensitive_operators(options: &MuserveOptions, finding: &mut Finding) -> Result<()> {
    let v100 = DeviceType::by_name("v100").map_err(refused_by_simulator)?;
    let seconds = if options.is_quick { 300 } else { 900 };
    let mut table = Table::new(
        "saving against the part of insensitive operators (figure 6.14 a)",
        &["model", "insensitive %", "within SLO %", "power saved %", "while busy %", "clock, MHz"],
    );
    let mut facts = Vec::new();
    for model in Model::zoo() {
        let scenario = Scenario {
            models: vec![model.name.clone()],
            copies: 1,
            devices: 1,
            slo_scale: SLO_SCALE,
            busy_devices: BUSY,
            output_tokens: 32.0,
        };
        let workload = scenario.workload().map_err(refused)?;
        let mut deployment =
            single_device(v100.clone(), &model, Batching::Continuous { max_batch: 4 })
                .map_err(refused_by_simulator)?;
        deployment.models[0].slo = workload.models[0].slo;
        let part = insensitive_part(&model, &v100);
        let played: Vec<[Played; 2]> = options
            .seeds
            .par_iter()
            .map(|seed| {
                let seeds = SeedTree::new(*seed).child("muserve/sensitivity/operators");
                let requests = scenario.requests(&workload, seconds, Order::Ssjf, &seeds);
                pair(&deployment, &requests.map_err(refused)?, seconds)
            })
            .collect::<Result<_>>()?;
        let over = |figure: &dyn Fn(&[Played; 2]) -> f64| {
            Spread::of(&played.iter().map(figure).collect::<Vec<_>>())
        };
        let attainment = over(&|both| 100.0 * both[1].attainment);
        let saved = over(&|both| saving(both, |played| played.power_w));
        let busy = over(&|both| saving(both, |played| played.busy_power_w));
        let clock = over(&|both| both[1].clocks.iter().sum::<f64>() / both[1].clocks.len() as f64);
        let cells: [Cell; 6] = [
            model.name.clone().into(),
            (100.0 * part).into(),
            attainment.into(),
            saved.into(),
            busy.into(),
            clock.into(),
        ];
        table.push(cells.to_vec());
        facts.push(json!({
            "model": model.name, "insensitive_ratio": part, "attainment_pct": attainment,
            "saving_pct": saved, "busy_saving_pct": busy, "clock_mhz": clock,
        }));
    }
    finding.tables.push(table);
    finding.facts.insert("insensitive_operators".to_owned(), json!(facts));
    Ok(())
}

/// The part of the time of an iteration that is spent in operators with a score below 1.
fn insensitive_part(model: &Model, device: &DeviceType) -> f64 {
    let work = match model.is_autoregressive {
        true => Work::decode(1.0, 128.0),
        false => Work::prefill(128.0, 128.0 * 128.0),
    };
    let mut times = [0.0; 2];
    for operator in &model.operators {
        let seconds = operator.cost(device, work).seconds(device, device.max_clock());
        times[usize::from(operator.sensitivity(device, work) < 1.0)] += seconds;
    }
    times[1] / (times[0] + times[1])
}

/// The whole zoo at one rate of requests, with longer and longer answers.
fn output_lengths(
    options: &MuserveOptions,
    finding: &mut Finding,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<()> {
    let lengths: &[f64] =
        if options.is_quick { &[8.0, 64.0] } else { &[8.0, 16.0, 32.0, 64.0, 96.0] };
    let seconds = if options.is_quick { 300 } else { 900 };
    let scenario = |output_tokens: f64, busy_devices: f64| Scenario {
        models: Vec::new(),
        copies: 1,
        devices: 8,
        slo_scale: SLO_SCALE,
        busy_devices,
        output_tokens,
    };
    // The rates at which answers of 32 tokens keep three of ten devices busy.
    let reference = scenario(32.0, 8.0 * BUSY).workload().map_err(refused)?;
    let mut table = Table::new(
        "saving against the mean length of answers (figure 6.14 b)",
        &["tokens", "busy %", "within SLO %", "power saved %", "while busy %"],
    );
    let mut facts = Vec::new();
    for tokens in lengths {
        progress(&format!("savings with answers of {tokens} tokens"));
        let scenario = scenario(*tokens, 8.0 * BUSY);
        let mut workload = scenario.workload().map_err(refused)?;
        for (demand, same) in workload.models.iter_mut().zip(&reference.models) {
            demand.rate = same.rate;
        }
        let config = PlannerConfig {
            search_iterations: 20_000.0,
            evaluation_iterations: 20_000.0,
            ..PlannerConfig::default()
        };
        let cluster = scenario.cluster().map_err(refused)?;
        let planner = Planner::new(cluster, workload.clone(), None, config).map_err(refused)?;
        let seeds = SeedTree::new(1).child("muserve/sensitivity/plan");
        let plan = planner.plan(Method::MuServe, &seeds, &mut |_| {}).map_err(refused)?;
        let played: Vec<[Played; 2]> = options
            .seeds
            .par_iter()
            .map(|seed| {
                let seeds = SeedTree::new(*seed).child("muserve/sensitivity/lengths");
                let requests = scenario.requests(&workload, seconds, Order::Ssjf, &seeds);
                pair(&plan.deployment(), &requests.map_err(refused)?, seconds)
            })
            .collect::<Result<_>>()?;
        let over = |figure: &dyn Fn(&[Played; 2]) -> f64| {
            Spread::of(&played.iter().map(figure).collect::<Vec<_>>())
        };
        let busy = over(&|both| 100.0 * both[0].busy);
        let attainment = over(&|both| 100.0 * both[1].attainment);
        let saved = over(&|both| saving(both, |played| played.power_w));
        let busy_saved = over(&|both| saving(both, |played| played.busy_power_w));
        let cells: [Cell; 5] =
            [(*tokens).into(), busy.into(), attainment.into(), saved.into(), busy_saved.into()];
        table.push(cells.to_vec());
        facts.push(json!({
            "output_tokens": tokens, "busy_pct": busy, "attainment_pct": attainment,
            "saving_pct": saved, "busy_saving_pct": busy_saved,
        }));
    }
    finding.tables.push(table);
    finding.facts.insert("saving_pct_by_output_length".to_owned(), json!(facts));
    Ok(())
}
