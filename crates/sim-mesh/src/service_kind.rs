//! Kinds of services, and what one call costs in each.
//!
//! The figures are this project's, of the order that such programs have on one core of a server: the
//! topologies name programs, not costs. The cost of memory stalls is fitted (see [`crate::Interference`]).

use serde::Deserialize;

/// What a service is built as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceKind {
    /// A web server that waits for many calls at once.
    Frontend,
    /// A web server that sends large files.
    Stream,
    /// Compiled code (C++, Go), a thread for each connection.
    Native,
    /// The same, fed from a queue by a few threads.
    NativeConsumer,
    /// Code of a managed runtime (Java, Python, Node.js).
    Managed,
    /// A cache in memory.
    Cache,
    /// A database with disks.
    Store,
    /// A message broker.
    Queue,
}

/// Mean demand of a call and the size of the program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// CPU time in microseconds, without contention.
    pub cpu_us: f64,
    /// Bytes to and from memory per second of CPU time.
    pub memory_bytes_per_cpu_s: f64,
    /// Cache that it uses, in bytes.
    pub working_set: f64,
    /// Part of the CPU time that waits for memory, without contention.
    pub memory_stall: f64,
    /// Bytes read from or written to disks.
    pub disk_bytes: f64,
    /// Bytes of a response.
    pub response_bytes: f64,
    /// Threads of a replica.
    pub threads: u32,
    /// Connections from one replica of a caller.
    pub connections: u32,
}

/// Bytes of a request.
pub(crate) const REQUEST_BYTES: f64 = 512.0;

impl ServiceKind {
    /// What one call costs.
    pub fn demand(self) -> Demand {
        let (cpu_us, memory_gb_per_s, working_set_mb, memory_stall) = match self {
            Self::Frontend => (150.0, 1.0, 1.0, 0.10),
            Self::Stream => (400.0, 4.0, 4.0, 0.20),
            Self::Native => (250.0, 1.5, 2.0, 0.15),
            Self::NativeConsumer => (250.0, 1.5, 2.0, 0.15),
            Self::Managed => (1500.0, 2.5, 6.0, 0.20),
            Self::Cache => (50.0, 5.0, 8.0, 0.40),
            Self::Store => (300.0, 4.0, 8.0, 0.30),
            Self::Queue => (80.0, 2.0, 2.0, 0.20),
        };
        let (disk_kb, response_kb, threads, connections) = match self {
            Self::Frontend => (0.0, 4.0, 1024, 512),
            Self::Stream => (0.0, 256.0, 1024, 512),
            Self::Native => (0.0, 1.0, 64, 64),
            Self::NativeConsumer => (0.0, 1.0, 8, 64),
            Self::Managed => (0.0, 2.0, 200, 64),
            Self::Cache => (0.0, 2.0, 4, 128),
            Self::Store => (16.0, 4.0, 128, 128),
            Self::Queue => (4.0, 0.5, 32, 128),
        };
        Demand {
            cpu_us,
            memory_bytes_per_cpu_s: memory_gb_per_s * 1e9,
            working_set: working_set_mb * 1e6,
            memory_stall,
            disk_bytes: disk_kb * 1e3,
            response_bytes: response_kb * 1e3,
            threads,
            connections,
        }
    }
}
