//! The models to serve, their load, and requests drawn from it.

use std::collections::BTreeMap;

use homeostat_core::{SeedTree, SimDuration, SimTime};
use homeostat_load::{Arrivals, LoadShape};
use homeostat_sim_gpu::{
    Batching, BatchingKind, DeviceType, Model, ModelSpec, Request, StageCost, Work,
};
use serde::Deserialize;

use crate::error::check_range;
use crate::{Cluster, Error, Result};

/// The commented example of a models file.
pub const MODELS_EXAMPLE: &str = include_str!("models.toml");

/// No prompt and no answer is longer than this many times its mean.
pub const MAX_LENGTH_RATIO: f64 = 4.0;

/// Arrivals of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// Independent requests at a constant rate.
    Poisson,
    /// Calm and bursts of 3 s on average: a tenth of the time three times the rate.
    Bursty,
}

/// A model to serve and the requests for it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelDemand {
    /// Its name, unique in the workload.
    pub name: String,
    /// The model.
    pub model: Model,
    /// Requests per second.
    pub rate: f64,
    /// How they arrive.
    pub load: LoadKind,
    /// Mean tokens of a prompt.
    pub prompt_tokens: f64,
    /// Mean tokens of an answer; ignored where the model does not generate.
    pub output_tokens: f64,
    /// Standard deviation of the logarithm of lengths.
    pub length_sigma: f64,
    /// Threshold of the latency.
    pub slo: SimDuration,
}

/// All models of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The models.
    pub models: Vec<ModelDemand>,
    /// How requests are batched.
    pub batching: Batching,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelsFile {
    slo_scale: f64,
    prompt_tokens: f64,
    output_tokens: f64,
    length_sigma: f64,
    load: LoadKind,
    batching: BatchingKind,
    max_batch: u32,
    batch_timeout_ms: f64,
    #[serde(default)]
    models: Vec<ModelTable>,
    #[serde(default)]
    architectures: BTreeMap<String, ModelSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    name: String,
    architecture: String,
    rate: f64,
    slo_ms: Option<f64>,
    prompt_tokens: Option<f64>,
    output_tokens: Option<f64>,
    load: Option<LoadKind>,
}

impl ModelDemand {
    /// The iterations of a mean request alone: how often, and their work.
    pub fn mean_request(&self) -> Vec<(f64, Work)> {
        let prompt = self.prompt_tokens;
        let mut iterations = vec![(1.0, Work::prefill(prompt, prompt * prompt))];
        let further = (self.output_tokens - 1.0).max(0.0);
        if self.model.is_autoregressive && further > 0.0 {
            iterations.push((further, Work::decode(1.0, prompt + further / 2.0)));
        }
        iterations
    }

    /// Seconds of a mean request alone on one device at its highest clock.
    pub fn alone_s(&self, device: &DeviceType) -> f64 {
        let cost = StageCost::of(&self.model.operators, device, self.model.calibration);
        let seconds = |work| cost.of_work(work).seconds(device, device.max_clock());
        self.mean_request().into_iter().map(|(times, work)| times * seconds(work)).sum()
    }

    /// Tokens in the cache of the longest request.
    pub fn longest_tokens(&self) -> f64 {
        let output = if self.model.is_autoregressive { self.output_tokens } else { 0.0 };
        (MAX_LENGTH_RATIO * (self.prompt_tokens + output)).ceil()
    }

    fn shape(&self) -> LoadShape {
        let rate = self.rate;
        match self.load {
            LoadKind::Poisson => LoadShape::Poisson { per_second: rate },
            // A tenth of the time three times the rate, the rest 7/9 of it.
            LoadKind::Bursty => LoadShape::Bursty {
                calm_per_second: rate * 7.0 / 9.0,
                burst_per_second: rate * 3.0,
                // Short enough for several bursts in each simulation.
                calm_s: 27.0,
                burst_s: 3.0,
            },
        }
    }

    fn validate(&self) -> Result<()> {
        let key = |key: &str| format!("models.{}.{key}", self.name);
        check_range(&key("rate"), self.rate, 1e-6, 1e5)?;
        check_range(&key("prompt_tokens"), self.prompt_tokens, 1.0, 1e5)?;
        check_range(&key("output_tokens"), self.output_tokens, 0.0, 1e5)?;
        check_range(&key("length_sigma"), self.length_sigma, 0.0, 3.0)?;
        if self.slo == SimDuration::ZERO {
            return Err(Error::setting(key("slo_ms"), 0, "above zero"));
        }
        Ok(())
    }
}

impl Workload {
    /// A workload of these models.
    pub fn try_new(models: Vec<ModelDemand>, batching: Batching) -> Result<Self> {
        if models.is_empty() {
            return Err(Error::setting("models", 0, "at least one: add [[models]]"));
        }
        for (place, model) in models.iter().enumerate() {
            if models[..place].iter().any(|other| other.name == model.name) {
                return Err(Error::Duplicate { what: "model", name: model.name.clone() });
            }
            model.validate()?;
        }
        let max_batch = match batching {
            Batching::None => 1,
            Batching::Dynamic { max_batch, .. } | Batching::Continuous { max_batch } => max_batch,
        };
        check_range("max_batch", max_batch.into(), 1.0, 1024.0)?;
        Ok(Self { models, batching })
    }

    /// Reads a models file; [`MODELS_EXAMPLE`] is one. The SLO of a model without one of its own is
    /// `slo_scale` times its mean request alone on the fastest type of the cluster.
    pub fn read(text: &str, cluster: &Cluster, slo_scale: Option<f64>) -> Result<Self> {
        let file: ModelsFile = toml::from_str(text).map_err(|error| Error::Unreadable {
            what: "the models file",
            reason: error.to_string().trim_end().to_owned(),
        })?;
        let slo_scale = slo_scale.unwrap_or(file.slo_scale);
        check_range("slo_scale", slo_scale, 0.1, 1000.0)?;
        check_range("batch_timeout_ms", file.batch_timeout_ms, 0.0, 1e6)?;
        let mut known: BTreeMap<String, Model> =
            Model::zoo().into_iter().map(|model| (model.name.clone(), model)).collect();
        for (name, spec) in &file.architectures {
            known.insert(name.clone(), spec.build(name)?);
        }
        let mut models = Vec::new();
        for table in &file.models {
            let unknown = || Error::Unknown {
                user: format!("model `{}`", table.name),
                what: "architecture",
                name: table.architecture.clone(),
                known: known.keys().cloned().collect::<Vec<_>>().join(", "),
            };
            let mut demand = ModelDemand {
                name: table.name.clone(),
                model: known.get(&table.architecture).cloned().ok_or_else(unknown)?,
                rate: table.rate,
                load: table.load.unwrap_or(file.load),
                prompt_tokens: table.prompt_tokens.unwrap_or(file.prompt_tokens),
                output_tokens: table.output_tokens.unwrap_or(file.output_tokens),
                length_sigma: file.length_sigma,
                // Replaced below, when the numbers that it depends on are known to be sound.
                slo: SimDuration::from_millis(1),
            };
            demand.validate()?;
            let slo_s = match table.slo_ms {
                Some(slo_ms) => {
                    check_range(&format!("models.{}.slo_ms", table.name), slo_ms, 0.001, 1e9)?;
                    slo_ms / 1e3
                }
                None => {
                    let alone = cluster.pools().iter().map(|pool| demand.alone_s(&pool.device));
                    slo_scale * alone.fold(f64::INFINITY, f64::min)
                }
            };
            demand.slo = SimDuration::from_seconds(slo_s)?;
            models.push(demand);
        }
        let max_batch = file.max_batch;
        let batching = match file.batching {
            BatchingKind::None => Batching::None,
            BatchingKind::Continuous => Batching::Continuous { max_batch },
            BatchingKind::Dynamic => Batching::Dynamic {
                max_batch,
                timeout: SimDuration::from_nanos((file.batch_timeout_ms * 1e6) as u64),
            },
        };
        Self::try_new(models, batching)
    }

    /// Requests of all models until `horizon`, in the order of their arrival. Each model has
    /// streams of its own, so that its requests do not depend on the other models.
    pub fn requests(&self, horizon: SimTime, seeds: &SeedTree) -> Result<Vec<Request>> {
        let mut requests = Vec::new();
        for (index, demand) in self.models.iter().enumerate() {
            let own = seeds.child(&demand.name);
            let mut arrivals = Arrivals::new(&demand.shape(), own.stream("arrivals"))?;
            let mut lengths = own.stream("lengths");
            let sigma = demand.length_sigma;
            let mut length = |mean: f64| {
                let factor = (sigma * lengths.normal() - sigma * sigma / 2.0).exp();
                (mean * factor).round().clamp(1.0, (MAX_LENGTH_RATIO * mean).max(1.0)) as u32
            };
            while let Some(arrival) = arrivals.next_arrival().filter(|at| *at < horizon) {
                let prompt = length(demand.prompt_tokens);
                let output =
                    if demand.model.is_autoregressive { length(demand.output_tokens) } else { 0 };
                requests.push(Request { arrival, model: index as u32, prompt, output, rank: 0.0 });
            }
        }
        requests.sort_by_key(|request| (request.arrival, request.model));
        Ok(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        Cluster::read("[[devices]]\ntype = \"v100\"\ncount = 2").unwrap()
    }

    #[test]
    fn the_example_is_a_workload() {
        let workload = Workload::read(MODELS_EXAMPLE, &cluster(), None).unwrap();
        assert_eq!(workload.models.len(), 4);
        assert_eq!(workload.models[1].load, LoadKind::Bursty);
        let tight = Workload::read(MODELS_EXAMPLE, &cluster(), Some(2.5)).unwrap();
        let ratio = workload.models[2].slo.seconds() / tight.models[2].slo.seconds();
        assert!((ratio - 2.0).abs() < 1e-6, "{ratio}");
    }

    #[test]
    fn requests_of_a_model_do_not_depend_on_the_others() {
        let workload = Workload::read(MODELS_EXAMPLE, &cluster(), None).unwrap();
        let horizon = SimTime::ZERO + SimDuration::from_secs(60);
        let requests = workload.requests(horizon, &SeedTree::new(3)).unwrap();
        assert!(requests.windows(2).all(|pair| pair[0].arrival <= pair[1].arrival));
        let mut less = workload.clone();
        less.models.truncate(3);
        let of_third = |requests: &[Request]| -> Vec<Request> {
            requests.iter().copied().filter(|request| request.model == 2).collect()
        };
        let fewer = less.requests(horizon, &SeedTree::new(3)).unwrap();
        assert_eq!(of_third(&requests), of_third(&fewer));
        let rate = of_third(&requests).len() as f64 / 60.0;
        assert!((rate - 20.0).abs() < 2.5, "{rate}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_fix() {
        let check = |from: &str, to: &str, part: &str| {
            assert!(MODELS_EXAMPLE.contains(from), "{from}");
            let text = MODELS_EXAMPLE.replace(from, to);
            let error = Workload::read(&text, &cluster(), None).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        check("rate = 20.0", "rate = nan", "models.classifier.rate = NaN");
        check("rate = 20.0", "rate = 0", "models.classifier.rate = 0");
        check("name = \"images\"", "name = \"classifier\"", "`classifier` appears twice");
        check(
            "\"resnet-50\"",
            "\"resnet-51\"",
            "model `images` names the architecture `resnet-51`",
        );
        check("slo_scale = 5.0", "slo_scale = inf", "slo_scale = inf");
        check("max_batch = 4", "max_batch = 0", "max_batch = 0");
        check("[[models]]", "[[mdoels]]", "unknown field `mdoels`");
        let none = MODELS_EXAMPLE.split("[[models]]").next().unwrap();
        let error = Workload::read(none, &cluster(), None).unwrap_err().to_string();
        assert!(error.contains("at least one"), "{error}");
    }
}
