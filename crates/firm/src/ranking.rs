//! Components ordered by the strongest evidence against them.

use std::collections::BTreeMap;

use serde::Serialize;

/// What is short, or what is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Network, in and out.
    Network,
}

/// One reason to suspect a component.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The suspect.
    pub component: String,
    /// The resource that this points at; none for latency, load and failures.
    pub resource: Option<Resource>,
    /// How strong: evidence of one ranking is in one unit.
    pub score: f64,
}

/// A component with its score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked {
    /// Its name.
    pub component: String,
    /// Its strongest evidence.
    pub score: f64,
    /// The resource with the strongest evidence of its own, if any points at one.
    pub resource: Option<Resource>,
}

/// Orders components by their strongest evidence, and by name where it is equal. Evidence that
/// is not a number is left out.
pub fn rank(evidence: impl IntoIterator<Item = Evidence>) -> Vec<Ranked> {
    let mut best: BTreeMap<String, (f64, Option<(f64, Resource)>)> = BTreeMap::new();
    for Evidence { component, resource, score } in evidence {
        if score.is_nan() {
            continue;
        }
        let entry = best.entry(component).or_insert((score, None));
        entry.0 = entry.0.max(score);
        if let Some(resource) = resource
            && entry.1.is_none_or(|(strongest, _)| score > strongest)
        {
            entry.1 = Some((score, resource));
        }
    }
    let mut ranking: Vec<Ranked> = best
        .into_iter()
        .map(|(component, (score, resource))| Ranked {
            component,
            score,
            resource: resource.map(|(_, resource)| resource),
        })
        .collect();
    ranking.sort_by(|a, b| b.score.total_cmp(&a.score));
    ranking
}

/// Orders components by their spans alone. Metrics only help to name the resource: a few samples
/// of a metric and hundreds of spans do not vary alike, so that their scores do not compare.
/// Components without spans are left out.
pub fn rank_by_spans(spans: Vec<Evidence>, metrics: Vec<Evidence>) -> Vec<Ranked> {
    let mut ranking = rank(spans.iter().cloned());
    let resources: BTreeMap<String, Option<Resource>> = rank(spans.into_iter().chain(metrics))
        .into_iter()
        .map(|ranked| (ranked.component, ranked.resource))
        .collect();
    for ranked in &mut ranking {
        ranked.resource = resources.get(&ranked.component).copied().flatten();
    }
    ranking
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_evidence_decides_and_the_resource_is_kept() {
        let evidence = |component: &str, resource, score| Evidence {
            component: component.to_owned(),
            resource,
            score,
        };
        let ranking = rank([
            evidence("b", None, 9.0),
            evidence("b", Some(Resource::Memory), 2.0),
            evidence("b", Some(Resource::Cpu), 3.0),
            evidence("a", None, 9.0),
            evidence("c", None, f64::NAN),
        ]);
        let names: Vec<&str> = ranking.iter().map(|ranked| ranked.component.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(ranking[1].resource, Some(Resource::Cpu));
    }
    #[test]
    fn spans_order_components_and_metrics_name_the_resource() {
        let evidence = |component: &str, resource, score| Evidence {
            component: component.to_owned(),
            resource,
            score,
        };
        let spans = vec![evidence("a", Some(Resource::Network), 4.0), evidence("b", None, 3.0)];
        let metrics = vec![
            evidence("b", Some(Resource::Memory), 900.0),
            evidence("a", Some(Resource::Cpu), 5.0),
            evidence("c", Some(Resource::Cpu), 900.0),
        ];
        let ranking = rank_by_spans(spans, metrics);
        let found: Vec<_> = ranking.iter().map(|r| (r.component.as_str(), r.resource)).collect();
        assert_eq!(found, [("a", Some(Resource::Cpu)), ("b", Some(Resource::Memory))]);
        assert_eq!(ranking[0].score, 4.0, "the score is that of the spans");
    }
}
