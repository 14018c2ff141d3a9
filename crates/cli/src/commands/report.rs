//! `homeostat report`.

use std::path::PathBuf;

use clap::Args;
use homeostat_report::write_report;

use crate::Ending;
use crate::output::print;

/// Write one self-contained HTML page about runs: comparison, pictures, decisions, settings.
#[derive(Args)]
#[command(
    after_help = "The page needs no network and no other file. The first simulation is the baseline of the\ncomparison.\n\nExamples:\n  homeostat report runs/sim-hpa+vpa runs/sim-ensure --out ensure.html\n  homeostat report runs/ppo-* runs/sim-* --title 'Learned policies against HPA'"
)]
pub(crate) struct ReportArguments {
    /// Run directories of simulations and training runs.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// HTML file to write.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Title of the page [default: the names of the policies]
    #[arg(long)]
    title: Option<String>,
}

pub(crate) fn run(arguments: &ReportArguments) -> anyhow::Result<Ending> {
    write_report(&arguments.runs, arguments.title.as_deref(), &arguments.out)?;
    print(&format!("{}\n", arguments.out.display()));
    Ok(Ending::Done)
}
