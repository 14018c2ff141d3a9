//! Training of networks under power caps (zeus_power_limit). A cap lowers the clock until the
//! device draws no more than the cap; time is a + b / clock.

use std::collections::BTreeMap;
use std::path::Path;

use homeostat_core::SeedTree;
use homeostat_lab::{Error, Result};

use super::columns::Columns;
use super::least_squares::{dot, relative};
use super::{Errors, halves};

const DEVICES: [&str; 4] = ["v100", "a40", "rtx6000", "p100"];

/// Cap in W, time of an epoch in s, power in W.
type Row = [f64; 3];

/// Workloads of one device.
pub(super) type Workloads = Vec<Vec<Row>>;

pub(super) fn read(data: &Path) -> Result<Vec<Workloads>> {
    DEVICES
        .iter()
        .map(|device| {
            let path = data.join(format!("zeus_power_limit/summary_power_{device}.csv"));
            let columns = Columns::read(&path)?;
            workloads(&columns).map_err(|reason| Error::File { action: "read", path, reason })
        })
        .collect()
}

fn workloads(columns: &Columns) -> Result<Workloads, String> {
    let names: Vec<usize> = ["dataset", "network", "batch_size", "optimizer"]
        .iter()
        .map(|name| columns.find(name))
        .collect::<Result<_, _>>()?;
    let [cap, time, power] =
        ["power_limit", "time_per_epoch", "average_power"].map(|name| columns.find(name));
    let (cap, time, power) = (cap?, time?, power?);
    let mut by_workload: BTreeMap<Vec<String>, Vec<Row>> = BTreeMap::new();
    for row in 0..columns.len() {
        let key = names.iter().map(|column| columns.text(row, *column).to_owned()).collect();
        let measured = [
            columns.required(row, cap)?,
            columns.required(row, time)?,
            columns.required(row, power)?,
        ];
        if measured.iter().any(|number| *number <= 0.0) {
            return Err(format!("line {}: cap, time and power must be above zero", row + 2));
        }
        by_workload.entry(key).or_default().push(measured);
    }
    let mut workloads: Workloads = by_workload.into_values().collect();
    workloads.iter_mut().for_each(|rows| rows.sort_by(|a, b| a[0].total_cmp(&b[0])));
    Ok(workloads)
}

/// The curve of a device: power without work, and how dynamic power grows with the clock.
#[derive(Clone, Copy)]
struct Curve {
    static_w: f64,
    exponent: f64,
}

struct Workload {
    curve: Curve,
    /// Power without a cap.
    free_w: f64,
    /// Power drawn over the cap, where the cap binds.
    of_cap: f64,
    time: Vec<f64>,
}

impl Workload {
    fn fit(rows: &[Row], curve: Curve) -> (Self, f64) {
        let most = rows.iter().map(|row| row[2]).fold(0.0, f64::max);
        let mut best: Option<(Self, f64)> = None;
        for times in [1.0, 1.05, 1.1, 1.2, 1.35, 1.5] {
            let free_w = (most * times).max(curve.static_w + 1.0);
            let binding: Vec<f64> =
                rows.iter().filter(|row| row[0] < free_w).map(|row| row[2] / row[0]).collect();
            let of_cap = if binding.is_empty() {
                1.0
            } else {
                binding.iter().sum::<f64>() / binding.len() as f64
            };
            let mut workload = Self { curve, free_w, of_cap, time: Vec::new() };
            let features: Vec<Vec<f64>> =
                rows.iter().map(|row| vec![1.0, 1.0 / workload.clock(row[0])]).collect();
            let targets: Vec<f64> = rows.iter().map(|row| row[1]).collect();
            workload.time = relative(&features, &targets, 1e-6);
            if workload.time[1] < 0.0 {
                // Noise: time does not depend on the clock.
                let constant: Vec<Vec<f64>> = rows.iter().map(|_| vec![1.0]).collect();
                workload.time = vec![relative(&constant, &targets, 0.0)[0], 0.0];
            }
            let error: f64 = rows
                .iter()
                .map(|row| {
                    (workload.seconds(row[0]) / row[1] - 1.0).powi(2)
                        + (workload.power(row[0]) / row[2] - 1.0).powi(2)
                })
                .sum();
            if best.as_ref().is_none_or(|(_, least)| error < *least) {
                best = Some((workload, error));
            }
        }
        best.expect("there are factors to try")
    }

    /// The clock over the highest under a cap.
    fn clock(&self, cap: f64) -> f64 {
        let dynamic = (cap * self.of_cap - self.curve.static_w).max(1.0);
        let free = self.free_w - self.curve.static_w;
        (dynamic / free).min(1.0).powf(1.0 / self.curve.exponent)
    }

    fn seconds(&self, cap: f64) -> f64 {
        dot(&[1.0, 1.0 / self.clock(cap)], &self.time)
    }

    fn power(&self, cap: f64) -> f64 {
        self.free_w.min(cap * self.of_cap)
    }
}

pub(super) fn evaluate(devices: &[Workloads], seeds: &SeedTree) -> Errors {
    let mut errors = Errors::default();
    for (workloads, device) in devices.iter().zip(DEVICES) {
        let split: Vec<(Vec<Row>, Vec<Row>)> = workloads
            .iter()
            .enumerate()
            .map(|(place, rows)| {
                let is_fitted = halves(rows.len(), seeds, &format!("{device}/{place}"));
                let of = |wanted: bool| {
                    let rows = rows.iter().zip(&is_fitted);
                    rows.filter(|(_, is)| **is == wanted).map(|(row, _)| *row).collect()
                };
                (of(true), of(false))
            })
            .filter(|(fitted, _): &(Vec<Row>, Vec<Row>)| fitted.len() >= 3)
            .collect();
        let mut best: Option<(f64, Curve)> = None;
        for static_w in [20.0, 35.0, 50.0, 65.0, 80.0, 90.0] {
            for exponent in [1.0, 1.5, 2.0, 2.5, 3.0] {
                let curve = Curve { static_w, exponent };
                let error: f64 =
                    split.iter().map(|(fitted, _)| Workload::fit(fitted, curve).1).sum();
                if best.is_none_or(|(least, _)| error < least) {
                    best = Some((error, curve));
                }
            }
        }
        let Some((_, curve)) = best else { continue };
        for (fitted, unseen) in &split {
            let (workload, _) = Workload::fit(fitted, curve);
            for [cap, seconds, power] in unseen {
                errors.add_time(workload.seconds(*cap), *seconds);
                errors.add_power(workload.power(*cap), *power);
            }
        }
    }
    errors
}
