//! Made traffic against the samples of the Azure Functions trace of 2019.
//!
//! The yardstick of every distance is the sample itself: how far its random halves are from
//! each other. The two samples are no yardstick for one another, since the minutes of the
//! larger are sums over fourteen days. Kolmogorov-Smirnov distances of made traces of 4000
//! functions, when this was written:
//!
//! | 500 functions, 480 minutes | rate | idle | dispersion | lag 1 | lag 10 | lag 60 |
//! |---|---|---|---|---|---|---|
//! | random halves, mean of 20 splits | 0.062 | 0.062 | 0.061 | 0.059 | 0.065 | 0.061 |
//! | random halves, worst of 20 splits | 0.112 | 0.128 | 0.104 | 0.104 | 0.140 | 0.100 |
//! | made from the built-in model, against all | 0.022 | 0.032 | 0.050 | 0.038 | 0.040 | 0.073 |
//! | even against odd rows | 0.052 | 0.056 | 0.056 | 0.064 | 0.084 | 0.072 |
//! | made from a fit to even, against odd rows | 0.054 | 0.055 | 0.034 | 0.061 | 0.092 | 0.121 |
//!
//! | 1000 functions, 1440 minutes | rate | idle | dispersion | lag 1 | lag 10 | lag 60 |
//! |---|---|---|---|---|---|---|
//! | random halves, mean of 20 splits | 0.053 | 0.051 | 0.056 | 0.052 | 0.045 | 0.048 |
//! | random halves, worst of 20 splits | 0.078 | 0.078 | 0.088 | 0.086 | 0.072 | 0.074 |
//! | made from the built-in model, against all | 0.031 | 0.031 | 0.060 | 0.069 | 0.087 | 0.064 |
//! | even against odd rows | 0.074 | 0.078 | 0.032 | 0.046 | 0.076 | 0.032 |
//! | made from a fit to even, against odd rows | 0.083 | 0.077 | 0.059 | 0.089 | 0.137 | 0.073 |

use std::path::{Path, PathBuf};

use homeostat_core::{SeedTree, Stream};
use homeostat_load::trace::TraceReader;
use homeostat_load::traffic::{ModelFit, TraceFigures, TrafficModel, distance};
use homeostat_simulate::{fit_trace, read_trace};

/// A sample of the trace.
fn sample(name: &str) -> Option<PathBuf> {
    crate::sample::sample("azure_functions_2019_sample", name)
}

fn rows(path: &Path) -> Vec<Vec<u32>> {
    read_trace(path, &mut |_| {}, |table| {
        let TraceReader::Counts(mut reader) = table else { panic!("no table of counts") };
        let mut rows = Vec::new();
        while let Some(function) = reader.next_function()? {
            rows.push(function.counts);
        }
        Ok(rows)
    })
    .unwrap()
}

fn figures<'a>(rows: impl IntoIterator<Item = &'a Vec<u32>>) -> TraceFigures {
    let mut figures = TraceFigures::default();
    rows.into_iter().for_each(|row| figures.add(row));
    figures
}

fn fitted<'a>(rows: impl IntoIterator<Item = &'a Vec<u32>>) -> TrafficModel {
    let mut fit = ModelFit::default();
    rows.into_iter().for_each(|row| fit.add_counts(row));
    fit.finish(&TrafficModel::azure_2019()).unwrap()
}

fn made(model: &TrafficModel, minutes: usize) -> TraceFigures {
    let seeds = SeedTree::new(1);
    let rows: Vec<Vec<u32>> = (0..4000)
        .map(|number| {
            let mut rng = seeds.stream(&format!("function/{number}"));
            model.draw(&mut rng).rhythm.minute_counts(minutes, &mut rng)
        })
        .collect();
    figures(&rows)
}

type Distances = [(&'static str, f64); 6];

/// Mean and worst distance between random halves of a sample.
fn between_halves(rows: &[Vec<u32>]) -> [Distances; 2] {
    const SPLITS: u64 = 20;
    let mut order: Vec<&Vec<u32>> = rows.iter().collect();
    let names = distance(&TraceFigures::default(), &TraceFigures::default()).named();
    let [mut mean, mut worst] = [names.map(|(name, _)| (name, 0.0)); 2];
    for split in 0..SPLITS {
        Stream::from_seed(split).shuffle(&mut order);
        let (one, other) = order.split_at(order.len() / 2);
        let found = distance(&figures(one.iter().copied()), &figures(other.iter().copied()));
        for (index, (_, distance)) in found.named().into_iter().enumerate() {
            mean[index].1 += distance / SPLITS as f64;
            worst[index].1 = f64::max(worst[index].1, distance);
        }
    }
    [mean, worst]
}

/// The whole comparison for one sample.
fn compare(path: &Path, built_in: &TrafficModel) {
    let rows = rows(path);
    let minutes = rows[0].len();
    let [mean, worst] = between_halves(&rows);
    let all = distance(&made(built_in, minutes), &figures(&rows)).named();
    let (even, odd) = (|| rows.iter().step_by(2), || rows.iter().skip(1).step_by(2));
    let split = distance(&figures(even()), &figures(odd())).named();
    let held_out = distance(&made(&fitted(even()), minutes), &figures(odd())).named();
    let line = |name: &str, distances: &Distances| {
        let cells: Vec<_> = distances.iter().map(|(_, value)| format!("{value:.3}")).collect();
        format!("{name}: {}\n", cells.join(" | "))
    };
    let table = line("random halves, mean", &mean)
        + &line("random halves, worst", &worst)
        + &line("made, against all", &all)
        + &line("even against odd rows", &split)
        + &line("made from even, against odd rows", &held_out);
    println!("{}\n{table}", path.display());
    for (index, (figure, distance)) in all.into_iter().enumerate() {
        // No farther from the sample than its own halves can be from each other; the long
        // correlations, of which a model has only the day, a little more.
        let is_long = matches!(figure, "autocorrelation_10" | "autocorrelation_60");
        let limit = if is_long { 1.25 } else { 1.0 } * worst[index].1;
        assert!(distance <= limit, "{figure}: {distance} is above {limit}\n{table}");
    }
    for (index, (figure, distance)) in held_out.into_iter().enumerate() {
        // What lies between the halves themselves, and what the fit may add to it.
        let limit = split[index].1 + worst[index].1;
        assert!(distance <= limit, "{figure}: {distance} is above {limit}\n{table}");
    }
}

#[test]
fn made_traffic_is_as_near_to_real_as_halves_of_the_real() {
    if let Some(path) = sample("sample500_480min_with_trigger/invocations.csv.zst") {
        compare(&path, &TrafficModel::azure_2019());
    }
    if let Some(path) = sample("sample1000_1day/1000_inv.csv.zst") {
        compare(&path, &TrafficModel::azure_2019_fortnight());
    }
}

#[test]
fn a_fit_to_the_samples_finds_the_built_in_models_again() {
    let files = ["invocations", "durations", "memory"]
        .map(|name| sample(&format!("sample500_480min_with_trigger/{name}.csv.zst")));
    if let Some(files) = files.into_iter().collect::<Option<Vec<_>>>() {
        let otherwise = TrafficModel::azure_2019_fortnight();
        let found = fit_trace(&files, &otherwise, &mut |_, _| {}).unwrap().model;
        assert_eq!(found, TrafficModel::azure_2019());
    }
    if let Some(file) = sample("sample1000_1day/1000_inv.csv.zst") {
        let found = fit_trace(&[file], &TrafficModel::azure_2019(), &mut |_, _| {}).unwrap().model;
        assert_eq!(found, TrafficModel::azure_2019_fortnight());
    }
}

/// The sample of 1000 functions is called a day, but its minutes are sums over fourteen: its
/// timers strike fourteen times, and its longest run is fourteen times the ten minutes after
/// which the service ended one.
#[test]
fn the_sample_of_a_thousand_is_a_sum_of_fourteen_days() {
    let Some(path) = sample("sample1000_1day/1000_inv.csv.zst") else { return };
    let model = fitted(&rows(&path));
    let every_minute = model.clocks.iter().find(|clock| clock.minutes == 1).unwrap();
    let hourly = model.clocks.iter().find(|clock| clock.minutes == 60).unwrap();
    assert_eq!((every_minute.batch.at(0.5), hourly.batch.at(0.5)), (14.0, 14.0));
    let Some(path) = sample("sample1000_1day/1000_run.csv.zst") else { return };
    let longest = read_trace(&path, &mut |_| {}, |table| {
        let TraceReader::Durations(mut reader) = table else { panic!("no table of durations") };
        let mut longest = 0.0f64;
        while let Some(summary) = reader.next_function()? {
            longest = longest.max(summary.percentiles_ms[3]);
        }
        Ok(longest)
    });
    assert!((longest.unwrap() / 600_000.0 - 14.0).abs() < 0.05);
}
