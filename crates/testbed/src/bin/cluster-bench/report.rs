//! The result as tables and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::arm::Arm;
use crate::calibrate::Size;
use crate::run::RunResult;
use crate::settings::{LoadName, Output, Settings};

/// All runs.
pub(crate) struct Report {
    settings: Settings,
    size: Size,
    iterations: u64,
    runs: Vec<RunResult>,
}

/// A number over several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Spread {
    mean: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// The numbers that are compared, by name.
fn numbers(run: &RunResult) -> [(&'static str, f64); 8] {
    let figures = &run.figures;
    [
        ("p99_ms", figures.p99_ms),
        ("slo_violation_ratio", figures.slo_violation_ratio),
        ("requested_core_s", figures.requested_core_s),
        ("recover_s", figures.recover_s),
        ("disruptions", figures.disruptions.into()),
        ("scaled_in", figures.scaled_in.into()),
        ("failed", figures.failed.into()),
        ("most_pods", figures.most_pods.into()),
    ]
}

type Summary = BTreeMap<&'static str, Spread>;

fn summary<'a>(runs: impl Iterator<Item = &'a RunResult>) -> Option<Summary> {
    let mut values: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for run in runs {
        for (name, value) in numbers(run) {
            values.entry(name).or_default().push(value);
        }
    }
    let spreads = values.iter().map(|(name, values)| (*name, Spread::of(values)));
    (!values.is_empty()).then(|| spreads.collect())
}

impl RunResult {
    /// One line while it goes on.
    pub(crate) fn line(&self) -> String {
        let figures = &self.figures;
        format!(
            "{:?} run {} under {}: p99 {:.0} ms, {:.2} % SLO violations, {:.1} core s, recovery {:.0} s, \
             {} disruptions, {} scaled in, {} failed, at most {} pods; send delay {:.1} ms, \
             machine {:.0} % busy, {:.1} % stolen, load {:.1}",
            self.load,
            self.run + 1,
            self.arm.name(),
            figures.p99_ms,
            figures.slo_violation_ratio * 100.0,
            figures.requested_core_s,
            figures.recover_s,
            figures.disruptions,
            figures.scaled_in,
            figures.failed,
            figures.most_pods,
            figures.send_delay_p99_ms,
            self.machine.busy * 100.0,
            self.machine.steal * 100.0,
            self.machine.load_average,
        )
    }
}

impl Report {
    pub(crate) fn new(settings: &Settings, size: &Size, iterations: u64) -> Self {
        Self { settings: settings.clone(), size: size.clone(), iterations, runs: Vec::new() }
    }

    pub(crate) fn add(&mut self, run: RunResult) {
        self.runs.push(run);
    }

    fn of(&self, arm: Arm, load: Option<LoadName>) -> Option<Summary> {
        let counts = |run: &&RunResult| run.arm == arm && load.is_none_or(|load| run.load == load);
        summary(self.runs.iter().filter(counts))
    }

    /// The stock HPA at its best over all loads: fewest SLO violations, then fewest core-seconds.
    fn best_hpa(&self) -> Option<Arm> {
        let rank = |arm: &Arm| {
            let all = self.of(*arm, None)?;
            Some((all["slo_violation_ratio"].mean, all["requested_core_s"].mean))
        };
        let ranked = Arm::HPA.into_iter().filter_map(|arm| Some((arm, rank(&arm)?)));
        ranked
            .min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)))
            .map(|(arm, _)| arm)
    }

    fn loads(&self) -> Vec<LoadName> {
        let mut loads: Vec<_> = self.runs.iter().map(|run| run.load).collect();
        loads.sort();
        loads.dedup();
        loads
    }

    fn arms(&self) -> Vec<Arm> {
        let mut arms: Vec<_> = self.runs.iter().map(|run| run.arm).collect();
        arms.sort();
        arms.dedup();
        arms
    }

    pub(crate) fn print(&self, output: Output) -> String {
        match output {
            Output::Table => self.table(),
            Output::Json => serde_json::to_string_pretty(&self.json()).expect("it is JSON"),
        }
    }

    fn json(&self) -> Value {
        let by_arm = |load: Option<LoadName>| {
            let mut all = Map::new();
            for arm in self.arms() {
                all.insert(arm.name().to_owned(), json!(self.of(arm, load)));
            }
            if let Some(best) = self.best_hpa() {
                all.insert("hpa".to_owned(), json!(self.of(best, load)));
            }
            all
        };
        let mut all = by_arm(None);
        all.insert("hpa_is".to_owned(), json!(self.best_hpa().map(Arm::name)));
        let loads: Map<String, Value> = self
            .loads()
            .into_iter()
            .map(|load| (format!("{load:?}").to_lowercase(), Value::Object(by_arm(Some(load)))))
            .collect();
        all.insert("loads".to_owned(), Value::Object(loads));
        all.insert("settings".to_owned(), json!(self.settings));
        all.insert("requests_at_start".to_owned(), json!(self.size));
        all.insert("iterations_of_a_request".to_owned(), json!(self.iterations));
        all.insert("runs".to_owned(), json!(self.runs));
        Value::Object(all)
    }

    fn table(&self) -> String {
        let mut text = String::new();
        let mut row = |cells: [&str; 8]| {
            let [load, arm, numbers @ ..] = cells;
            write!(text, "{load:<6} {arm:<6}").expect("a string takes everything");
            for number in numbers {
                write!(text, " {number:>18}").expect("a string takes everything");
            }
            text.push('\n');
        };
        let heads =
            ["p99_ms", "slo_violation_ratio", "requested_core_s", "recover_s", "disruptions"];
        row(["load", "arm", heads[0], heads[1], heads[2], heads[3], heads[4], "scaled_in"]);
        for load in self.loads().into_iter().map(Some).chain([None]) {
            let name = load.map_or("all".to_owned(), |load| format!("{load:?}").to_lowercase());
            for arm in self.arms() {
                let Some(all) = self.of(arm, load) else { continue };
                let cell = |name: &str, digits: usize, scale: f64, unit: &str| {
                    let Spread { mean, min, max } = all[name];
                    let [mean, min, max] = [mean, min, max].map(|value| value * scale);
                    format!("{mean:.digits$}{unit} ({min:.digits$}-{max:.digits$})")
                };
                row([
                    &name,
                    arm.name(),
                    &cell("p99_ms", 0, 1.0, ""),
                    &cell("slo_violation_ratio", 1, 100.0, "%"),
                    &cell("requested_core_s", 1, 1.0, ""),
                    &cell("recover_s", 0, 1.0, ""),
                    &cell("disruptions", 1, 1.0, ""),
                    &cell("scaled_in", 1, 1.0, ""),
                ]);
            }
        }
        text + &self.notes()
    }

    fn notes(&self) -> String {
        let Settings { seconds, warm_up_s, sync_s, stabilization_s, .. } = self.settings;
        let settings = &self.settings;
        let clock = if settings.is_real_time { "stock timings" } else { "a compressed clock" };
        let invalid = self.runs.iter().filter(|run| !run.is_valid).count();
        let repeated: u32 = self.runs.iter().map(|run| run.repeated).sum();
        let limits =
            if settings.has_cpu_limits { "limits equal requests" } else { "no CPU limits" };
        let mut text = format!(
            "\nmean (least-most) of the runs; loads of {seconds} s after {warm_up_s} s of warm-up\n\
             objective: 99 % within {} ms; a request is {} ms of work on an idle core; mean load {} a second\n\
             pods: {} to {}, each with {} and {} to begin with, by VPA's rule at the mean load; {limits}\n\
             {clock} for both: a look each {sync_s} s, {stabilization_s} s of stabilisation before scaling in, query over {} s\n\
             ours alone asks for its objective three times as often as it looks\n\
             for the HPA alone: cpu-initialization-period {} s, initial-readiness-delay {} s\n\
             {} runs, {invalid} invalid (the generator fell behind), {repeated} repeated\n",
            settings.threshold_ms,
            settings.work_ms,
            settings.mean_rate,
            settings.min_replicas,
            settings.max_replicas,
            self.size.cpu,
            self.size.memory,
            settings.query_range_s,
            settings.hpa_cpu_initialization_s,
            settings.hpa_readiness_delay_s,
            self.runs.len(),
        );
        if let Some((best, ours)) = self.best_hpa().zip(self.of(Arm::Ours, None)) {
            let stock = self.of(best, None).expect("it was ranked");
            let part = ours["requested_core_s"].mean / stock["requested_core_s"].mean;
            writeln!(
                text,
                "best stock HPA over all loads: {}; ours: {:.1} % SLO violations against {:.1} %, {:.0} % of its core-seconds",
                best.name(),
                ours["slo_violation_ratio"].mean * 100.0,
                stock["slo_violation_ratio"].mean * 100.0,
                part * 100.0,
            )
            .expect("a string takes everything");
        }
        text
    }
}
