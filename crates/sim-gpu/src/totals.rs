//! The exact figures of devices under load, in the last window and since the start.

use homeostat_decide::Figure;

use crate::Executor;

/// Requests of one model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ModelTotals {
    /// Answered in the last window.
    pub(crate) answered: u64,
    /// Those of them beyond the SLO.
    pub(crate) slo_violations: u64,
    /// Latency over the SLO of every answer since the start.
    pub(crate) latency_over_slo: Vec<f32>,
}

/// Energy and use of one device.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct DeviceTotals {
    /// Mean power of the last window, W.
    pub(crate) power_w: f64,
    /// Part of the last window in which it was busy.
    pub(crate) busy: f64,
    pub(crate) energy_j: f64,
    pub(crate) busy_s: f64,
    pub(crate) mhz_seconds: f64,
    /// Power without work, W.
    pub(crate) idle_w: f64,
    pub(crate) seconds: f64,
}

/// The exact figures of the last window, over all devices.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceWindow {
    /// Requests answered.
    pub answered: u64,
    /// Those beyond their SLO.
    pub slo_violations: u64,
    /// Power of all devices, W.
    pub power_w: f64,
}

/// The exact figures since the start, of some devices and the models on them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GpuTotals {
    /// Requests answered, refused, or late already.
    pub requests: u64,
    /// Those of them that did not meet their SLO.
    pub slo_violations: u64,
    /// 99th percentile of latency over SLO of the answers of a model, of the model with the largest; zero
    /// without answers.
    pub p99_over_slo: f64,
    /// Mean power of these devices together, W.
    pub power_w: f64,
    /// Mean power of an executor while it is busy, W; zero if none was.
    pub busy_power_w: f64,
    /// Mean clock, MHz.
    pub clock_mhz: f64,
    /// Part of the time in which a device was busy.
    pub busy: f64,
    /// Energy of these devices, J.
    pub energy_j: f64,
}

impl DeviceTotals {
    pub(crate) fn of_idle(executor: &Executor) -> Self {
        let idle_w = f64::from(executor.devices) * executor.device.idle_w;
        Self { idle_w, ..Self::default() }
    }
}

impl GpuTotals {
    /// `refused_and_late` belongs to each model.
    pub(crate) fn of(devices: &[&DeviceTotals], models: &[(&ModelTotals, (u64, u64))]) -> Self {
        let sum = |figure: fn(&DeviceTotals) -> f64| devices.iter().map(|one| figure(one)).sum();
        let seconds: f64 = sum(|device| device.seconds);
        let energy_j: f64 = sum(|device| device.energy_j);
        let busy_s: f64 = sum(|device| device.busy_s);
        let idle_j: f64 = sum(|device| device.idle_w * (device.seconds - device.busy_s));
        let part = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let mut totals = Self {
            power_w: part(energy_j) * devices.len() as f64,
            busy_power_w: if busy_s > 0.0 { (energy_j - idle_j) / busy_s } else { 0.0 },
            clock_mhz: part(sum(|device| device.mhz_seconds)),
            busy: part(busy_s),
            energy_j,
            ..Self::default()
        };
        for (model, (refused, late)) in models {
            let beyond = model.latency_over_slo.iter().filter(|over| **over > 1.0).count() as u64;
            totals.requests += model.latency_over_slo.len() as u64 + refused + late;
            totals.slo_violations += beyond + refused + late;
            totals.p99_over_slo = totals.p99_over_slo.max(p99(&model.latency_over_slo));
        }
        totals
    }

    pub(crate) fn figures(&self) -> Vec<Figure> {
        vec![
            ("requests", self.requests as f64),
            ("slo_violation_ratio", self.slo_violations as f64 / self.requests.max(1) as f64),
            ("p99_over_slo", self.p99_over_slo),
            ("power_w", self.power_w),
            ("busy_power_w", self.busy_power_w),
            ("clock_mhz", self.clock_mhz),
            ("busy_ratio", self.busy),
            ("energy_j", self.energy_j),
        ]
    }
}

/// The least that is not exceeded by more than a hundredth.
fn p99(latencies: &[f32]) -> f64 {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    let rank = (sorted.len() * 99).div_ceil(100);
    rank.checked_sub(1).map_or(0.0, |place| f64::from(sorted[place]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_or_is_late_did_not_meet_its_slo() {
        let model = ModelTotals { latency_over_slo: vec![0.5, 1.5], ..ModelTotals::default() };
        let device = DeviceTotals {
            energy_j: 300.0,
            seconds: 2.0,
            busy_s: 1.0,
            idle_w: 25.0,
            ..DeviceTotals::default()
        };
        let totals = GpuTotals::of(&[&device, &device], &[(&model, (3, 1))]);
        assert_eq!((totals.requests, totals.slo_violations), (6, 5));
        assert_eq!((totals.p99_over_slo, totals.power_w), (1.5, 300.0));
        assert_eq!(totals.busy_power_w, 275.0);
    }
}
