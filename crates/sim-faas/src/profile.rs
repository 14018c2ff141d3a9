//! What a function needs: CPU work, threads, memory, I/O, and what it takes to start it.

use homeostat_core::{Bytes, Fraction, SimDuration, Stream};
use homeostat_decide::ServiceTime;

/// The resource that a function uses most; contention costs each category differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// Arithmetic on little data.
    Cpu,
    /// Large strings and buffers, streamed through.
    Memory,
    /// Waiting for storage and network most of the time.
    Io,
    /// Random access to data of the size of a cache.
    Data,
}

impl Category {
    /// Every category.
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Memory, Self::Io, Self::Data];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
            Self::Data => "data",
        }
    }
}

/// One function as the platform sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionProfile {
    /// Its name.
    pub name: String,
    /// The resource that it uses most.
    pub category: Category,
    /// Mean CPU time of a request.
    pub cpu: SimDuration,
    /// Part of the CPU time that grows with the payload.
    pub payload_share: Fraction,
    /// Spread of payload sizes: standard deviation of their logarithm.
    pub payload_sigma: f64,
    /// Threads that a request can keep busy.
    pub parallelism: f64,
    /// Mean time that a request waits for storage or network, without CPU.
    pub io: SimDuration,
    /// Spread of that wait: standard deviation of its logarithm.
    pub io_sigma: f64,
    /// Memory that a request touches.
    pub memory: Bytes,
    /// Part of it that cannot be dropped and read again: a limit below this ends the
    /// container, since function platforms run without swap.
    pub anonymous: Fraction,
    /// Part of it that an idle container holds.
    pub idle: Fraction,
    /// CPU time to start the runtime and load the code.
    pub start_cpu: SimDuration,
}

impl FunctionProfile {
    /// What a request takes alone, on average.
    pub fn service_time(&self) -> ServiceTime {
        ServiceTime { cpu: self.cpu, io: self.io }
    }

    /// CPU time of one request, with a payload drawn at random.
    pub(crate) fn draw_cpu(&self, rng: &mut Stream) -> SimDuration {
        let payload = lognormal(rng, self.payload_sigma);
        let share = self.payload_share.ratio();
        SimDuration::from_nanos((self.cpu.nanos() as f64 * (1.0 - share + share * payload)) as u64)
    }

    /// Wait of one request for storage and network.
    pub(crate) fn draw_io(&self, rng: &mut Stream) -> SimDuration {
        if self.io == SimDuration::ZERO {
            return SimDuration::ZERO;
        }
        SimDuration::from_nanos((self.io.nanos() as f64 * lognormal(rng, self.io_sigma)) as u64)
    }

    /// Memory below which a container is killed.
    pub fn least_memory(&self) -> Bytes {
        self.memory * self.anonymous
    }
}

/// A lognormal number with mean one.
fn lognormal(rng: &mut Stream, sigma: f64) -> f64 {
    (sigma * (rng.normal() - 0.5 * sigma)).exp()
}
