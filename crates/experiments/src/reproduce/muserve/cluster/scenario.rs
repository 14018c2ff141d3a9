//! Fifteen models on a cluster of V100s (dissertation 6.4.1): what is asked for, and the requests.

use homeostat_core::{SeedTree, SimDuration, SimTime, Stream};
use homeostat_muserve::schedule::QueueOrder;
use homeostat_placement::{Cluster, LoadKind, ModelDemand, Result, Workload};
use homeostat_sim_gpu::{Batching, DeviceType, Model, Request};

/// What is asked of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::reproduce::muserve) struct Scenario {
    /// Models of the zoo; all, if empty.
    pub(in crate::reproduce::muserve) models: Vec<String>,
    /// Times that each model is there, with a name and requests of its own.
    pub(in crate::reproduce::muserve) copies: usize,
    pub(in crate::reproduce::muserve) devices: usize,
    /// SLO over the time of a mean request alone.
    pub(in crate::reproduce::muserve) slo_scale: f64,
    /// Devices that the requests keep busy at the highest clocks; each model has an equal part.
    pub(in crate::reproduce::muserve) busy_devices: f64,
    pub(in crate::reproduce::muserve) output_tokens: f64,
}

/// In which order the requests of a generating model are served; others are served as they arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reproduce::muserve) enum Order {
    Fcfs,
    /// Shortest predicted class first, with ageing.
    Ssjf,
}

const PROMPT_TOKENS: f64 = 128.0;
const LENGTH_SIGMA: f64 = 0.6;

/// Ends of the classes of lengths (6.3.3), as parts of the distribution's deviation: its 25th, 50th, 75th
/// and 99th percentile.
const CLASS_ENDS: [f64; 4] = [-0.674_490, 0.0, 0.674_490, 2.326_348];

/// A length in the middle of each class, in the same unit.
const CLASS_MIDDLES: [f64; 5] = [-1.150_349, -0.318_639, 0.318_639, 1.126_391, 2.575_829];

/// Noise of the prediction over the deviation of lengths. 0.43 of the classes are right with it, as those
/// of the chapter's predictor are.
const PREDICTION_NOISE: f64 = 1.2;

/// A head start of short requests, in times of a mean request alone.
const HEAD_START: f64 = 4.0;

impl Scenario {
    pub(in crate::reproduce::muserve) fn cluster(&self) -> Result<Cluster> {
        Cluster::read(&format!("[[devices]]\ntype = \"v100\"\ncount = {}", self.devices))
    }

    pub(in crate::reproduce::muserve) fn workload(&self) -> Result<Workload> {
        let v100 = DeviceType::by_name("v100")?;
        let is_wanted = |model: &Model| self.models.is_empty() || self.models.contains(&model.name);
        let models: Vec<Model> = Model::zoo().into_iter().filter(is_wanted).collect();
        let count = (models.len() * self.copies) as f64;
        let mut demands = Vec::new();
        for copy in 1..=self.copies {
            for model in &models {
                let mut demand = ModelDemand {
                    name: format!("{}-{copy}", model.name),
                    model: model.clone(),
                    rate: 1.0,
                    load: LoadKind::Poisson,
                    prompt_tokens: PROMPT_TOKENS,
                    output_tokens: self.output_tokens,
                    length_sigma: LENGTH_SIGMA,
                    slo: SimDuration::ZERO,
                };
                let alone_s = demand.alone_s(&v100);
                demand.rate = self.busy_devices / count / alone_s;
                demand.slo = SimDuration::from_seconds(self.slo_scale * alone_s)?;
                demands.push(demand);
            }
        }
        Workload::try_new(demands, Batching::Continuous { max_batch: 4 })
    }

    /// The requests of so many seconds, ranked in this order.
    pub(in crate::reproduce::muserve) fn requests(
        &self,
        workload: &Workload,
        seconds: u64,
        order: Order,
        seeds: &SeedTree,
    ) -> Result<Vec<Request>> {
        let horizon = SimTime::ZERO + SimDuration::from_secs(seconds);
        let mut requests = workload.requests(horizon, seeds)?;
        if order == Order::Fcfs {
            return Ok(requests);
        }
        let v100 = DeviceType::by_name("v100")?;
        let alone: Vec<f64> = workload.models.iter().map(|model| model.alone_s(&v100)).collect();
        let mut noise = seeds.stream("predictions");
        for request in &mut requests {
            let model = request.model as usize;
            let length = if request.output > 0 {
                let class = predicted_class(request.output, self.output_tokens, &mut noise);
                length_at(CLASS_MIDDLES[class], self.output_tokens)
            } else {
                1.0
            };
            let order = QueueOrder::Aged { head_start: HEAD_START * alone[model] };
            request.rank = order.rank(request.arrival, length);
        }
        Ok(requests)
    }
}

/// The length that is so many deviations from the middle.
fn length_at(deviations: f64, mean: f64) -> f64 {
    mean * (LENGTH_SIGMA * deviations - LENGTH_SIGMA * LENGTH_SIGMA / 2.0).exp()
}

fn class_of(deviations: f64) -> usize {
    CLASS_ENDS.iter().filter(|end| deviations >= **end).count()
}

fn deviations_of(length: u32, mean: f64) -> f64 {
    ((f64::from(length) / mean).ln() + LENGTH_SIGMA * LENGTH_SIGMA / 2.0) / LENGTH_SIGMA
}

/// A guess of the class of a length: the length with noise, in a distribution as wide as that of lengths.
fn predicted_class(length: u32, mean: f64, noise: &mut Stream) -> usize {
    let guess = deviations_of(length, mean) + PREDICTION_NOISE * noise.normal();
    class_of(guess / (1.0 + PREDICTION_NOISE * PREDICTION_NOISE).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_right_as_often_as_the_chapters() {
        let mut rng = Stream::from_seed(1);
        let right = (0..20_000).filter(|_| {
            let length = length_at(rng.normal(), 1000.0).round() as u32;
            let class = class_of(deviations_of(length, 1000.0));
            predicted_class(length, 1000.0, &mut rng) == class
        });
        let accuracy = right.count() as f64 / 20_000.0;
        assert!((0.41..0.45).contains(&accuracy), "{accuracy}");
    }

    #[test]
    fn every_model_keeps_an_equal_part_of_the_devices_busy() {
        let scenario = Scenario {
            models: vec!["resnet-50".to_owned(), "opt-1.3b".to_owned()],
            copies: 2,
            devices: 4,
            slo_scale: 5.0,
            busy_devices: 1.0,
            output_tokens: 16.0,
        };
        let v100 = DeviceType::by_name("v100").unwrap();
        let workload = scenario.workload().unwrap();
        assert_eq!(workload.models.len(), 4);
        for demand in &workload.models {
            assert!((demand.rate * demand.alone_s(&v100) - 0.25).abs() < 1e-9);
        }
    }
}
