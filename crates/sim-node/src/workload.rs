//! What an application needs of a core, and how much of it a higher frequency makes faster.

use homeostat_load::applications::{Application, Payload, Segment};

use crate::Processor;

/// Instructions per second of CPU time on the first processor at its nominal frequency, without waiting for memory:
/// 2 GHz at 1.6 instructions per cycle.
const INSTRUCTIONS_PER_S: f64 = 3.2e9;

/// An application as cores see it: a part of its CPU time is waiting for memory, which no core frequency shortens
/// (the linear model of Eyerman and Eeckhout, 2010: time is a / f + b).
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The application.
    pub application: Application,
    /// Part of its CPU time on the first processor at its nominal frequency that is waiting for memory.
    pub memory_part: f64,
}

impl Workload {
    /// The workload of an application: the memory parts of its segments, weighted by their CPU time.
    pub fn new(application: Application) -> Self {
        let (mut waiting, mut total) = (0.0, 0.0);
        for segment in application.segments() {
            let is_changed = application.has_changed(segment.payload);
            let cpu: f64 =
                segment.payload.sizes(is_changed).map(|size| segment.cpu_us.of(size)).iter().sum();
            waiting += cpu * memory_part(segment);
            total += cpu;
        }
        Self { application, memory_part: waiting / total }
    }

    /// Work done per second on one core, over that on the first processor at its nominal frequency.
    pub fn speed(&self, processor: &Processor, gigahertz: f64) -> f64 {
        let computing = (1.0 - self.memory_part) * 2.0 / (gigahertz * processor.relative_ipc);
        1.0 / (computing + self.memory_part * processor.relative_memory_time)
    }

    /// Instructions of a second of CPU time on the first processor at its nominal frequency.
    pub fn instructions_per_cpu_s(&self) -> f64 {
        // Cores that wait for memory retire nothing.
        (1.0 - self.memory_part) * INSTRUCTIONS_PER_S
    }
}

/// The memory part of a segment: this project's choice, from programs that stay in the first-level cache to those that
/// read large tables.
fn memory_part(segment: &Segment) -> f64 {
    match (segment.name, segment.payload) {
        ("prime-sieve", _) => 0.15,
        ("float-operations" | "encryption", _) => 0.05,
        ("image-filter", _) => 0.30,
        (_, Payload::Image) => 0.25,
        ("sentiment-analysis", _) => 0.35,
        (_, Payload::Text) => 0.18,
        ("compression", _) => 0.30,
        ("decompression", _) => 0.45,
        (_, Payload::File) => 0.50,
        (_, Payload::Matrix) => 0.40,
        (_, Payload::Table) => 0.60,
        _ => 0.25,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PROCESSORS;

    fn workload(text: &str) -> Workload {
        Workload::new(Application::parse(text).unwrap())
    }

    #[test]
    fn the_reference_has_a_speed_of_one() {
        for text in ["float-operations", "table-scan", "json-parse+file-read"] {
            let speed = workload(text).speed(&PROCESSORS[0], 2.0);
            assert!((speed - 1.0).abs() < 1e-12, "{text}: {speed}");
        }
    }

    #[test]
    fn a_higher_frequency_helps_computation_more_than_memory() {
        let gain = |text| {
            let workload = workload(text);
            workload.speed(&PROCESSORS[0], 3.0) / workload.speed(&PROCESSORS[0], 2.0)
        };
        // Amdahl: 1 / (0.95 / 1.5 + 0.05) and 1 / (0.4 / 1.5 + 0.6).
        assert!((gain("float-operations") - 1.0 / (0.95 / 1.5 + 0.05)).abs() < 1e-9);
        assert!((gain("table-scan") - 1.0 / (0.4 / 1.5 + 0.6)).abs() < 1e-9);
    }

    #[test]
    fn a_mixture_lies_between_its_segments() {
        let [compute, memory, both] =
            ["float-operations", "table-scan", "float-operations+table-scan"]
                .map(|text| workload(text).memory_part);
        assert!(compute < both && both < memory, "{compute} {both} {memory}");
    }
}
