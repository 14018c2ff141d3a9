//! The experiments of appendix A of the dissertation.

mod adaptation;
mod aurora;
mod cloud_bandit;
mod size;
mod sizeless;
mod sizeless_replication;
mod smart_overclock;

use std::path::PathBuf;

use homeostat_lab::Result;
use homeostat_report::Finding;

use crate::reproduce::refused_call;

/// How much to run, and on what.
#[derive(Debug, Clone)]
pub struct FlashOptions {
    /// Seeds, one for each iteration of the cross-validation.
    pub seeds: Vec<u64>,
    /// Fewer seeds, splits and updates: to see that it runs, not to quote.
    pub is_quick: bool,
    /// The directory with the published data, a folder per data set; not read by experiments in simulators.
    pub data: PathBuf,
}

const AURORA: &str = "flash/aurora";
const SMART_OVERCLOCK: &str = "flash/smart-overclock";

type Experiment = fn(&FlashOptions, &(dyn Fn(&str) + Sync)) -> Result<Finding>;

const EXPERIMENTS: [(&str, &str, Experiment); 4] = [
    (
        AURORA,
        "congestion control on unseen paths: reward drop and adaptation, with and without an embedding (A.6)",
        aurora::aurora,
    ),
    (
        SMART_OVERCLOCK,
        "core frequencies for unseen applications and processors: the same figures (Figure 5.15)",
        smart_overclock::smart_overclock,
    ),
    (
        "flash/sizeless",
        "execution times in unseen configurations, with and without an embedding (Table 5.5)",
        sizeless::sizeless,
    ),
    ("flash/size", "errors, intervals and warnings of homeostat size", size::size),
];

impl FlashOptions {
    /// Ten iterations on data and five runs in simulators as the paper has, or one for a quick run. No seed of the full
    /// runs was looked at while settings were chosen.
    pub fn new(name: &str, is_quick: bool, data: PathBuf) -> Self {
        let seeds = if flash_reads_data(name) { 101..=110 } else { 201..=205 };
        Self { seeds: if is_quick { vec![101] } else { seeds.collect() }, is_quick, data }
    }
}

/// Whether an experiment reads published data.
pub fn flash_reads_data(name: &str) -> bool {
    name != AURORA && name != SMART_OVERCLOCK
}

/// The names of all experiments with what they ask.
pub fn flash_experiments() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXPERIMENTS.into_iter().map(|(name, asks, _)| (name, asks))
}

/// Runs one experiment by name, one of [`flash_experiments`]; `progress` is called with what is
/// being done.
pub fn run_flash(
    name: &str,
    options: &FlashOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let found = EXPERIMENTS.iter().find(|(known, _, _)| *known == name);
    let Some((name, asks, experiment)) = found else {
        let names: Vec<&str> = flash_experiments().map(|(name, _)| name).collect();
        let expected = format!("there are {}", names.join(", "));
        return Err(refused_call("experiment", name, expected));
    };
    if options.seeds.is_empty() {
        return Err(refused_call("seeds", "none", "at least one seed is needed"));
    }
    let mut finding = experiment(options, progress)?;
    finding.name = (*name).to_owned();
    finding.title = (*asks).to_owned();
    finding.seeds.clone_from(&options.seeds);
    finding.is_quick = options.is_quick;
    Ok(finding)
}

/// The places of these columns in the header of a table.
fn columns<const N: usize>(header: &str, names: [&str; N]) -> Result<[usize; N], String> {
    let mut places = [0; N];
    for (place, name) in places.iter_mut().zip(names) {
        let mut columns = header.trim_end().split(',');
        *place = columns
            .position(|column| column == name)
            .ok_or_else(|| format!("line 1: there is no column `{name}`"))?;
    }
    Ok(places)
}

/// The number in a field.
fn number(fields: &[&str], place: usize, line: usize) -> Result<f64, String> {
    let text = fields.get(place).copied().unwrap_or_default();
    let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("line {line}: `{text:.40}` is not a number"))
}

/// The number in a field of times and sizes.
fn positive(fields: &[&str], place: usize, line: usize) -> Result<f64, String> {
    let found = number(fields, place, line)?;
    if found > 0.0 { Ok(found) } else { Err(format!("line {line}: {found} must be above zero")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_experiment_and_missing_data_are_refused_by_name() {
        let nowhere = tempfile::tempdir().unwrap();
        let options = FlashOptions::new("flash/size", true, nowhere.path().to_owned());
        let refused = |name: &str| run_flash(name, &options, &|_| {}).unwrap_err().to_string();
        let error = refused("flash/none");
        assert!(error.contains("flash/none") && error.contains("flash/sizeless"), "{error}");
        for (name, _) in flash_experiments().filter(|(name, _)| flash_reads_data(name)) {
            let error = refused(name);
            assert!(error.contains("processed_training_data.csv"), "{error}");
        }
    }

    #[test]
    fn a_table_is_read_by_the_names_of_its_columns() {
        assert_eq!(columns("a,b,c\n", ["c", "a"]), Ok([2, 0]));
        let error = columns("a,b", ["d"]).unwrap_err();
        assert_eq!(error, "line 1: there is no column `d`");
        assert_eq!(number(&["x"], 0, 7).unwrap_err(), "line 7: `x` is not a number");
        assert_eq!(number(&["NaN"], 0, 7).unwrap_err(), "line 7: `NaN` is not a number");
        assert_eq!(number(&[], 1, 7).unwrap_err(), "line 7: `` is not a number");
        assert_eq!(positive(&["-1"], 0, 7).unwrap_err(), "line 7: -1 must be above zero");
    }
}
