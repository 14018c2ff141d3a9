//! Settings as they are written, and their checks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use homeostat_core::SimDuration;
use homeostat_decide::RateLimitConfig;
use homeostat_muserve::govern::MiadConfig;
use http::Uri;
use serde::Deserialize;

use super::{DeviceSettings, Error, Objective, Settings, SourceKind, SourceSettings};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    period_s: f64,
    lease_directory: PathBuf,
    pause_file: PathBuf,
    give_up_s: f64,
    listen: RawListen,
    source: RawSource,
    signal: RawSignal,
    miad: RawMiad,
    guards: RawGuards,
    devices: Vec<RawDevice>,
    objectives: Vec<RawObjective>,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            period_s: 1.0,
            lease_directory: crate::DEFAULT_LEASE_DIRECTORY.into(),
            pause_file: "/run/homeostat-governor/pause".into(),
            give_up_s: 30.0,
            listen: RawListen::default(),
            source: RawSource::default(),
            signal: RawSignal::default(),
            miad: RawMiad::default(),
            guards: RawGuards::default(),
            devices: Vec::new(),
            objectives: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawListen {
    address: SocketAddr,
}

impl Default for RawListen {
    fn default() -> Self {
        Self { address: crate::DEFAULT_ADDRESS }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawSource {
    metrics: Option<String>,
    prometheus: Option<String>,
    timeout_s: f64,
    label: String,
    waiting_metric: String,
    age_query: String,
}

impl Default for RawSource {
    fn default() -> Self {
        Self {
            metrics: None,
            prometheus: None,
            timeout_s: 0.5,
            label: "model".to_owned(),
            waiting_metric: "homeostat_gateway_waiting_requests".to_owned(),
            age_query: "time() - max(timestamp(homeostat_gateway_start_time_seconds))".to_owned(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawSignal {
    window_s: f64,
    stale_after_s: f64,
    hold_s: f64,
}

impl Default for RawSignal {
    fn default() -> Self {
        Self { window_s: 10.0, stale_after_s: 3.0, hold_s: 5.0 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawMiad {
    factor: f64,
    margin: f64,
    step_mhz: u32,
}

impl Default for RawMiad {
    fn default() -> Self {
        Self { factor: 2.0, margin: 0.05, step_mhz: 60 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawGuards {
    cool_down_s: f64,
    rate_limit_changes: u32,
    rate_limit_s: f64,
}

impl Default for RawGuards {
    fn default() -> Self {
        Self { cool_down_s: 10.0, rate_limit_changes: 30, rate_limit_s: 60.0 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDevice {
    gpu: String,
    models: Vec<String>,
    min_mhz: Option<u32>,
    max_mhz: Option<u32>,
    power_limit_w: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawObjective {
    model: String,
    #[serde(default = "default_metric")]
    metric: String,
    #[serde(default = "default_percentile")]
    percentile: f64,
    slo_ms: f64,
    #[serde(default = "default_weight")]
    weight: f64,
    query: Option<String>,
}

fn default_metric() -> String {
    "homeostat_gateway_time_to_first_token_seconds".to_owned()
}

fn default_percentile() -> f64 {
    99.0
}

fn default_weight() -> f64 {
    1.0
}

impl Raw {
    pub(super) fn check(self) -> Result<Settings, Error> {
        let objectives = check_objectives(self.objectives)?;
        let source = self.source.check(self.signal.window_s)?;
        let mut devices: Vec<DeviceSettings> = Vec::new();
        for device in self.devices {
            let device = device.check(&objectives)?;
            if devices.iter().any(|other| other.gpu == device.gpu) {
                return Err(refused("devices.gpu", &device.gpu, "name each GPU once"));
            }
            devices.push(device);
        }
        if devices.is_empty() {
            let expected = "name at least one GPU, as `homeostat governor settings` shows";
            return Err(refused("devices", "[]", expected));
        }
        let is_unserved =
            |place: &usize| devices.iter().all(|device| !device.objectives.contains(place));
        if let Some(place) = (0..objectives.len()).find(is_unserved) {
            let expected = "no [[devices]] serves it: name it there";
            return Err(refused("objectives.model", &objectives[place].model, expected));
        }
        if self.guards.rate_limit_changes == 0 {
            let expected = "no change would be possible; use at least 1";
            return Err(refused("guards.rate_limit_changes", 0, expected));
        }
        let RawMiad { factor, margin, step_mhz } = self.miad;
        let step = f64::from(step_mhz);
        let miad = MiadConfig { factor, margin, step, ..MiadConfig::default() };
        miad.build().map_err(|error| match error {
            homeostat_muserve::Error::OutOfRange { what, value, expected } => refused(
                &format!("miad.{}", if what == "step" { "step_mhz" } else { what }),
                value,
                expected,
            ),
            other => refused("miad", "", &other.to_string()),
        })?;
        let rate_limit = RateLimitConfig {
            changes: self.guards.rate_limit_changes,
            per: time("guards.rate_limit_s", self.guards.rate_limit_s)?,
        };
        Ok(Settings {
            period: std_time("period_s", self.period_s)?,
            lease_directory: self.lease_directory,
            pause_file: self.pause_file,
            give_up: time("give_up_s", self.give_up_s)?,
            address: self.listen.address,
            source,
            window: time("signal.window_s", self.signal.window_s)?,
            stale_after: time("signal.stale_after_s", self.signal.stale_after_s)?,
            hold: time("signal.hold_s", self.signal.hold_s)?,
            miad,
            cool_down: time("guards.cool_down_s", self.guards.cool_down_s)?,
            rate_limit,
            devices,
            objectives,
        })
    }
}

impl RawSource {
    fn check(self, window_s: f64) -> Result<SourceSettings, Error> {
        let kind = match (&self.metrics, &self.prometheus) {
            (Some(metrics), None) => SourceKind::Metrics(url("source.metrics", metrics)?),
            (None, Some(url_text)) => SourceKind::Prometheus(url("source.prometheus", url_text)?),
            (None, None) => {
                let expected = "name source.metrics or source.prometheus, as `homeostat governor settings` shows";
                return Err(refused("source", "", expected));
            }
            (Some(_), Some(_)) => {
                let expected = "there are metrics and prometheus; keep one of them";
                return Err(refused("source", "both", expected));
            }
        };
        Ok(SourceSettings {
            kind,
            timeout: std_time("source.timeout_s", self.timeout_s)?,
            label: self.label,
            waiting_metric: self.waiting_metric,
            age_query: self.age_query,
            promql_window: format!("{:.0}ms", time("signal.window_s", window_s)?.seconds() * 1e3),
        })
    }
}

impl RawDevice {
    fn check(self, objectives: &[Objective]) -> Result<DeviceSettings, Error> {
        let mut own = Vec::new();
        for model in &self.models {
            let known = own.len();
            let of_model = |(_, objective): &(usize, &Objective)| objective.model == *model;
            own.extend(objectives.iter().enumerate().filter(of_model).map(|(place, _)| place));
            if own.len() == known {
                let near =
                    objectives.iter().map(|objective| objective.model.as_str()).max_by(|a, b| {
                        let similarity = |name| strsim::jaro_winkler(model, name);
                        similarity(a).total_cmp(&similarity(b))
                    });
                let hint = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
                let expected = format!("there is no [[objectives]] with it{hint}");
                return Err(refused("devices.models", model, &expected));
            }
        }
        own.sort_unstable();
        own.dedup();
        if own.is_empty() {
            let expected = format!("name the models that GPU {} serves", self.gpu);
            return Err(refused("devices.models", "[]", &expected));
        }
        let milliwatts = |watts: f64| match watts > 0.0 && watts <= 1e5 {
            true => Ok((watts * 1e3).round() as u32),
            false => Err(refused("devices.power_limit_w", watts, "use watts above 0")),
        };
        Ok(DeviceSettings {
            gpu: self.gpu,
            objectives: own,
            min_mhz: self.min_mhz,
            max_mhz: self.max_mhz,
            power_limit_mw: self.power_limit_w.map(milliwatts).transpose()?,
        })
    }
}

fn check_objectives(raw: Vec<RawObjective>) -> Result<Vec<Objective>, Error> {
    let mut objectives: Vec<Objective> = Vec::new();
    for objective in raw {
        let RawObjective { model, metric, percentile, slo_ms, weight, query } = objective;
        if objectives.iter().any(|other| other.model == model && other.metric == metric) {
            let expected = "give each SLO of a model another metric";
            return Err(refused("objectives.model", model, expected));
        }
        if !(percentile > 0.0 && percentile < 100.0) {
            let expected = "use a percentile between 0 and 100";
            return Err(refused("objectives.percentile", percentile, expected));
        }
        if !(weight > 0.0 && weight <= 1.0) {
            return Err(refused("objectives.weight", weight, "use a part above 0, up to 1"));
        }
        let slo = (slo_ms > 0.0).then_some(slo_ms / 1e3).map(SimDuration::from_seconds);
        let Some(Ok(slo)) = slo else {
            return Err(refused("objectives.slo_ms", slo_ms, "use milliseconds above 0"));
        };
        let name = model.clone();
        let percentile = percentile / 100.0;
        objectives.push(Objective { model, metric, percentile, slo, weight, query, name });
    }
    let models: Vec<String> = objectives.iter().map(|objective| objective.model.clone()).collect();
    for objective in &mut objectives {
        if models.iter().filter(|model| **model == objective.model).count() > 1 {
            objective.name = format!("{} ({})", objective.model, objective.metric);
        }
    }
    Ok(objectives)
}

fn url(key: &str, text: &str) -> Result<Uri, Error> {
    let url = text.parse::<Uri>().ok().filter(|url| {
        matches!(url.scheme_str(), Some("http" | "https")) && url.authority().is_some()
    });
    url.ok_or_else(|| refused(key, text, "use a URL such as http://127.0.0.1:9091/metrics"))
}

/// From a hundredth of a second to an hour: a time beyond that is taken for a mistake.
fn std_time(key: &str, seconds: f64) -> Result<Duration, Error> {
    match (0.01..=3600.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(refused(key, seconds, "use seconds, from 0.01 to 3600")),
    }
}

fn time(key: &str, seconds: f64) -> Result<SimDuration, Error> {
    let time = std_time(key, seconds)?;
    Ok(SimDuration::from_nanos(u64::try_from(time.as_nanos()).expect("an hour fits")))
}

fn refused(key: &str, value: impl std::fmt::Display, expected: &str) -> Error {
    Error::Value { key: key.to_owned(), value: value.to_string(), expected: expected.to_owned() }
}
