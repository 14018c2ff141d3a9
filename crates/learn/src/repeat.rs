//! `homeostat learn --every`: learns for each workload of a store, again and again, beside the process that
//! records. It may die at any time: the next one goes on from its checkpoints.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use homeostat_trajectories::{Filter, TrajectoryStore};

use crate::output::say;
use crate::train::{LearnArguments, learn};

/// Learns for each workload that has new decisions, waits, and begins again. Returns only with an error
/// that the next round would have as well.
pub(crate) fn run(arguments: &LearnArguments, every: Duration) -> anyhow::Result<bool> {
    fs::create_dir_all(&arguments.out)
        .with_context(|| format!("--out {} must be a directory", arguments.out.display()))?;
    let mut learned_from: BTreeMap<String, u64> = BTreeMap::new();
    loop {
        let started = Instant::now();
        match workloads(arguments) {
            Ok(workloads) => {
                for (workload, trajectories) in workloads {
                    if learned_from.get(&workload) == Some(&trajectories) {
                        continue;
                    }
                    let done = of_workload(arguments, &workload).and_then(|one| learn(&one));
                    match done {
                        Ok(true) => {
                            say(arguments.quiet, &format!("{workload}: a policy was written"))
                        }
                        Ok(false) => say(arguments.quiet, &format!("{workload}: not admitted")),
                        Err(error) => say(arguments.quiet, &format!("{workload}: {error:#}")),
                    }
                    learned_from.insert(workload, trajectories);
                }
            }
            // The process that records may not have made the store yet.
            Err(error) => say(arguments.quiet, &format!("waiting: {error:#}")),
        }
        std::thread::sleep(every.saturating_sub(started.elapsed()));
    }
}

/// The workloads of the store with their numbers of finished trajectories.
fn workloads(arguments: &LearnArguments) -> anyhow::Result<BTreeMap<String, u64>> {
    let store = TrajectoryStore::open(&arguments.source.source)?;
    let filter = Filter {
        workload: arguments.source.workload.clone(),
        policy: arguments.source.behaviour.clone(),
    };
    let mut counts = BTreeMap::new();
    for trajectory in store.list(&filter)?.into_iter().filter(|one| one.end.is_some()) {
        *counts.entry(trajectory.workload).or_default() += 1;
    }
    Ok(counts)
}

/// The arguments for one workload, whose policy is OUT/NAMESPACE/NAME.policy.
fn of_workload(arguments: &LearnArguments, workload: &str) -> anyhow::Result<LearnArguments> {
    let path = policy_path(&arguments.out, workload)?;
    let folder = path.parent().expect("it was joined to a directory");
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut one = arguments.clone();
    one.source.workload = Some(workload.to_owned());
    one.out = path;
    Ok(one)
}

fn policy_path(out: &Path, workload: &str) -> anyhow::Result<PathBuf> {
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        !name.is_empty() && !name.starts_with('.') && name.chars().all(is_part)
    };
    match workload.split_once('/') {
        Some((namespace, name)) if is_name(namespace) && is_name(name) => {
            Ok(out.join(namespace).join(format!("{name}.policy")))
        }
        _ => bail!("{workload:?} is no NAMESPACE/NAME, so that its policy has no place in --out"),
    }
}

/// A time with a unit, such as 1h.
pub(crate) fn duration(text: &str) -> anyhow::Result<Duration> {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    let found = units.into_iter().find_map(|(unit, s)| Some((text.strip_suffix(unit)?, s)));
    let Some((number, unit_s)) = found else {
        bail!("a time needs a unit: s, m, h or d, as in 1h");
    };
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && number < 1e6 => Ok(Duration::from_secs_f64(number * unit_s)),
        _ => bail!("`{number}` is not a number above 0 and below 10^6"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_has_a_place_and_no_name_leads_out_of_the_directory() {
        let path = |workload| policy_path(Path::new("out"), workload).ok();
        assert_eq!(path("shop/checkout"), Some(PathBuf::from("out/shop/checkout.policy")));
        for workload in ["shop", "../shop", "shop/..", "shop/a/b", "/x", "shop/", ""] {
            assert_eq!(path(workload), None, "{workload}");
        }
    }
}
