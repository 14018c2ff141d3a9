//! Sock Shop with faults of CPU and memory (Ikram et al., NeurIPS 2022): metrics every second.

use std::collections::BTreeMap;
use std::path::Path;

use homeostat_firm::Resource;
use homeostat_lab::{Error, Result, read_archive};

use super::case::{Case, Metric, Signals};
use super::number::sample;

type Columns = Vec<(String, Vec<f64>)>;

/// Cases whose detection comes this many seconds after the fault.
pub(super) fn read(data: &Path, late_s: usize) -> Result<Vec<Case>> {
    let path = data.join("rcd_sockshop/sock-shop-data.tar.zst");
    let mut tables: BTreeMap<String, BTreeMap<String, Columns>> = BTreeMap::new();
    read_archive(&path, &|name| name.ends_with(".csv"), &mut |name, text| {
        let Some((folder, file)) = name.rsplit_once('/') else { return Ok(()) };
        label(folder)?;
        tables.entry(folder.to_owned()).or_default().insert(file.to_owned(), columns(text)?);
        Ok(())
    })?;
    let cases: Result<Vec<Case>, String> =
        tables.iter().map(|(folder, tables)| case(folder, tables, late_s)).collect();
    match cases {
        Ok(cases) if !cases.is_empty() => Ok(cases),
        Ok(_) => Err("the archive has no case: expected SERVICE-RESOURCE/N/normal.csv".to_owned()),
        Err(reason) => Err(reason),
    }
    .map_err(|reason| Error::File { action: "read", path, reason })
}

/// The folder names culprit and resource: `.../carts-cpu/1`.
fn label(folder: &str) -> Result<(&str, Resource), String> {
    let name = folder.rsplit('/').nth(1).unwrap_or_default();
    let label = name.rsplit_once('-').and_then(|(culprit, kind)| {
        Some((culprit, resource_of(kind)?)).filter(|_| !culprit.is_empty())
    });
    label
        .ok_or_else(|| format!("the folder {folder:?} is not named SERVICE-cpu/N or SERVICE-mem/N"))
}

/// Columns by name, without the time.
fn columns(text: &str) -> Result<Columns, String> {
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default().split(',');
    let mut columns: Columns = names.map(|name| (name.to_owned(), Vec::new())).collect();
    for (number, line) in lines.enumerate() {
        let mut fields = line.split(',');
        for (name, samples) in &mut columns {
            let Some(field) = fields.next() else {
                return Err(format!("line {} has no {name}", number + 2));
            };
            samples.push(sample(field, number + 2)?);
        }
    }
    columns.retain(|(name, _)| name != "time");
    Ok(columns)
}

fn case(folder: &str, tables: &BTreeMap<String, Columns>, late_s: usize) -> Result<Case, String> {
    let (culprit, resource) = label(folder)?;
    let table =
        |file: &str| tables.get(file).ok_or_else(|| format!("the folder {folder} has no {file}"));
    let (normal, anomalous) = (table("normal.csv")?, table("anomalous.csv")?);
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
    Ok(Case {
        culprit: culprit.to_owned(),
        resource: Some(resource),
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

#[cfg(test)]
mod tests {
    use super::super::tests::{place, refused};
    use super::*;

    const ARCHIVE: &str = "rcd_sockshop/sock-shop-data.tar.zst";
    const NORMAL: &str = "time,carts_cpu,user_mem\n1,5,70\n2,6,\n";
    const ANOMALOUS: &str = "time,carts_cpu,user_mem\n3,90,70\n4,91,71\n";

    #[test]
    fn a_case_has_its_label_from_the_folder_and_its_late_samples_in_the_reference() {
        let files = [
            ("data/front-end-mem/1/normal.csv", NORMAL),
            ("data/front-end-mem/1/anomalous.csv", ANOMALOUS),
        ];
        let data = place(ARCHIVE, &files);
        let cases = read(data.path(), 1).unwrap();
        assert_eq!(cases.len(), 1);
        assert_eq!(
            (cases[0].culprit.as_str(), cases[0].resource),
            ("front-end", Some(Resource::Memory))
        );
        let metrics = &cases[0].signals.metrics;
        assert_eq!(
            (metrics[0].component.as_str(), metrics[0].resource),
            ("carts", Some(Resource::Cpu))
        );
        assert_eq!(
            (metrics[0].reference.as_slice(), metrics[0].window.as_slice()),
            (&[5.0, 6.0, 90.0][..], &[91.0][..])
        );
        assert!(metrics[1].reference[1].is_nan(), "a missing sample is no number");
    }

    #[test]
    fn bad_input_is_one_error_that_names_the_file() {
        let check = |files: &[(&str, &str)], parts: &[&str]| {
            refused(ARCHIVE, files, &|data| read(data, 0).map(drop), parts);
        };
        check(&[], &["no case"]);
        check(&[("data/carts/1/normal.csv", NORMAL)], &["data/carts/1", "SERVICE-cpu/N"]);
        check(&[("data/carts-cpu/1/normal.csv", NORMAL)], &["carts-cpu/1 has no anomalous.csv"]);
        let bad = "time,carts_cpu\n1,5\n2,many\n";
        check(
            &[("data/carts-cpu/1/normal.csv", bad)],
            &["carts-cpu/1/normal.csv", "line 3", "many"],
        );
        check(
            &[("data/carts-cpu/1/normal.csv", "time,carts_cpu\n1\n")],
            &["line 2 has no carts_cpu"],
        );
    }
}
