//! Processors: frequencies, power, and how fast they are beside each other.

use homeostat_core::Bounds;
use homeostat_decide::{FrequencyBounds, Kilohertz};

use crate::{Error, Result};

/// A type of processor.
///
/// Names, cores, frequencies and power are published (the dissertation's section A.4 and the vendors' data sheets; the
/// highest frequency of the E5-2695 v4 is the dissertation's). The rest is this project's: speeds beside the first
/// processor are of the order of published comparisons of the generations, and the split of power into parts is
/// typical of such processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Processor {
    /// Name in settings.
    pub name: &'static str,
    /// Cores of a socket.
    pub cores: u32,
    /// The nominal frequency, from which it may be overclocked.
    pub base: Kilohertz,
    /// The highest frequency.
    pub max: Kilohertz,
    /// Power of the socket with all cores busy at the nominal frequency, W.
    pub tdp_w: f64,
    /// Instructions per cycle without waiting for memory, over those of the first processor.
    pub relative_ipc: f64,
    /// Time of an access to memory, over that of the first processor.
    pub relative_memory_time: f64,
    /// Rise of the voltage per GHz above the nominal frequency, as a part of the voltage there.
    pub voltage_slope: f64,
}

/// The three processors of the dissertation.
pub const PROCESSORS: [Processor; 3] = [
    Processor {
        name: "xeon-e5-2683-v3",
        cores: 14,
        base: Kilohertz(2_000_000),
        max: Kilohertz(3_000_000),
        tdp_w: 120.0,
        relative_ipc: 1.0,
        relative_memory_time: 1.0,
        voltage_slope: 0.25,
    },
    Processor {
        name: "xeon-e5-2695-v4",
        cores: 18,
        base: Kilohertz(2_100_000),
        max: Kilohertz(3_100_000),
        tdp_w: 120.0,
        relative_ipc: 1.05,
        relative_memory_time: 0.95,
        voltage_slope: 0.25,
    },
    Processor {
        name: "epyc-7302p",
        cores: 16,
        base: Kilohertz(3_000_000),
        max: Kilohertz(3_300_000),
        tdp_w: 155.0,
        relative_ipc: 1.15,
        relative_memory_time: 0.95,
        voltage_slope: 0.35,
    },
];

/// Distance between two frequencies, kHz.
const STEP: u32 = 100_000;

/// Part of a core's share of the power that neither frequency nor voltage changes: caches, memory controllers, links.
const UNCORE: f64 = 0.25;
/// Part that leaks whether the core is busy or not; it grows with the voltage.
const LEAKAGE: f64 = 0.20;

impl Processor {
    /// The processor with this name.
    pub fn by_name(name: &str) -> Result<Self> {
        let found = PROCESSORS.iter().find(|processor| processor.name == name);
        found.copied().ok_or_else(|| Error::NoSuchProcessor { name: name.to_owned() })
    }

    /// The frequencies that decisions may set.
    pub fn bounds(&self) -> FrequencyBounds {
        let range = Bounds::try_new(self.base, self.max).expect("the table is in order");
        FrequencyBounds { range, step: STEP }
    }

    /// Power of some cores at a frequency, W, that are busy for a part of the time. Dynamic power is in proportion to
    /// frequency and the square of the voltage, leakage to the voltage.
    pub fn power_w(&self, cores: u32, frequency: Kilohertz, usage: f64) -> f64 {
        let share = self.tdp_w / f64::from(self.cores) * f64::from(cores);
        let above = frequency.gigahertz() - self.base.gigahertz();
        let voltage = 1.0 + self.voltage_slope * above;
        let speed = frequency.gigahertz() / self.base.gigahertz();
        let dynamic = (1.0 - UNCORE - LEAKAGE) * usage * speed * voltage * voltage;
        share * (UNCORE + LEAKAGE * voltage + dynamic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_socket_has_its_rated_power_at_the_nominal_frequency() {
        for processor in &PROCESSORS {
            let power = processor.power_w(processor.cores, processor.base, 1.0);
            assert!((power - processor.tdp_w).abs() < 1e-9, "{}: {power}", processor.name);
        }
    }

    #[test]
    fn busy_power_grows_faster_than_the_frequency_and_slower_than_its_cube() {
        for processor in &PROCESSORS {
            let ratio = processor.max.gigahertz() / processor.base.gigahertz();
            let dynamic = |khz| processor.power_w(1, khz, 1.0) - processor.power_w(1, khz, 0.0);
            let power = dynamic(processor.max) / dynamic(processor.base);
            assert!(ratio < power && power < ratio.powi(3) * 1.01, "{}: {power}", processor.name);
        }
    }

    #[test]
    fn an_unknown_processor_is_refused_with_the_known_ones() {
        let error = Processor::by_name("z80").unwrap_err().to_string();
        assert!(error.contains("`z80`") && error.contains("epyc-7302p"), "{error}");
    }
}
