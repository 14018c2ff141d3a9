//! One fault with what was measured around it, and the ranking that follows from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_firm::{
    DeviationConfig, Evidence, Ranked, Resource, SpanProfile, WindowSummary, deviation,
    estimate_onset, exclusive_excess, median, rank, rank_by_spans,
};
use serde::Serialize;

/// A fault whose culprit is known.
pub(super) struct Case {
    pub(super) culprit: String,
    /// What was made short, where the fault is one of resources.
    pub(super) resource: Option<Resource>,
    pub(super) signals: Signals,
    /// Seconds that it took to turn the window's spans into samples.
    pub(super) preparation_s: f64,
}

/// What is known when a fault is detected. Empty parts are left out of the ranking.
#[derive(Default)]
pub(super) struct Signals {
    pub(super) metrics: Vec<Metric>,
    pub(super) spans: Option<Spans>,
    pub(super) excess: Option<Excess>,
    /// All metrics have one time axis whose reference ends where the window begins, so that the
    /// onset can be searched.
    pub(super) is_contiguous: bool,
}

/// Spans of a fault, and what they are compared with.
pub(super) struct Spans {
    /// A period without faults.
    pub(super) fault_free: Arc<SpanProfile>,
    /// The same period, and what came before the fault.
    pub(super) reference: SpanProfile,
    pub(super) window: SpanProfile,
}

/// One metric of one component.
pub(super) struct Metric {
    pub(super) component: String,
    pub(super) resource: Option<Resource>,
    pub(super) reference: Vec<f64>,
    pub(super) window: Vec<f64>,
}

/// Cost of each component's requests (seconds or failures per request) and their number.
#[derive(Default)]
pub(super) struct Excess {
    pub(super) per_request: BTreeMap<String, Metric>,
    pub(super) requests: BTreeMap<String, Vec<f64>>,
    pub(super) callees: BTreeMap<String, Vec<String>>,
}

/// Which deviations count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    /// Above the reference.
    Rise,
    /// Above or below.
    Either,
}

/// How spans are used. One system alone has spans, so that no other can choose this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Design {
    pub(super) sources: Sources,
    /// Whether spans shortly before the fault belong to the reference.
    pub(super) is_reference_recent: bool,
    /// Spans that an operation needs.
    pub(super) min_samples: usize,
}

/// What orders the components of a system that has spans and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sources {
    /// Spans; metrics name the resource.
    Spans,
    /// The strongest of spans and metrics.
    Strongest,
    Metrics,
}

impl Design {
    /// The design whose figures are reported.
    pub(super) const USED: Self =
        Self { sources: Sources::Spans, is_reference_recent: true, min_samples: 1 };
}

/// Everything that is chosen on other systems.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Settings {
    #[serde(flatten)]
    pub(super) deviation: DeviationConfig,
    pub(super) direction: Direction,
}

impl Settings {
    /// The settings to choose from.
    pub(super) fn candidates() -> Vec<Self> {
        let mut candidates = Vec::new();
        for noise_floor in [0.01, 0.05, 0.2] {
            for summary in [WindowSummary::Median, WindowSummary::Mean, WindowSummary::Max] {
                for direction in [Direction::Rise, Direction::Either] {
                    let deviation = DeviationConfig { noise_floor, summary };
                    candidates.push(Self { deviation, direction });
                }
            }
        }
        candidates
    }

    fn strength(&self, score: f64) -> f64 {
        match self.direction {
            Direction::Rise => score,
            Direction::Either => score.abs(),
        }
    }
}

impl Case {
    /// Components, the most suspicious first.
    pub(super) fn localise(&self, settings: &Settings, design: &Design) -> Vec<Ranked> {
        let signals = &self.signals;
        if let Some(excess) = &signals.excess {
            return excess.ranking(settings);
        }
        let metrics = signals.metric_evidence(settings);
        let Some(spans) = &signals.spans else { return rank(metrics) };
        let reference =
            if design.is_reference_recent { &spans.reference } else { &spans.fault_free };
        let noise_floor = settings.deviation.noise_floor;
        let spans = || reference.evidence(&spans.window, noise_floor, design.min_samples);
        match design.sources {
            Sources::Spans => rank_by_spans(spans(), metrics),
            Sources::Strongest => rank(spans().into_iter().chain(metrics)),
            Sources::Metrics => rank(metrics),
        }
    }
}

impl Signals {
    fn metric_evidence(&self, settings: &Settings) -> Vec<Evidence> {
        let onset = if self.is_contiguous {
            let references: Vec<Vec<f64>> =
                self.metrics.iter().map(|metric| metric.reference.clone()).collect();
            estimate_onset(&references)
        } else {
            usize::MAX
        };
        let score = |metric: &Metric| {
            let (reference, late) = metric.reference.split_at(onset.min(metric.reference.len()));
            let window: Vec<f64> = late.iter().chain(&metric.window).copied().collect();
            deviation(reference, &window, &settings.deviation)
        };
        let evidence = |metric: &Metric| {
            Some(Evidence {
                component: metric.component.clone(),
                resource: metric.resource,
                score: settings.strength(score(metric)?),
            })
        };
        self.metrics.iter().filter_map(evidence).collect()
    }
}

impl Excess {
    fn ranking(&self, settings: &Settings) -> Vec<Ranked> {
        let summary = settings.deviation.summary;
        let total = |(component, cost): (&String, &Metric)| {
            // A component that was never asked before has no cost to compare with: all is excess.
            let before = median(&cost.reference).unwrap_or(0.0);
            let requests = summary.of(self.requests.get(component)?)?;
            let excess = (summary.of(&cost.window)? - before) * requests;
            // Noise is a part of the cost itself, as it is of a metric's median.
            let noise = settings.deviation.noise_floor * before.abs() * requests;
            let excess = if excess > noise { excess } else { 0.0 };
            Some((component.clone(), excess))
        };
        let excess = self.per_request.iter().filter_map(total).collect();
        let own = exclusive_excess(&excess, &self.callees);
        rank(own.into_iter().map(|(component, score)| Evidence {
            component,
            resource: None,
            score,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(onset_in_reference: usize) -> Case {
        let series = |length: usize, change_at: usize, step: f64| -> Vec<f64> {
            let level = |t: usize| if t >= change_at { 50.0 + step } else { 50.0 };
            (0..length).map(|t| level(t) + (t % 5) as f64).collect()
        };
        let metric = |component: &str, step: f64| Metric {
            component: component.to_owned(),
            resource: Some(Resource::Cpu),
            reference: series(200, onset_in_reference, step),
            window: series(60, 0, step),
        };
        let metrics = vec![metric("cart", 0.0), metric("orders", 90.0), metric("user", 30.0)];
        let signals = Signals { metrics, is_contiguous: true, ..Signals::default() };
        Case { culprit: "orders".to_owned(), resource: None, signals, preparation_s: 0.0 }
    }

    #[test]
    fn a_late_detection_does_not_hide_the_culprit() {
        for onset in [200, 140] {
            for settings in Settings::candidates() {
                let ranking = case(onset).localise(&settings, &Design::USED);
                assert_eq!(ranking[0].component, "orders", "{settings:?}");
                assert_eq!(ranking[0].resource, Some(Resource::Cpu));
            }
        }
    }
}
