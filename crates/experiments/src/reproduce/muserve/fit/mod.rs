//! The device model of `sim-gpu` against published measurements: half of them to fit, the other
//! half to test.

mod alpaserve;
mod clocks;
mod columns;
mod least_squares;
mod operators;
mod phases;
mod power_caps;
mod published_random;

use homeostat_core::SeedTree;
use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Spread, Table};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::MuserveOptions;
use phases::PowerRows;

/// Relative errors on what was not fitted.
#[derive(Debug, Clone, Default)]
struct Errors {
    time: Vec<f64>,
    power: Vec<f64>,
}

impl Errors {
    fn add_time(&mut self, predicted: f64, measured: f64) {
        self.time.push((predicted / measured - 1.0).abs());
    }

    fn add_power(&mut self, predicted: f64, measured: f64) {
        self.power.push((predicted / measured - 1.0).abs());
    }
}

/// Mean absolute error in percent; none without measurements.
fn mape(errors: &[f64]) -> Option<f64> {
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    (!errors.is_empty()).then_some(100.0 * mean)
}

/// A random half of `count` things is fitted.
fn halves(count: usize, seeds: &SeedTree, name: &str) -> Vec<bool> {
    let mut order: Vec<usize> = (0..count).collect();
    seeds.stream(name).shuffle(&mut order);
    let mut is_fitted = vec![false; count];
    order.iter().take(count.div_ceil(2)).for_each(|place| is_fitted[*place] = true);
    is_fitted
}

type Evaluation<'a> = Box<dyn Fn(&SeedTree) -> Errors + Sync + 'a>;

pub(super) fn fit(options: &MuserveOptions, progress: &(dyn Fn(&str) + Sync)) -> Result<Finding> {
    let data = &options.data;
    progress("reading measurements at different clocks");
    let clocks = [clocks::read(data, "v100")?, clocks::read(data, "rtx8000")?];
    progress("reading measurements under power caps, of phases and of operators");
    let caps = power_caps::read(data)?;
    let phases = phases::read(data)?;
    let operators = operators::read(data)?;
    let sets: Vec<(&str, &str, Evaluation<'_>)> = vec![
        ("gpu_dvfs", "V100: unseen kernels, one measurement each", {
            Box::new(|seeds| clocks[0].evaluate(seeds))
        }),
        ("gpu_dvfs_rtx8000", "RTX 8000: the same", Box::new(|seeds| clocks[1].evaluate(seeds))),
        ("zeus_power_limit", "training under unseen power caps", {
            Box::new(|seeds| power_caps::evaluate(&caps, seeds))
        }),
        ("splitwise_perf_model", "prompts and tokens, unseen batches and lengths", {
            Box::new(|seeds| phases::evaluate(&phases, seeds, PowerRows::OfRuns))
        }),
        (
            "splitwise_all_power_rows",
            "the same, with three means of power that are those of idle devices",
            { Box::new(|seeds| phases::evaluate(&phases, seeds, PowerRows::All)) },
        ),
        ("vidur_profiles", "operators, unseen numbers of tokens", {
            Box::new(|seeds| operators::evaluate(&operators, seeds))
        }),
    ];
    let mut finding = Finding::default();
    let mut table = Table::new(
        "mean absolute error on the unseen half, %",
        &["data", "what is unseen", "time", "power", "tested"],
    );
    for (name, asks, evaluate) in &sets {
        progress(&format!("{name}: {} splits", options.seeds.len()));
        let by_seed: Vec<Errors> = options
            .seeds
            .par_iter()
            .map(|seed| evaluate(&SeedTree::new(*seed).child("muserve/fit").child(name)))
            .collect();
        let over_seeds = |of: fn(&Errors) -> &Vec<f64>| {
            let values: Option<Vec<f64>> = by_seed.iter().map(|errors| mape(of(errors))).collect();
            values.map(|values| Spread::of(&values))
        };
        let (time, power) = (over_seeds(|errors| &errors.time), over_seeds(|errors| &errors.power));
        let tested = by_seed.first().map_or(0, |errors| errors.time.len());
        let cell = |spread: Option<Spread>| spread.map_or(Cell::Nothing, Cell::from);
        table.push(vec![
            (*name).into(),
            (*asks).into(),
            cell(time),
            cell(power),
            (tested as f64).into(),
        ]);
        let mut figures = json!({ "time_mape": time, "tested": tested });
        if power.is_some() {
            figures["power_mape"] = json!(power);
        }
        finding.facts.insert((*name).to_owned(), figures);
    }
    finding.tables.push(table);
    progress("playing the requests of AlpaServe's test bed");
    let comparison = alpaserve::compare(data)?;
    finding.tables.push(comparison.table());
    finding.facts.insert("alpaserve_sim_vs_real".to_owned(), comparison.figures());
    finding.facts.insert("v100".to_owned(), device_figures(&clocks[0]));
    finding.facts.insert("rtx8000".to_owned(), device_figures(&clocks[1]));
    finding.notes = vec![
        "gpu_dvfs: the clocks' effect on time and power is fitted on half of the kernels; each other kernel is \
         known by one measurement at the highest clock, with its activity counters."
            .to_owned(),
        "Other sets: a model per workload or operator is fitted on half of its settings. splitwise has power \
         for A100 alone; vidur has none. One setting of splitwise, 64 prompts of 512 tokens on two devices, \
         is left out: it was measured faster than half as many. So is the power of three settings, llama2-70b \
         with a prompt of 8192 tokens: its mean is 0.17 to 0.18 of the design power on two, four and eight devices \
         alike, that of idle devices, with a peak at the design power, and below what both phases draw in every \
         other setting. splitwise_all_power_rows counts them."
            .to_owned(),
        "alpaserve: the arrivals are the published ones, bit for bit. The time outside of the devices and the \
         times of both parallel forms are fitted on every other row; the rest is tested."
            .to_owned(),
    ];
    Ok(finding)
}

/// What the fit says of a device, as `devices.toml` of `sim-gpu` has it: fitted on all kernels.
fn device_figures(measured: &clocks::Kernels) -> Value {
    let every: Vec<usize> = (0..measured.count()).collect();
    let model = measured.fit(&every);
    json!({
        "clocks": measured.clocks(),
        "effective_clocks": model.effective_clocks(),
        "static_w_and_dynamic_scale": model.power_lines(),
    })
}
