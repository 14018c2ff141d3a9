//! The experiments of chapter 3 of the dissertation, on published measurements.

mod case;
mod interference;
mod leave_one_out;
mod nezha;
mod number;
mod petshop;
mod real_faults;
mod sock_shop;

use std::path::PathBuf;

use homeostat_lab::{Error, Result};
use homeostat_report::Finding;

/// What to run on.
#[derive(Debug, Clone)]
pub struct FirmOptions {
    /// The directory with the published data, a folder per data set.
    pub data: PathBuf,
}

const INTERFERENCE: &str = "firm/interference";
const REAL_FAULTS: &str = "firm/real-faults";

/// The names of all experiments with what they ask.
pub fn firm_experiments() -> impl Iterator<Item = (&'static str, &'static str)> {
    [
        (
            INTERFERENCE,
            "latency of microservices beside other programs, predicted for conditions not fitted",
        ),
        (REAL_FAULTS, "the component at fault in three published systems, by spans and metrics"),
    ]
    .into_iter()
}

/// Runs one experiment by name, one of [`firm_experiments`]; `progress` is called with what is
/// being done.
pub fn run_firm(
    name: &str,
    options: &FirmOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let Some((name, asks)) = firm_experiments().find(|(known, _)| *known == name) else {
        return Err(Error::OutOfRange {
            key: "experiment".to_owned(),
            value: name.to_owned(),
            source_text: "the command line".to_owned(),
            expected: format!("there are {INTERFERENCE} and {REAL_FAULTS}"),
        });
    };
    let mut finding = match name {
        INTERFERENCE => interference::interference(&options.data, progress)?,
        _ => real_faults::real_faults(&options.data, progress)?,
    };
    finding.name = name.to_owned();
    finding.title = asks.to_owned();
    Ok(finding)
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
        let options = FirmOptions { data: PathBuf::new() };
        let error = run_firm("firm/none", &options, &|_| {}).unwrap_err().to_string();
        assert!(error.contains("firm/none") && error.contains(REAL_FAULTS), "{error}");
    }
}
