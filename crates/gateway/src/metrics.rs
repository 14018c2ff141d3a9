//! Metrics for Prometheus.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::scheduler::Scheduler;

/// A model by its served name: clients cannot invent values.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ModelLabel {
    /// Its name.
    pub model: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Answered {
    pub(crate) endpoint: &'static str,
    pub(crate) status: u16,
    /// Of an error; empty otherwise.
    pub(crate) code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct UpstreamLabel {
    pub(crate) upstream: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct KeyLabel {
    pub(crate) key: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct TokenLabel {
    pub(crate) model: String,
    pub(crate) kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ReasonLabel {
    pub(crate) reason: &'static str,
}

type Histograms = Family<ModelLabel, Histogram, Buckets>;

/// Buckets from `first`, each `factor` times the one before.
#[derive(Clone, Debug)]
pub struct Buckets {
    first: f64,
    factor: f64,
    count: u16,
}

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(self.first, self.factor, self.count))
    }
}

/// The fourth root of two: a percentile is known to within a tenth or so, as a governor of clocks
/// needs it to see the slack of an SLO.
const FINE: f64 = 1.189_207_115_002_721;

/// All metrics of one gateway.
pub struct Metrics {
    registry: Registry,
    pub(crate) requests: Family<Answered, Counter>,
    pub(crate) first_token: Histograms,
    pub(crate) per_token: Histograms,
    pub(crate) queued: Histograms,
    pub(crate) length_ratio: Histograms,
    pub(crate) drifts: Family<ModelLabel, Counter>,
    pub(crate) tokens: Family<TokenLabel, Counter>,
    pub(crate) key_tokens: Family<KeyLabel, Counter>,
    pub(crate) retries: Family<UpstreamLabel, Counter>,
    pub(crate) cancelled: Counter,
    pub(crate) connections: Gauge,
    pub(crate) reloads: Counter,
    pub(crate) failed_reloads: Counter,
    pub(crate) spans_sent: Counter,
    pub(crate) spans_dropped: Family<ReasonLabel, Counter>,
    waiting: Family<ModelLabel, Gauge>,
    in_flight: Family<UpstreamLabel, Gauge>,
    healthy: Family<UpstreamLabel, Gauge>,
    start: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// Nothing counted; `started` in seconds since 1970.
    pub fn new(started: f64) -> Self {
        let histograms = |first, factor, count| {
            Family::<ModelLabel, Histogram, Buckets>::new_with_constructor(Buckets {
                first,
                factor,
                count,
            })
        };
        let mut metrics = Self {
            registry: Registry::with_prefix("homeostat_gateway"),
            requests: Family::default(),
            // 5 ms to 164 s.
            first_token: histograms(0.005, FINE, 61),
            // 1 ms to 4.1 s.
            per_token: histograms(0.001, FINE, 49),
            // 1 ms to 260 s.
            queued: histograms(0.001, 4.0, 10),
            // A 64th to 64 times.
            length_ratio: histograms(1.0 / 64.0, 2.0, 13),
            drifts: Family::default(),
            tokens: Family::default(),
            key_tokens: Family::default(),
            retries: Family::default(),
            cancelled: Counter::default(),
            connections: Gauge::default(),
            reloads: Counter::default(),
            failed_reloads: Counter::default(),
            spans_sent: Counter::default(),
            spans_dropped: Family::default(),
            waiting: Family::default(),
            in_flight: Family::default(),
            healthy: Family::default(),
            start: Gauge::default(),
        };
        metrics.start.set(started);
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        let help = "Answered requests by status, and by code of errors";
        registry.register("requests", help, self.requests.clone());
        let help = "Time to first token (TTFT): from the arrival of a request to the first event of its stream, or to its whole answer";
        registry.register_with_unit(
            "time_to_first_token",
            help,
            Unit::Seconds,
            self.first_token.clone(),
        );
        let help = "Time per output token (TPOT) after the first, of streams";
        registry.register_with_unit(
            "time_per_output_token",
            help,
            Unit::Seconds,
            self.per_token.clone(),
        );
        let help = "Time that a request waited for an upstream";
        registry.register_with_unit("queue_time", help, Unit::Seconds, self.queued.clone());
        let help = "Length of an answer divided by the predicted length: the prediction error";
        registry.register("length_actual_to_predicted", help, self.length_ratio.clone());
        let help = "Times that the lengths of a model's answers have changed";
        registry.register("length_drifts", help, self.drifts.clone());
        registry.register("tokens", "Tokens of prompts and answers", self.tokens.clone());
        registry.register("key_tokens", "Tokens by key", self.key_tokens.clone());
        registry.register(
            "retries",
            "Requests that an upstream failed and that were sent again",
            self.retries.clone(),
        );
        registry.register(
            "cancelled_requests",
            "Requests that their client gave up",
            self.cancelled.clone(),
        );
        registry.register("connections", "Open connections of clients", self.connections.clone());
        registry.register("settings_reloads", "New settings in use", self.reloads.clone());
        let help = "Changes of the settings file that were refused";
        registry.register("settings_reload_failures", help, self.failed_reloads.clone());
        registry.register(
            "spans_sent",
            "Spans that a collector has taken",
            self.spans_sent.clone(),
        );
        let help = "Spans that no collector has, by reason";
        registry.register("spans_dropped", help, self.spans_dropped.clone());
        registry.register("waiting_requests", "Requests that wait now", self.waiting.clone());
        registry.register(
            "in_flight_requests",
            "Requests that an upstream answers now",
            self.in_flight.clone(),
        );
        registry.register(
            "upstream_healthy",
            "1 if the upstream gets requests",
            self.healthy.clone(),
        );
        let help = "Start of the process, since 1970";
        registry.register_with_unit("start_time", help, Unit::Seconds, self.start.clone());
    }

    /// All metrics as text, with the load of this moment.
    pub fn text(&self, scheduler: &Scheduler) -> String {
        self.waiting.clear();
        for (model, count) in scheduler.waiting() {
            self.waiting.get_or_create(&ModelLabel { model }).set(as_gauge(count));
        }
        self.in_flight.clear();
        self.healthy.clear();
        for load in scheduler.loads() {
            let label = UpstreamLabel { upstream: load.upstream };
            self.in_flight.get_or_create(&label).set(as_gauge(load.in_flight));
            self.healthy.get_or_create(&label).set(i64::from(load.is_healthy));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes everything");
        text
    }
}

fn as_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use homeostat_muserve::schedule::QueueOrder;

    const DASHBOARD: &str = include_str!("../../../deploy/grafana/gateway.json");

    /// Everything has happened once.
    fn all_metrics() -> String {
        let metrics = Metrics::new(0.0);
        let model = ModelLabel { model: "m".to_owned() };
        let upstream = UpstreamLabel { upstream: "a".to_owned() };
        metrics.requests.get_or_create(&Answered { endpoint: "chat", status: 200, code: "" }).inc();
        for histogram in
            [&metrics.first_token, &metrics.per_token, &metrics.queued, &metrics.length_ratio]
        {
            histogram.get_or_create(&model).observe(1.0);
        }
        metrics.drifts.get_or_create(&model).inc();
        metrics.tokens.get_or_create(&TokenLabel { model: "m".to_owned(), kind: "prompt" }).inc();
        metrics.key_tokens.get_or_create(&KeyLabel { key: "k".to_owned() }).inc();
        metrics.retries.get_or_create(&upstream).inc();
        metrics.spans_dropped.get_or_create(&ReasonLabel { reason: "queue_full" }).inc();
        let before = metrics.text(&Scheduler::new(QueueOrder::Fcfs, 1));
        metrics.waiting.get_or_create(&model).set(1);
        metrics.in_flight.get_or_create(&upstream).set(1);
        metrics.healthy.get_or_create(&upstream).set(1);
        let mut after = before;
        encode(&mut after, &metrics.registry).unwrap();
        after
    }

    /// Names of series with this prefix in a text.
    fn names(text: &str) -> BTreeSet<&str> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words.filter_map(|word| word.strip_prefix("homeostat_gateway_")).collect()
    }

    fn family(series: &str) -> &str {
        let suffixes = ["_total", "_bucket", "_sum", "_count"];
        suffixes.iter().find_map(|suffix| series.strip_suffix(suffix)).unwrap_or(series)
    }

    #[test]
    fn the_dashboard_queries_what_is_exported_and_shows_all_of_it() {
        let text = all_metrics();
        let series = text.lines().filter(|line| !line.starts_with('#'));
        let series: BTreeSet<&str> =
            series.filter_map(|line| names(line).into_iter().next()).collect();
        let asked = names(DASHBOARD);
        assert!(asked.len() > 15, "{asked:?}");
        for name in &asked {
            assert!(series.contains(name), "the dashboard queries {name}, which is not exported");
        }
        let shown: BTreeSet<&str> = asked.iter().map(|name| family(name)).collect();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE homeostat_gateway_"));
        for name in types.filter_map(|line| line.split(' ').next()) {
            assert!(shown.contains(name), "{name} is exported and not shown");
        }
    }
}
