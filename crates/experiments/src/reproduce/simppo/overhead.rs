//! What agents cost: memory, CPU, and how many act in a second.

use std::time::Instant;

use homeostat_lab::{Error, Result};
use homeostat_report::{Finding, Spread, Table};
use homeostat_sim_faas::RewardPreset;
use homeostat_simppo::Preset;
use rayon::ThreadPoolBuilder;

use super::bench::{Bench, LOAD, finding, plan, task_types_of, team};

const SIZES: [usize; 5] = [10, 20, 30, 40, 50];

/// Time and memory of one size on one core.
struct Cost {
    bytes: f64,
    step_s: f64,
}

/// Trains a few episodes on one thread and measures; the environment is part of the time.
fn cost(functions: usize, seed: u64, episodes: u64) -> Result<Cost> {
    let preset = Preset::by_name("simppo").expect("it is a method");
    let plan = plan(functions, LOAD, RewardPreset::Slo)?;
    let mut training = team(&preset, &plan, &task_types_of(&plan)?, seed, episodes)?;
    // The first episode fills what is then reused.
    training.episode()?;
    let start = Instant::now();
    let mut steps = 0.0;
    for _ in 0..episodes {
        training.episode()?;
        steps += f64::from(plan.config().steps);
    }
    Ok(Cost {
        bytes: training.bytes() as f64 / functions as f64,
        step_s: start.elapsed().as_secs_f64() / steps,
    })
}

fn measure(bench: &Bench<'_>, sizes: &[usize]) -> Result<Vec<(usize, Vec<Cost>)>> {
    let one_core = ThreadPoolBuilder::new().num_threads(1).build();
    let one_core = one_core.map_err(|error| Error::OutOfRange {
        key: "threads".to_owned(),
        value: "1".to_owned(),
        source_text: "this experiment".to_owned(),
        expected: format!("no thread could be started: {error}"),
    })?;
    let mut measured = Vec::new();
    for functions in sizes {
        bench.say(&format!("{functions} agents on one core"));
        let of_seed = |seed: &u64| one_core.install(|| cost(*functions, *seed, bench.choose(1, 3)));
        // One after another: they are timed.
        let costs: Result<Vec<_>> = bench.seeds().iter().map(of_seed).collect();
        measured.push((*functions, costs?));
    }
    Ok(measured)
}

pub(super) fn figure_4_12(bench: &Bench<'_>) -> Result<Finding> {
    let mut finding = finding();
    let mut table = Table::new(
        "an agent in training",
        &["agents", "KB", "paper's KB", "CPU % of a core in steps of 10 s", "paper's %"],
    );
    for (functions, costs) in measure(bench, &SIZES)? {
        let kilobytes: Vec<f64> = costs.iter().map(|cost| cost.bytes / 1e3).collect();
        let percent: Vec<f64> =
            costs.iter().map(|cost| 100.0 * cost.step_s / 10.0 / functions as f64).collect();
        table.push(vec![
            functions.to_string().into(),
            Spread::of(&kilobytes).into(),
            2000.0.into(),
            format!("{:.5}", Spread::of(&percent).mean).into(),
            0.6.into(),
        ]);
    }
    finding.tables.push(table);
    finding.notes =
        vec!["CPU includes the simulated platform. Times depend on the machine.".to_owned()];
    Ok(finding)
}

pub(super) fn figure_4_14(bench: &Bench<'_>) -> Result<Finding> {
    let mut finding = finding();
    let mut table = Table::new(
        "actions in training on one core, environment and learning included",
        &["agents", "ms of a step of all agents", "paper's ms", "actions per second"],
    );
    let sizes: &[usize] =
        if bench.options.is_quick { &[12, 50] } else { &[12, 20, 50, 110, 500, 1000] };
    for (functions, costs) in measure(bench, sizes)? {
        let step: Vec<f64> = costs.iter().map(|cost| 1e3 * cost.step_s).collect();
        let rate: Vec<f64> = costs.iter().map(|cost| functions as f64 / cost.step_s).collect();
        table.push(vec![
            functions.to_string().into(),
            Spread::of(&step).into(),
            240.0.into(),
            Spread::of(&rate).into(),
        ]);
    }
    finding.tables.push(table);
    finding.notes = vec![
        "The paper's 240 ms are for one agent. `homeostat bench fleet` measures deciding without \
         environment and learning."
            .to_owned(),
    ];
    Ok(finding)
}
