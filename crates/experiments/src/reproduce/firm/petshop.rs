//! PetShop (Hardt et al., 2024): latency, requests and availability of the nodes of a call graph,
//! every five minutes.

use std::collections::BTreeMap;
use std::path::Path;

use homeostat_lab::{Result, read_archive};
use serde::Deserialize;

use super::case::{Case, Excess, Metric, Signals};

/// Length of a row.
const ROW_S: f64 = 300.0;

#[derive(Deserialize)]
struct Label {
    target: Target,
    root_cause: Cause,
}

#[derive(Deserialize)]
struct Target {
    metric: String,
    timestamp: f64,
}

#[derive(Deserialize)]
struct Cause {
    node: String,
}

/// Rows of time, and columns by node and metric.
#[derive(Default)]
struct Table {
    times: Vec<f64>,
    columns: BTreeMap<(String, String), Vec<f64>>,
}

/// All cases of all scenarios.
pub(super) fn read(data: &Path) -> Result<Vec<Case>> {
    let path = data.join("petshop_rca/petshop_dataset.tar.zst");
    let mut graphs: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    let mut labels: BTreeMap<String, Label> = BTreeMap::new();
    read_archive(&path, &|name| name.starts_with("dataset/"), &mut |name, text| {
        let Some((folder, file)) = name.rsplit_once('/') else { return Ok(()) };
        match file {
            "graph.csv" => drop(graphs.insert(folder.to_owned(), callees(text)?)),
            "metrics.csv" => drop(tables.insert(folder.to_owned(), table(text)?)),
            "target.json" => {
                let label = serde_json::from_str(text).map_err(|error| error.to_string())?;
                labels.insert(folder.to_owned(), label);
            }
            _ => {}
        }
        Ok(())
    })?;
    let case = |(folder, label): (&String, &Label)| {
        let scenario = folder.rsplitn(3, '/').nth(2)?;
        let reference = tables.get(&format!("{scenario}/noissue"));
        Some(case(label, tables.get(folder)?, reference, graphs.get(scenario)?))
    };
    Ok(labels.iter().filter_map(case).collect())
}

/// Callees of each node, from the adjacency matrix: a row for each caller.
fn callees(text: &str) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').skip(1).collect();
    let mut callees = BTreeMap::new();
    for line in lines {
        let mut fields = line.split(',');
        let caller = fields.next().unwrap_or_default();
        let called = names
            .iter()
            .zip(fields)
            .filter(|(_, field)| field.parse::<f64>().is_ok_and(|edge| edge > 0.0))
            .map(|(name, _)| (*name).to_owned());
        callees.insert(caller.to_owned(), called.collect());
    }
    if callees.is_empty() { Err("the graph has no nodes".to_owned()) } else { Ok(callees) }
}

/// Three header rows name node, metric and statistic; means and sums are read.
fn table(text: &str) -> Result<Table, String> {
    let mut lines = text.lines();
    let mut header = || -> Vec<String> {
        lines.next().unwrap_or_default().split(',').skip(1).map(str::to_owned).collect()
    };
    let (nodes, metrics, statistics) = (header(), header(), header());
    if nodes.len() != metrics.len() || nodes.len() != statistics.len() || nodes.is_empty() {
        return Err("three header rows of one length are needed".to_owned());
    }
    let mut table = Table::default();
    for line in lines {
        let (time, fields) = line.split_once(',').unwrap_or_default();
        let Ok(time) = time.parse() else { continue };
        table.times.push(time);
        for (place, field) in fields.split(',').enumerate().take(nodes.len()) {
            if matches!(statistics[place].as_str(), "Average" | "Sum") {
                let key = (nodes[place].clone(), metrics[place].clone());
                table.columns.entry(key).or_default().push(field.parse().unwrap_or(f64::NAN));
            }
        }
    }
    Ok(table)
}

/// The window begins with the row in which the fault was detected. The reference is a period
/// without faults where there is one, otherwise the rows before.
fn case(
    label: &Label,
    table: &Table,
    reference: Option<&Table>,
    callees: &BTreeMap<String, Vec<String>>,
) -> Case {
    let start = table.times.partition_point(|time| time + ROW_S <= label.target.timestamp);
    let metric = &label.target.metric;
    // Availability is a percentage of requests: what is missing has failed.
    let cost = |samples: &[f64]| -> Vec<f64> {
        let is_latency = metric == "latency";
        samples.iter().map(|x| if is_latency { *x } else { 1.0 - x / 100.0 }).collect()
    };
    let mut excess = Excess { callees: callees.clone(), ..Excess::default() };
    for ((node, name), samples) in &table.columns {
        let (before, window) = samples.split_at(start.min(samples.len()));
        if name == "requests" {
            excess.requests.insert(node.clone(), window.to_vec());
        }
        if name != metric {
            continue;
        }
        let known = reference.and_then(|table| table.columns.get(&(node.clone(), name.clone())));
        let per_request = Metric {
            component: node.clone(),
            resource: None,
            reference: cost(known.map_or(before, Vec::as_slice)),
            window: cost(window),
        };
        excess.per_request.insert(node.clone(), per_request);
    }
    Case {
        culprit: label.root_cause.node.clone(),
        resource: None,
        signals: Signals { excess: Some(excess), ..Signals::default() },
        preparation_s: 0.0,
    }
}
