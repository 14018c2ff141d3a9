//! Serverless functions made of the sixteen segments, at the memory sizes of AWS Lambda: what
//! `homeostat size` is trained on where there are no measurements.
//!
//! The share of a CPU is in proportion to the memory size, one whole core at 1769 MB as AWS
//! documents, and a function uses one core. Waiting for disks and services does not depend on the
//! size, but for caches that do not fit. A function has no measurements at sizes that it does not
//! fit into. Left out: networks that are faster at larger sizes, several threads, cold starts, and
//! garbage collection that works more in a full heap.

use homeostat_core::SeedTree;
use homeostat_flash::{FunctionSizes, SizeMeasurement};
use homeostat_sim_deploy::{ApplicationPool, Part, Segment};

/// Memory sizes that Sizeless measures.
pub const LAMBDA_SIZES_MB: [f64; 6] = [128.0, 256.0, 512.0, 1024.0, 2048.0, 3008.0];

/// Functions that `homeostat size` trains on without measurements.
pub const TRAINING_FUNCTIONS: usize = 400;

/// The memory size that has a whole core.
const WHOLE_CORE_MB: f64 = 1769.0;
/// Standard deviation of the logarithm of a measured mean.
const NOISE: f64 = 0.02;

/// Functions of this seed, measured at [`LAMBDA_SIZES_MB`].
pub fn generated_functions(count: usize, seed: u64) -> Vec<FunctionSizes> {
    let pool = ApplicationPool::generate(seed);
    let applications = pool.part(Part::Train).iter().chain(pool.part(Part::Test));
    let seeds = SeedTree::new(seed).child("generated functions");
    let mut functions = Vec::with_capacity(count);
    for (place, application) in applications.cycle().enumerate() {
        if functions.len() == count {
            break;
        }
        let mut rng = seeds.stream(&format!("{place}"));
        let mut work = Work::default();
        for segment in application.segments() {
            // From short requests to batches, each segment by itself.
            work.add(segment, rng.range(-1.5, 3.5).exp());
        }
        // Part of the CPU time is the kernel's: more of it with more input and output.
        let kernel = rng.range(0.03, 0.1) + 0.1 * work.io_ms / (work.io_ms + work.cpu_ms);
        let heap = rng.range(0.4, 0.8);
        let measure = |memory_mb: &f64| {
            let mut noisy = |value: f64| value * (NOISE * rng.normal()).exp();
            let cpu_ms = work.cpu_ms;
            SizeMeasurement {
                memory_mb: *memory_mb,
                duration_ms: noisy(work.duration_ms(*memory_mb)),
                user_cpu_ms: noisy(cpu_ms * (1.0 - kernel)),
                system_cpu_ms: noisy(cpu_ms * kernel),
                heap_used_mb: noisy(heap * work.memory_mb),
            }
        };
        let fits = LAMBDA_SIZES_MB.iter().filter(|size| work.memory_mb < **size);
        let measurements: Vec<SizeMeasurement> = fits.map(measure).collect();
        if measurements.len() >= 2 {
            let name = format!("{}/{place}", application.name());
            functions.push(FunctionSizes { name, measurements });
        }
    }
    functions
}

/// What an execution needs.
#[derive(Debug, Clone, Copy)]
struct Work {
    cpu_ms: f64,
    io_ms: f64,
    memory_mb: f64,
    cache_mb: f64,
    uncached_ms: f64,
}

impl Default for Work {
    fn default() -> Self {
        // The runtime of Node.js alone takes some forty MB.
        Self { cpu_ms: 0.5, io_ms: 0.5, memory_mb: 40.0, cache_mb: 0.0, uncached_ms: 0.0 }
    }
}

impl Work {
    /// Adds a segment that is passed `times` times.
    fn add(&mut self, segment: &Segment, times: f64) {
        let need = segment.need(segment.payload.sizes(false)[1]);
        self.cpu_ms += times * need.cpu.seconds() * 1e3;
        self.io_ms += times * need.io.seconds() * 1e3;
        self.memory_mb += 0.3 * segment.resident_mib + need.memory.bytes() as f64 / 1_048_576.0;
        self.cache_mb += segment.cache_mib;
        self.uncached_ms += times * segment.uncached_us / 1e3;
    }

    fn duration_ms(&self, memory_mb: f64) -> f64 {
        let share = (memory_mb / WHOLE_CORE_MB).min(1.0);
        let missing = if self.cache_mb > 0.0 {
            (1.0 - (memory_mb - self.memory_mb) / self.cache_mb).clamp(0.0, 1.0)
        } else {
            0.0
        };
        self.cpu_ms / share + self.io_ms + missing * self.uncached_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_the_cpu_halves_with_twice_the_memory_and_waiting_stays() {
        let work = Work { cpu_ms: 100.0, io_ms: 30.0, ..Work::default() };
        let check = |memory_mb: f64, expect: f64| {
            let found = work.duration_ms(memory_mb);
            assert!((found - expect).abs() < 1e-9, "{memory_mb} MB: {found}");
        };
        check(WHOLE_CORE_MB, 130.0);
        check(WHOLE_CORE_MB / 2.0, 230.0);
        check(WHOLE_CORE_MB / 8.0, 830.0);
        check(3008.0, 130.0);
    }

    #[test]
    fn caches_that_do_not_fit_cost_waiting() {
        let work = Work { cache_mb: 100.0, uncached_ms: 8.0, ..Work::default() };
        let waiting = |memory_mb: f64| {
            let share = memory_mb / WHOLE_CORE_MB;
            work.duration_ms(memory_mb) - work.io_ms - work.cpu_ms / share
        };
        assert!((waiting(90.0) - 4.0).abs() < 1e-9);
        assert!(waiting(140.0).abs() < 1e-9);
    }

    #[test]
    fn functions_differ_and_depend_on_the_seed_alone() {
        let functions = generated_functions(300, 1);
        assert_eq!(functions.len(), 300);
        assert_eq!(functions, generated_functions(300, 1));
        assert_ne!(functions, generated_functions(300, 2));
        let time = |one: &FunctionSizes| {
            one.measurements.iter().find(|at| at.memory_mb == 1024.0).map(|at| at.duration_ms)
        };
        let times: Vec<f64> = functions.iter().filter_map(time).collect();
        let fast = times.iter().filter(|time| **time < 50.0).count();
        let slow = times.iter().filter(|time| **time > 500.0).count();
        assert!(fast > 20 && slow > 20, "{fast} fast, {slow} slow");
    }
}
