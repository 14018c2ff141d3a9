//! Learning curves with bands over seeds, as an SVG picture.

use std::collections::BTreeMap;
use std::path::Path;

use homeostat_lab::{Error, Result, RunDirectory, Summary, write_atomically};
use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::Value;

/// The curves of all agents that learnt the same task by the same algorithm.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// What the runs have in common.
    pub name: String,
    /// For each step at which every agent has a figure: their recent returns.
    pub points: Vec<(u64, Vec<f64>)>,
}

impl Curve {
    /// Agents behind the curve.
    pub fn agents(&self) -> usize {
        self.points.first().map_or(0, |(_, returns)| returns.len())
    }

    fn summaries(&self) -> impl Iterator<Item = (f64, Summary)> {
        self.points.iter().filter_map(|(step, returns)| {
            Summary::of(returns).map(|summary| (*step as f64, summary))
        })
    }
}

/// Reads the metrics of several runs; runs of one algorithm and task become one curve.
pub fn read_curves(runs: &[RunDirectory]) -> Result<Vec<Curve>> {
    // Curve name, then step, then the returns of all its agents.
    let mut by_name: BTreeMap<String, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for run in runs {
        let facts: Value =
            serde_json::from_slice(&run.read("run.json")?).map_err(|error| Error::NotARun {
                path: run.path().to_owned(),
                reason: format!("its run.json cannot be read: {error}"),
            })?;
        let word = |key: &str| facts[key].as_str().unwrap_or("unknown").to_owned();
        let points =
            by_name.entry(format!("{} on {}", word("algorithm"), word("env"))).or_default();
        if !run.file("metrics.jsonl").is_file() {
            return Err(Error::Curves {
                reason: format!(
                    "{} is no training run: it has no metrics.jsonl; `homeostat report` draws simulations",
                    run.path().display()
                ),
            });
        }
        let metrics = run.read("metrics.jsonl")?;
        for line in String::from_utf8_lossy(&metrics).lines() {
            // A run that is being written may end in half a line.
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            if let (Some(step), Some(value)) =
                (line["step"].as_u64(), line["return_recent"].as_f64())
            {
                points.entry(step).or_default().push(value);
            }
        }
    }
    let curves = by_name.into_iter().map(|(name, points)| {
        let agents = points.values().map(Vec::len).max().unwrap_or(0);
        let complete = points.into_iter().filter(|(_, returns)| returns.len() == agents);
        Curve { name, points: complete.collect() }
    });
    Ok(curves.collect())
}

/// Draws the mean of each curve, the 95 % interval of the mean as a band, and
/// dashed lines at the `goals`.
pub fn draw_curves(title: &str, curves: &[Curve], goals: &[f64], path: &Path) -> Result<()> {
    if curves.iter().all(|curve| curve.points.is_empty()) {
        return Err(Error::Curves { reason: "no run has finished an episode yet".to_owned() });
    }
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (900, 480)).into_drawing_area();
        draw(&area, title, curves, goals)
            .map_err(|error| Error::Curves { reason: error.to_string() })?;
    }
    write_atomically(path, svg.as_bytes())
}

const COLOURS: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 96, 24),
    RGBColor(44, 140, 60),
    RGBColor(148, 60, 160),
    RGBColor(140, 110, 20),
    RGBColor(90, 90, 90),
];

fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    curves: &[Curve],
    goals: &[f64],
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let band = |summary: &Summary| {
        let half = summary.interval().unwrap_or(0.0);
        (summary.mean - half, summary.mean + half)
    };
    let all = || curves.iter().flat_map(Curve::summaries);
    let last_step = all().map(|(step, _)| step).fold(1.0, f64::max);
    let low = all()
        .map(|(_, summary)| summary.min)
        .chain(goals.iter().copied())
        .fold(f64::INFINITY, f64::min);
    let high = all()
        .map(|(_, summary)| summary.max)
        .chain(goals.iter().copied())
        .fold(f64::NEG_INFINITY, f64::max);
    let margin = ((high - low) * 0.06).max(1e-3);
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..last_step, low - margin..high + margin)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc("steps of each agent")
        .y_desc("return, mean of the last 100 episodes")
        .x_label_formatter(&|step| format!("{}k", step / 1000.0))
        .draw()?;
    for goal in goals {
        let ends = [(0.0, *goal), (last_step, *goal)];
        chart.draw_series(DashedLineSeries::new(ends, 6, 4, BLACK.mix(0.6).stroke_width(1)))?;
    }
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let upper: Vec<_> =
            curve.summaries().map(|(step, summary)| (step, band(&summary).1)).collect();
        let lower = curve.summaries().map(|(step, summary)| (step, band(&summary).0));
        let outline: Vec<_> =
            upper.into_iter().chain(lower.collect::<Vec<_>>().into_iter().rev()).collect();
        chart.draw_series(std::iter::once(Polygon::new(outline, colour.mix(0.18))))?;
        let mean = curve.summaries().map(|(step, summary)| (step, summary.mean));
        let colour = *colour;
        chart
            .draw_series(LineSeries::new(mean, colour.stroke_width(2)))?
            .label(format!("{} ({} agents)", curve.name, curve.agents()))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .position(SeriesLabelPosition::LowerRight)
        .draw()?;
    area.present()?;
    Ok(())
}
