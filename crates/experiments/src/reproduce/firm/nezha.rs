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

use super::case::{Case, Metric, Signals, Spans};
use super::number::sample;

/// How long after an injection its fault is taken to last.
const FAULT_S: i64 = 180;
/// The load of the system is back to normal this long after a fault.
const RECOVERY_S: i64 = 60;
/// Spans that started this long before a fault belong to its reference.
const REFERENCE_S: i64 = 3600;
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
        let names: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
        let place = |wanted: &str| {
            let found = names.iter().position(|name| *name == wanted);
            found.ok_or_else(|| format!("there is no column {wanted}"))
        };
        let (time, pod) = (place("TimeStamp")?, place("PodName")?);
        for (index, (name, _)) in METRICS.iter().enumerate() {
            let column = place(name)?;
            for (number, line) in text.lines().enumerate().skip(1) {
                let number = number + 1;
                let fields: Vec<&str> = line.split(',').collect();
                let field = |column: usize| {
                    let missing = || format!("line {number} has no {}", names[column]);
                    fields.get(column).copied().ok_or_else(missing)
                };
                let second = field(time)?;
                let second = second
                    .parse()
                    .map_err(|_| format!("line {number}: `{second:.40}` is not a time"))?;
                let samples = self.metrics.entry((field(pod)?.to_owned(), index)).or_default();
                samples.push((second, sample(field(column)?, number)?));
            }
        }
        Ok(())
    }

    fn cases(&self) -> Vec<Case> {
        let reference = Arc::new(profile(self.fault_free.iter()).0);
        self.faults.iter().map(|(time, fault)| self.case(*time, fault, &reference)).collect()
    }

    fn case(&self, time: i64, fault: &Fault, fault_free: &Arc<SpanProfile>) -> Case {
        let start_s = |spans: &[RawSpan]| {
            let start = spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
            (start / 1_000_000_000) as i64
        };
        let traces = |from: i64, to: i64| {
            self.traces.iter().filter(move |(_, spans)| (from..to).contains(&start_s(spans)))
        };
        let (window, preparation_s) = profile(traces(time, time + FAULT_S));
        let before = traces(time - REFERENCE_S, time);
        let (mut reference, _) =
            profile(before.filter(|(_, spans)| !self.is_disturbed(start_s(spans), time)));
        reference.extend(fault_free);
        let resource = match fault.inject_type.as_str() {
            "cpu_contention" | "cpu_consumed" => Some(Resource::Cpu),
            "network_delay" => Some(Resource::Network),
            _ => None,
        };
        let signals = Signals {
            metrics: self.metrics_around(time),
            spans: Some(Spans { fault_free: Arc::clone(fault_free), reference, window }),
            ..Signals::default()
        };
        Case { culprit: fault.inject_pod.clone(), resource, signals, preparation_s }
    }

    /// Whether a fault earlier than `time` is felt at this second.
    fn is_disturbed(&self, second: i64, time: i64) -> bool {
        let mut earlier = self.faults.iter().map(|(fault, _)| *fault).filter(|fault| *fault < time);
        earlier.any(|fault| (fault..fault + FAULT_S + RECOVERY_S).contains(&second))
    }

    /// Metrics of the fault, and of the hour before it without the minutes of earlier faults.
    fn metrics_around(&self, time: i64) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for ((pod, index), samples) in &self.metrics {
            let calm = samples.iter().filter(|(at, _)| *at < time && !self.is_disturbed(*at, time));
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

#[cfg(test)]
mod tests {
    use super::super::case::{Design, Settings};
    use super::super::tests::{place, refused};
    use super::*;

    const ARCHIVE: &str = "nezha_rca/trainticket_2023.tar.zst";
    const FAULTS: &str = "rca_data/2023-01-29/2023-01-29-fault_list.json";
    const TRACE: &str = "rca_data/2023-01-29/trace/08_43_trace.csv";
    const METRIC: &str = "rca_data/2023-01-29/metric/pay_metric.csv";
    const FAULT: &str = r#"{"08": [{"inject_time": "2023-01-29 08:43:04",
        "inject_timestamp": "1674952984", "inject_pod": "pay", "inject_type": "network_delay"}]}"#;
    const FAULT_NS: u64 = 1_674_981_784_000_000_000;
    const HEADER: &str = "TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration\n";

    /// Requests of a second each, `site -> pay`; the call takes `call_us`, 100 us of them in `pay`.
    fn requests(first: u64, start_ns: u64, call_us: u64) -> String {
        let mut text = HEADER.to_owned();
        for request in 0..12 {
            let start = start_ns + request * 1_000_000_000;
            let call_ns = (call_us + request % 3) * 1000;
            let trace = first + request;
            let mut span = |id: u64, parent: &str, pod: &str, from: u64, ns: u64| {
                let from = start + from;
                text +=
                    &format!("{trace:032x},{id:016x},{parent},{pod},GET,{from},{},0\n", from + ns);
            };
            span(1, "root", "site", 0, call_ns + 50_000);
            span(2, "0000000000000001", "site", 10_000, call_ns);
            span(3, "0000000000000002", "pay", 20_000, 100_000);
        }
        text
    }

    fn metrics(rows: u64) -> String {
        let mut text = "TimeStamp,PodName".to_owned();
        METRICS.iter().for_each(|(name, _)| text += &format!(",{name}"));
        for minute in 0..rows {
            text += &format!("\n{},pay", FAULT_NS / 1_000_000_000 - 600 + 60 * minute);
            METRICS.iter().for_each(|_| text += &format!(",{}", 5 + minute % 2));
        }
        text
    }

    #[test]
    fn a_slow_network_between_two_pods_is_found_in_their_spans() {
        let before = requests(1, FAULT_NS - 60_000_000_000, 300);
        let after = requests(100, FAULT_NS + 5_000_000_000, 9000);
        let files = [
            ("construct_data/2023-01-29/trace/08_00_trace.csv", &*requests(200, 1, 300)),
            ("rca_data/2023-01-29/trace/08_42_trace.csv", &before),
            (TRACE, &after),
            (METRIC, &metrics(13)),
            (FAULTS, FAULT),
        ];
        let data = place(ARCHIVE, &files);
        let cases = read(data.path()).unwrap();
        assert_eq!((cases.len(), cases[0].culprit.as_str()), (1, "pay"));
        assert_eq!(cases[0].resource, Some(Resource::Network));
        let sizes: Vec<_> =
            cases[0].signals.metrics.iter().map(|m| (m.reference.len(), m.window.len())).collect();
        assert_eq!(sizes, [(10, 3); 7], "ten minutes before and three after");
        for settings in Settings::candidates() {
            let ranking = cases[0].localise(&settings, &Design::USED);
            let names: Vec<&str> = ranking.iter().map(|r| r.component.as_str()).collect();
            assert_eq!(names, ["pay", "site"], "{settings:?}");
            // The edge of two is as slow for one as for the other.
            assert_eq!(ranking[0].score, ranking[1].score);
            assert_eq!(ranking[0].resource, Some(Resource::Network));
        }
    }

    #[test]
    fn bad_input_is_one_error_that_names_the_file() {
        let check = |files: &[(&str, &str)], parts: &[&str]| {
            refused(ARCHIVE, files, &|data| read(data).map(drop), parts);
        };
        check(&[], &["no faults"]);
        check(&[(FAULTS, "{\"08\": [{\"inject_time\": 3}]}")], &[FAULTS, "line 1 column"]);
        let never = FAULT.replace("2023-01-29 08:43:04", "yesterday");
        check(&[(FAULTS, &never)], &[FAULTS, "yesterday"]);
        check(&[(TRACE, &format!("{HEADER}1,2,root,site\n"))], &[TRACE, "line 2 has too few"]);
        let no_id = format!("{HEADER}1,zz,root,site,GET,1,2,1\n");
        check(&[(TRACE, &no_id)], &[TRACE, "line 2 is not a span"]);
        check(&[(METRIC, "TimeStamp,PodName\n")], &[METRIC, "no column CpuUsage(m)"]);
        check(&[(METRIC, &metrics(1).replace(",5", ",high"))], &[METRIC, "line 2", "high"]);
        check(&[(METRIC, &metrics(1).replace("\n1", "\nsoon1"))], &[METRIC, "not a time"]);
    }
}
