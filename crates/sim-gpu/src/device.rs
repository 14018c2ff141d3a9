//! Accelerators: clock, power, memory and interconnect.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{Error, Result};

/// Points of a function, in increasing order of the argument.
pub type Curve = Vec<[f64; 2]>;

/// One type of accelerator.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceType {
    /// Lowest and highest SM clock, MHz.
    pub clocks: [u32; 2],
    /// Distance between two clocks, MHz.
    pub clock_step: u32,
    /// Nominal clock to the clock that the times of kernels correspond to, MHz.
    pub effective_clock: Curve,
    /// Effective clock over the highest, to dynamic power over that at the highest clock.
    pub dynamic_power: Curve,
    /// Part of the time of a memory-bound kernel that scales with 1 / clock.
    pub memory_clock_share: f64,
    /// Power without work, W.
    pub idle_w: f64,
    /// What a compute-bound kernel adds at the highest clock, W.
    pub compute_w: f64,
    /// What a memory-bound kernel adds, W.
    pub memory_w: f64,
    /// Peak floating-point operations per second at the highest clock.
    pub flops: f64,
    /// Part of the peak that a dense kernel reaches.
    pub efficiency: f64,
    /// Memory bandwidth.
    pub memory_bytes_per_s: f64,
    /// Memory.
    pub memory_gib: f64,
    /// Time to launch a kernel, which no clock of the device changes, microseconds.
    pub launch_us: f64,
    /// Bandwidth to the next device.
    pub link_bytes_per_s: f64,
    /// Latency of a transfer to the next device, microseconds.
    pub link_us: f64,
}

impl DeviceType {
    /// The types that come with this crate, by name.
    pub fn builtin() -> BTreeMap<String, Self> {
        Self::read(include_str!("devices.toml")).expect("a test reads this file")
    }

    /// A type that comes with this crate.
    pub fn by_name(name: &str) -> Result<Self> {
        let mut known = Self::builtin();
        let names = known.keys().cloned().collect::<Vec<_>>().join(", ");
        let unknown =
            || Error::Unknown { what: "device type", name: name.to_owned(), known: names };
        known.remove(name).ok_or_else(unknown)
    }

    /// Types in TOML, a table each.
    pub fn read(text: &str) -> Result<BTreeMap<String, Self>> {
        let types: BTreeMap<String, Self> = toml::from_str(text).map_err(|error| {
            Error::Unreadable { what: "a device type", reason: error.to_string() }
        })?;
        types.iter().try_for_each(|(name, device)| device.validate(name))?;
        Ok(types)
    }

    /// Refuses what no device can be.
    pub fn validate(&self, name: &str) -> Result<()> {
        let check = |key: &str, value: f64, is_valid: bool, expected: &str| {
            if is_valid {
                Ok(())
            } else {
                Err(Error::setting(&format!("{name}.{key}"), value, expected))
            }
        };
        let [low, high] = self.clocks;
        check("clocks", low.into(), low > 0 && low <= high, "above zero, lowest first")?;
        check("clock_step", self.clock_step.into(), self.clock_step > 0, "above zero")?;
        for (key, value) in [
            ("flops", self.flops),
            ("efficiency", self.efficiency),
            ("memory_bytes_per_s", self.memory_bytes_per_s),
            ("memory_gib", self.memory_gib),
            ("link_bytes_per_s", self.link_bytes_per_s),
        ] {
            check(key, value, value.is_finite() && value > 0.0, "a number above zero")?;
        }
        for (key, value) in [
            ("idle_w", self.idle_w),
            ("compute_w", self.compute_w),
            ("memory_w", self.memory_w),
            ("launch_us", self.launch_us),
            ("link_us", self.link_us),
        ] {
            check(key, value, value.is_finite() && value >= 0.0, "zero or more")?;
        }
        let share = self.memory_clock_share;
        check("memory_clock_share", share, (0.0..=1.0).contains(&share), "from 0 to 1")?;
        for (key, curve) in
            [("effective_clock", &self.effective_clock), ("dynamic_power", &self.dynamic_power)]
        {
            let rises =
                curve.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] <= pair[1][1]);
            let is_finite =
                curve.iter().flatten().all(|number| number.is_finite() && *number >= 0.0);
            let ends_high = curve.last().is_some_and(|last| last[1] > 0.0);
            let is_curve = curve.len() >= 2 && rises && is_finite && ends_high;
            check(key, curve.len() as f64, is_curve, "two or more rising points")?;
        }
        Ok(())
    }

    /// Lowest clock, MHz.
    pub fn min_clock(&self) -> u32 {
        self.clocks[0]
    }

    /// Highest clock, MHz.
    pub fn max_clock(&self) -> u32 {
        self.clocks[1]
    }

    /// The factor by which work that scales with 1 / clock is slower than at the highest clock.
    pub fn slowdown(&self, clock: u32) -> f64 {
        1.0 / self.relative_clock(clock)
    }

    /// Dynamic power at this clock over that at the highest.
    pub fn power_scale(&self, clock: u32) -> f64 {
        interpolate(&self.dynamic_power, self.relative_clock(clock))
    }

    /// Memory in bytes.
    pub fn memory_bytes(&self) -> f64 {
        self.memory_gib * 1024.0_f64.powi(3)
    }

    fn relative_clock(&self, clock: u32) -> f64 {
        let clock = clock.clamp(self.min_clock(), self.max_clock());
        interpolate(&self.effective_clock, clock.into())
            / interpolate(&self.effective_clock, self.max_clock().into())
    }
}

/// The curve at `x`: linear between points, in proportion below the first, constant beyond the
/// last.
pub(crate) fn interpolate(curve: &[[f64; 2]], x: f64) -> f64 {
    let above = curve.partition_point(|point| point[0] < x);
    match (above.checked_sub(1).map(|below| curve[below]), curve.get(above)) {
        (Some(low), Some(high)) => low[1] + (high[1] - low[1]) * (x - low[0]) / (high[0] - low[0]),
        (Some(last), None) => last[1],
        (None, Some(first)) if first[0] > 0.0 => first[1] * x / first[0],
        (None, Some(first)) => first[1],
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_is_slower_and_draws_less_at_lower_clocks() {
        for (name, device) in DeviceType::builtin() {
            let clocks = (device.min_clock()..=device.max_clock()).step_by(15);
            let figures: Vec<_> =
                clocks.map(|clock| (device.slowdown(clock), device.power_scale(clock))).collect();
            for pair in figures.windows(2) {
                assert!(pair[0].0 > pair[1].0, "{name}: {pair:?}");
                assert!(pair[0].1 < pair[1].1, "{name}: {pair:?}");
            }
            assert_eq!(device.slowdown(device.max_clock()), 1.0);
            assert_eq!(device.power_scale(device.max_clock()), 1.0);
        }
    }

    #[test]
    fn a_device_without_memory_is_refused_with_its_setting() {
        let device = DeviceType { memory_gib: 0.0, ..DeviceType::by_name("v100").unwrap() };
        let error = device.validate("mine").unwrap_err().to_string();
        assert_eq!(error, "mine.memory_gib = 0 is out of range: a number above zero");
        let error = DeviceType::by_name("h900").unwrap_err().to_string();
        assert!(error.contains("choose of a100, rtx8000, t4, v100"), "{error}");
    }
}
