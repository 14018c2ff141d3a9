//! Where requests spend time: in a component itself, or between two components.

use std::collections::BTreeMap;

use homeostat_spans::{AnalysisOptions, SpanDefects, SpanStore, for_each_request};

use crate::ranking::{Evidence, Resource};
use crate::robust::{DeviationConfig, WindowSummary, deviation};

/// Samples of one range of time, in milliseconds.
///
/// A span without children in other services is work of its service: its self time is a sample of
/// its operation. A span with one is a call: the time that the callee does not account for was
/// spent between the two, and a slow network of either shows there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpanProfile {
    own_ms: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
    between_ms: BTreeMap<(String, String), Vec<f64>>,
}

impl SpanProfile {
    /// The profile of all requests of a store, and what was wrong with spans.
    pub fn of(store: &mut SpanStore) -> (Self, SpanDefects) {
        let mut own = Vec::new();
        let mut between = Vec::new();
        let defects = for_each_request(store, &AnalysisOptions::default(), |request| {
            let nodes = request.graph.nodes();
            let mut waiting = vec![request.root];
            while let Some(index) = waiting.pop() {
                let node = &nodes[index];
                let mut self_ns = node.end_ns - node.start_ns;
                let mut callees = Vec::new();
                for child in request.graph.children(index) {
                    self_ns -= nodes[child].end_ns - nodes[child].start_ns;
                    callees.push(nodes[child].operation);
                    waiting.push(child);
                }
                own.push((node.operation, self_ns.max(0) as f64 / 1e6, between.len()));
                between.extend(callees);
            }
        });
        let mut profile = Self::default();
        for (place, (operation, ms, start)) in own.iter().enumerate() {
            let end = own.get(place + 1).map_or(between.len(), |next| next.2);
            let service = store.service_of(*operation);
            let mut is_call = false;
            for callee in &between[*start..end] {
                let callee = store.service_of(*callee);
                if callee != service {
                    is_call = true;
                    let edge = (service.to_owned(), callee.to_owned());
                    profile.between_ms.entry(edge).or_default().push(*ms);
                }
            }
            if !is_call {
                let operations = profile.own_ms.entry(service.to_owned()).or_default();
                operations.entry(store.name_of(*operation).to_owned()).or_default().push(*ms);
            }
        }
        (profile, defects)
    }

    /// Adds the samples of another range of time.
    pub fn extend(&mut self, other: &Self) {
        for (service, operations) in &other.own_ms {
            let known = self.own_ms.entry(service.clone()).or_default();
            for (operation, samples) in operations {
                known.entry(operation.clone()).or_default().extend(samples);
            }
        }
        for (edge, samples) in &other.between_ms {
            self.between_ms.entry(edge.clone()).or_default().extend(samples);
        }
    }

    /// Evidence of `window` against this reference: per component its operation with the greatest
    /// deviation of own time, and the mean deviation of the time on all of its edges. A slow
    /// network slows every edge of a component; an edge of its neighbours is one of many.
    ///
    /// The median stands for the samples of a window: they are many, and the largest of many says
    /// little. `noise_floor` is that of [`DeviationConfig`]. Operations and edges with fewer than
    /// `min_samples` in the reference or the window are left out.
    pub fn evidence(&self, window: &Self, noise_floor: f64, min_samples: usize) -> Vec<Evidence> {
        let config = DeviationConfig { noise_floor, summary: WindowSummary::Median };
        let deviation = |reference: &[f64], samples: &[f64]| {
            let is_enough = reference.len().min(samples.len()) >= min_samples;
            is_enough.then(|| deviation(reference, samples, &config)).flatten()
        };
        let mut evidence = Vec::new();
        for (component, operations) in &window.own_ms {
            let reference = self.own_ms.get(component);
            let scores = operations
                .iter()
                .filter_map(|(operation, samples)| deviation(reference?.get(operation)?, samples));
            if let Some(score) = scores.reduce(f64::max) {
                evidence.push(Evidence { component: component.clone(), resource: None, score });
            }
        }
        let mut edges: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
        for (edge, samples) in &window.between_ms {
            let reference = self.between_ms.get(edge);
            if let Some(score) = reference.and_then(|r| deviation(r, samples)) {
                edges.entry(&edge.0).or_default().push(score);
                edges.entry(&edge.1).or_default().push(score);
            }
        }
        for (component, scores) in edges {
            let score = scores.iter().sum::<f64>() / scores.len() as f64;
            let resource = Some(Resource::Network);
            evidence.push(Evidence { component: component.clone(), resource, score });
        }
        evidence
    }
}
