//! How sensitive operators are to the clock: -dL/dF, per kind, shape and device type.
//!
//! The score of the dissertation: how much longer an operator takes when the clock is halved, as a part of
//! its time, over the part by which the clock is lower. A score of 0 means that the clock does not matter,
//! 2 that time is in proportion to 1 / clock. It is more than 2 where kernels run below the nominal clock.

use std::collections::BTreeSet;

use homeostat_sim_gpu::{DeviceType, Operator, Work};
use serde::{Deserialize, Serialize};

use crate::measurement::Measurement;
use crate::{Cluster, Error, ModelDemand, Result, Workload};

/// The score of one operator at one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SensitivityEntry {
    /// Device type.
    pub device: String,
    /// Kind of the operator, as XLA names it.
    pub operator: String,
    /// Floating-point operations of one execution.
    pub flops: f64,
    /// Bytes that one execution reads and writes.
    pub bytes: f64,
    /// The score.
    pub score: f64,
}

/// Scores of operators.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SensitivityDatabase {
    /// The entries.
    pub entries: Vec<SensitivityEntry>,
}

/// A larger score would mean that half the clock makes work six times slower.
const MAX_SCORE: f64 = 10.0;

/// Entries that a score between measured shapes is made of.
const NEIGHBOURS: usize = 4;

impl SensitivityDatabase {
    /// The scores of all operators of a workload, computed from the device types of a cluster.
    pub fn computed(cluster: &Cluster, workload: &Workload) -> Self {
        let mut entries = Vec::new();
        let mut known = BTreeSet::new();
        for pool in cluster.pools() {
            for demand in &workload.models {
                for (_, work) in demand.mean_request() {
                    for operator in &demand.model.operators {
                        let (flops, bytes) = shape(operator, work);
                        let name = operator.kind.name();
                        let launches = operator.launches.to_bits();
                        let key = (&pool.name, name, flops.to_bits(), bytes.to_bits(), launches);
                        if known.insert(key) {
                            entries.push(SensitivityEntry {
                                device: pool.name.clone(),
                                operator: name.to_owned(),
                                score: operator.sensitivity(&pool.device, work),
                                flops,
                                bytes,
                            });
                        }
                    }
                }
            }
        }
        Self { entries }
    }

    /// The scores of measured operators. Each needs measurements at two clocks or more.
    pub fn from_measurements(measurements: &[Measurement]) -> Result<Self> {
        let mut entries: Vec<SensitivityEntry> = Vec::new();
        let mut rest: Vec<&Measurement> = measurements.iter().collect();
        while let Some(first) = rest.first().copied() {
            let (same, others): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|other| other.is_of_same_operator(first));
            rest = others;
            entries.push(SensitivityEntry {
                device: first.device.clone(),
                operator: first.operator.clone(),
                flops: first.flops,
                bytes: first.bytes,
                score: measured_score(&same)?,
            });
        }
        Ok(Self { entries })
    }

    /// Reads what [`Self::to_json`] wrote.
    pub fn from_json(text: &str) -> Result<Self> {
        let unreadable =
            |reason: String| Error::Unreadable { what: "the sensitivity database", reason };
        let database: Self =
            serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
        for entry in &database.entries {
            let SensitivityEntry { device, operator, flops, bytes, score } = entry;
            let is_size = |value: f64| value.is_finite() && value >= 0.0;
            if !(is_size(*flops) && is_size(*bytes) && (0.0..=MAX_SCORE).contains(score)) {
                return Err(unreadable(format!(
                    "`{operator}` on {device} has flops = {flops}, bytes = {bytes}, score = {score}: sizes are zero or \
                     more, scores from 0 to {MAX_SCORE}"
                )));
            }
        }
        Ok(database)
    }

    /// The database as text, an entry a line.
    pub fn to_json(&self) -> String {
        let line = |entry| serde_json::to_string(entry).expect("numbers and names are JSON");
        let lines: Vec<String> =
            self.entries.iter().map(|entry| format!("    {}", line(entry))).collect();
        format!("{{\n  \"entries\": [\n{}\n  ]\n}}\n", lines.join(",\n"))
    }

    /// The score of an operator. Between measured shapes it is the mean of the nearest ones, on
    /// logarithmic axes, with weights of 1 / distance². A kind that was not measured has the scores of one
    /// that is bound by the same: attention and convolutions those of `dot`, norms and gathers those of
    /// `elementwise`.
    pub fn score(&self, device: &str, operator: &str, flops: f64, bytes: f64) -> Result<f64> {
        let has = |kind: &str| {
            let mut entries = self.entries.iter();
            entries.any(|entry| entry.device == device && entry.operator == kind)
        };
        let similar = match operator {
            "attention" | "convolution" => "dot",
            "normalization" | "gather" => "elementwise",
            other => other,
        };
        let operator = if has(operator) || !has(similar) { operator } else { similar };
        let axes = |flops: f64, bytes: f64| (flops.max(1.0).log2(), bytes.max(1.0).log2());
        let wanted = axes(flops, bytes);
        let is_kind =
            |entry: &&SensitivityEntry| entry.device == device && entry.operator == operator;
        let mut near: Vec<(f64, f64)> = self
            .entries
            .iter()
            .filter(is_kind)
            .map(|entry| {
                let at = axes(entry.flops, entry.bytes);
                ((at.0 - wanted.0).powi(2) + (at.1 - wanted.1).powi(2), entry.score)
            })
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        match near.first() {
            None => {
                Err(Error::NotMeasured { operator: operator.to_owned(), device: device.to_owned() })
            }
            Some((distance, score)) if *distance < 1e-12 => Ok(*score),
            Some(_) => {
                let near = &near[..near.len().min(NEIGHBOURS)];
                let weights: f64 = near.iter().map(|(distance, _)| 1.0 / distance).sum();
                Ok(near.iter().map(|(distance, score)| score / distance).sum::<f64>() / weights)
            }
        }
    }

    /// The score of each operator of a model over a mean request, and the weight that it has in the score
    /// of a partition: its time at the highest clock.
    ///
    /// Deviation: the dissertation weights by operator count and tensor dimensions; both are in the time.
    pub fn operator_scores(
        &self,
        device_name: &str,
        device: &DeviceType,
        demand: &ModelDemand,
    ) -> Result<Vec<(f64, f64)>> {
        let mut scores: Vec<(f64, f64)> = Vec::new();
        let operators = &demand.model.operators;
        for (place, operator) in operators.iter().enumerate() {
            // Layers repeat: the same shape has the same score.
            let same = operators[..place].iter().position(|other| {
                Operator { name: operator.name.clone(), ..other.clone() } == *operator
            });
            if let Some(same) = same {
                scores.push(scores[same]);
                continue;
            }
            let (mut sum, mut weight) = (0.0, 0.0);
            for (times, work) in demand.mean_request() {
                let seconds =
                    times * operator.cost(device, work).seconds(device, device.max_clock());
                let (flops, bytes) = shape(operator, work);
                sum += seconds * self.score(device_name, operator.kind.name(), flops, bytes)?;
                weight += seconds;
            }
            scores.push((if weight > 0.0 { sum / weight } else { 0.0 }, weight));
        }
        Ok(scores)
    }
}

/// Floating-point operations and bytes of one execution.
fn shape(operator: &Operator, work: Work) -> (f64, f64) {
    let flops = operator.flops_per_token * work.tokens + operator.flops_per_pair * work.pairs;
    let bytes = operator.weight_bytes
        + operator.bytes_per_token * work.tokens
        + operator.bytes_per_cached * work.cached;
    (flops, bytes)
}

/// Fits time = a + b / clock, both zero or more, by least squares.
fn measured_score(measurements: &[&Measurement]) -> Result<f64> {
    let highest = measurements.iter().map(|one| one.clock_mhz).fold(0.0, f64::max);
    let points: Vec<(f64, f64)> =
        measurements.iter().map(|one| (highest / one.clock_mhz, one.time_ms)).collect();
    let n = points.len() as f64;
    let (mean_x, mean_y) = (
        points.iter().map(|point| point.0).sum::<f64>() / n,
        points.iter().map(|point| point.1).sum::<f64>() / n,
    );
    let variance: f64 = points.iter().map(|point| (point.0 - mean_x).powi(2)).sum();
    if variance < 1e-6 {
        let first = measurements[0];
        let key = format!("{}.{}.clock_mhz", first.device, first.operator);
        return Err(Error::setting(
            key,
            first.clock_mhz,
            "measured at two clocks or more for each shape, as a sensitivity is a difference",
        ));
    }
    let covariance: f64 = points.iter().map(|point| (point.0 - mean_x) * (point.1 - mean_y)).sum();
    let mut scaled = (covariance / variance).max(0.0);
    let mut fixed = mean_y - scaled * mean_x;
    if fixed < 0.0 {
        let squares: f64 = points.iter().map(|point| point.0 * point.0).sum();
        scaled = points.iter().map(|point| point.0 * point.1).sum::<f64>() / squares;
        fixed = 0.0;
    }
    // Half the clock: b / f doubles, so the time is longer by b; the clock is lower by a half.
    Ok(scaled / (fixed + scaled) / 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MODELS_EXAMPLE;

    fn measurement(clock_mhz: f64, time_ms: f64) -> Measurement {
        Measurement {
            device: "card".to_owned(),
            operator: "dot".to_owned(),
            flops: 1e9,
            bytes: 1e6,
            launches: 1.0,
            clock_mhz,
            time_ms,
            power_w: None,
        }
    }

    #[test]
    fn measured_scores_are_those_of_the_fitted_line() {
        // a + b / f with a : b = 1 : 3 at the highest clock.
        let time = |clock: f64| 1.0 + 3.0 * 1400.0 / clock;
        let clocks = [1400.0, 1100.0, 700.0];
        let measured: Vec<Measurement> =
            clocks.iter().map(|clock| measurement(*clock, time(*clock))).collect();
        let database = SensitivityDatabase::from_measurements(&measured).unwrap();
        let score = database.score("card", "dot", 1e9, 1e6).unwrap();
        assert!((score - 1.5).abs() < 1e-9, "{score}");
        // Faster at a lower clock is noise: the clock does not matter.
        let noise = [measurement(1400.0, 2.0), measurement(700.0, 1.9)];
        let database = SensitivityDatabase::from_measurements(&noise).unwrap();
        assert_eq!(database.entries[0].score, 0.0);
    }

    #[test]
    fn one_clock_is_no_sensitivity() {
        let one = [measurement(1400.0, 2.0), measurement(1400.0, 2.1)];
        let error = SensitivityDatabase::from_measurements(&one).unwrap_err().to_string();
        assert!(error.contains("card.dot.clock_mhz = 1400"), "{error}");
    }

    #[test]
    fn scores_between_shapes_lie_between_their_scores() {
        let entry = |flops: f64, score: f64| SensitivityEntry {
            device: "card".to_owned(),
            operator: "dot".to_owned(),
            flops,
            bytes: 1e6,
            score,
        };
        let database = SensitivityDatabase { entries: vec![entry(1e6, 0.2), entry(1e9, 1.8)] };
        let score = |flops| database.score("card", "dot", flops, 1e6).unwrap();
        assert_eq!((score(1e6), score(1e9)), (0.2, 1.8));
        assert!(score(1e6) < score(1e7) && score(1e7) < score(1e8) && score(1e8) < score(1e9));
        // Attention was not measured: products are bound by arithmetic, too.
        assert_eq!(database.score("card", "attention", 1e6, 1e6).unwrap(), 0.2);
        let error = database.score("card", "gather", 1.0, 1.0).unwrap_err().to_string();
        assert!(error.contains("no operator `gather` on device type `card`"), "{error}");
    }

    #[test]
    fn computed_scores_are_those_of_the_device_and_survive_a_file() {
        let cluster = Cluster::read("[[devices]]\ntype = \"v100\"\ncount = 2").unwrap();
        let workload = Workload::read(MODELS_EXAMPLE, &cluster, None).unwrap();
        let database = SensitivityDatabase::computed(&cluster, &workload);
        let read = SensitivityDatabase::from_json(&database.to_json()).unwrap();
        assert_eq!(read, database);
        let device = &cluster.pools()[0].device;
        let demand = &workload.models[2];
        let scores = read.operator_scores("v100", device, demand).unwrap();
        let (_, work) = demand.mean_request()[0];
        for (operator, (score, _)) in demand.model.operators.iter().zip(scores) {
            assert!((score - operator.sensitivity(device, work)).abs() < 1e-9, "{}", operator.name);
        }
    }
}
