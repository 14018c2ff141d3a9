//! Latency of microservices beside programs that use CPU and memory bandwidth, as Erms published it
//! (DeathStarBench), against a processor-sharing queue with less of a core: what the simulator plays.

use std::collections::BTreeMap;
use std::path::Path;

use homeostat_lab::{Error, Result, read_archive};
use homeostat_report::{Cell, Finding, Table};
use serde_json::{Map, json};

const ARCHIVE: &str = "erms_microservice_profiles/erms_csv.tar.zst";

/// Unit of memory interference, so that both coefficients are of one order.
const MEMORY_UNIT: f64 = 4000.0;

/// The least part of a core that a queue has left in the model.
const MIN_ROOM: f64 = 0.02;

/// Parts of the load up to which Erms fitted a straight line: a measurement at each.
const LOADS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];

/// Fewer conditions cannot tell four numbers.
const MIN_CONDITIONS: usize = 8;

/// Latency at one load of one microservice.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    cpu: f64,
    memory: f64,
    load: f64,
    latency: f64,
}

/// Conditions of one microservice: its points in each, by CPU and memory interference.
type Series = Vec<Vec<Point>>;

/// A queue whose server loses a part of its capacity to programs beside it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Queue {
    /// Latency without load or interference.
    base: f64,
    /// Capacity that a unit of load, of CPU and of memory interference takes.
    takes: [f64; 3],
}

impl Queue {
    /// Mean sojourn time of processor sharing: work over the capacity that is left.
    fn latency(&self, point: &Point) -> f64 {
        let [load, cpu, memory] = self.takes;
        let left = 1.0 - cpu * point.cpu - memory * point.memory / MEMORY_UNIT - load * point.load;
        self.base / left.max(MIN_ROOM)
    }

    /// Sum of absolute logarithms of modelled over measured latency.
    fn loss(&self, points: &[Point]) -> f64 {
        points.iter().map(|point| (self.latency(point) / point.latency).ln().abs()).sum()
    }

    /// The best queue found from a grid of starts and coordinate search; without interference if that
    /// is left out.
    fn fit(points: &[Point], with_interference: bool) -> Self {
        let heaviest = points.iter().map(|point| point.load).fold(f64::MIN_POSITIVE, f64::max);
        let (cpus, memories): (&[f64], &[f64]) = if with_interference {
            (&[0.0, 0.2, 0.4, 0.55], &[0.0, 0.1])
        } else {
            (&[0.0], &[0.0])
        };
        let mut best: Option<(f64, Self)> = None;
        for cpu in cpus {
            for memory in memories {
                for part in [0.1, 0.4, 0.7] {
                    let mut queue = Self { base: 1.0, takes: [part / heaviest, *cpu, *memory] };
                    let ratios = points.iter().map(|point| point.latency / queue.latency(point));
                    queue.base = median(ratios.collect()).unwrap_or(1.0);
                    let loss = queue.loss(points);
                    if best.is_none_or(|(least, _)| loss < least) {
                        best = Some((loss, queue));
                    }
                }
            }
        }
        let (mut least, mut queue) = best.expect("there are starts");
        let moved = if with_interference { 4 } else { 2 };
        let mut steps = [0.2, 0.3 * queue.takes[0], 0.1, 0.05];
        for _ in 0..60 {
            let mut is_better = false;
            for (index, step) in steps.iter().enumerate().take(moved) {
                for step in [*step, -step] {
                    let mut next = queue;
                    match index.checked_sub(1) {
                        None => next.base *= step.exp(),
                        Some(index) => next.takes[index] = (next.takes[index] + step).max(0.0),
                    }
                    let loss = next.loss(points);
                    if loss < least {
                        (least, queue, is_better) = (loss, next, true);
                    }
                }
            }
            if !is_better {
                steps.iter_mut().for_each(|step| *step /= 2.0);
            }
        }
        queue
    }

    /// Median relative error.
    fn error(&self, points: &[Point]) -> f64 {
        let errors = points.iter().map(|point| (self.latency(point) / point.latency - 1.0).abs());
        median(errors.collect()).unwrap_or(f64::NAN)
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(0.5 * (values[middle - 1] + values[middle])),
    }
}

/// Microservices by system and name.
fn read(data: &Path) -> Result<BTreeMap<(String, String), Series>> {
    let path = data.join(ARCHIVE);
    let mut all = BTreeMap::new();
    let is_wanted = |name: &str| name.ends_with("fittingResult/inflection.csv");
    read_archive(&path, &is_wanted, &mut |name, text| {
        let system = name.split('/').find_map(|part| part.strip_prefix("data_"));
        let system = system.ok_or("expected a folder data_SYSTEM")?;
        for (service, series) in table(text)? {
            all.insert((system.to_owned(), service), series);
        }
        Ok(())
    })?;
    if all.is_empty() {
        let reason = "the archive has no data_SYSTEM/fittingResult/inflection.csv".to_owned();
        return Err(Error::File { action: "read", path, reason });
    }
    Ok(all)
}

/// The conditions of each microservice, ordered. Rows whose fit failed are left out.
fn table(text: &str) -> Result<BTreeMap<String, Series>, String> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |wanted: &str| {
        let place = names.iter().position(|name| *name == wanted);
        place.ok_or_else(|| format!("there is no column {wanted}"))
    };
    let (success, tag) = (column("success")?, column("tag")?);
    let wanted = ["cpuInter", "memInter", "inflection", "a1", "b1"];
    let places: Vec<usize> = wanted.into_iter().map(column).collect::<Result<_, _>>()?;
    let mut conditions: BTreeMap<String, Vec<[f64; 5]>> = BTreeMap::new();
    for (number, line) in (2..).zip(lines) {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |place: usize| {
            fields.get(place).copied().ok_or_else(|| format!("line {number} has too few columns"))
        };
        if field(success)? != "True" {
            continue;
        }
        let mut row = [0.0; 5];
        for (value, place) in row.iter_mut().zip(&places) {
            *value = super::number::sample(field(*place)?, number)?;
            if !value.is_finite() {
                return Err(format!("line {number}: `{}` is not a number", field(*place)?));
            }
        }
        conditions.entry(field(tag)?.to_owned()).or_default().push(row);
    }
    let series = conditions.into_iter().map(|(service, mut rows)| {
        rows.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
        (service, rows.iter().map(points).collect())
    });
    Ok(series.collect())
}

/// Latencies on the straight line below the inflection of one condition.
fn points(&[cpu, memory, inflection, slope, intercept]: &[f64; 5]) -> Vec<Point> {
    let at = |part: f64| {
        let load = part * inflection;
        Point { cpu, memory, load, latency: slope * load + intercept }
    };
    // A line may cross zero, where there are no measurements.
    LOADS.map(at).into_iter().filter(|point| point.latency > 0.0).collect()
}

pub(super) fn interference(data: &Path, progress: &(dyn Fn(&str) + Sync)) -> Result<Finding> {
    progress("reading profiles");
    let all = read(data)?;
    progress("fitting every second condition");
    let columns = [
        "system",
        "microservice",
        "conditions",
        "held-out error",
        "fitted error",
        "without interference",
    ];
    let mut rows = Table::new("median relative error of latency", &columns);
    let mut systems: BTreeMap<String, Vec<[f64; 3]>> = BTreeMap::new();
    for ((system, service), series) in &all {
        if series.len() < MIN_CONDITIONS {
            continue;
        }
        let half = |rest: usize| -> Vec<Point> {
            let mine = series.iter().enumerate().filter(|(number, _)| number % 2 == rest);
            mine.flat_map(|(_, points)| points.iter().copied()).collect()
        };
        let (fitted, held_out) = (half(0), half(1));
        if fitted.is_empty() || held_out.is_empty() {
            continue;
        }
        let queue = Queue::fit(&fitted, true);
        let plain = Queue::fit(&fitted, false);
        let errors = [queue.error(&held_out), queue.error(&fitted), plain.error(&held_out)];
        let mut row: Vec<Cell> =
            vec![system.as_str().into(), service.as_str().into(), (series.len() as f64).into()];
        row.extend(errors.map(Cell::from));
        rows.push(row);
        systems.entry(system.clone()).or_default().push(errors);
    }
    let columns =
        ["system", "microservices", "held-out error", "fitted error", "without interference"];
    let mut summary = Table::new("median over microservices", &columns);
    let mut facts = Map::new();
    let everything: Vec<[f64; 3]> = systems.values().flatten().copied().collect();
    systems.insert("all".to_owned(), everything);
    for (system, errors) in &systems {
        let middle = [0, 1, 2].map(|index| {
            median(errors.iter().map(|errors| errors[index]).collect()).unwrap_or(f64::NAN)
        });
        let mut row: Vec<Cell> = vec![system.as_str().into(), (errors.len() as f64).into()];
        row.extend(middle.map(Cell::from));
        summary.push(row);
        let [held_out, fitted, without_interference] = middle;
        let figures = json!({
            "held_out_error": held_out,
            "fitted_error": fitted,
            "without_interference_error": without_interference,
            "microservices": errors.len(),
        });
        facts.insert(system.replace('-', "_"), figures);
    }
    Ok(Finding {
        name: String::new(),
        title: String::new(),
        seeds: Vec::new(),
        is_quick: false,
        tables: vec![summary, rows],
        pictures: Vec::new(),
        notes: NOTES.map(str::to_owned).to_vec(),
        facts,
    })
}

const NOTES: [&str; 3] = [
    "Every second condition of CPU and memory interference is fitted with four numbers for each microservice; the other \
     half is predicted. Errors are medians of |model / measurement - 1|.",
    "The measurements are the straight lines that Erms fitted below the load where latency begins to rise steeply, at four loads \
     of each condition; raw latencies are not published. The lines themselves explain a median of four fifths of the variance.",
    "The model is the mean sojourn time of processor sharing with the capacity that is left: what the simulator plays. \
     Without interference, load alone explains the latency.",
];

#[cfg(test)]
mod tests {
    use super::super::tests::refused;
    use super::*;

    #[test]
    fn a_queue_that_made_the_data_is_found_again() {
        let queue = Queue { base: 800.0, takes: [0.01, 0.3, 0.1] };
        let mut points = Vec::new();
        for cpu in [0.25, 0.75, 1.25] {
            for memory in [500.0, 2000.0, 3000.0] {
                for load in [5.0, 10.0, 20.0] {
                    let mut point = Point { cpu, memory, load, latency: 0.0 };
                    point.latency = queue.latency(&point);
                    points.push(point);
                }
            }
        }
        assert!(Queue::fit(&points, true).error(&points) < 0.02);
        assert!(Queue::fit(&points, false).error(&points) > 0.1);
    }

    #[test]
    fn a_table_that_cannot_be_read_is_refused_with_its_place() {
        let name = "AE/data_x/fittingResult/inflection.csv";
        let head = "success,inflection,accy,a1,b1,a2,b2,tag,cpuInter,memInter";
        let check = |text: &str, parts: &[&str]| {
            refused(ARCHIVE, &[(name, text)], &|data| read(data).map(drop), parts);
        };
        check("success,tag\n", &["cpuInter"]);
        check(&format!("{head}\nTrue,1,1,x,1,1,1,a,1,1\n"), &["line 2", "x"]);
        check(&format!("{head}\nTrue,1\n"), &["line 2", "too few columns"]);
        check(&format!("{head}\nTrue,,1,1,1,1,1,a,1,1\n"), &["line 2"]);
        refused(ARCHIVE, &[("other.csv", "")], &|data| read(data).map(drop), &["inflection.csv"]);
    }
}
