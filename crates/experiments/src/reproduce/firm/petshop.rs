//! PetShop (Hardt et al., 2024): latency, requests and availability of the nodes of a call graph,
//! every five minutes.

use std::collections::BTreeMap;
use std::path::Path;

use homeostat_lab::{Error, Result, read_archive};
use serde::Deserialize;

use super::case::{Case, Excess, Metric, Signals};
use super::number::sample;

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
        let scenario = folder.rsplitn(3, '/').nth(2).unwrap_or_default();
        let reference = tables.get(&format!("{scenario}/noissue"));
        let table =
            tables.get(folder).ok_or_else(|| format!("the folder {folder} has no metrics.csv"))?;
        let graph = graphs
            .get(scenario)
            .ok_or_else(|| format!("the folder of {folder} has no {scenario}/graph.csv"))?;
        if !graph.contains_key(&label.root_cause.node) {
            let node = &label.root_cause.node;
            return Err(format!(
                "{folder}/target.json: {node:?} is no node of {scenario}/graph.csv"
            ));
        }
        Ok(case(label, table, reference, graph))
    };
    let cases: Result<Vec<Case>, String> = labels.iter().map(case).collect();
    match cases {
        Ok(cases) if !cases.is_empty() => Ok(cases),
        Ok(_) => Err("the archive has no case: expected dataset/.../target.json".to_owned()),
        Err(reason) => Err(reason),
    }
    .map_err(|reason| Error::File { action: "read", path, reason })
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
    for (number, line) in lines.enumerate().map(|(place, line)| (place + 4, line)) {
        let fields: Vec<&str> = line.split(',').collect();
        // The row that names the index has no samples.
        if fields[0] == "unix_timestamp" {
            continue;
        }
        let time = sample(fields[0], number)?;
        if fields.len() != nodes.len() + 1 {
            return Err(format!(
                "line {number} has {} columns of {}",
                fields.len(),
                nodes.len() + 1
            ));
        }
        table.times.push(time);
        for (place, field) in fields[1..].iter().enumerate() {
            if matches!(statistics[place].as_str(), "Average" | "Sum") {
                let key = (nodes[place].clone(), metrics[place].clone());
                table.columns.entry(key).or_default().push(sample(field, number)?);
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

#[cfg(test)]
mod tests {
    use super::super::tests::{place, refused};
    use super::*;

    const ARCHIVE: &str = "petshop_rca/petshop_dataset.tar.zst";
    const GRAPH: (&str, &str) = ("dataset/low/graph.csv", ",site,pay\nsite,0.0,1.0\npay,0.0,0.0\n");
    const METRICS: &str = "microservice,site,pay,pay\nmetric,latency,latency,requests\n\
        statistic,Average,Average,Sum\nunix_timestamp,,,\n300.0,0.5,0.1,7\n600.0,0.9,,8\n";
    const LABEL: &str = r#"{"target": {"node": "site", "metric": "latency", "agg": "Average",
        "timestamp": 700}, "root_cause": {"node": "pay", "metric": null}}"#;

    #[test]
    fn the_window_of_a_case_begins_with_the_row_of_its_detection() {
        let files = [
            GRAPH,
            ("dataset/low/test/issue_1/metrics.csv", METRICS),
            ("dataset/low/test/issue_1/target.json", LABEL),
        ];
        let data = place(ARCHIVE, &files);
        let cases = read(data.path()).unwrap();
        assert_eq!((cases.len(), cases[0].culprit.as_str()), (1, "pay"));
        let excess = cases[0].signals.excess.as_ref().unwrap();
        assert_eq!(excess.callees["site"], ["pay"]);
        assert_eq!(excess.requests["pay"], [8.0]);
        let site = &excess.per_request["site"];
        assert_eq!((site.reference.as_slice(), site.window.as_slice()), (&[0.5][..], &[0.9][..]));
        assert!(excess.per_request["pay"].window[0].is_nan(), "a missing sample is no number");
    }

    #[test]
    fn bad_input_is_one_error_that_names_the_file() {
        let check = |files: &[(&str, &str)], parts: &[&str]| {
            refused(ARCHIVE, files, &|data| read(data).map(drop), parts);
        };
        let label = ("dataset/low/test/issue_1/target.json", LABEL);
        let metrics = ("dataset/low/test/issue_1/metrics.csv", METRICS);
        check(&[GRAPH], &["no case"]);
        check(&[GRAPH, label], &["issue_1 has no metrics.csv"]);
        check(&[metrics, label], &["no dataset/low/graph.csv"]);
        check(&[(label.0, "{\"target\": 3}")], &[label.0, "line 1 column"]);
        let unknown = LABEL.replace("\"pay\"", "\"tax\"");
        check(&[GRAPH, metrics, (label.0, &unknown)], &[label.0, "\"tax\" is no node"]);
        check(&[(metrics.0, &METRICS.replace("0.9", "slow"))], &[metrics.0, "line 6", "slow"]);
        check(
            &[(metrics.0, &METRICS.replace("0.9,", ""))],
            &[metrics.0, "line 6 has 3 columns of 4"],
        );
        check(&[(metrics.0, "site,pay\n")], &[metrics.0, "three header rows"]);
        check(&[(GRAPH.0, "")], &[GRAPH.0, "no nodes"]);
    }
}
