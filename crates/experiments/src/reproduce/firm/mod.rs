//! The experiments of chapters 2 and 3 of the dissertation on microservices: on published measurements, and on
//! simulated applications.

mod agents;
mod case;
mod characterisation;
mod controllers;
mod interference;
mod leave_one_out;
mod localisation;
mod mitigation;
mod nezha;
mod number;
mod petshop;
mod real_faults;
mod sock_shop;
mod traced_windows;
mod training;
mod trials;

use std::path::PathBuf;

use homeostat_lab::{Error, Result};
use homeostat_report::Finding;

use crate::reproduce::refused_call;
use homeostat_sim_mesh::{MeshConfig, MeshPlan};

/// How much to run, and on what.
#[derive(Debug, Clone)]
pub struct FirmOptions {
    /// Seeds of requests, anomalies and agents; unused by experiments that draw nothing at random.
    pub seeds: Vec<u64>,
    /// Fewer seeds and anomalies: to see that it runs, not to quote.
    pub is_quick: bool,
    /// The directory with the published data, a folder per data set; unused by experiments that read none.
    pub data: PathBuf,
}

impl FirmOptions {
    /// Five seeds, or two for a quick run.
    pub fn new(is_quick: bool, data: PathBuf) -> Self {
        Self { seeds: if is_quick { vec![1, 2] } else { (1..=5).collect() }, is_quick, data }
    }
}

type Experiment = fn(&FirmOptions, &(dyn Fn(&str) + Sync)) -> Result<Finding>;

const EXPERIMENTS: [(&str, &str, Experiment); 6] = [
    (
        "firm/characterisation",
        "critical paths move, the longest service is not the culprit, repair depends on load",
        characterisation::characterisation,
    ),
    (
        "firm/interference",
        "latency of microservices beside other programs, predicted for conditions not fitted",
        |options, progress| interference::interference(&options.data, progress),
    ),
    (
        "firm/localisation",
        "the instance at fault in four simulated applications with injected anomalies",
        localisation::localisation,
    ),
    (
        "firm/mitigation",
        "time to repair, violations and CPU limits: FIRM, AIMD, Kubernetes' autoscalers, nothing",
        mitigation::mitigation,
    ),
    (
        "firm/real-faults",
        "the component at fault in three published systems, by spans and metrics",
        |options, progress| real_faults::real_faults(&options.data, progress),
    ),
    (
        "firm/training",
        "learning curves of one agent for all services, one for each, and a transferred one",
        training::training,
    ),
];

/// The experiments on published data; they draw nothing at random.
const WITH_DATA: [&str; 2] = ["firm/interference", "firm/real-faults"];

/// The names of all experiments with what they ask.
pub fn firm_experiments() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXPERIMENTS.into_iter().map(|(name, asks, _)| (name, asks))
}

/// Whether an experiment reads published data, and draws nothing at random.
pub fn firm_reads_data(name: &str) -> bool {
    WITH_DATA.contains(&name)
}

/// Runs one experiment by name, one of [`firm_experiments`]; `progress` is called with what is
/// being done.
pub fn run_firm(
    name: &str,
    options: &FirmOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let found = EXPERIMENTS.iter().find(|(known, _, _)| *known == name);
    let Some((name, asks, experiment)) = found else {
        let names: Vec<&str> = firm_experiments().map(|(name, _)| name).collect();
        let expected = format!("there are {}", names.join(", "));
        return Err(refused_call("experiment", name, expected));
    };
    if options.seeds.is_empty() && !firm_reads_data(name) {
        return Err(refused_call("seeds", "none", "at least one seed is needed"));
    }
    let mut finding = experiment(options, progress)?;
    finding.name = (*name).to_owned();
    finding.title = (*asks).to_owned();
    if !firm_reads_data(name) {
        finding.seeds.clone_from(&options.seeds);
        finding.is_quick = options.is_quick;
    }
    Ok(finding)
}

/// An application with default settings.
fn plan_of(topology: &str) -> Result<MeshPlan> {
    let config = MeshConfig { topology: topology.to_owned(), ..MeshConfig::default() };
    config.build().map_err(refused)
}

/// What a part of this project refuses.
fn refused(error: impl std::fmt::Display) -> Error {
    homeostat_decide::Error::plant(error).into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;

    /// A directory of data with one archive.
    pub(super) fn place(archive: &str, files: &[(&str, &str)]) -> TempDir {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append_data(&mut header, name, content.as_bytes()).unwrap();
        }
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join(archive);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, builder.into_inner().unwrap()).unwrap();
        data
    }

    /// These files are refused in one line that names the archive and has these parts.
    pub(super) fn refused(
        archive: &str,
        files: &[(&str, &str)],
        read: &dyn Fn(&Path) -> Result<()>,
        parts: &[&str],
    ) {
        let error = read(place(archive, files).path()).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        for part in parts.iter().chain(&[archive]) {
            assert!(error.contains(part), "{part} is missing: {error}");
        }
    }

    #[test]
    fn an_archive_that_is_missing_or_cut_off_is_one_error_that_names_it() {
        type Reader<'a> = &'a dyn Fn(&Path) -> Result<()>;
        let readers: [(&str, Reader<'_>); 3] = [
            ("nezha_rca/trainticket_2023.tar.zst", &|data| nezha::read(data).map(drop)),
            ("petshop_rca/petshop_dataset.tar.zst", &|data| petshop::read(data).map(drop)),
            ("rcd_sockshop/sock-shop-data.tar.zst", &|data| sock_shop::read(data, 0).map(drop)),
        ];
        for (archive, read) in readers {
            let nothing = tempfile::tempdir().unwrap();
            let error = read(nothing.path()).unwrap_err().to_string();
            assert!(error.contains(archive), "{error}");
            let damaged = place(archive, &[]);
            let zstd_that_ends = [0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x61];
            std::fs::write(damaged.path().join(archive), zstd_that_ends).unwrap();
            let error = read(damaged.path()).unwrap_err().to_string();
            assert!(error.contains(archive) && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn an_unknown_experiment_is_refused_by_name() {
        let options = FirmOptions::new(true, PathBuf::new());
        let error = run_firm("firm/none", &options, &|_| {}).unwrap_err().to_string();
        assert!(error.contains("firm/none") && error.contains("firm/real-faults"), "{error}");
    }
}
