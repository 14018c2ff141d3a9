//! Whether the simulated processor splits CPU time as the kernel does.

use std::thread::sleep;
use std::time::Duration;

use homeostat_core::{SimDuration, SimTime};
use homeostat_des::SharedProcessor;
use homeostat_lab::{Error, Result};
use serde::Serialize;

use super::cgroup::Group;
use super::crew::{Crew, Place, Workplace};
use super::worker::{Kind, Window};

/// Time in which the kernel spreads the workers over the cores.
const WARM_UP: Duration = Duration::from_millis(500);

/// The largest weight there is.
const MAX_SHARES: u64 = 262_144;

/// Groups of workers that share cores by weight.
#[derive(Debug, Clone, Copy)]
pub struct ShareCase {
    /// How many cores they share.
    pub cores: usize,
    /// `cpu.shares` and the number of workers of each group.
    pub groups: &'static [(u64, usize)],
}

impl ShareCase {
    /// In words, as `3072 : 1024x2 on 2 cores`.
    pub fn title(&self) -> String {
        let group = |(shares, workers): &(u64, usize)| match workers {
            1 => shares.to_string(),
            workers => format!("{shares}x{workers}"),
        };
        let groups: Vec<_> = self.groups.iter().map(group).collect();
        let cores = if self.cores == 1 { "core" } else { "cores" };
        format!("{} on {} {cores}", groups.join(" : "), self.cores)
    }
}

/// Splits with and without caps, from even to 1:16. A worker has one thread, so it never has
/// more than one core whatever its weight: on several cores that caps large weights.
const CASES: [ShareCase; 8] = [
    ShareCase { cores: 1, groups: &[(1024, 1), (1024, 1)] },
    ShareCase { cores: 1, groups: &[(3072, 1), (1024, 1)] },
    ShareCase { cores: 1, groups: &[(512, 1), (1024, 1), (2048, 1)] },
    ShareCase { cores: 1, groups: &[(128, 1), (2048, 1)] },
    ShareCase { cores: 1, groups: &[(3072, 2), (1024, 2)] },
    ShareCase { cores: 2, groups: &[(3072, 2), (1024, 2)] },
    ShareCase { cores: 2, groups: &[(3072, 1), (2048, 2)] },
    ShareCase { cores: 2, groups: &[(3072, 1), (512, 1), (1024, 1)] },
];

/// The cases that fit this many cores.
pub fn share_cases(cores: usize) -> Vec<ShareCase> {
    CASES.into_iter().filter(|case| case.cores <= cores).collect()
}

/// One case, measured and simulated.
#[derive(Debug, Clone, Serialize)]
pub struct ShareReport {
    /// The case in words: weights, workers, cores.
    pub case: String,
    /// One entry for each group.
    pub groups: Vec<GroupSplit>,
    /// Largest relative deviation of a group's measured part from its simulated one.
    pub deviation: f64,
}

/// What one group had.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct GroupSplit {
    /// `cpu.shares` asked for.
    pub shares: u64,
    /// Its workers.
    pub workers: usize,
    /// Its part of all CPU time that the groups had.
    pub measured: f64,
    /// The same on the simulated processor.
    pub simulated: f64,
}

/// Measures one case for this long and simulates it. Only the split between the groups is
/// compared: what foreign processes take, they take from all.
pub fn compare_shares(
    workplace: &Workplace,
    case: &ShareCase,
    window: Duration,
) -> Result<ShareReport> {
    let Some(first) = workplace.cores().checked_sub(case.cores) else {
        return Err(Error::Calibration {
            reason: format!("the case needs {} cores, there are {}", case.cores, workplace.cores()),
        });
    };
    let narrow = Workplace {
        program: workplace.program.clone(),
        group: workplace.group.child("shares")?,
        cpus: workplace.cpus[first..].to_vec(),
    };
    if case.cores > 1 {
        // Foreign load on one of several cores would shift the split, since a capped worker
        // cannot move its claim elsewhere. For the moment that this lasts we outweigh it.
        workplace.group.set_shares(MAX_SHARES)?;
    }
    let groups = case
        .groups
        .iter()
        .enumerate()
        .map(|(index, (shares, _))| {
            let group = narrow.group.child(&format!("group-{index}"))?;
            group.set_shares(*shares)?;
            Ok(group)
        })
        .collect::<Result<Vec<_>>>()?;
    let measured = measure(&narrow, case, &groups, window);
    workplace.group.set_shares(1024)?;
    let measured = measured?;
    let simulated = simulate(case, &groups)?;
    let groups: Vec<_> = case
        .groups
        .iter()
        .zip(measured.iter().zip(&simulated))
        .map(|((shares, workers), (measured, simulated))| GroupSplit {
            shares: *shares,
            workers: *workers,
            measured: *measured,
            simulated: *simulated,
        })
        .collect();
    let deviations = groups.iter().map(|group| (group.measured / group.simulated - 1.0).abs());
    let deviation = deviations.fold(0.0, f64::max);
    Ok(ShareReport { case: case.title(), groups, deviation })
}

/// Parts of the CPU time that the groups had, by the kernel's accounts.
fn measure(
    workplace: &Workplace,
    case: &ShareCase,
    groups: &[Group],
    window: Duration,
) -> Result<Vec<f64>> {
    let places: Vec<_> = groups
        .iter()
        .zip(case.groups)
        .flat_map(|(group, (_, workers))| vec![Place::new(Kind::Cpu, group); *workers])
        .collect();
    let mut crew = Crew::placed(workplace, &places)?;
    // The workers go on well after the last look at the accounts.
    crew.begin(Window::after(WARM_UP, 2 * window + WARM_UP))?;
    let accounts = || groups.iter().map(Group::cpu_time).collect::<Result<Vec<_>>>();
    sleep(WARM_UP);
    let before = accounts()?;
    sleep(window);
    let after = accounts()?;
    let used = after.iter().zip(&before).map(|(after, before)| (*after - *before).as_secs_f64());
    Ok(parts(used.collect()))
}

/// Parts of the CPU time that the groups have on the simulated processor.
fn simulate(case: &ShareCase, groups: &[Group]) -> Result<Vec<f64>> {
    let impossible = |error: homeostat_des::Error| Error::Calibration { reason: error.to_string() };
    let mut processor = SharedProcessor::new(case.cores as f64).map_err(impossible)?;
    let mut classes = Vec::new();
    for ((_, workers), group) in case.groups.iter().zip(groups) {
        // A group's weight is split between its workers; each has one thread.
        let weight = group.weight()? as f64 / *workers as f64;
        let class = processor.add_class(weight, 1.0).map_err(impossible)?;
        for _ in 0..*workers {
            processor.start(SimTime::ZERO, class, SimDuration::from_nanos(u64::MAX), ());
        }
        classes.push((class, *workers));
    }
    let rates = classes.iter().map(|(class, workers)| processor.rate(*class) * *workers as f64);
    Ok(parts(rates.collect()))
}

fn parts(amounts: Vec<f64>) -> Vec<f64> {
    let sum: f64 = amounts.iter().sum();
    amounts.into_iter().map(|amount| amount / sum).collect()
}
