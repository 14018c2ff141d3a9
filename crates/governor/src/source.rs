//! Where latencies come from: the metrics of a gateway, or queries to a Prometheus.

use homeostat_core::SimDuration;
use http::Uri;
use serde::Deserialize;

use crate::exposition::Exposition;
use crate::http::HttpClient;
use crate::settings::{Objective, SourceKind, SourceSettings};
use crate::signal::{ObjectiveReading, Reading};

/// Reads latencies.
#[derive(Debug)]
pub struct Source {
    client: HttpClient,
    settings: SourceSettings,
    /// For a Prometheus: the query of the age, then those of the objectives.
    queries: Vec<Uri>,
}

impl Source {
    /// Connects at the first reading.
    pub fn new(settings: &SourceSettings, objectives: &[Objective]) -> Self {
        let queries = match &settings.kind {
            SourceKind::Metrics(_) => Vec::new(),
            SourceKind::Prometheus(url) => {
                let own = objectives.iter().map(|objective| objective.promql(settings));
                let all = std::iter::once(settings.age_query.clone()).chain(own);
                all.map(|query| query_uri(url, &query)).collect()
            }
        };
        let client = HttpClient::new(settings.timeout, settings.kind.has_tls());
        Self { client, settings: settings.clone(), queries }
    }

    /// Latencies of all objectives, or why there are none.
    pub async fn read(&self, objectives: &[Objective]) -> Result<Reading, String> {
        match &self.settings.kind {
            SourceKind::Metrics(url) => {
                let text = self.client.get(url).await?;
                self.read_metrics(&text, objectives).map_err(|error| format!("GET {url}: {error}"))
            }
            SourceKind::Prometheus(_) => self.query_prometheus().await,
        }
    }

    /// The names of the models that the metrics of a gateway have; none for a Prometheus.
    pub async fn models(&self, objective: &Objective) -> Result<Option<Vec<String>>, String> {
        let SourceKind::Metrics(url) = &self.settings.kind else { return Ok(None) };
        let text = self.client.get(url).await?;
        let exposition = Exposition::parse(&text).map_err(|error| format!("GET {url}: {error}"))?;
        let values = exposition.values(&objective.metric, &self.settings.label);
        Ok(Some(values.into_iter().map(str::to_owned).collect()))
    }

    fn read_metrics(&self, text: &str, objectives: &[Objective]) -> Result<Reading, String> {
        let exposition = Exposition::parse(text).map_err(|error| error.to_string())?;
        let label = &self.settings.label;
        let one = |objective: &Objective| {
            let cumulative = exposition.histogram(&objective.metric, label, &objective.model);
            let waiting = exposition.sum(&self.settings.waiting_metric, label, &objective.model);
            Ok(ObjectiveReading::Histogram {
                cumulative: cumulative.map_err(|error| error.to_string())?,
                // What is no number may be some.
                is_waiting: waiting.is_some_and(|waiting| waiting.is_nan() || waiting > 0.0),
            })
        };
        let objectives = objectives.iter().map(one).collect::<Result<_, String>>()?;
        Ok(Reading { objectives, age: SimDuration::ZERO })
    }

    async fn query_prometheus(&self) -> Result<Reading, String> {
        let mut values = Vec::with_capacity(self.queries.len());
        for query in &self.queries {
            let text = self.client.get(query).await?;
            values.push(scalar(&text)?);
        }
        let age = values[0].ok_or_else(|| {
            "Prometheus has no sample for source.age_query: does it scrape the gateway?".to_owned()
        })?;
        let age = SimDuration::from_seconds(age.max(0.0))
            .map_err(|_| format!("source.age_query gave {age}: it must give seconds"))?;
        let percentile = |value: &Option<f64>| {
            ObjectiveReading::Percentile(value.filter(|value| !value.is_nan()))
        };
        Ok(Reading { objectives: values[1..].iter().map(percentile).collect(), age })
    }
}

fn query_uri(url: &Uri, query: &str) -> Uri {
    let query: String = query
        .bytes()
        .map(|byte| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect();
    let base = url.to_string();
    let text = format!("{}/api/v1/query?query={query}", base.trim_end_matches('/'));
    text.parse().expect("an escaped query after a valid URL")
}

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Series>),
    Scalar((f64, String)),
}

#[derive(Deserialize)]
struct Series {
    value: (f64, String),
}

/// The one number of an answer; none if no series matches.
fn scalar(text: &str) -> Result<Option<f64>, String> {
    let answer: Answer = serde_json::from_str(text)
        .map_err(|error| format!("Prometheus gave no vector and no scalar: {error}"))?;
    let value = match &answer.data {
        Data::Scalar((_, value)) => value,
        Data::Vector(series) => match series.as_slice() {
            [] => return Ok(None),
            [one] => &one.value.1,
            several => {
                let count = several.len();
                return Err(format!(
                    "a query gave {count} series: aggregate them, as sum by (le) does"
                ));
            }
        },
    };
    value.parse().map(Some).map_err(|_| format!("Prometheus gave {value:?} as a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_gives_one_number_or_none() {
        let vector = |series: &str| {
            let text = format!(
                r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#
            );
            scalar(&text)
        };
        assert_eq!(vector(""), Ok(None));
        assert_eq!(vector(r#"{"metric":{},"value":[1,"0.25"]}"#), Ok(Some(0.25)));
        assert!(vector(r#"{"metric":{},"value":[1,"NaN"]}"#).unwrap().unwrap().is_nan());
        let two = r#"{"metric":{},"value":[1,"1"]},{"metric":{},"value":[1,"2"]}"#;
        assert!(vector(two).unwrap_err().contains("2 series"));
        let one = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"3"]}}"#;
        assert_eq!(scalar(one), Ok(Some(3.0)));
        assert!(scalar("<html>").is_err());
    }

    #[test]
    fn a_query_is_escaped_in_the_address() {
        let url: Uri = "http://prometheus:9090/base/".parse().unwrap();
        assert_eq!(
            query_uri(&url, "rate(a{b=\"c\"}[5s])").to_string(),
            "http://prometheus:9090/base/api/v1/query?query=rate%28a%7Bb%3D%22c%22%7D%5B5s%5D%29"
        );
    }
}
