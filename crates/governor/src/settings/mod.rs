//! Settings: one TOML file, checked before anything uses it.

mod raw;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use homeostat_core::SimDuration;
use homeostat_decide::RateLimitConfig;
use homeostat_muserve::govern::MiadConfig;
use http::Uri;

/// All settings with their defaults, commented.
pub const DEFAULT: &str = include_str!("default.toml");

/// What is wrong with settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("read {path}: {source}")]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is no TOML, or has an unknown key.
    #[error("{error}{hint}")]
    Toml {
        /// With its line.
        error: toml::de::Error,
        /// The key that may be meant.
        hint: String,
    },
    /// A value that cannot be used.
    #[error("{key} = {value}: {expected}")]
    Value {
        /// Its key.
        key: String,
        /// What was found.
        value: String,
        /// What is possible.
        expected: String,
    },
}

/// Checked settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Time between two decisions.
    pub period: Duration,
    /// Where leases are.
    pub lease_directory: PathBuf,
    /// While it exists nothing changes.
    pub pause_file: PathBuf,
    /// After this long without an answer of a device the governor ends.
    pub give_up: SimDuration,
    /// Where metrics and status are.
    pub address: SocketAddr,
    /// Where latencies come from.
    pub source: SourceSettings,
    /// Latency is a percentile over this time.
    pub window: SimDuration,
    /// Latencies older than this are unknown.
    pub stale_after: SimDuration,
    /// Without latencies the clock is held for this long.
    pub hold: SimDuration,
    /// The policy; its step is rounded to one of the device.
    pub miad: MiadConfig,
    /// The clock is not lowered for this long after a change.
    pub cool_down: SimDuration,
    /// Changes in a time.
    pub rate_limit: RateLimitConfig,
    /// Devices, each named once.
    pub devices: Vec<DeviceSettings>,
    /// SLOs of all models.
    pub objectives: Vec<Objective>,
}

/// Where latencies come from.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceSettings {
    /// Which source is queried.
    pub kind: SourceKind,
    /// How long to wait for an answer.
    pub timeout: Duration,
    /// The label with the name of a model.
    pub label: String,
    /// A gauge of requests that wait.
    pub waiting_metric: String,
    /// Seconds since the last sample.
    pub age_query: String,
    /// The window as Prometheus writes it.
    pub promql_window: String,
}

/// A source of latencies.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceKind {
    /// The metrics of a gateway or a server.
    Metrics(Uri),
    /// A Prometheus.
    Prometheus(Uri),
}

impl SourceKind {
    /// Whether it needs certificates.
    pub fn has_tls(&self) -> bool {
        let (Self::Metrics(url) | Self::Prometheus(url)) = self;
        url.scheme_str() == Some("https")
    }
}

/// A GPU to govern.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSettings {
    /// UUID or index.
    pub gpu: String,
    /// The objectives of the models that it serves, by place.
    pub objectives: Vec<usize>,
    /// Lower bound, MHz.
    pub min_mhz: Option<u32>,
    /// Upper bound, MHz.
    pub max_mhz: Option<u32>,
    /// Power limit, mW.
    pub power_limit_mw: Option<u32>,
}

/// An SLO.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// The model.
    pub model: String,
    /// A histogram of latencies, s.
    pub metric: String,
    /// From 0 to 1.
    pub percentile: f64,
    /// The threshold.
    pub slo: SimDuration,
    /// The part of the latency that depends on one device.
    pub weight: f64,
    /// A query instead of the percentile.
    pub query: Option<String>,
    /// The model, with the metric where the model has several.
    pub name: String,
}

impl Objective {
    /// The query for its latency.
    pub fn promql(&self, source: &SourceSettings) -> String {
        if let Some(query) = &self.query {
            return query.clone();
        }
        let Self { model, metric, percentile, .. } = self;
        let SourceSettings { label, promql_window, .. } = source;
        format!(
            "histogram_quantile({percentile}, sum by (le) (rate({metric}_bucket{{{label}={model:?}}}[{promql_window}])))"
        )
    }
}

impl Settings {
    /// Reads a file, over the defaults.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::File { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Reads a text, over the defaults.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let raw: raw::Raw = toml::from_str(text)
            .map_err(|error| Error::Toml { hint: hint(error.message()), error })?;
        raw.check()
    }
}

/// The known key nearest to an unknown one, from the message of serde.
fn hint(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(unknown) = quoted.next().filter(|_| message.starts_with("unknown field")) else {
        return String::new();
    };
    let near = quoted
        .map(|known| (strsim::jaro_winkler(unknown, known), known))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    near.map_or(String::new(), |(_, known)| format!("did you mean `{known}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[source]\nmetrics = \"http://127.0.0.1:1/metrics\"\n[[devices]]\ngpu = \"0\"\n\
                       models = [\"a\"]\n[[objectives]]\nmodel = \"a\"\nslo_ms = 500.0\n";

    fn error(text: &str) -> String {
        Settings::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_file_needs_only_what_differs() {
        let settings = Settings::parse(&format!("period_s = 2.0\n{ONE}")).unwrap();
        assert_eq!(settings.period, Duration::from_secs(2));
        assert_eq!(settings.devices[0].objectives, [0]);
        let objective = &settings.objectives[0];
        assert_eq!((objective.percentile, objective.slo), (0.99, SimDuration::from_millis(500)));
        assert_eq!(
            objective.promql(&settings.source),
            "histogram_quantile(0.99, sum by (le) (rate(homeostat_gateway_time_to_first_token_seconds_bucket{model=\"a\"}[10000ms])))"
        );
    }

    #[test]
    fn the_default_file_states_the_defaults_and_its_examples_can_be_used() {
        let stated = Settings::parse(&format!("{DEFAULT}\n{}", &ONE[ONE.find("[[").unwrap()..]));
        let stated = stated.unwrap_err().to_string();
        assert!(stated.starts_with("source = "), "only the source is missing: {stated}");
        let with_source = DEFAULT.replace("# metrics = ", "metrics = ");
        let devices = &ONE[ONE.find("[[").unwrap()..];
        let stated = Settings::parse(&format!("{with_source}\n{devices}")).unwrap();
        let source = "[source]\nmetrics = \"http://127.0.0.1:9091/metrics\"\n";
        let implied = Settings::parse(&format!("{source}{devices}")).unwrap();
        assert_eq!(format!("{stated:?}"), format!("{implied:?}"));
        let mut examples = String::new();
        let mut is_example = false;
        for line in with_source.lines() {
            is_example |= line.starts_with("# [[");
            examples.push_str(line.strip_prefix("# ").filter(|_| is_example).unwrap_or(line));
            examples.push('\n');
            is_example &= !line.is_empty();
        }
        // Comments of examples start with a second mark.
        let settings = Settings::parse(&examples).unwrap();
        assert_eq!(settings.devices[0].power_limit_mw, Some(500_000));
        assert_eq!(settings.objectives[0].weight, 1.0);
        assert!(settings.objectives[0].query.is_some());
    }

    #[test]
    fn every_value_that_cannot_be_used_is_named_with_the_fix() {
        let device = "[[devices]]\ngpu = \"0\"\nmodels = [\"a\"]\n";
        for (text, expected) in [
            ("", "source = : name source.metrics or source.prometheus"),
            (&format!("{ONE}{device}"), "devices.gpu = 0: name each GPU once"),
            (&format!("period_s = 0.0\n{ONE}"), "period_s = 0: use seconds, from 0.01 to 3600"),
            (&format!("period_s = nan\n{ONE}"), "period_s = NaN"),
            (&format!("give_up_s = 1e300\n{ONE}"), "give_up_s = 1"),
            (&format!("perod_s = 1.0\n{ONE}"), "did you mean `period_s`?"),
            (&format!("[guard]\n{ONE}"), "did you mean `guards`?"),
            (&format!("[miad]\nstep = 60\n{ONE}"), "did you mean `step_mhz`?"),
            (&format!("[miad]\nstep_mhz = 0\n{ONE}"), "miad.step_mhz = 0: MHz above zero"),
            (&format!("[miad]\nfactor = 0.5\n{ONE}"), "miad.factor = 0.5: a number above 1"),
            (&format!("[guards]\nrate_limit_changes = 0\n{ONE}"), "guards.rate_limit_changes = 0"),
            (
                &ONE.replace("\"http://127.0.0.1:1/metrics\"", "\"localhost\""),
                "source.metrics = localhost",
            ),
            (&ONE.replace("500.0", "-1.0"), "objectives.slo_ms = -1"),
            (
                &ONE.replace("[\"a\"]", "[\"b\"]"),
                "devices.models = b: there is no [[objectives]] with it, did you mean `a`?",
            ),
            (&ONE.replace("[\"a\"]", "[]"), "devices.models = []"),
            (&format!("{ONE}percentile = 100.5\n"), "objectives.percentile = 100.5"),
            (&format!("{ONE}weight = 0.0\n"), "objectives.weight = 0"),
            (
                &format!("{ONE}[[objectives]]\nmodel = \"b\"\nslo_ms = 1.0\n"),
                "objectives.model = b: no [[devices]] serves it",
            ),
            (
                &format!("{ONE}[[objectives]]\nmodel = \"a\"\nslo_ms = 1.0\n"),
                "objectives.model = a: give each SLO of a model another metric",
            ),
        ] {
            let error = error(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
