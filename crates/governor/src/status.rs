//! The state of a governor and its decisions, for programs and for people.

use std::fmt::Write;

use homeostat_decide::MetricsStatus;
use serde::{Deserialize, Serialize};

use crate::governor::Step;

/// One governor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Whether decisions are carried out.
    pub acting: bool,
    /// What is paused; none for nothing.
    pub paused: Option<String>,
    /// Age of the last latencies; none before the first.
    pub signal_age_s: Option<f64>,
    /// Readings of latencies that failed.
    pub source_failures: u64,
    /// Why the last one failed.
    pub source_error: Option<String>,
    /// Every device.
    pub devices: Vec<DeviceStatus>,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// UUID.
    pub gpu: String,
    /// Product name.
    pub name: String,
    /// The last decision; none before the first.
    pub decision: Option<DecisionLine>,
    /// Why there is no newer one.
    pub error: Option<String>,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionLine {
    /// Seconds since 1970, for people: decisions go by a clock that never jumps.
    pub unix_s: f64,
    /// UUID of the device.
    pub gpu: String,
    /// The clock before.
    pub from_mhz: u32,
    /// The clock that MIAD proposed.
    pub proposed_mhz: u32,
    /// The clock that guards allowed.
    pub decided_mhz: u32,
    /// Whether it was carried out.
    pub acting: bool,
    /// Why, in words; the policy's reasons, then those of the guards.
    pub reasons: Vec<String>,
    /// The kinds of the same reasons, as metrics count them.
    pub reason_kinds: Vec<String>,
    /// Whether latencies are known.
    pub latency_known: bool,
    /// Utilisation of the device.
    pub busy: Option<f64>,
    /// Measured clock.
    pub sm_clock_mhz: Option<u32>,
    /// Measured power.
    pub power_w: Option<f64>,
    /// The models on the device.
    pub models: Vec<ModelLine>,
}

/// The latency of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelLine {
    /// Its name.
    pub model: String,
    /// Threshold of the SLO.
    pub slo_ms: f64,
    /// At the percentile of the SLO; none if it is unknown, or without requests.
    pub latency_ms: Option<f64>,
    /// What is left of the SLO, as a part of it.
    pub slack: Option<f64>,
}

impl DecisionLine {
    /// Of one period.
    pub fn new(unix_s: f64, gpu: &str, step: &Step, acting: bool) -> Self {
        let Step { obs, decision, sample } = step;
        let model = |model: &homeostat_decide::ModelLatency| ModelLine {
            model: model.model.clone(),
            slo_ms: model.slo.seconds() * 1e3,
            latency_ms: model.latency.map(|latency| latency.seconds() * 1e3),
            slack: model.slack(),
        };
        Self {
            unix_s,
            gpu: gpu.to_owned(),
            from_mhz: decision.from().0,
            proposed_mhz: decision.proposed().0,
            decided_mhz: decision.applied().0,
            acting,
            reasons: decision.reasons().iter().map(ToString::to_string).collect(),
            reason_kinds: decision
                .reasons()
                .iter()
                .map(|reason| reason.kind().to_owned())
                .collect(),
            latency_known: obs.metrics == MetricsStatus::Complete,
            busy: sample.busy,
            sm_clock_mhz: sample.sm_clock.map(|clock| clock.0),
            power_w: sample.power_w,
            models: obs.models.iter().map(model).collect(),
        }
    }

    /// Whether another decision says something else.
    pub fn is_news_after(&self, last: &Self) -> bool {
        self.decided_mhz != last.decided_mhz || self.reason_kinds != last.reason_kinds
    }
}

impl Status {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mode = if self.acting { "acting" } else { "dry run: nothing is changed" };
        let age = self
            .signal_age_s
            .map_or("no latencies yet".to_owned(), |age| format!("latencies are {age:.1} s old"));
        let paused = self.paused.as_ref().map_or(String::new(), |what| format!(", paused: {what}"));
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes everything");
        line(format!("{mode}; {age}, {} failed readings{paused}", self.source_failures));
        if let Some(error) = &self.source_error {
            line(format!("  last reading: {error}"));
        }
        for device in &self.devices {
            line(format!("{}  {}", device.gpu, device.name));
            if let Some(error) = &device.error {
                line(format!("  {error}"));
            }
            let Some(decision) = &device.decision else { continue };
            let known = |figure: Option<f64>, unit: &str| {
                figure.map_or("unknown".to_owned(), |figure| format!("{figure:.0} {unit}"))
            };
            line(format!(
                "  limit {} MHz, clock {}, power {}, busy {}",
                decision.decided_mhz,
                known(decision.sm_clock_mhz.map(f64::from), "MHz"),
                known(decision.power_w, "W"),
                known(decision.busy.map(|busy| busy * 100.0), "%"),
            ));
            for model in &decision.models {
                line(format!(
                    "  {}: {} of {:.0} ms",
                    model.model,
                    known(model.latency_ms, "ms"),
                    model.slo_ms
                ));
            }
            line(format!("  {}", decision.reasons.join("; ")));
        }
        text
    }
}
