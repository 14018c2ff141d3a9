//! Train-Ticket with injected faults (Yu et al., FSE 2023): spans, and metrics every minute.
//! Logs are not used.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use homeostat_firm::{Resource, SpanProfile};
use homeostat_lab::{Error, Result, read_archive};
use homeostat_spans::{NewSpan, SpanKind, SpanLimits, SpanStore, TimeRange};
use serde::Deserialize;

use super::case::{Case, Metric, Signals};

/// How long after an injection its fault is taken to last.
const FAULT_S: i64 = 180;
/// The load of the system is back to normal this long after a fault.
const RECOVERY_S: i64 = 60;
/// Minutes of metrics in a reference, and the fewest that make one.
const REFERENCE_SAMPLES: usize = 60;
const MIN_REFERENCE_SAMPLES: usize = 5;

const METRICS: [(&str, Option<Resource>); 7] = [
    ("CpuUsage(m)", Some(Resource::Cpu)),
    ("MemoryUsage(Mi)", Some(Resource::Memory)),
    ("NetworkReceiveBytes", Some(Resource::Network)),
    ("NetworkTransmitBytes", Some(Resource::Network)),
    ("PodClientLatencyP90(s)", None),
    ("PodServerLatencyP90(s)", None),
    ("PodWorkload(Ops)", None),
];

#[derive(Deserialize)]
struct Fault {
    inject_time: String,
    inject_pod: String,
    inject_type: String,
}

/// What was recorded on one day.
#[derive(Default)]
struct Day {
    faults: Vec<(i64, Fault)>,
    /// Spans by trace, each once.
    traces: BTreeMap<u128, Vec<RawSpan>>,
    /// Traces of the period without faults.
    fault_free: BTreeMap<u128, Vec<RawSpan>>,
    /// Samples with their times, by pod and metric.
    metrics: BTreeMap<(String, usize), Vec<(i64, f64)>>,
}

struct RawSpan {
    id: u64,
    parent: u64,
    pod: String,
    operation: String,
    start_ns: u64,
    end_ns: u64,
}

/// All cases of both days.
pub(super) fn read(data: &Path) -> Result<Vec<Case>> {
    let path = data.join("nezha_rca/trainticket_2023.tar.zst");
    let mut days: BTreeMap<String, Day> = BTreeMap::new();
    read_archive(&path, &|_| true, &mut |name, text| {
        let mut parts = name.split('/');
        let (Some(kind), Some(date)) = (parts.next(), parts.next()) else { return Ok(()) };
        if !name.ends_with(".csv") && !name.ends_with("fault_list.json") {
            return Ok(());
        }
        let day = days.entry(date.to_owned()).or_default();
        match (kind, parts.next()) {
            ("construct_data", Some("trace")) => read_spans(text, &mut day.fault_free),
            ("rca_data", Some("trace")) => read_spans(text, &mut day.traces),
            ("rca_data", Some("metric")) if name.ends_with("_metric.csv") => day.read_metrics(text),
            ("rca_data", Some(file)) if file.ends_with("fault_list.json") => day.read_faults(text),
            _ => Ok(()),
        }
    })?;
    let cases: Vec<Case> = days.values().flat_map(Day::cases).collect();
    if cases.is_empty() {
        let reason = "the archive has no faults: expected rca_data/DAY/DAY-fault_list.json".into();
        return Err(Error::File { action: "read", path, reason });
    }
    Ok(cases)
}

fn read_spans(text: &str, traces: &mut BTreeMap<u128, Vec<RawSpan>>) -> Result<(), String> {
    for (number, line) in text.lines().enumerate().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [trace, id, parent, pod, operation, start, end, ..] = fields.as_slice() else {
            return Err(format!("line {} has too few columns", number + 1));
        };
        let parse = || {
            Some(RawSpan {
                id: u64::from_str_radix(id, 16).ok()?,
                parent: u64::from_str_radix(parent, 16).unwrap_or(0),
                pod: (*pod).to_owned(),
                operation: (*operation).to_owned(),
                start_ns: start.parse().ok()?,
                end_ns: end.parse().ok()?,
            })
        };
        let (Ok(trace), Some(span)) = (u128::from_str_radix(trace, 16), parse()) else {
            return Err(format!("line {} is not a span: `{line:.80}`", number + 1));
        };
        traces.entry(trace).or_default().push(span);
    }
    Ok(())
}

impl Day {
    fn read_faults(&mut self, text: &str) -> Result<(), String> {
        let by_hour: BTreeMap<String, Vec<Fault>> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        for fault in by_hour.into_values().flatten() {
            let moment = format!("{}Z", fault.inject_time.replace(' ', "T"));
            let range = TimeRange::parse(&format!("{moment}..2100-01-01T00:00:00Z"), 0)?;
            self.faults.push((range.from_ns / 1_000_000_000, fault));
        }
        self.faults.sort_by_key(|(time, _)| *time);
        Ok(())
    }

    fn read_metrics(&mut self, text: &str) -> Result<(), String> {
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let place = |wanted: &str| {
            let found = names.iter().position(|name| *name == wanted);
            found.ok_or_else(|| format!("there is no column {wanted}"))
        };
        let (time, pod) = (place("TimeStamp")?, place("PodName")?);
        for (index, (name, _)) in METRICS.iter().enumerate() {
            let column = place(name)?;
            for line in text.lines().skip(1) {
                let fields: Vec<&str> = line.split(',').collect();
                let (Some(time), Some(pod)) = (fields.get(time), fields.get(pod)) else { continue };
                let Ok(time) = time.parse() else { continue };
                let value = fields.get(column).and_then(|field| field.parse().ok());
                let samples = self.metrics.entry(((*pod).to_owned(), index)).or_default();
                samples.push((time, value.unwrap_or(f64::NAN)));
            }
        }
        Ok(())
    }

    fn cases(&self) -> Vec<Case> {
        let reference = Arc::new(profile(self.fault_free.iter()).0);
        self.faults.iter().map(|(time, fault)| self.case(*time, fault, &reference)).collect()
    }

    fn case(&self, time: i64, fault: &Fault, fault_free: &Arc<SpanProfile>) -> Case {
        let starts_in = |spans: &[RawSpan], from: i64, to: i64| {
            let start = spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
            let start = (start / 1_000_000_000) as i64;
            (from..to).contains(&start)
        };
        let traces =
            |from, to| self.traces.iter().filter(move |(_, spans)| starts_in(spans, from, to));
        let (window, preparation_s) = profile(traces(time, time + FAULT_S));
        let resource = match fault.inject_type.as_str() {
            "cpu_contention" | "cpu_consumed" => Some(Resource::Cpu),
            "network_delay" => Some(Resource::Network),
            _ => None,
        };
        let signals = Signals {
            metrics: self.metrics_around(time),
            spans: Some((Arc::clone(fault_free), window)),
            ..Signals::default()
        };
        Case { culprit: fault.inject_pod.clone(), resource, signals, preparation_s }
    }

    /// Metrics of the fault, and of the hour before it without the minutes of earlier faults.
    fn metrics_around(&self, time: i64) -> Vec<Metric> {
        let is_disturbed = |sample: i64| {
            let earlier = self.faults.iter().map(|(fault, _)| *fault).filter(|fault| *fault < time);
            earlier.into_iter().any(|fault| (fault..fault + FAULT_S + RECOVERY_S).contains(&sample))
        };
        let mut metrics = Vec::new();
        for ((pod, index), samples) in &self.metrics {
            let calm = samples.iter().filter(|(at, _)| *at < time && !is_disturbed(*at));
            let mut reference: Vec<f64> = calm.map(|(_, value)| *value).collect();
            if reference.len() < MIN_REFERENCE_SAMPLES {
                continue;
            }
            reference.drain(..reference.len().saturating_sub(REFERENCE_SAMPLES));
            let window = samples.iter().filter(|(at, _)| (time..time + FAULT_S).contains(at));
            metrics.push(Metric {
                component: pod.clone(),
                resource: METRICS[*index].1,
                reference,
                window: window.map(|(_, value)| *value).collect(),
            });
        }
        metrics
    }
}

/// The profile of these traces, and the seconds that it took.
fn profile<'a>(traces: impl Iterator<Item = (&'a u128, &'a Vec<RawSpan>)>) -> (SpanProfile, f64) {
    let traces: Vec<_> = traces.collect();
    let started = Instant::now();
    let mut store = SpanStore::new(SpanLimits::default());
    for (trace, spans) in traces {
        for span in spans {
            let (service, operation) = (store.intern(&span.pod), store.intern(&span.operation));
            store.push(&NewSpan {
                trace_id: *trace,
                span_id: span.id,
                parent_id: span.parent,
                service,
                instance: service,
                operation,
                start_ns: span.start_ns,
                end_ns: span.end_ns,
                kind: SpanKind::Internal,
                is_error: false,
                follows_from: false,
            });
        }
    }
    let (profile, _) = SpanProfile::of(&mut store);
    (profile, started.elapsed().as_secs_f64())
}
