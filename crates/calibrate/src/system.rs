//! The few calls of the system that the standard library lacks.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use homeostat_lab::{Error, Result};

pub(crate) use imp::{allowed_cpus, expect_random_reads, forget_cached, is_on_disk, pin};
pub(crate) use imp::{monotonic, process_cpu_time};

#[cfg(target_os = "linux")]
mod imp {
    use rustix::fs::{Advice, FsWord, fadvise, statfs};
    use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
    use rustix::time::{ClockId, clock_gettime};

    use super::{Duration, Error, File, Path, Result};

    /// What the kernel calls tmpfs, where files live in memory.
    const TMPFS: FsWord = 0x0102_1994;

    /// A clock that all processes share and that is never set.
    pub(crate) fn monotonic() -> Duration {
        read(ClockId::Monotonic)
    }

    /// CPU time of this process, all threads.
    pub(crate) fn process_cpu_time() -> Duration {
        read(ClockId::ProcessCPUTime)
    }

    fn read(clock: ClockId) -> Duration {
        let time = clock_gettime(clock);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
    }

    /// The CPUs that this process may use.
    pub(crate) fn allowed_cpus() -> Result<Vec<usize>> {
        let set = sched_getaffinity(None).map_err(|error| failed("ask for its CPUs", error))?;
        Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
    }

    /// Keeps a process, and the threads it starts from now on, on these CPUs.
    pub(crate) fn pin(process: u32, cpus: &[usize]) -> Result<()> {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        sched_setaffinity(Pid::from_raw(process as i32), &set)
            .map_err(|error| failed("keep a worker on its CPUs", error))
    }

    /// Writes a file's changes to disk and drops its pages from memory.
    pub(crate) fn forget_cached(file: &File) -> Result<()> {
        file.sync_all().map_err(|error| failed("write a file to disk", error))?;
        fadvise(file, 0, None, Advice::DontNeed).map_err(|error| failed("drop its pages", error))
    }

    /// Reads come from anywhere: the kernel must not read ahead.
    pub(crate) fn expect_random_reads(file: &File) -> Result<()> {
        fadvise(file, 0, None, Advice::Random).map_err(|error| failed("stop reading ahead", error))
    }

    /// Whether files there are kept on a disk rather than in memory.
    pub(crate) fn is_on_disk(directory: &Path) -> bool {
        statfs(directory).is_ok_and(|system| system.f_type != TMPFS)
    }

    fn failed(action: &str, error: impl std::fmt::Display) -> Error {
        Error::Calibration { reason: format!("failed to {action}: {error}") }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::{Duration, Error, File, Path, Result};

    fn not_linux<T>() -> Result<T> {
        Err(Error::Calibration { reason: "this is not Linux".to_owned() })
    }

    pub(crate) fn monotonic() -> Duration {
        Duration::ZERO
    }

    pub(crate) fn process_cpu_time() -> Duration {
        Duration::ZERO
    }

    pub(crate) fn allowed_cpus() -> Result<Vec<usize>> {
        not_linux()
    }

    pub(crate) fn pin(_process: u32, _cpus: &[usize]) -> Result<()> {
        not_linux()
    }

    pub(crate) fn forget_cached(_file: &File) -> Result<()> {
        not_linux()
    }

    pub(crate) fn expect_random_reads(_file: &File) -> Result<()> {
        not_linux()
    }

    pub(crate) fn is_on_disk(_directory: &Path) -> bool {
        false
    }
}
