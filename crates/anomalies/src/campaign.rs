//! A campaign as a file: planned anomalies, and random ones.

use homeostat_core::{SeedTree, SimDuration, SimTime};
use serde::Deserialize;

use crate::{AnomalyKind, Error, Injections, Result};

/// A campaign that has been checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Campaign {
    /// Planned one by one, in the order of their times.
    pub planned: Vec<PlannedAnomaly>,
    /// Drawn at random, if there are any.
    pub random: Option<RandomAnomalies>,
}

/// One planned anomaly.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedAnomaly {
    /// When it begins.
    pub at: SimTime,
    /// Its type.
    pub kind: AnomalyKind,
    /// Where it is injected.
    pub service: String,
    /// The number of the replica among those that serve at that time, around again if there are fewer.
    pub replica: u32,
    /// From zero to one.
    pub intensity: f64,
    /// How long it lasts.
    pub duration: SimDuration,
}

/// Random anomalies: exponential gaps, all else uniform.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomAnomalies {
    /// Mean number in a second.
    pub per_s: f64,
    /// Their types.
    pub kinds: Vec<AnomalyKind>,
    /// Where they are injected; everywhere if none is named.
    pub services: Vec<String>,
    /// Smallest and largest intensity.
    pub intensity: [f64; 2],
    /// Shortest and longest duration in seconds.
    pub duration_s: [f64; 2],
    /// When they begin and end, in seconds; without an end if that is infinite.
    pub between_s: [f64; 2],
}

impl RandomAnomalies {
    /// As the dissertation injects them (3.3.1): all types, anywhere, at any intensity. It does not print
    /// their length: each lasts from half of `mean_s` to one and a half.
    pub fn new(per_s: f64, mean_s: f64) -> Self {
        Self {
            per_s,
            kinds: AnomalyKind::ALL.to_vec(),
            services: Vec::new(),
            intensity: [0.0, 1.0],
            duration_s: [0.5 * mean_s, 1.5 * mean_s],
            between_s: [0.0, f64::INFINITY],
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    anomaly: Vec<RawAnomaly>,
    random: Option<RawRandom>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAnomaly {
    at_s: f64,
    kind: AnomalyKind,
    service: String,
    #[serde(default)]
    replica: u32,
    intensity: f64,
    duration_s: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRandom {
    per_s: f64,
    kinds: Option<Vec<AnomalyKind>>,
    #[serde(default)]
    services: Vec<String>,
    intensity: Option<[f64; 2]>,
    duration_s: Option<[f64; 2]>,
    start_s: Option<f64>,
    end_s: Option<f64>,
}

impl Campaign {
    /// Random anomalies alone.
    pub fn random(random: RandomAnomalies) -> Result<Self> {
        Self::default().with_random(random)
    }

    /// Reads a campaign from TOML.
    pub fn parse(text: &str) -> Result<Self> {
        let raw: Raw = toml::from_str(text).map_err(|error| Error::Unreadable {
            reason: error.to_string().trim_end().to_owned(),
        })?;
        let mut planned = Vec::with_capacity(raw.anomaly.len());
        for (number, anomaly) in raw.anomaly.into_iter().enumerate() {
            planned.push(anomaly.check(number)?);
        }
        planned.sort_by_key(|anomaly| anomaly.at);
        let campaign = Self { planned, random: None };
        match raw.random {
            Some(random) => campaign.with_random(random.into()),
            None if campaign.planned.is_empty() => Err(Error::Unreadable {
                reason: "it is empty: add [[anomaly]] or [random]".to_owned(),
            }),
            None => Ok(campaign),
        }
    }

    fn with_random(self, random: RandomAnomalies) -> Result<Self> {
        in_range("random.per_s", random.per_s, 0.0, 1e3)?;
        range_in("random.intensity", random.intensity, 0.0, 1.0)?;
        range_in("random.duration_s", random.duration_s, 1e-6, MAX_SECONDS)?;
        range_in("random.start_s to end_s", random.between_s, 0.0, f64::INFINITY)?;
        if random.kinds.is_empty() {
            let expected = "name at least one type, or leave it out for all";
            return Err(out_of_range("random.kinds", "[]", expected));
        }
        Ok(Self { random: Some(random), ..self })
    }

    /// What is injected into a system with these services, in the order of time; without an end if random
    /// anomalies have none. Refuses a service that the system does not have.
    pub fn injections(&self, services: &[&str], seeds: &SeedTree) -> Result<Injections> {
        Injections::new(self, services, seeds.stream("anomalies"))
    }
}

/// Ten years: nanoseconds count much longer.
const MAX_SECONDS: f64 = 3.2e8;

impl RawAnomaly {
    fn check(self, number: usize) -> Result<PlannedAnomaly> {
        let key = |name: &str| format!("anomaly[{number}].{name}");
        in_range(&key("at_s"), self.at_s, 0.0, MAX_SECONDS)?;
        in_range(&key("intensity"), self.intensity, 0.0, 1.0)?;
        in_range(&key("duration_s"), self.duration_s, 1e-3, MAX_SECONDS)?;
        Ok(PlannedAnomaly {
            at: SimTime::ZERO + seconds(self.at_s),
            kind: self.kind,
            service: self.service,
            replica: self.replica,
            intensity: self.intensity,
            duration: seconds(self.duration_s),
        })
    }
}

impl From<RawRandom> for RandomAnomalies {
    fn from(raw: RawRandom) -> Self {
        let default = Self::new(raw.per_s, 5.0);
        Self {
            kinds: raw.kinds.unwrap_or(default.kinds),
            services: raw.services,
            intensity: raw.intensity.unwrap_or(default.intensity),
            duration_s: raw.duration_s.unwrap_or(default.duration_s),
            between_s: [
                raw.start_s.unwrap_or(default.between_s[0]),
                raw.end_s.unwrap_or(default.between_s[1]),
            ],
            per_s: raw.per_s,
        }
    }
}

pub(crate) fn seconds(seconds: f64) -> SimDuration {
    SimDuration::from_nanos((seconds * 1e9) as u64)
}

fn in_range(key: &str, value: f64, low: f64, high: f64) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(out_of_range(key, &value.to_string(), &format!("it must be from {low} to {high}")))
}

fn range_in(key: &str, [from, to]: [f64; 2], low: f64, high: f64) -> Result<()> {
    if low <= from && from <= to && to <= high {
        return Ok(());
    }
    let expected = format!("it must be a range within {low} to {high}, the smaller end first");
    Err(out_of_range(key, &format!("[{from}, {to}]"), &expected))
}

pub(crate) fn out_of_range(key: &str, value: &str, expected: &str) -> Error {
    Error::OutOfRange {
        key: key.to_owned(),
        value: value.to_owned(),
        expected: expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[anomaly]]\nat_s = 3.0\nkind = \"network-delay\"\nservice = \"geo\"\n\
                       intensity = 0.5\nduration_s = 2.0\n";

    #[test]
    fn a_file_is_read_in_the_order_of_time() {
        let earlier = ONE.replace("3.0", "1.5").replace("network-delay", "disk");
        let campaign = Campaign::parse(&format!("{ONE}{earlier}")).unwrap();
        let kinds: Vec<_> = campaign.planned.iter().map(|anomaly| anomaly.kind).collect();
        assert_eq!(kinds, [AnomalyKind::Disk, AnomalyKind::NetworkDelay]);
        assert_eq!(campaign.planned[0].at.seconds(), 1.5);
        assert_eq!(campaign.random, None);
        let random = Campaign::parse("[random]\nper_s = 0.33\nend_s = 60.0\n").unwrap().random;
        let expect = RandomAnomalies { between_s: [0.0, 60.0], ..RandomAnomalies::new(0.33, 5.0) };
        assert_eq!(random, Some(expect));
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused_by_name() {
        let check = |text: &str, parts: &[&str]| {
            let error = Campaign::parse(text).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{part} is missing: {error}");
            }
        };
        check("", &["campaign: it is empty"]);
        check(&ONE.replace("0.5", "1.5"), &["anomaly[0].intensity = 1.5", "from 0 to 1"]);
        check(&ONE.replace("0.5", "nan"), &["anomaly[0].intensity = NaN"]);
        check(&ONE.replace("3.0", "-1.0"), &["anomaly[0].at_s = -1"]);
        check(&ONE.replace("2.0", "0.0"), &["anomaly[0].duration_s = 0"]);
        check(&ONE.replace("network-delay", "gremlin"), &["line 3", "gremlin", "network-delay"]);
        check("[random]\nper_s = inf", &["random.per_s = inf"]);
        check("[random]\nper_s = 1\nintensity = [0.9, 0.1]", &["random.intensity = [0.9, 0.1]"]);
        check("[random]\nper_s = 1\nkinds = []", &["random.kinds"]);
        check("[random]\nper_s = 1\nend_s = nan", &["random.start_s to end_s"]);
        check("[random]\nper_s = 1\nevery_s = 2", &["every_s"]);
    }
}
