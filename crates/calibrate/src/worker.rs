//! Busy processes that count what they do.
//!
//! A worker waits for the line `prepare`, by when it stands in its group and on its CPUs, and
//! says `ready` when its memory is in place. It reads `START END` (nanoseconds of the monotonic
//! clock, which all processes share), works from then until shortly after END and answers with
//! one line of JSON about the time between.

use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, PipeReader, PipeWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use homeostat_lab::{Error, Result};
use serde::{Deserialize, Serialize};

use super::system;

/// Bytes that [`Kind::Memory`] streams over: beyond most last-level caches when several
/// workers run.
pub(crate) const STREAM_BYTES: usize = 64 << 20;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// How long a worker goes on after its window, so that none is measured while others have
/// stopped: a worker that is switched out when the window ends is late by a few time slices.
const TAIL: Duration = Duration::from_millis(60);

/// What a worker is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Registers only.
    Cpu,
    /// Pointer chasing through half of the second-level cache. Half, because pages land on
    /// random cache sets: a larger working set misses even when alone, by luck of the draw.
    Cache,
    /// Streaming over 64 MiB, reading and writing.
    Memory,
    /// Two threads that hand a byte to and fro through pipes, each with a short burst of CPU
    /// in between: always one of them runs, and thousands of times per second it sleeps and
    /// wakes the other.
    Io,
    /// Random pages of a file. Not a category of its own: the memory limit makes it slow.
    Paging,
}

impl Kind {
    /// The categories of work that contention is measured for.
    pub const CATEGORIES: [Self; 4] = [Self::Cpu, Self::Cache, Self::Memory, Self::Io];

    /// Its name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cache => "cache",
            Self::Memory => "memory",
            Self::Io => "io",
            Self::Paging => "paging",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = Self::CATEGORIES.into_iter().chain([Self::Paging]);
        all.into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| format!("`{text}` is no kind of work: use cpu, cache, memory or io"))
    }
}

/// When a worker counts, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// From here on work counts.
    pub start: Duration,
    /// To here.
    pub end: Duration,
}

impl Window {
    /// A window that opens after `warm_up`.
    pub fn after(warm_up: Duration, length: Duration) -> Self {
        let start = system::monotonic() + warm_up;
        Self { start, end: start + length }
    }

    pub(crate) fn line(&self) -> String {
        format!("{} {}\n", self.start.as_nanos(), self.end.as_nanos())
    }

    fn parse(line: &str) -> Option<Self> {
        let (start, end) = line.trim().split_once(' ')?;
        let time = |text: &str| text.parse().ok().map(Duration::from_nanos);
        Some(Self { start: time(start)?, end: time(end)? })
    }
}

/// What a worker did in its window.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Count {
    /// Units of work, of a size that depends on the kind only.
    pub units: u64,
    /// CPU time that they took.
    pub cpu_s: f64,
    /// Time that passed.
    pub wall_s: f64,
}

/// The life of a worker. Without a length of time it takes a window from `input`; a caller
/// that has gone away ends it.
pub fn serve_worker(
    kind: Kind,
    file: Option<&Path>,
    length: Option<Duration>,
    mut input: impl BufRead,
    mut output: impl Write,
) -> Result<()> {
    let failed = |error: std::io::Error| broken(&format!("a worker lost its caller: {error}"));
    let mut line = String::new();
    if length.is_none() && input.read_line(&mut line).map_err(failed)? == 0 {
        return Ok(());
    }
    let mut work = Work::prepare(kind, file)?;
    let window = match length {
        Some(length) => Window::after(Duration::ZERO, length),
        None => {
            writeln!(output, "ready").and_then(|()| output.flush()).map_err(failed)?;
            line.clear();
            if input.read_line(&mut line).map_err(failed)? == 0 {
                return Ok(());
            }
            Window::parse(&line).ok_or_else(|| {
                broken(&format!("a worker reads `START END` in nanoseconds, not `{}`", line.trim()))
            })?
        }
    };
    let count = count(&mut work, window)?;
    let line = serde_json::to_string(&count).expect("numbers can be written");
    writeln!(output, "{line}").and_then(|()| output.flush()).map_err(failed)
}

fn count(work: &mut Work, window: Window) -> Result<Count> {
    while system::monotonic() < window.start {
        work.unit()?;
    }
    let (wall, cpu) = (system::monotonic(), system::process_cpu_time());
    // One unit at least: on a busy machine a worker may come late to a short window.
    let mut units = 0;
    loop {
        work.unit()?;
        units += 1;
        if system::monotonic() >= window.end {
            break;
        }
    }
    let (wall, cpu) = (system::monotonic() - wall, system::process_cpu_time() - cpu);
    while system::monotonic() < window.end + TAIL {
        work.unit()?;
    }
    Ok(Count { units, cpu_s: cpu.as_secs_f64(), wall_s: wall.as_secs_f64() })
}

/// Work of one kind, cut into units of about 0.1 ms: short against a time slice, long
/// against a look at the clock.
enum Work {
    Cpu { state: u64 },
    Cache { next: Vec<u32>, at: u32 },
    Memory { numbers: Vec<u64>, at: usize },
    Io { state: u64, to: PipeWriter, from: PipeReader },
    Paging { file: File, pages: u64, state: u64, page: Box<[u8; PAGE]> },
}

/// Rounds of a hash in one burst of CPU.
const BURST: u32 = 1 << 16;

impl Work {
    fn prepare(kind: Kind, file: Option<&Path>) -> Result<Self> {
        Ok(match kind {
            Kind::Cpu => Self::Cpu { state: 1 },
            Kind::Cache => Self::Cache { next: cycle(second_level_cache() / 2), at: 0 },
            Kind::Memory => {
                Self::Memory { numbers: vec![1; STREAM_BYTES / size_of::<u64>()], at: 0 }
            }
            Kind::Io => {
                let failed =
                    |error: std::io::Error| broken(&format!("a worker has no pipe: {error}"));
                let (far_from, to) = std::io::pipe().map_err(failed)?;
                let (from, far_to) = std::io::pipe().map_err(failed)?;
                echo(far_from, far_to);
                Self::Io { state: 1, to, from }
            }
            Kind::Paging => {
                let path = file.ok_or_else(|| broken("paging needs --file"))?;
                let failed = file_error(path);
                let mut file = File::open(path).map_err(&failed)?;
                let pages = file.metadata().map_err(&failed)?.len() / PAGE as u64;
                std::io::copy(&mut file, &mut std::io::sink()).map_err(&failed)?;
                system::expect_random_reads(&file)?;
                Self::Paging { file, pages: pages.max(1), state: 1, page: Box::new([0; PAGE]) }
            }
        })
    }

    fn unit(&mut self) -> Result<()> {
        match self {
            Self::Cpu { state } => *state = hash(*state, BURST),
            Self::Cache { next, at } => {
                for _ in 0..8192 {
                    *at = next[*at as usize];
                }
                black_box(*at);
            }
            Self::Memory { numbers, at } => {
                let part = (1 << 20) / size_of::<u64>();
                numbers[*at..][..part]
                    .iter_mut()
                    .for_each(|number| *number = number.wrapping_add(1));
                *at = (*at + part) % numbers.len();
                black_box(&numbers[*at]);
            }
            Self::Io { state, to, from } => {
                *state = hash(*state, BURST);
                let mut byte = [0];
                to.write_all(&byte)
                    .and_then(|()| from.read_exact(&mut byte))
                    .map_err(|error| broken(&format!("a worker lost its other half: {error}")))?;
            }
            Self::Paging { file, pages, state, page } => {
                *state = hash(*state, 16);
                let offset = *state % *pages * PAGE as u64;
                file.seek(SeekFrom::Start(offset))
                    .and_then(|_| file.read_exact(page.as_mut_slice()))
                    .map_err(|error| broken(&format!("a worker cannot read its file: {error}")))?;
                *state ^= hash(u64::from(page[offset as usize % PAGE]), BURST / 4);
            }
        }
        Ok(())
    }
}

/// The other half of [`Kind::Io`]: answers each byte after a burst of its own, until the
/// first half is gone.
fn echo(mut from: PipeReader, mut to: PipeWriter) {
    thread::spawn(move || {
        let (mut state, mut byte) = (2, [0]);
        while from.read_exact(&mut byte).is_ok() {
            state = hash(state, BURST);
            if to.write_all(&byte).is_err() {
                break;
            }
        }
    });
}

/// Rounds of splitmix64, each of which needs the one before.
fn hash(mut state: u64, rounds: u32) -> u64 {
    for _ in 0..rounds {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state ^= state >> 27;
    }
    black_box(state)
}

/// One random cycle through all cache lines of this many bytes (Sattolo's shuffle): the
/// next line is known only when the one before has come.
fn cycle(bytes: usize) -> Vec<u32> {
    const LINE: usize = 64 / size_of::<u32>();
    let lines = bytes / 64;
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut state = 1;
    for last in (1..lines).rev() {
        state = hash(state, 1);
        order.swap(last, (state % last as u64) as usize);
    }
    let mut next = vec![0; lines * LINE];
    for (line, target) in order.iter().enumerate() {
        next[line * LINE] = target * LINE as u32;
    }
    next
}

/// Bytes of the second-level cache of a core, 1 MiB where the kernel does not say.
fn second_level_cache() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size");
    let kibibytes = text.ok().and_then(|text| text.trim().strip_suffix('K')?.parse::<usize>().ok());
    kibibytes.map_or(1 << 20, |kibibytes| kibibytes << 10)
}

fn broken(reason: &str) -> Error {
    Error::Calibration { reason: reason.to_owned() }
}

fn file_error(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::File { action: "read", path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_work_is_counted() {
        for kind in Kind::CATEGORIES {
            let mut work = Work::prepare(kind, None).unwrap();
            let window = Window::after(Duration::ZERO, Duration::from_millis(20));
            let count = count(&mut work, window).unwrap();
            assert!(count.units > 0 && count.cpu_s > 0.0 && count.wall_s >= 0.02, "{kind}");
        }
    }

    #[test]
    fn a_chase_visits_every_line_before_it_comes_back() {
        let next = cycle(1 << 16);
        let mut at = 0;
        let steps = (1..).find(|_| {
            at = next[at as usize];
            at == 0
        });
        assert_eq!(steps, Some((1 << 16) / 64));
    }

    #[test]
    fn a_worker_waits_for_its_window_and_answers_with_one_line() {
        let window = Window::after(Duration::ZERO, Duration::from_millis(1));
        let mut output = Vec::new();
        let input = format!("prepare\n{}", window.line());
        serve_worker(Kind::Cpu, None, None, input.as_bytes(), &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        let (ready, answer) = text.split_once('\n').unwrap();
        assert_eq!(ready, "ready");
        assert!(serde_json::from_str::<Count>(answer).unwrap().units > 0);
    }

    #[test]
    fn a_worker_whose_caller_is_gone_ends() {
        serve_worker(Kind::Cpu, None, None, &b""[..], Vec::new()).unwrap();
        serve_worker(Kind::Cpu, None, None, &b"prepare\n"[..], Vec::new()).unwrap();
        let input = &b"prepare\nsoon\n"[..];
        let error = serve_worker(Kind::Cpu, None, None, input, Vec::new()).unwrap_err();
        assert!(error.to_string().contains("`START END` in nanoseconds, not `soon`"), "{error}");
    }
}
