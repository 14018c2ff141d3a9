//! Settings of a small cluster, and the plan made of them.

use homeostat_core::{Bounds, SimDuration};
use homeostat_decide::{ClockBounds, Megahertz};
use homeostat_load::LoadShape;
use serde::Deserialize;

use crate::operator::Work;
use crate::plant::PlantWindows;
use crate::serving::{
    Admission, Batching, Deployment, Executor, Instance, ServedModel, ServiceOrder, Stage,
    StageCost,
};
use crate::{DeviceType, Error, Model, Result};

/// The settings; `default.toml` says what they mean.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "default.toml describes each setting beside its default")]
pub struct GpuConfig {
    pub models: Vec<String>,
    pub device: String,
    pub devices: usize,
    pub load: GpuLoad,
    pub busy: f64,
    pub slo_scale: f64,
    pub prompt_tokens: f64,
    pub output_tokens: f64,
    pub length_sigma: f64,
    pub batching: BatchingKind,
    pub max_batch: u32,
    pub batch_timeout_ms: f64,
    pub window_s: f64,
    pub latency_window_s: f64,
    pub steps: u32,
}

/// The load of each model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuLoad {
    /// A rate that wanders.
    Fluctuating,
    /// A constant rate.
    Poisson,
    /// Calm and bursts.
    Bursty,
    /// A constant rate with one peak.
    Spike,
}

impl GpuLoad {
    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fluctuating => "fluctuating",
            Self::Poisson => "poisson",
            Self::Bursty => "bursty",
            Self::Spike => "spike",
        }
    }
}

/// [`Batching`] by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchingKind {
    /// One request at a time.
    None,
    /// Batches that start and end together.
    Dynamic,
    /// Batches that requests join and leave.
    Continuous,
}

/// A model in a plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedModel {
    pub(crate) model: Model,
    pub(crate) device: usize,
    /// SLO threshold, and the time of a mean request alone.
    pub(crate) slo: SimDuration,
    /// Requests per second.
    pub(crate) rate: f64,
}

/// A cluster with its models and their load.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuPlan {
    config: GpuConfig,
    device: DeviceType,
    models: Vec<PlannedModel>,
    bounds: ClockBounds,
}

impl Default for GpuConfig {
    fn default() -> Self {
        #[derive(Deserialize)]
        struct File {
            gpu: GpuConfig,
        }
        let file: File = toml::from_str(include_str!("default.toml")).expect("a test reads it");
        file.gpu
    }
}

impl GpuConfig {
    /// The plan. Models are placed in order of their weights, largest first, each where the fewest
    /// models are and its weights fit.
    pub fn build(&self) -> Result<GpuPlan> {
        self.validate()?;
        let device = DeviceType::by_name(&self.device)?;
        let mut models: Vec<Model> =
            self.models.iter().map(|name| Model::by_name(name)).collect::<Result<_>>()?;
        models.sort_by(|a, b| b.weight_bytes().total_cmp(&a.weight_bytes()));
        let mut used = vec![(0_usize, 0.0); self.devices];
        let mut planned = Vec::new();
        for model in models {
            let needed = model.weight_bytes() + 2048.0 * model.cache_bytes_per_token();
            let fits = |place: &usize| used[*place].1 + needed <= device.memory_bytes();
            let chosen = (0..self.devices).filter(fits).min_by_key(|place| used[*place].0);
            let Some(place) = chosen else {
                let gib = 1024.0_f64.powi(3);
                let least = used.iter().map(|(_, bytes)| *bytes).fold(f64::INFINITY, f64::min);
                return Err(Error::OutOfMemory {
                    device: self.devices - 1,
                    need_gib: (least + needed) / gib,
                    has_gib: device.memory_gib,
                });
            };
            used[place].0 += 1;
            used[place].1 += needed;
            let alone = self.alone(&model, &device);
            planned.push(PlannedModel {
                slo: SimDuration::from_seconds(alone * self.slo_scale)?,
                device: place,
                rate: self.busy / alone,
                model,
            });
        }
        for planned in &mut planned {
            planned.rate /= used[planned.device].0 as f64;
        }
        let [low, high] = device.clocks.map(Megahertz);
        let bounds = ClockBounds { range: Bounds::try_new(low, high)?, step: device.clock_step };
        Ok(GpuPlan { config: self.clone(), device, models: planned, bounds })
    }

    /// Seconds of one mean request alone.
    fn alone(&self, model: &Model, device: &DeviceType) -> f64 {
        let cost = StageCost::of(&model.operators, device, model.calibration);
        let prompt = self.prompt_tokens;
        let seconds = |work| cost.of_work(work).seconds(device, device.max_clock());
        let first = seconds(Work::prefill(prompt, prompt * prompt));
        if !model.is_autoregressive {
            return first;
        }
        let further = (self.output_tokens - 1.0).max(0.0);
        first + further * seconds(Work::decode(1.0, prompt + further / 2.0))
    }

    fn validate(&self) -> Result<()> {
        let check = |key: &str, value: f64, low: f64, high: f64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(Error::setting(&format!("gpu.{key}"), value, &format!("from {low} to {high}")))
        };
        check("models", self.models.len() as f64, 1.0, 1000.0)?;
        check("devices", self.devices as f64, 1.0, 1000.0)?;
        check("busy", self.busy, 0.001, 10.0)?;
        check("slo_scale", self.slo_scale, 0.1, 1000.0)?;
        check("prompt_tokens", self.prompt_tokens, 1.0, 1e5)?;
        check("output_tokens", self.output_tokens, 1.0, 1e5)?;
        check("length_sigma", self.length_sigma, 0.0, 3.0)?;
        check("max_batch", self.max_batch.into(), 1.0, 1024.0)?;
        check("batch_timeout_ms", self.batch_timeout_ms, 0.0, 1e6)?;
        check("window_s", self.window_s, 0.001, 3600.0)?;
        check("latency_window_s", self.latency_window_s, self.window_s, 3600.0)?;
        check("steps", self.steps.into(), 1.0, 1e6)
    }

    fn batching(&self) -> Batching {
        let max_batch = self.max_batch;
        match self.batching {
            BatchingKind::None => Batching::None,
            BatchingKind::Continuous => Batching::Continuous { max_batch },
            BatchingKind::Dynamic => Batching::Dynamic {
                max_batch,
                timeout: SimDuration::from_nanos((self.batch_timeout_ms * 1e6) as u64),
            },
        }
    }
}

impl GpuPlan {
    /// The settings.
    pub fn config(&self) -> &GpuConfig {
        &self.config
    }

    /// The device type.
    pub fn device(&self) -> &DeviceType {
        &self.device
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.config.devices
    }

    /// The allowed clocks.
    pub fn bounds(&self) -> &ClockBounds {
        &self.bounds
    }

    pub(crate) fn windows(&self) -> PlantWindows {
        let duration =
            |seconds| SimDuration::from_seconds(seconds).expect("the settings were validated");
        let GpuConfig { window_s, latency_window_s, .. } = self.config;
        PlantWindows { window: duration(window_s), latency: duration(latency_window_s) }
    }

    /// The models on these devices, with the place of the device among them.
    pub(crate) fn models_on<'a>(
        &'a self,
        devices: &'a [usize],
    ) -> impl Iterator<Item = (&'a PlannedModel, usize)> {
        self.models.iter().filter_map(|planned| {
            let place = devices.iter().position(|device| *device == planned.device)?;
            Some((planned, place))
        })
    }

    /// The load of a model with this rate.
    pub(crate) fn shape(&self, rate: f64) -> LoadShape {
        match self.config.load {
            GpuLoad::Poisson => LoadShape::Poisson { per_second: rate },
            GpuLoad::Fluctuating => LoadShape::Fluctuating {
                per_second: rate,
                spread: 0.5,
                persistence: 0.9,
                every_s: 10.0,
            },
            // A tenth of the time three times the rate, the rest 7/9 of it.
            GpuLoad::Bursty => LoadShape::Bursty {
                calm_per_second: rate * 7.0 / 9.0,
                burst_per_second: rate * 3.0,
                calm_s: 90.0,
                burst_s: 10.0,
            },
            GpuLoad::Spike => LoadShape::Spike {
                base_per_second: rate,
                peak_per_second: rate * 3.0,
                start_s: 60.0,
                length_s: 30.0,
            },
        }
    }

    /// The deployment of the models on these devices.
    pub(crate) fn deployment(&self, devices: &[usize]) -> Deployment {
        let executor = Executor { device: self.device.clone(), devices: 1 };
        let mut deployment = Deployment {
            executors: vec![executor; devices.len()],
            models: Vec::new(),
            instances: Vec::new(),
            admission: Admission::All,
            order: ServiceOrder::Turns,
        };
        for (planned, place) in self.models_on(devices) {
            let model = &planned.model;
            // What the weights leave is shared by the models of a device.
            let neighbours = self.models.iter().filter(|other| other.device == planned.device);
            let (count, weights) = neighbours.fold((0.0, 0.0), |(count, weights), other| {
                (count + 1.0, weights + other.model.weight_bytes())
            });
            let per_token = model.cache_bytes_per_token();
            let free = (self.device.memory_bytes() - weights) / count;
            deployment.instances.push(Instance {
                model: deployment.models.len(),
                stages: vec![Stage {
                    executor: place,
                    cost: StageCost::of(&model.operators, &self.device, model.calibration),
                }],
                cache_tokens: (per_token > 0.0).then(|| (free / per_token) as u64),
                overhead: SimDuration::ZERO,
            });
            deployment.models.push(ServedModel {
                name: model.name.clone(),
                slo: planned.slo,
                batching: self.config.batching(),
            });
        }
        deployment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_models_fit_on_the_default_devices() {
        let plan = GpuConfig::default().build().unwrap();
        let devices: Vec<usize> = (0..plan.devices()).collect();
        for device in &devices {
            assert!(plan.models_on(&[*device]).count() > 0, "device {device} is empty");
        }
        assert_eq!(plan.models_on(&devices).count(), 8);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_key() {
        let refused = |config: GpuConfig, part: &str| {
            let error = config.build().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(GpuConfig { busy: f64::NAN, ..GpuConfig::default() }, "gpu.busy = NaN");
        refused(GpuConfig { device: "tpu".to_owned(), ..GpuConfig::default() }, "`tpu`");
        let models = vec!["opt-2.7b".to_owned(), "bloom-3b".to_owned()];
        refused(GpuConfig { models, devices: 1, ..GpuConfig::default() }, "need 22.4 GiB");
    }
}
