//! Sock Shop with faults of CPU and memory (Ikram et al., NeurIPS 2022): metrics every second.

use std::collections::BTreeMap;
use std::path::Path;

use homeostat_firm::Resource;
use homeostat_lab::{Result, read_archive};

use super::case::{Case, Metric, Signals};

type Columns = Vec<(String, Vec<f64>)>;

/// Cases whose detection comes this many seconds after the fault.
pub(super) fn read(data: &Path, late_s: usize) -> Result<Vec<Case>> {
    let path = data.join("rcd_sockshop/sock-shop-data.tar.zst");
    let mut tables: BTreeMap<String, BTreeMap<String, Columns>> = BTreeMap::new();
    read_archive(&path, &|name| name.ends_with(".csv"), &mut |name, text| {
        if let Some((folder, file)) = name.rsplit_once('/') {
            tables.entry(folder.to_owned()).or_default().insert(file.to_owned(), columns(text)?);
        }
        Ok(())
    })?;
    Ok(tables.iter().filter_map(|(folder, tables)| case(folder, tables, late_s)).collect())
}

/// Columns by name, without the time.
fn columns(text: &str) -> Result<Columns, String> {
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default().split(',');
    let mut columns: Columns = names.map(|name| (name.to_owned(), Vec::new())).collect();
    for (number, line) in lines.enumerate() {
        let mut fields = line.split(',');
        for (_, samples) in &mut columns {
            let Some(field) = fields.next() else {
                return Err(format!("line {} has too few columns", number + 2));
            };
            samples.push(field.parse().unwrap_or(f64::NAN));
        }
    }
    columns.retain(|(name, _)| name != "time");
    Ok(columns)
}

/// The folder names culprit and resource: `.../carts-cpu/1`.
fn case(folder: &str, tables: &BTreeMap<String, Columns>, late_s: usize) -> Option<Case> {
    let (culprit, resource) = folder.rsplit('/').nth(1)?.rsplit_once('-')?;
    let (normal, anomalous) = (tables.get("normal.csv")?, tables.get("anomalous.csv")?);
    let mut metrics = Vec::new();
    for (name, reference) in normal {
        let Some((_, window)) = anomalous.iter().find(|(other, _)| other == name) else { continue };
        let Some((component, kind)) = name.split_once('_') else { continue };
        let (late, window) = window.split_at(late_s.min(window.len()));
        metrics.push(Metric {
            component: component.to_owned(),
            resource: resource_of(kind),
            reference: reference.iter().chain(late).copied().collect(),
            window: window.to_vec(),
        });
    }
    Some(Case {
        culprit: culprit.to_owned(),
        resource: resource_of(resource),
        signals: Signals { metrics, is_contiguous: true, ..Signals::default() },
        preparation_s: 0.0,
    })
}

fn resource_of(kind: &str) -> Option<Resource> {
    match kind {
        "cpu" => Some(Resource::Cpu),
        "mem" => Some(Resource::Memory),
        _ => None,
    }
}
