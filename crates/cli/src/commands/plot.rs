//! `homeostat plot`.

use std::path::PathBuf;

use clap::Args;
use homeostat_lab::{Error, RunDirectory};
use homeostat_train::{draw_curves, read_curves};

use crate::Ending;
use crate::output::print;

/// Draw learning curves of runs as SVG.
#[derive(Args)]
#[command(
    after_help = "Runs of the same algorithm and environment are drawn as one curve; its band is the 95 %\nconfidence interval of the mean over their agents.\n\nExample:\n  homeostat plot runs/ppo-* --goal 475 --out cartpole.svg"
)]
pub(crate) struct PlotArguments {
    /// Run directories.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// SVG file to write.
    #[arg(long, value_name = "FILE", default_value = "curves.svg")]
    out: PathBuf,
    /// Draw a dashed line at this return; repeatable.
    #[arg(long, allow_hyphen_values = true)]
    goal: Vec<f64>,
    /// Title of the picture.
    #[arg(long, default_value = "Learning curves")]
    title: String,
}

/// Beyond this an axis has no readable labels.
const FARTHEST_GOAL: f64 = 1e12;

pub(crate) fn run(arguments: &PlotArguments) -> anyhow::Result<Ending> {
    if let Some(goal) =
        arguments.goal.iter().find(|goal| goal.is_nan() || goal.abs() > FARTHEST_GOAL)
    {
        return Err(Error::OutOfRange {
            key: "goal".to_owned(),
            value: goal.to_string(),
            source_text: "flag --goal".to_owned(),
            expected: format!("it must lie within {FARTHEST_GOAL:e} of zero"),
        }
        .into());
    }
    if !arguments.out.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("svg")) {
        return Err(Error::Unreadable {
            source_text: format!("flag --out {}", arguments.out.display()),
            reason: "pictures are written as SVG: use a name that ends in .svg".to_owned(),
        }
        .into());
    }
    let runs = arguments
        .runs
        .iter()
        .map(|path| RunDirectory::open(path))
        .collect::<Result<Vec<_>, _>>()?;
    draw_curves(&arguments.title, &read_curves(&runs)?, &arguments.goal, &arguments.out)?;
    print(&format!("{}\n", arguments.out.display()));
    Ok(Ending::Done)
}
