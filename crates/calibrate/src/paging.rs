//! What too little memory costs: random reads from a file that does not fit the limit of
//! the worker's group, so that pages are dropped and read again.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use homeostat_lab::{Error, Result};
use serde::Serialize;

use super::contention::estimate;
use super::crew::{Crew, Place, Workplace};
use super::fit::{Estimate, slope_through_origin};
use super::system;
use super::worker::{Kind, PAGE};

/// Size of the file.
const FILE_BYTES: usize = 64 << 20;

/// How far the need exceeds the limit: `need / limit - 1`.
const EXCESS: [f64; 4] = [0.1, 0.25, 0.5, 1.0];

const WARM_UP: Duration = Duration::from_millis(300);

/// What memory limits below the need cost.
#[derive(Debug, Clone, Serialize)]
pub struct PagingReport {
    /// Bytes that the worker's group holds without a limit.
    pub need_bytes: u64,
    /// Time of a unit of work (one random page and a hash) when every page is there.
    pub unit_s: f64,
    /// Slow-down against the excess of need over limit.
    pub points: Vec<PagingPoint>,
    /// Extra time for the same work per `need / limit - 1`.
    pub slope: Estimate,
    /// Root mean square of the deviations from that slope.
    pub slope_residual_rms: f64,
    /// Extra time for the same work per `1 - limit / need`, the part of pages that is not
    /// there: physically, what a missing page costs against a unit of work.
    pub miss_slope: Estimate,
    /// Root mean square of the deviations from it.
    pub miss_residual_rms: f64,
    /// Time that a missing page costs, from `miss_slope`.
    pub miss_s: f64,
}

/// The worker with one limit.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PagingPoint {
    /// `need / limit - 1`.
    pub excess: f64,
    /// Time for the same work against that without a limit.
    pub slowdown: Estimate,
}

/// Measures the slow-down below the need, `repetitions` times at each limit.
pub(crate) fn measure_paging(
    workplace: &Workplace,
    window: Duration,
    repetitions: usize,
) -> Result<PagingReport> {
    let file = Scratch::create()?;
    let (mut need, mut free, mut limited) = (0, Vec::new(), vec![Vec::new(); EXCESS.len()]);
    for _ in 0..repetitions {
        let (used, rate) = file.read_with_limit(workplace, window, None)?;
        need = need.max(used);
        free.push(rate);
        for (excess, rates) in EXCESS.iter().zip(&mut limited) {
            let limit = (need as f64 / (1.0 + excess)) as u64;
            rates.push(file.read_with_limit(workplace, window, Some(limit))?.1);
        }
    }
    let unlimited = estimate(&free).value;
    let slowdowns = |rates: &[f64]| rates.iter().map(|rate| unlimited / rate).collect::<Vec<_>>();
    let points: Vec<_> = EXCESS
        .iter()
        .zip(&limited)
        .map(|(excess, rates)| PagingPoint {
            excess: *excess,
            slowdown: estimate(&slowdowns(rates)),
        })
        .collect();
    let pairs = |scale: fn(f64) -> f64| -> Vec<(f64, f64)> {
        let all = EXCESS.iter().zip(&limited);
        all.flat_map(|(excess, rates)| {
            slowdowns(rates).into_iter().map(move |slowdown| (scale(*excess), slowdown - 1.0))
        })
        .collect()
    };
    let fit = |scale| slope_through_origin(&pairs(scale)).expect("there are several limits");
    let (slope, slope_residual_rms) = fit(|excess| excess);
    let (miss_slope, miss_residual_rms) = fit(|excess| excess / (1.0 + excess));
    Ok(PagingReport {
        need_bytes: need,
        unit_s: 1.0 / unlimited,
        points,
        slope,
        slope_residual_rms,
        miss_slope,
        miss_residual_rms,
        miss_s: miss_slope.value / unlimited,
    })
}

/// A file of pages that is gone when dropped.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn create() -> Result<Self> {
        let directory = std::env::temp_dir();
        if !system::is_on_disk(&directory) {
            return Err(Error::Calibration {
                reason: format!(
                    "{} lives in memory, where nothing is paged: set TMPDIR to a directory on a disk",
                    directory.display()
                ),
            });
        }
        let path = directory.join(format!("homeostat-calibrate-{}.pages", std::process::id()));
        let failed = failed("write", &path);
        let mut file = File::create_new(&path).map_err(&failed)?;
        let this = Self { path: path.clone() };
        // Every page differs, so that no file system stores it as a hole or merges pages.
        for page in 0..FILE_BYTES / PAGE {
            let mut bytes = [1; PAGE];
            bytes[..8].copy_from_slice(&page.to_le_bytes());
            file.write_all(&bytes).map_err(&failed)?;
        }
        system::forget_cached(&file)?;
        Ok(this)
    }

    /// Bytes in use, and units per second.
    fn read_with_limit(
        &self,
        workplace: &Workplace,
        window: Duration,
        limit: Option<u64>,
    ) -> Result<(u64, f64)> {
        // Pages are charged to the group that reads them first.
        system::forget_cached(&File::open(&self.path).map_err(failed("read", &self.path))?)?;
        let group = workplace.group.child("paging")?;
        group.limit_memory(limit)?;
        let place = Place::new(Kind::Paging, &group).with_file(&self.path);
        let crew = Crew::placed(workplace, &[place])?;
        let used = group.memory_used()?;
        let counted = crew.measure(WARM_UP, window)?;
        Ok((used, counted[0].units as f64 / counted[0].wall_s))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn failed(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::File { action, path: path.clone(), reason: error.to_string() }
}
