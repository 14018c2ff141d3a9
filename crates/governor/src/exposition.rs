//! The text format of Prometheus and OpenMetrics, as far as a governor reads it.

use std::collections::BTreeMap;

use crate::histogram::Histogram;

/// Why a text is no exposition of metrics.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpositionError {
    /// A line that is no sample.
    #[error("line {line} of the metrics is no sample: {text:?}")]
    Line {
        /// Its number.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// A histogram that cannot be.
    #[error("{metric} of {value:?}: {problem}")]
    Histogram {
        /// Its name.
        metric: String,
        /// Which series.
        value: String,
        /// Why.
        problem: String,
    },
}

/// One sample.
#[derive(Debug, Clone, PartialEq)]
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

impl Sample<'_> {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| value.as_str())
    }
}

/// The samples of one answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Exposition<'a> {
    samples: Vec<Sample<'a>>,
}

impl<'a> Exposition<'a> {
    /// Reads a text.
    pub fn parse(text: &'a str) -> Result<Self, ExpositionError> {
        let mut samples = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let sample = sample(line).ok_or_else(|| ExpositionError::Line {
                line: number + 1,
                text: line.chars().take(60).collect(),
            })?;
            samples.push(sample);
        }
        Ok(Self { samples })
    }

    /// A histogram of the series with this value of a label, over all its other labels; none without
    /// series.
    pub fn histogram(
        &self,
        metric: &str,
        label: &str,
        value: &str,
    ) -> Result<Option<Histogram>, ExpositionError> {
        let refused = |problem| ExpositionError::Histogram {
            metric: metric.to_owned(),
            value: value.to_owned(),
            problem,
        };
        let mut buckets: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for sample in &self.samples {
            let is_bucket = sample.name.strip_suffix("_bucket") == Some(metric);
            if !is_bucket || sample.label(label) != Some(value) {
                continue;
            }
            let bound = sample.label("le").and_then(number).filter(|bound| !bound.is_nan());
            let bound = bound.ok_or_else(|| refused("a bucket has no number as le".to_owned()))?;
            buckets.entry(bound.to_bits()).or_insert((bound, 0.0)).1 += sample.value;
        }
        if buckets.is_empty() {
            return Ok(None);
        }
        Histogram::try_new(buckets.into_values().collect()).map(Some).map_err(refused)
    }

    /// The sum of the series with this value of a label; none without series.
    pub fn sum(&self, metric: &str, label: &str, value: &str) -> Option<f64> {
        let meant = self
            .samples
            .iter()
            .filter(|sample| sample.name == metric && sample.label(label) == Some(value));
        meant.map(|sample| sample.value).reduce(|sum, value| sum + value)
    }

    /// The values that a label has in a histogram.
    pub fn values(&self, metric: &str, label: &str) -> Vec<&str> {
        let meant = self
            .samples
            .iter()
            .filter(|sample| sample.name.strip_suffix("_bucket") == Some(metric));
        let mut values: Vec<&str> = meant.filter_map(|sample| sample.label(label)).collect();
        values.sort_unstable();
        values.dedup();
        values
    }
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(|letter: char| letter == '{' || letter.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (Vec::new(), rest),
    };
    let value = number(rest.split_whitespace().next()?)?;
    (!name.is_empty()).then_some(Sample { name, labels, value })
}

/// The labels up to the closing bracket, and what follows it.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = after.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match letters.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, letter) => value.push(letter),
            }
        };
        labels.push((name.trim(), value));
        rest = &after[end + 1..];
    }
}

/// Rust reads the format's `+Inf` and `NaN`, too.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::Percentile;

    const TEXT: &str = r#"# HELP g_ttft_seconds Time, with a "quote".
# TYPE g_ttft_seconds histogram
g_ttft_seconds_sum{model="a"} 1.5
g_ttft_seconds_count{model="a"} 10
g_ttft_seconds_bucket{le="0.1",model="a"} 9 # {trace_id="x"} 0.05
g_ttft_seconds_bucket{le="0.2",model="a"} 10 1700000000
g_ttft_seconds_bucket{le="+Inf",model="a"} 10

g_ttft_seconds_bucket{le="+Inf",model="b \"c\" {d}, e"} 3
g_waiting{model="a"} 4
g_waiting{model="a",key="k"} 1
g_up 1
# EOF
"#;

    #[test]
    fn histograms_and_gauges_of_a_model_are_found() {
        let exposition = Exposition::parse(TEXT).unwrap();
        let histogram = |model| exposition.histogram("g_ttft_seconds", "model", model).unwrap();
        assert_eq!(histogram("a").unwrap().percentile(0.9), Some(Percentile::At(0.1)));
        assert_eq!(histogram("b \"c\" {d}, e").unwrap().count(), 3.0);
        assert_eq!(histogram("c"), None);
        assert_eq!(exposition.sum("g_waiting", "model", "a"), Some(5.0));
        assert_eq!(exposition.sum("g_waiting", "model", "b"), None);
        assert_eq!(exposition.values("g_ttft_seconds", "model"), ["a", "b \"c\" {d}, e"]);
    }

    #[test]
    fn what_is_no_metric_is_refused_with_its_line() {
        let check = |text: &str, expect: &str| {
            let error = Exposition::parse(text)
                .and_then(|metrics| metrics.histogram("m", "model", "a").map(drop))
                .unwrap_err();
            assert_eq!(error.to_string(), expect);
        };
        check("up 1\n<html>", "line 2 of the metrics is no sample: \"<html>\"");
        check("m{model=\"a} 1", "line 1 of the metrics is no sample: \"m{model=\\\"a} 1\"");
        check("m_bucket{model=\"a\",le=\"x\"} 1", "m of \"a\": a bucket has no number as le");
        check("m_bucket{model=\"a\",le=\"+Inf\"} NaN", "m of \"a\": NaN is no count");
        check("m_bucket{model=\"a\",le=\"+Inf\"} -3", "m of \"a\": -3 is no count");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[a-z_{}=\", .+\\\\#\n0-9é-]{0,80}") {
            if let Ok(exposition) = Exposition::parse(&text) {
                let _ = exposition.histogram("a", "b", "c");
            }
        }
    }
}
