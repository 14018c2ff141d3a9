//! Twenty agents and a hundred and ten: is what was learnt the same?

use homeostat_lab::Result;
use homeostat_report::{Finding, Table};
use homeostat_sim_faas::RewardPreset;
use homeostat_simppo::Preset;
use homeostat_simulate::{Scenario, SimulationOutcome};
use serde_json::json;

use super::bench::{Bench, LOAD, finding, mean, plan, spread};

/// The function whose distributions the chapter shows.
const FUNCTION: &str = "sentiment-analysis";

pub(super) fn figure_4_13(bench: &Bench<'_>) -> Result<Finding> {
    let mut finding = finding();
    let (few, many) = (20, bench.choose(40, 110) as usize);
    let mut tests = Table::new(
        format!("{few} agents against {many}: two-sample Kolmogorov-Smirnov tests of {FUNCTION}"),
        &["method", "what", "largest distance", "p", "paper's p", "p99 apart at most, %", "paper"],
    );
    let mut table = Table::new(
        "both sizes",
        &["method", "agents", "SLO violations %", "p99 / SLO threshold", "CPU utilisation"],
    );
    for name in ["simppo", "simppo+", "none", "random", "ensure"] {
        let mut sizes = Vec::new();
        for functions in [few, many] {
            let plan = plan(functions, LOAD, RewardPreset::Slo)?;
            let played = match Preset::by_name(name) {
                Some(preset) => {
                    let episodes = bench.choose(24, 200);
                    let trained = bench.train(&preset, &plan, episodes)?;
                    bench.play(&plan, &Scenario::Together, |place| {
                        trained[place].controllers.clone()
                    })?
                }
                None => bench.play_named(&plan, &Scenario::Together, name)?,
            };
            table.push(vec![
                name.into(),
                functions.to_string().into(),
                spread(&played, |run| run.total.slo_violation_pct()).into(),
                spread(&played, |run| run.total.p99_over_slo).into(),
                spread(&played, |run| run.total.cpu_utilisation).into(),
            ]);
            sizes.push(played);
        }
        let apart = p99_apart(&sizes[0], &sizes[1]);
        for (what, figure, paper) in [
            ("p99 of an episode", P99 as Figure, 0.56),
            ("CPU utilisation of an episode", UTILISATION as Figure, 0.67),
        ] {
            // One value of each seed, the mean over its copies of the function and episodes:
            // values within a seed share its agents and would not be independent.
            let samples = sizes.iter().map(|played| {
                let of_seed = |runs: &Vec<SimulationOutcome>| {
                    let values: Vec<f64> =
                        runs.iter().flat_map(|run| values_of(run, figure)).collect();
                    mean(&values)
                };
                played.iter().map(of_seed).collect::<Vec<f64>>()
            });
            let samples: Vec<Vec<f64>> = samples.collect();
            let (distance, p) = kolmogorov_smirnov(&samples[0], &samples[1]);
            tests.push(vec![
                name.into(),
                what.into(),
                distance.into(),
                p.into(),
                paper.into(),
                apart.into(),
                "below 1.9".into(),
            ]);
            if name == "simppo" {
                let key = if paper == 0.56 { "latency_p" } else { "cpu_p" };
                finding.facts.insert(key.to_owned(), json!(p));
            }
        }
    }
    finding.tables.extend([tests, table]);
    finding.notes = vec![
        "A large p does not show that both are the same: with one value per seed the test detects \
         large differences only. The distance in p99 says more."
            .to_owned(),
    ];
    Ok(finding)
}

type Figure = fn(&SimulationOutcome, usize) -> f64;
const P99: fn(&SimulationOutcome, usize) -> f64 =
    |run, place| run.functions[place].figures.p99_ms.unwrap_or(0.0);
const UTILISATION: fn(&SimulationOutcome, usize) -> f64 =
    |run, place| run.functions[place].figures.cpu_utilisation;

fn values_of(run: &SimulationOutcome, figure: Figure) -> Vec<f64> {
    let places = run.functions.iter().enumerate();
    let of = places.filter(|(_, function)| function.name == FUNCTION);
    of.map(|(place, _)| figure(run, place)).collect()
}

/// How far the mean p99 of a benchmark differs between both at most, in percent.
fn p99_apart(few: &[Vec<SimulationOutcome>], many: &[Vec<SimulationOutcome>]) -> f64 {
    let of = |played: &[Vec<SimulationOutcome>], name: &str| {
        let functions = played.iter().flatten().flat_map(|run| &run.functions);
        let own = functions.filter(|function| function.name == name);
        mean(&own.filter_map(|function| function.figures.p99_ms).collect::<Vec<_>>())
    };
    let names: Vec<&str> =
        few[0][0].functions.iter().take(12).map(|function| function.name.as_str()).collect();
    let apart = names.iter().map(|name| 100.0 * (of(many, name) / of(few, name) - 1.0).abs());
    apart.fold(0.0, f64::max)
}

/// The largest distance of two empirical distributions, and its asymptotic p-value.
fn kolmogorov_smirnov(first: &[f64], second: &[f64]) -> (f64, f64) {
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let (first, second) = (sorted(first), sorted(second));
    let part = |values: &[f64], at: f64| {
        values.partition_point(|value| *value <= at) as f64 / values.len().max(1) as f64
    };
    let distance = first
        .iter()
        .chain(&second)
        .map(|at| (part(&first, *at) - part(&second, *at)).abs())
        .fold(0.0, f64::max);
    let (n, m) = (first.len() as f64, second.len() as f64);
    let size = (n * m / (n + m)).sqrt();
    // Stephens' correction for small samples, as in Numerical Recipes.
    let x = (size + 0.12 + 0.11 / size) * distance;
    let terms = (1..=100).map(|k| {
        let k = f64::from(k);
        let sign = if k % 2.0 == 1.0 { 1.0 } else { -1.0 };
        sign * (-2.0 * k * k * x * x).exp()
    });
    let p = if x < 0.2 { 1.0 } else { (2.0 * terms.sum::<f64>()).clamp(0.0, 1.0) };
    (distance, p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_tells_samples_apart_as_tables_say() {
        let first: Vec<f64> = (0..50).map(f64::from).collect();
        assert_eq!(kolmogorov_smirnov(&first, &first), (0.0, 1.0));
        let far: Vec<f64> = first.iter().map(|value| value + 100.0).collect();
        let (distance, p) = kolmogorov_smirnov(&first, &far);
        assert!(distance == 1.0 && p < 1e-9, "{p}");
        // A distance of 1.36 over the root of the effective size is worth 5 %.
        let near: Vec<f64> = first.iter().map(|value| value + 13.6).collect();
        let (distance, p) = kolmogorov_smirnov(&first, &near);
        assert!((distance - 0.28).abs() < 1e-9, "{distance}");
        assert!((0.02..0.06).contains(&p), "{p}");
    }
}
