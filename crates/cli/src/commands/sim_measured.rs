//! `homeostat sim` on systems of domains other than pods.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use homeostat_decide::MeasuredSource;
use homeostat_lab::{RunConfig, RunDirectory};
use homeostat_simulate::{DomainPolicies, MeasuredSimulation, NamedPolicies, whole_windows};
use serde_json::Value;

use super::sim::SimArguments;
use crate::Ending;
use crate::commands::train::{crossed, parse_thresholds};
use crate::output::{Output, in_percent, print_record, print_records};
use crate::progress::CountView;

/// Plays a policy of the domain on every target of the system.
pub(super) fn run<D: NamedPolicies>(
    system: Arc<dyn MeasuredSource<D>>,
    arguments: &SimArguments,
    config: &RunConfig,
) -> anyhow::Result<Ending> {
    let SimArguments { simulator, play, .. } = arguments;
    for (is_given, flag) in [
        (arguments.trace.is_some(), "--trace"),
        (arguments.alone, "--alone"),
        (play.record, "--record"),
    ] {
        anyhow::ensure!(
            !is_given,
            "{flag} applies to pods, and {simulator} has none: leave it out"
        );
    }
    let duration = whole_windows(arguments.duration, system.window())?;
    let policies = DomainPolicies::parse::<D>(&arguments.policy, play.sampling())?;
    let policy = policies.name();
    let system = match &arguments.campaign {
        Some(file) => with_campaign(system.as_ref(), file)?,
        None => system,
    };
    let simulation = MeasuredSimulation { system, policies, duration };
    simulation.validate()?;
    let thresholds = parse_thresholds(&play.fail_if, &simulation.figure_names()?)?;
    let facts = simulation.facts(arguments.seeds.0.clone());
    let path = play.run_dir.clone().unwrap_or_else(|| {
        RunDirectory::next_free(Path::new("runs"), &format!("sim-{simulator}-{policy}"))
    });
    if !play.quiet {
        say!(
            "simulating {policy} on {} targets ({}), {} s of {} seeds, into {}",
            facts.functions,
            facts.load,
            facts.duration_s,
            facts.seeds.len(),
            path.display()
        );
    }
    let view = CountView::new("windows", play.quiet)?;
    let finished = simulation.run_into(
        &facts,
        &config.toml,
        &path,
        &|done, total| view.show(done, total),
        view.interruption(),
    )?;
    view.finish();
    let for_output = |record: Value| match play.output {
        Output::Table => in_percent(record),
        Output::Json | Output::Csv => record,
    };
    if play.per_function {
        let records: Vec<Value> = finished.target_records().into_iter().map(for_output).collect();
        print_records(play.output, &records);
    } else {
        print_record(play.output, &for_output(finished.summary()));
    }
    crossed(&thresholds, &finished.summary())
}

/// The system with the anomalies of a campaign file.
fn with_campaign<D: NamedPolicies>(
    system: &dyn MeasuredSource<D>,
    file: &Path,
) -> anyhow::Result<Arc<dyn MeasuredSource<D>>> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the campaign {}", file.display()))?;
    system.with_campaign(&text).with_context(|| format!("cannot play {}", file.display()))
}
