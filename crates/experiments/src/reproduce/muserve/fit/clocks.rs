//! Kernels at ten clocks each (gpu_dvfs, V100 and RTX 8000).
//!
//! Time of a kernel: 1 + share * (slowdown(clock) - 1), relative to that at the highest clock. The
//! slowdown of each clock belongs to the device, the share to the kernel. The nominal clock is not always the
//! real one: at "405 MHz" every compute-bound kernel of the V100 takes the time of 214 MHz.

use std::collections::BTreeMap;
use std::path::Path;

use homeostat_core::SeedTree;
use homeostat_lab::{Error, Result};

use super::columns::Columns;
use super::least_squares::{absolute, dot, relative};
use super::{Errors, halves};

/// Activity counters, as the data names them.
const COUNTERS: [&str; 7] = ["DRAMA", "FP16A", "FP32A", "FP64A", "SMACT", "SMOCC", "TENSO"];

/// Rounds in which shares and slowdowns are fitted in turn.
const ROUNDS: usize = 20;

#[derive(Debug, Clone)]
struct Kernel {
    /// Time and power at each clock, lowest clock first.
    time: Vec<f64>,
    power: Vec<f64>,
    /// At the highest clock.
    counters: [f64; 7],
}

/// All kernels of one device.
#[derive(Debug, Clone)]
pub(super) struct Kernels {
    clocks: Vec<f64>,
    kernels: Vec<Kernel>,
}

/// What the clocks of a device do.
pub(super) struct ClockModel {
    top: f64,
    slowdown: Vec<f64>,
    share: Vec<f64>,
    /// For each clock below the highest: coefficients of power.
    power: Vec<Vec<f64>>,
    lines: Vec<[f64; 2]>,
}

pub(super) fn read(data: &Path, device: &str) -> Result<Kernels> {
    let mut by_kernel: BTreeMap<[String; 4], Measurements> = BTreeMap::new();
    for part in ["microbenchmark", "real"] {
        let name = format!("gpu_dvfs/nv_dvfs_v100_rtx8000/{device}-dvfs-{part}-profile.csv");
        let path = data.join(name);
        let columns = Columns::read(&path)?;
        add(&columns, part, &mut by_kernel).map_err(|reason| Error::File {
            action: "read",
            path,
            reason,
        })?;
    }
    let refused = |reason: &str| Error::File {
        action: "use",
        path: data.join("gpu_dvfs"),
        reason: format!("{device}: {reason}"),
    };
    let mut clocks = Vec::new();
    let mut kernels = Vec::new();
    for rows in by_kernel.values_mut() {
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let own: Vec<f64> = rows.iter().map(|row| row.0).collect();
        if clocks.is_empty() {
            clocks = own;
        } else if clocks != own {
            return Err(refused("its kernels were not measured at the same clocks"));
        }
        let Some(top) = rows.last() else { continue };
        kernels.push(Kernel {
            time: rows.iter().map(|row| row.1).collect(),
            power: rows.iter().map(|row| row.2).collect(),
            counters: top.3,
        });
    }
    if kernels.len() < 20 || clocks.len() < 4 {
        return Err(refused("at least 20 kernels at 4 clocks are needed"));
    }
    Ok(Kernels { clocks, kernels })
}

type Measurements = Vec<(f64, f64, f64, [f64; 7])>;

fn add(
    columns: &Columns,
    part: &str,
    by_kernel: &mut BTreeMap<[String; 4], Measurements>,
) -> Result<(), String> {
    let places = ["benchmark", "argNo", "kernel"].map(|name| columns.find(name));
    let [benchmark, argument, kernel] = places;
    let (benchmark, argument, kernel) = (benchmark?, argument?, kernel?);
    let (clock, time) = (columns.find("core_frequency")?, columns.find("time")?);
    let power = columns.find("average_power")?;
    let counters: Vec<usize> =
        COUNTERS.iter().map(|name| columns.find(name)).collect::<Result<_, _>>()?;
    for row in 0..columns.len() {
        let text = |column| columns.text(row, column).to_owned();
        let key = [part.to_owned(), text(benchmark), text(argument), text(kernel)];
        let mut activity = [0.0; 7];
        for (counter, column) in activity.iter_mut().zip(&counters) {
            // A counter that the device lacks is empty.
            *counter = columns.number(row, *column)?.unwrap_or(0.0);
        }
        let measured = (
            columns.required(row, clock)?,
            columns.required(row, time)?,
            columns.required(row, power)?,
            activity,
        );
        if measured.1 <= 0.0 || measured.2 <= 0.0 {
            return Err(format!("line {}: time and power must be above zero", row + 2));
        }
        by_kernel.entry(key).or_default().push(measured);
    }
    Ok(())
}

impl Kernel {
    /// Time at each clock over that at the highest.
    fn relative_time(&self) -> Vec<f64> {
        let top = self.time[self.time.len() - 1];
        self.time.iter().map(|time| time / top).collect()
    }

    fn top_power(&self) -> f64 {
        self.power[self.power.len() - 1]
    }

    /// What tells its share: activity at the highest clock.
    fn features(&self) -> Vec<f64> {
        let counters = &self.counters;
        let power = self.top_power() / 250.0;
        let memory = counters[0];
        let products =
            [memory * memory, memory * counters[4], memory * counters[5], power, power * memory];
        [1.0].into_iter().chain(*counters).chain(products).collect()
    }
}

impl ClockModel {
    fn share(&self, kernel: &Kernel) -> f64 {
        dot(&kernel.features(), &self.share).clamp(0.0, 1.0)
    }

    fn time(&self, kernel: &Kernel, clock: usize) -> f64 {
        let top = kernel.time[kernel.time.len() - 1];
        top * (1.0 + self.share(kernel) * (self.slowdown[clock] - 1.0))
    }

    fn power_features(&self, kernel: &Kernel) -> Vec<f64> {
        let power = kernel.top_power();
        vec![1.0, power, power * self.share(kernel), kernel.counters[0]]
    }

    /// The clock that each nominal one is worth, MHz.
    pub(super) fn effective_clocks(&self) -> Vec<f64> {
        self.slowdown.iter().map(|slowdown| (self.top / slowdown).round()).collect()
    }

    /// Power at each clock as a line of that at the highest: static part in W, and slope.
    pub(super) fn power_lines(&self) -> Vec<[f64; 2]> {
        self.lines.clone()
    }
}

impl Kernels {
    pub(super) fn count(&self) -> usize {
        self.kernels.len()
    }

    pub(super) fn clocks(&self) -> &[f64] {
        &self.clocks
    }

    /// Fits what clocks do to these kernels.
    pub(super) fn fit(&self, places: &[usize]) -> ClockModel {
        let top = self.clocks[self.clocks.len() - 1];
        let below = self.clocks.len() - 1;
        let kernels: Vec<&Kernel> = places.iter().map(|place| &self.kernels[*place]).collect();
        let times: Vec<Vec<f64>> = kernels.iter().map(|kernel| kernel.relative_time()).collect();
        let nominal: Vec<f64> = self.clocks.iter().map(|clock| top / clock).collect();
        let mut slowdown = nominal.clone();
        let mut shares = vec![0.0; kernels.len()];
        for _ in 0..ROUNDS {
            for (share, times) in shares.iter_mut().zip(&times) {
                let (mut with, mut of) = (0.0, 0.0);
                for (time, slow) in times.iter().zip(&slowdown) {
                    let extra = (slow - 1.0) / time;
                    with += extra * (time - 1.0) / time;
                    of += extra * extra;
                }
                *share = (with / of.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
            }
            for (clock, slow) in slowdown.iter_mut().enumerate().take(below) {
                let (mut with, mut of) = (0.0, 0.0);
                for (share, times) in shares.iter().zip(&times) {
                    let weight = 1.0 / times[clock].powi(2);
                    with += weight * share * (times[clock] - 1.0);
                    of += weight * share * share;
                }
                *slow = 1.0 + with / of.max(f64::MIN_POSITIVE);
            }
            // A share of one half with all slowdowns doubled would fit as well: most clocks are nominal.
            let mut factors: Vec<f64> =
                (0..below).map(|clock| (slowdown[clock] - 1.0) / (nominal[clock] - 1.0)).collect();
            factors.sort_by(f64::total_cmp);
            let middle = factors[factors.len() / 2];
            slowdown.iter_mut().for_each(|slow| *slow = 1.0 + (*slow - 1.0) / middle);
        }
        let features: Vec<Vec<f64>> = kernels.iter().map(|kernel| kernel.features()).collect();
        let share = absolute(&features, &shares, 1e-3);
        let mut model = ClockModel { top, slowdown, share, power: Vec::new(), lines: Vec::new() };
        for clock in 0..below {
            let targets: Vec<f64> = kernels.iter().map(|kernel| kernel.power[clock]).collect();
            let rows: Vec<_> = kernels.iter().map(|kernel| model.power_features(kernel)).collect();
            let coefficients = relative(&rows, &targets, 1e-9);
            let line: Vec<_> = kernels.iter().map(|kernel| vec![1.0, kernel.top_power()]).collect();
            let line = relative(&line, &targets, 1e-9);
            model.lines.push([line[0], line[1]]);
            model.power.push(coefficients);
        }
        model
    }

    pub(super) fn evaluate(&self, seeds: &SeedTree) -> Errors {
        let is_fitted = halves(self.kernels.len(), seeds, "kernels");
        let places: Vec<usize> =
            (0..self.kernels.len()).filter(|place| is_fitted[*place]).collect();
        let model = self.fit(&places);
        let mut errors = Errors::default();
        let unseen = self.kernels.iter().zip(&is_fitted).filter(|(_, is_fitted)| !**is_fitted);
        for (kernel, _) in unseen {
            let features = model.power_features(kernel);
            for clock in 0..self.clocks.len() - 1 {
                errors.add_time(model.time(kernel, clock), kernel.time[clock]);
                errors.add_power(dot(&features, &model.power[clock]), kernel.power[clock]);
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_whose_lowest_clock_is_not_what_it_says_is_found_out() {
        let clocks = vec![500.0, 1000.0, 1500.0, 2000.0];
        // "500" is 250 in truth.
        let real = [250.0, 1000.0, 1500.0, 2000.0];
        let kernel = |place: usize| {
            let share = place as f64 / 39.0;
            let counters = [1.0 - share, 0.0, share, 0.0, 1.0, 0.5, 0.0];
            let time = real.iter().map(|clock| 1.0 + share * (2000.0 / clock - 1.0)).collect();
            let top = 100.0 + 50.0 * share;
            let power = real.iter().map(|clock| 30.0 + (top - 30.0) * clock / 2000.0).collect();
            Kernel { time, power, counters }
        };
        let kernels = Kernels { clocks, kernels: (0..40).map(kernel).collect() };
        let errors = kernels.evaluate(&SeedTree::new(1));
        assert!(super::super::mape(&errors.time).unwrap() < 1.0);
        assert!(super::super::mape(&errors.power).unwrap() < 1.0);
        let every: Vec<usize> = (0..40).collect();
        assert_eq!(kernels.fit(&every).effective_clocks()[0], 250.0);
    }
}
