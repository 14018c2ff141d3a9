//! The whole calibration of a node.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use homeostat_lab::{Error, Result};
use serde::Serialize;

use super::contention::{ContentionPlan, ContentionReport, worker_counts};
use super::crew::Workplace;
use super::fit::Form;
use super::paging::{PagingReport, measure_paging};
use super::shares::{ShareReport, compare_shares, share_cases};
use super::starts::{StartReport, measure_starts};
use super::worker::{Kind, STREAM_BYTES};

/// How much longer than other windows those of the shares are: a part of 1/17 is measured
/// to a percent only if it is long against time slices.
const SHARE_WINDOWS: u32 = 4;

/// What to measure.
#[derive(Debug, Clone)]
pub struct NodeCalibration {
    /// The program whose `calibrate worker` is a worker: this one.
    pub program: PathBuf,
    /// Cores to use; all without a number.
    pub cores: Option<usize>,
    /// Length of a window.
    pub window: Duration,
    /// How often each point is measured.
    pub repetitions: usize,
    /// Categories of work.
    pub categories: Vec<Kind>,
    /// What to measure at all.
    pub parts: Vec<Part>,
}

/// A part of the calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What busy workers cost each other.
    Contention,
    /// What cold starts burn.
    Starts,
    /// What too little memory costs.
    Paging,
    /// Whether simulated shares are the kernel's.
    Shares,
}

impl Part {
    /// All of them, in the order they are measured.
    pub const ALL: [Self; 4] = [Self::Contention, Self::Starts, Self::Paging, Self::Shares];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Contention => "contention",
            Self::Starts => "starts",
            Self::Paging => "paging",
            Self::Shares => "shares",
        }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|part| part.name() == text)
            .ok_or_else(|| format!("`{text}` is no part: use contention, starts, paging or shares"))
    }
}

/// Where it was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Model of the processor, as the kernel names it.
    pub processor: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of the control groups, 1 or 2.
    pub cgroup_version: u8,
    /// Cores in use.
    pub cores: usize,
    /// The kernel's one-minute load average before the first worker: well above zero, other
    /// work disturbs the caches.
    pub load_before: Option<f64>,
}

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct NodeReport {
    /// Where.
    pub machine: Machine,
    /// What busy workers cost each other.
    pub contention: Option<ContentionReport>,
    /// What cold starts burn.
    pub starts: Option<StartReport>,
    /// What too little memory costs.
    pub paging: Option<PagingReport>,
    /// Simulated shares and the kernel's.
    pub shares: Vec<ShareReport>,
    /// What could not be measured, and why.
    pub skipped: Vec<String>,
}

impl NodeCalibration {
    /// Measures. `progress` hears what is being measured, or an empty text as a sign of life
    /// in between; its error ends the calibration in order.
    pub fn run(&self, mut progress: impl FnMut(&str) -> Result<()>) -> Result<NodeReport> {
        self.validate()?;
        let machine = (line_of("/proc/cpuinfo", "model name"), load());
        let workplace = Workplace::new(&self.program, self.cores)?;
        let wants = |part| self.parts.contains(&part);
        let mut report = NodeReport {
            machine: Machine {
                processor: machine.0.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
                kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                    .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
                cgroup_version: workplace.group.version().number(),
                cores: workplace.cores(),
                load_before: machine.1,
            },
            contention: None,
            starts: None,
            paging: None,
            shares: Vec::new(),
            skipped: Vec::new(),
        };
        if wants(Part::Contention) {
            self.check_memory(&workplace)?;
            let plan = ContentionPlan {
                workplace: &workplace,
                categories: &self.categories,
                window: self.window,
                repetitions: self.repetitions,
            };
            report.contention = Some(plan.run(&mut progress)?);
        }
        if wants(Part::Starts) {
            progress("cold starts")?;
            report.starts = Some(measure_starts(&workplace, 4 * self.repetitions)?);
        }
        if wants(Part::Paging) {
            progress("paging below the need")?;
            match measure_paging(&workplace, self.window, self.repetitions) {
                Ok(paging) => report.paging = Some(paging),
                // Many nodes do not let a process limit memory; the rest is still worth having.
                Err(error) => report.skipped.push(format!("paging: {error}")),
            }
        }
        if wants(Part::Shares) {
            for case in share_cases(workplace.cores()) {
                progress(&format!("shares of {}", case.title()))?;
                let window = SHARE_WINDOWS * self.window;
                report.shares.push(compare_shares(&workplace, &case, window)?);
            }
        }
        Ok(report)
    }

    fn validate(&self) -> Result<()> {
        let out_of_range = |key: &str, value: String, expected: &str| Error::OutOfRange {
            key: key.to_owned(),
            value,
            source_text: format!("flag --{key}"),
            expected: expected.to_owned(),
        };
        if self.window < Duration::from_millis(50) || self.window > Duration::from_secs(60) {
            let seconds = self.window.as_secs_f64().to_string();
            return Err(out_of_range("seconds", seconds, "a window lasts 0.05 to 60 seconds"));
        }
        if !(1..=100).contains(&self.repetitions) {
            let repetitions = self.repetitions.to_string();
            return Err(out_of_range("repetitions", repetitions, "it must lie from 1 to 100"));
        }
        if let Some(kind) = self.categories.iter().find(|kind| !Kind::CATEGORIES.contains(kind)) {
            let expected = "categories are cpu, cache, memory and io";
            return Err(out_of_range("categories", kind.to_string(), expected));
        }
        let names: Vec<_> = self.categories.iter().map(|kind| kind.name()).collect();
        if let Some(twice) = twice(&names) {
            return Err(out_of_range("categories", twice.to_owned(), "name each one once"));
        }
        let names: Vec<_> = self.parts.iter().map(|part| part.name()).collect();
        match twice(&names) {
            Some(twice) => Err(out_of_range("parts", twice.to_owned(), "name each one once")),
            None => Ok(()),
        }
    }

    /// All workers that stream over memory must fit into what is free, with room to spare.
    fn check_memory(&self, workplace: &Workplace) -> Result<()> {
        let most = worker_counts(workplace.cores()).last().copied().unwrap_or(1);
        let wanted = (most * STREAM_BYTES) as u64;
        let free = line_of("/proc/meminfo", "MemAvailable")
            .and_then(|text| text.strip_suffix("kB")?.trim().parse::<u64>().ok())
            .map(|kibibytes| kibibytes << 10);
        match free {
            Some(free) if self.categories.contains(&Kind::Memory) && wanted > free / 2 => {
                Err(Error::Calibration {
                    reason: format!(
                        "{most} workers would stream over {} MiB and {} MiB are free: use fewer \
                         --cores, or leave `memory` out of --categories",
                        wanted >> 20,
                        free >> 20
                    ),
                })
            }
            _ => Ok(()),
        }
    }
}

impl NodeReport {
    /// The fitted coefficients as a file that simulated nodes read. A coefficient below zero
    /// is noise about zero and written as zero.
    pub fn to_toml(&self) -> String {
        let Machine { processor, kernel, cores, .. } = &self.machine;
        let mut text = format!(
            "# Measured by `homeostat calibrate node` on {cores} cores of {processor}, Linux {kernel}.\n"
        );
        if let Some(contention) = &self.contention {
            text.push_str(
                "\n# Settings of the serverless simulator: `--config` takes this file. Extra CPU time for the\n\
                 # same work when every core is busy, and for each set of threads beyond the cores.\n\
                 [faas]\n",
            );
            for category in &contention.categories {
                let fit = category.fit(Form::Linear);
                let (shared, overload) = (fit.y.value.max(0.0), fit.x.value.max(0.0));
                let name = strain_setting(category.category);
                let _ = writeln!(text, "{name} = [{shared:.4}, {overload:.4}]");
            }
        }
        if let Some(starts) = &self.starts {
            let (cpu_s, wall_s) = (starts.alone.cpu_s.value, starts.alone.wall_s.value);
            let _ = writeln!(
                text,
                "\n# A start of `{}` took {cpu_s:.4} s of CPU and {wall_s:.4} s in all.",
                starts.command
            );
        }
        if let Some(paging) = &self.paging {
            let _ = writeln!(
                text,
                "\n# A missing page cost {:.0} us; extra time per need/limit - 1: {:.2} of the work.",
                paging.miss_s.max(0.0) * 1e6,
                paging.slope.value.max(0.0)
            );
        }
        text
    }

    /// The largest relative deviation between simulated shares and the kernel's.
    pub fn share_deviation(&self) -> Option<f64> {
        self.shares.iter().map(|report| report.deviation).reduce(f64::max)
    }
}

/// The setting of the serverless simulator that a kind of work stands for: functions on graphs
/// live in caches.
fn strain_setting(kind: Kind) -> String {
    match kind {
        Kind::Cache => "strain_data".to_owned(),
        other => format!("strain_{other}"),
    }
}

/// The first name that occurs twice.
fn twice<'a>(names: &[&'a str]) -> Option<&'a str> {
    let repeated = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name));
    repeated.map(|(_, name)| *name)
}

/// What follows `key` and a colon in a file of the kernel.
fn line_of(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let value =
        text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'));
    value.map(|value| value.trim().to_owned())
}

fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration() -> NodeCalibration {
        NodeCalibration {
            program: PathBuf::from("homeostat"),
            cores: None,
            window: Duration::from_millis(500),
            repetitions: 3,
            categories: Kind::CATEGORIES.to_vec(),
            parts: Part::ALL.to_vec(),
        }
    }

    #[test]
    fn wrong_settings_are_named_with_the_fix() {
        let check = |change: fn(&mut NodeCalibration), expect: &str| {
            let mut calibration = calibration();
            change(&mut calibration);
            let text = calibration.validate().unwrap_err().to_string();
            assert!(text.contains(expect), "{text}");
        };
        calibration().validate().unwrap();
        check(|it| it.window = Duration::from_millis(1), "0.001 (from flag --seconds)");
        check(|it| it.repetitions = 0, "from 1 to 100");
        check(|it| it.categories = vec![Kind::Paging], "categories are cpu, cache, memory and io");
        check(|it| it.categories = vec![Kind::Cpu; 2], "name each one once");
        check(|it| it.parts = vec![Part::Shares; 2], "parts = shares");
    }

    #[test]
    fn names_are_read_back() {
        for part in Part::ALL {
            assert_eq!(part.name().parse(), Ok(part));
        }
        for kind in Kind::CATEGORIES {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("disk".parse::<Part>().unwrap_err().contains("`disk` is no part"));
    }
}
