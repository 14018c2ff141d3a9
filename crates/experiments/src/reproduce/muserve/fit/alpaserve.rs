//! AlpaServe's test bed: 24 copies of BERT-2.6B on 16 devices, published placements, and the part of
//! requests within the SLO as measured there.

use std::io::BufRead;
use std::path::Path;

use homeostat_core::{SimDuration, SimTime};
use homeostat_lab::{Error, Result, read_packed};
use homeostat_report::Table;
use homeostat_sim_gpu::{
    Admission, Batching, Deployment, DeviceType, Executor, Instance, Request, ServedModel,
    ServiceOrder, Serving, Stage, StageCost,
};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::published_random::PublishedRandom;

/// Facts of the published experiment.
const MODELS: usize = 24;
const SECONDS: f64 = 200.0;
const REQUESTS_PER_S: f64 = 40.0;
const VARIATION: f64 = 4.0;
/// Rates are in proportion to rank to this power.
const POPULARITY: f64 = -0.5;
/// Time of one request on one device: an SLO scale of 1.
const ALONE_S: f64 = 0.237_103_73;
/// Requests in the first and last seconds do not count.
const WARM_UP_S: f64 = 10.0;

/// One row of the published table.
#[derive(Debug, Clone)]
struct Row {
    slo_scale: f64,
    policy: String,
    form: Form,
    /// Models of each group.
    groups: Vec<Vec<usize>>,
    measured: f64,
}

/// How the devices of a group work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Alone,
    /// Each operator on several devices.
    IntraOperator(u32),
    /// A pipeline of stages.
    Pipeline(usize),
}

/// What is fitted.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// Time of a request outside of the devices.
    overhead_s: f64,
    /// Time of a request on four devices that share each operator.
    intra_s: f64,
    /// Time of a stage of a pipeline of eight.
    stage_s: f64,
}

pub(super) struct Comparison {
    times: Times,
    rows: Vec<(Row, f64, bool)>,
}

pub(super) fn compare(data: &Path) -> Result<Comparison> {
    let path = data.join("alpaserve_sim_vs_real/res_real.tsv");
    let rows = read_packed(&path, &["tsv"], &mut |_| {}, |file| {
        let mut rows = Vec::new();
        for (index, line) in file.lines().enumerate() {
            let line = line.map_err(|error| error.to_string())?;
            let parsed = Row::parse(&line);
            rows.push(parsed.map_err(|reason| format!("line {}: {reason}", index + 1))?);
        }
        Ok(rows)
    })?;
    if rows.is_empty() {
        let reason = "it has no rows".to_owned();
        return Err(Error::File { action: "read", path, reason });
    }
    let arrivals = arrivals();
    // Every other row of each form is fitted.
    let is_fitted: Vec<bool> = (0..rows.len())
        .map(|place| {
            let before = rows[..place].iter().filter(|other| other.form == rows[place].form);
            before.count() % 2 == 0
        })
        .collect();
    let error = |times: Times, is_wanted: &(dyn Fn(Form) -> bool + Sync)| -> f64 {
        let fitted = rows.iter().zip(&is_fitted).filter(|(row, is)| **is && is_wanted(row.form));
        fitted.map(|(row, _)| (row.attainment(times, &arrivals) - row.measured).powi(2)).sum()
    };
    let least = |tried: Vec<Times>, is_wanted: &(dyn Fn(Form) -> bool + Sync)| -> Times {
        let errors: Vec<f64> = tried.par_iter().map(|times| error(*times, is_wanted)).collect();
        let best = (0..tried.len()).min_by(|a, b| errors[*a].total_cmp(&errors[*b]));
        tried[best.expect("there are times to try")]
    };
    let start = Times { overhead_s: 0.009, intra_s: 0.09, stage_s: 0.034 };
    let tried = (0..20).map(|step| Times { overhead_s: 0.001 * f64::from(step), ..start });
    let times = least(tried.collect(), &|form| form == Form::Alone);
    let tried = (60..110).map(|step| Times { intra_s: 0.001 * f64::from(step), ..times });
    let times = least(tried.collect(), &|form| matches!(form, Form::IntraOperator(_)));
    let tried = (56..90).map(|step| Times { stage_s: 0.0005 * f64::from(step), ..times });
    let times = least(tried.collect(), &|form| matches!(form, Form::Pipeline(_)));
    let simulated: Vec<f64> = rows.par_iter().map(|row| row.attainment(times, &arrivals)).collect();
    let rows = rows.into_iter().zip(simulated).zip(is_fitted);
    Ok(Comparison {
        times,
        rows: rows.map(|((row, simulated), is)| (row, simulated, is)).collect(),
    })
}

/// The published arrivals: a gamma process for each model, seeded with its number.
fn arrivals() -> Vec<(f64, usize)> {
    let weight = |model: usize| (model as f64 + 1.0).powf(POPULARITY);
    let total: f64 = (0..MODELS).map(weight).sum();
    let mut arrivals = Vec::new();
    for model in 0..MODELS {
        let rate = REQUESTS_PER_S * weight(model) / total;
        let mut random = PublishedRandom::new(model as u32);
        let shape = 1.0 / (VARIATION * VARIATION);
        let mut now = 0.0;
        loop {
            now += random.gamma(shape, 1.0 / (rate * shape));
            if now >= SECONDS {
                break;
            }
            arrivals.push((now, model));
        }
    }
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    arrivals
}

impl Row {
    fn parse(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [
            _,
            devices,
            _,
            _,
            models,
            rate,
            distribution,
            process,
            variation,
            scale,
            seconds,
            policy,
            ..,
            placement,
            goodput,
            _,
        ] = fields[..]
        else {
            return Err(format!("it has {} fields instead of 19", fields.len()));
        };
        let setting = [models, rate, distribution, process, variation, seconds];
        if devices != "16" || setting != ["24", "40", "power_law", "gamma", "{'cv': 4}", "200"] {
            return Err(format!("`{devices} {}` is another experiment", setting.join(" ")));
        }
        let number =
            |text: &str| text.parse::<f64>().map_err(|_| format!("`{text:.40}` is not a number"));
        let (configs, models) = placement
            .split_once("group_models=")
            .ok_or("the placement names no models of groups")?;
        let form = Form::parse(configs)?;
        let mut groups = Vec::new();
        for group in models.split('(').filter(|group| !group.is_empty()) {
            let inside = group.split(')').next().unwrap_or_default();
            let members = inside.split(',').map(str::trim).filter(|member| !member.is_empty());
            let members: Result<Vec<usize>, _> = members.map(str::parse).collect();
            let members = members.map_err(|_| format!("`{inside:.40}` is not a list of models"))?;
            if members.iter().any(|member| *member >= MODELS) {
                return Err(format!("`{inside:.40}` names a model beyond the last"));
            }
            if !members.is_empty() {
                groups.push(members);
            }
        }
        let (slo_scale, measured) = (number(scale)?, number(goodput)?);
        Ok(Self { slo_scale, policy: policy.to_owned(), form, groups, measured })
    }

    /// The part of requests within the SLO in the simulation.
    fn attainment(&self, times: Times, arrivals: &[(f64, usize)]) -> f64 {
        let deployment = self.deployment(times).expect("the row was checked");
        let mut serving = Serving::new(deployment).expect("the row was checked");
        let first = arrivals.first().map_or(0.0, |arrival| arrival.0);
        let last = arrivals.last().map_or(0.0, |arrival| arrival.0);
        let skipped = (WARM_UP_S / (last - first) * arrivals.len() as f64) as usize;
        let counted = &arrivals[skipped..arrivals.len() - skipped];
        for (at, model) in arrivals {
            let arrival = SimTime::from_nanos((at * 1e9) as u64);
            let request =
                Request { arrival, model: *model as u32, prompt: 1, output: 0, rank: 0.0 };
            serving.submit(request).expect("arrivals are in order");
        }
        serving.advance(SimTime::from_nanos(((SECONDS + 100.0) * 1e9) as u64));
        let from = SimTime::from_nanos((counted[0].0 * 1e9) as u64);
        let until = SimTime::from_nanos((counted[counted.len() - 1].0 * 1e9) as u64);
        let slo = serving.models()[0].slo;
        let met = serving
            .take_finished()
            .iter()
            .filter(|done| done.arrival >= from && done.arrival <= until && done.latency <= slo)
            .count();
        met as f64 / counted.len() as f64
    }

    fn deployment(&self, times: Times) -> Result<Deployment, homeostat_sim_gpu::Error> {
        let device = DeviceType::by_name("v100")?;
        let (stages, seconds, devices) = match self.form {
            Form::Alone => (1, ALONE_S, 1),
            Form::IntraOperator(devices) => (1, times.intra_s, devices),
            Form::Pipeline(stages) => (stages, times.stage_s, 1),
        };
        let model = |number: usize| {
            Ok(ServedModel {
                name: format!("bert-2.6b-{number}"),
                slo: SimDuration::from_seconds(self.slo_scale * ALONE_S)?,
                batching: Batching::None,
            })
        };
        let overhead = SimDuration::from_seconds(times.overhead_s)?;
        let mut instances = Vec::new();
        for (group, members) in self.groups.iter().enumerate() {
            let stage = |number: usize| Stage {
                executor: group * stages + number,
                cost: StageCost::constant(seconds),
            };
            instances.extend(members.iter().map(|model| Instance {
                model: *model,
                stages: (0..stages).map(stage).collect(),
                cache_tokens: None,
                overhead,
            }));
        }
        Ok(Deployment {
            executors: vec![Executor { device, devices }; self.groups.len() * stages],
            models: (0..MODELS).map(model).collect::<Result<_, homeostat_sim_gpu::Error>>()?,
            instances,
            admission: Admission::InTime,
            order: ServiceOrder::Arrival,
        })
    }
}

impl Form {
    /// The form of the first group; the published placements have one form each.
    fn parse(configs: &str) -> Result<Self, String> {
        let after = |name: &str| -> Result<u32, String> {
            let text = configs.split_once(name).map(|(_, rest)| rest).unwrap_or_default();
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().map_err(|_| format!("the placement has no `{name}`"))
        };
        match (after(" op=")?, after(" pp=")?) {
            (1, 1) => Ok(Self::Alone),
            (4, 1) => Ok(Self::IntraOperator(4)),
            (1, 8) => Ok(Self::Pipeline(8)),
            (operator, pipeline) => {
                Err(format!("op={operator}, pp={pipeline} is not a form of the published table"))
            }
        }
    }

    fn name(self) -> String {
        match self {
            Self::Alone => "one device".to_owned(),
            Self::IntraOperator(devices) => format!("{devices} devices per operator"),
            Self::Pipeline(stages) => format!("pipeline of {stages}"),
        }
    }
}

impl Comparison {
    /// Differences in points, of the rows that were not fitted.
    fn tested(&self) -> Vec<f64> {
        let tested = self.rows.iter().filter(|(_, _, is_fitted)| !is_fitted);
        tested.map(|(row, simulated, _)| 100.0 * (simulated - row.measured).abs()).collect()
    }

    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(
            "requests within the SLO on AlpaServe's test bed, %",
            &["SLO scale", "placement", "devices", "test bed", "simulated", "part"],
        );
        for (row, simulated, is_fitted) in &self.rows {
            table.push(vec![
                row.slo_scale.into(),
                row.policy.clone().into(),
                row.form.name().into(),
                (100.0 * row.measured).into(),
                (100.0 * simulated).into(),
                if *is_fitted { "fitted" } else { "tested" }.into(),
            ]);
        }
        table
    }

    pub(super) fn figures(&self) -> Value {
        let tested = self.tested();
        json!({
            "largest_difference_points": tested.iter().copied().fold(0.0, f64::max),
            "mean_difference_points": tested.iter().sum::<f64>() / tested.len().max(1) as f64,
            "tested": tested.len(),
            "fitted_s": {
                "overhead": self.times.overhead_s,
                "intra_operator_4": self.times.intra_s,
                "stage_of_8": self.times.stage_s,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "goodput_vs_slo\t16\t1\tbert-2.6b\t24\t40\tpower_law\tgamma\t{'cv': 4}\t2\t200\tmp-search\tNone\tNone\tNone\tNone\tModelPlacement(group_configs=(ParallelConfig(dp=1, op=1, pp=8), ParallelConfig(dp=1, op=1, pp=8)), group_models=((0, 1), (0, 23)))\t0.79\trun";

    #[test]
    fn a_published_row_is_read() {
        let row = Row::parse(LINE).unwrap();
        assert_eq!((row.form, row.groups), (Form::Pipeline(8), vec![vec![0, 1], vec![0, 23]]));
        assert_eq!((row.slo_scale, row.measured), (2.0, 0.79));
        let error = Row::parse(&LINE.replace("23)", "24)")).unwrap_err();
        assert!(error.contains("beyond the last"), "{error}");
        let error = Row::parse(&LINE.replace("\t24\t40", "\t24\t60")).unwrap_err();
        assert!(error.contains("another experiment"), "{error}");
    }

    #[test]
    fn there_are_as_many_arrivals_as_published() {
        assert_eq!(arrivals().len(), 8129);
    }
}
