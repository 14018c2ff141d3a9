//! The sixteen segments that applications are made of (dissertation, Sections 5.2.3 and 5.5.1), and
//! what a request costs in each, by the size of its payload.
//!
//! The dissertation names the segments and the payload sizes. The costs are this project's: a fixed
//! part and a part in proportion to the payload, of the order that such programs have on one core.

use homeostat_core::{Bytes, SimDuration};

/// What the payload of a segment is measured in. A change of one kind changes all segments of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Payload {
    /// Size of a file in KiB.
    File,
    /// Items of a table.
    Table,
    /// Millions of floating-point operations.
    FloatOperations,
    /// Pixels of an image.
    Image,
    /// Size of a text in bytes.
    Text,
    /// Thousands of multiplications of a matrix product: the cube of its dimension.
    Matrix,
    /// A page or a block of constant size.
    Constant,
}

impl Payload {
    /// The payload sizes before and after its change scenario (Section 5.2.3). A request has each
    /// of the three with the same probability.
    pub fn sizes(self, is_changed: bool) -> [f64; 3] {
        let cube = |dimension: f64| [dimension.powi(3) / 1e3; 3];
        match (self, is_changed) {
            (Self::File, false) => [128.0, 256.0, 384.0],
            (Self::File, true) => [512.0, 768.0, 1024.0],
            (Self::Table, false) => [1024.0; 3],
            (Self::Table, true) => [10_240.0; 3],
            (Self::FloatOperations, false) => [100.0; 3],
            // Deviation: the text prints 20^8 operations, 256 times as many. We read 2 x 10^8, with
            // which the change is of the order of the others.
            (Self::FloatOperations, true) => [200.0; 3],
            (Self::Image, false) => [40.0 * 40.0; 3],
            (Self::Image, true) => [160.0 * 160.0; 3],
            (Self::Text, false) => [250.0, 500.0, 1000.0],
            (Self::Text, true) => [2000.0, 3000.0, 5000.0],
            (Self::Matrix, false) => cube(50.0),
            (Self::Matrix, true) => cube(150.0),
            (Self::Constant, _) => [1.0; 3],
        }
    }
}

/// What a request costs, by the size of its payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Whatever the size.
    pub fixed: f64,
    /// For each unit of payload.
    pub per_unit: f64,
}

impl Cost {
    /// The cost with a payload of this size.
    pub fn of(self, size: f64) -> f64 {
        self.fixed + self.per_unit * size
    }
}

const fn cost(fixed: f64, per_unit: f64) -> Cost {
    Cost { fixed, per_unit }
}

/// One segment: the smallest unit of work of an application.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Its name.
    pub name: &'static str,
    /// What its cost depends on.
    pub payload: Payload,
    /// CPU time of a request in microseconds.
    pub cpu_us: Cost,
    /// Time in which a request waits for a disk or another service, in microseconds.
    pub io_us: Cost,
    /// Memory of a replica without requests, in MiB: libraries, models.
    pub resident_mib: f64,
    /// Memory of a request in KiB.
    pub request_kib: Cost,
    /// Memory in MiB that caches fill if they can. Without any of it, a request needs
    /// `uncached_us` microseconds more of waiting, in proportion to what is missing.
    pub cache_mib: f64,
    /// See `cache_mib`.
    pub uncached_us: f64,
}

/// Every segment.
pub const SEGMENTS: [Segment; 16] = [
    cpu("float-operations", Payload::FloatOperations, cost(500.0, 250.0), 20.0, cost(64.0, 0.0)),
    cpu("prime-sieve", Payload::FloatOperations, cost(500.0, 180.0), 24.0, cost(2048.0, 20.0)),
    cpu("encryption", Payload::Constant, cost(6000.0, 0.0), 16.0, cost(512.0, 0.0)),
    cpu("image-resize", Payload::Image, cost(4000.0, 1.2), 48.0, cost(4096.0, 0.2)),
    cpu("image-filter", Payload::Image, cost(5000.0, 1.8), 48.0, cost(6144.0, 0.3)),
    cpu("json-parse", Payload::Text, cost(1500.0, 4.0), 16.0, cost(256.0, 0.1)),
    cpu("markdown-render", Payload::Text, cost(2500.0, 6.0), 24.0, cost(384.0, 0.1)),
    cpu("sentiment-analysis", Payload::Text, cost(6000.0, 8.0), 120.0, cost(768.0, 0.2)),
    cpu("compression", Payload::File, cost(1000.0, 60.0), 16.0, cost(1024.0, 4.0)),
    cpu("decompression", Payload::File, cost(800.0, 20.0), 16.0, cost(1024.0, 6.0)),
    Segment {
        io_us: cost(3000.0, 0.0),
        cache_mib: 64.0,
        uncached_us: 6000.0,
        ..cpu("web-page", Payload::Constant, cost(4000.0, 0.0), 32.0, cost(256.0, 0.0))
    },
    cpu("model-serving", Payload::Matrix, cost(8000.0, 8.0), 180.0, cost(8192.0, 4.0)),
    Segment {
        cache_mib: 96.0,
        uncached_us: 12_000.0,
        ..file("file-read", cost(800.0, 4.0), cost(8000.0, 40.0))
    },
    file("file-write", cost(1000.0, 5.0), cost(12_000.0, 60.0)),
    file("file-stream", cost(1500.0, 8.0), cost(6000.0, 90.0)),
    Segment {
        name: "table-scan",
        payload: Payload::Table,
        cpu_us: cost(1500.0, 1.5),
        io_us: cost(4000.0, 1.0),
        resident_mib: 40.0,
        request_kib: cost(512.0, 0.5),
        cache_mib: 128.0,
        uncached_us: 15_000.0,
    },
];

impl Segment {
    /// The segment with this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        SEGMENTS.iter().find(|segment| segment.name == name)
    }

    /// What a request with a payload of this size needs.
    pub fn need(&self, size: f64) -> Need {
        Need {
            cpu: micros(self.cpu_us.of(size)),
            io: micros(self.io_us.of(size)),
            memory: Bytes::new((self.request_kib.of(size) * 1024.0) as u64),
        }
    }
}

/// What one request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Time of one core.
    pub cpu: SimDuration,
    /// Time in which it waits and uses no CPU.
    pub io: SimDuration,
    /// Memory while it is served.
    pub memory: Bytes,
}

pub(super) fn micros(micros: f64) -> SimDuration {
    SimDuration::from_nanos((micros * 1e3) as u64)
}

const fn cpu(
    name: &'static str,
    payload: Payload,
    cpu_us: Cost,
    resident_mib: f64,
    request_kib: Cost,
) -> Segment {
    let (io_us, cache_mib, uncached_us) = (cost(0.0, 0.0), 0.0, 0.0);
    Segment { name, payload, cpu_us, io_us, resident_mib, request_kib, cache_mib, uncached_us }
}

const fn file(name: &'static str, cpu_us: Cost, io_us: Cost) -> Segment {
    Segment { io_us, ..cpu(name, Payload::File, cpu_us, 24.0, cost(512.0, 2.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_sixteen_segments_have_names_of_their_own() {
        let names: BTreeSet<_> = SEGMENTS.iter().map(|segment| segment.name).collect();
        assert_eq!(names.len(), 16);
        assert_eq!(
            Segment::by_name("table-scan").map(|segment| segment.payload),
            Some(Payload::Table)
        );
        assert_eq!(Segment::by_name("table"), None);
    }

    #[test]
    fn a_larger_payload_never_needs_less() {
        for segment in &SEGMENTS {
            let need = |is_changed| {
                let sizes = segment.payload.sizes(is_changed);
                sizes.map(|size| segment.need(size))
            };
            for (before, after) in need(false).into_iter().zip(need(true)) {
                assert!(after.cpu >= before.cpu && after.io >= before.io, "{}", segment.name);
                assert!(after.memory >= before.memory, "{}", segment.name);
                let is_same = segment.payload == Payload::Constant;
                assert_eq!(before == after, is_same, "{}", segment.name);
            }
        }
    }

    #[test]
    fn file_services_are_the_least_sensitive_to_cpu() {
        // Section 5.2.3: I/O-intensive workloads are less sensitive to CPU than the others.
        let share = |name| {
            let segment = Segment::by_name(name).unwrap();
            let need = segment.need(segment.payload.sizes(false)[1]);
            need.cpu.seconds() / (need.cpu.seconds() + need.io.seconds())
        };
        assert!(share("file-read") < 0.2 && share("file-write") < 0.2);
        assert!(share("float-operations") == 1.0 && share("model-serving") == 1.0);
    }
}
