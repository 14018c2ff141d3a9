//! Metrics for Prometheus. Energy that was saved is not among them: it would need the energy of the same
//! requests at the highest clock, which is not measured.

use std::sync::atomic::AtomicU64;

use homeostat_core::SimDuration;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::governor::Step;
use crate::signal::Signal;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DeviceLabel {
    gpu: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ModelLabel {
    gpu: String,
    model: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    gpu: String,
    reason: &'static str,
}

type Figure = Gauge<f64, AtomicU64>;

/// All metrics of one governor.
#[derive(Debug, Default)]
pub struct Metrics {
    registry: Registry,
    limit: Family<DeviceLabel, Figure>,
    sm_clock: Family<DeviceLabel, Figure>,
    power: Family<DeviceLabel, Figure>,
    energy: Family<DeviceLabel, Counter<f64, AtomicU64>>,
    energy_start: Family<DeviceLabel, Figure>,
    slack: Family<ModelLabel, Figure>,
    latency: Family<ModelLabel, Figure>,
    decisions: Family<ReasonLabel, Counter>,
    changes: Family<DeviceLabel, Counter>,
    gpu_errors: Family<DeviceLabel, Counter>,
    read_failures: Counter,
    signal_age: Figure,
    acting: Gauge,
}

impl Metrics {
    /// Nothing counted.
    pub fn new(is_acting: bool) -> Self {
        let mut metrics =
            Self { registry: Registry::with_prefix("homeostat_governor"), ..Self::default() };
        metrics.acting.set(is_acting.into());
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let hertz = || Unit::Other("hertz".to_owned());
        let registry = &mut self.registry;
        let help =
            "The highest clock that the governor allows; in a dry run the highest of the device";
        registry.register_with_unit("clock_limit", help, hertz(), self.limit.clone());
        let help = "Measured clock of the multiprocessors";
        registry.register_with_unit("sm_clock", help, hertz(), self.sm_clock.clone());
        let help = "Measured power";
        registry.register_with_unit(
            "power",
            help,
            Unit::Other("watts".to_owned()),
            self.power.clone(),
        );
        let help = "Measured energy since the governor started";
        registry.register_with_unit("energy", help, Unit::Joules, self.energy.clone());
        let help = "What is left of an SLO, as a part of it; negative if it is violated";
        registry.register("slack_ratio", help, self.slack.clone());
        let help = "Latency at the percentile of the SLO over the window";
        registry.register_with_unit("latency", help, Unit::Seconds, self.latency.clone());
        let help = "Decisions that had this reason; a decision may have several";
        registry.register("decisions", help, self.decisions.clone());
        registry.register("clock_changes", "Changes of the clock", self.changes.clone());
        registry.register(
            "gpu_errors",
            "Periods without an answer of a GPU",
            self.gpu_errors.clone(),
        );
        let help = "Readings of latencies that failed";
        registry.register("source_failures", help, self.read_failures.clone());
        let help = "Age of the last latencies";
        registry.register_with_unit("signal_age", help, Unit::Seconds, self.signal_age.clone());
        registry.register(
            "acting",
            "1 if decisions are carried out, 0 in a dry run",
            self.acting.clone(),
        );
    }

    /// Records one decision.
    pub fn record_step(&self, uuid: &str, step: &Step, is_applied: bool) {
        let gpu = || DeviceLabel { gpu: uuid.to_owned() };
        let Step { obs, decision, sample } = step;
        let limit = if is_applied { decision.applied() } else { &obs.clock };
        self.limit.get_or_create(&gpu()).set(f64::from(limit.0) * 1e6);
        if let Some(clock) = sample.sm_clock {
            self.sm_clock.get_or_create(&gpu()).set(f64::from(clock.0) * 1e6);
        }
        if let Some(power) = sample.power_w {
            self.power.get_or_create(&gpu()).set(power);
        }
        if let Some(energy) = sample.energy_j {
            self.record_energy(gpu(), energy);
        }
        for model in &obs.models {
            let label = ModelLabel { gpu: uuid.to_owned(), model: model.model.clone() };
            match (model.slack(), model.latency) {
                (Some(slack), Some(latency)) => {
                    self.slack.get_or_create(&label).set(slack);
                    self.latency.get_or_create(&label).set(latency.seconds());
                }
                _ => {
                    // A figure of the past would look like one of now.
                    self.slack.remove(&label);
                    self.latency.remove(&label);
                }
            }
        }
        for reason in decision.reasons() {
            let label = ReasonLabel { gpu: uuid.to_owned(), reason: reason.kind() };
            self.decisions.get_or_create(&label).inc();
        }
        if is_applied && decision.is_change() {
            self.changes.get_or_create(&gpu()).inc();
        }
    }

    fn record_energy(&self, gpu: DeviceLabel, energy: f64) {
        let counter = self.energy.get_or_create(&gpu).clone();
        let start = self.energy_start.get_or_create(&gpu).clone();
        if start.get() == 0.0 {
            start.set(energy);
        }
        let more = energy - start.get() - counter.get();
        // A driver that was loaded again counts from zero.
        if more >= 0.0 {
            counter.inc_by(more);
        } else {
            start.set(energy - counter.get());
        }
    }

    /// Counts a period without an answer of a device.
    pub fn record_gpu_error(&self, uuid: &str) {
        self.gpu_errors.get_or_create(&DeviceLabel { gpu: uuid.to_owned() }).inc();
    }

    /// Records the state of the signal.
    pub fn record_signal(&self, signal: &Signal, age: Option<SimDuration>) {
        self.read_failures.inc_by(signal.failures() - self.read_failures.get());
        self.signal_age.set(age.map_or(f64::INFINITY, SimDuration::seconds));
    }

    /// All metrics as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes everything");
        text
    }
}
