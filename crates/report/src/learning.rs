//! Learning curves: the mean return over agents, with its interval as a band.

use super::axis::{Axis, tick_label};
use super::key::{key, look};
use super::markup::section;
use super::subject::Subject;
use super::svg::{Anchor, Plot};
use crate::compare::with_interval;
use homeostat_lab::Summary;
use homeostat_train::Curve;

const HEIGHT: f64 = 240.0;

/// Points of a curve at most.
const MAX_POINTS: usize = 400;

/// The section, if agents have finished episodes.
pub(super) fn learning(subject: &Subject) -> Option<String> {
    let mut drawn: Vec<(usize, &Curve)> = subject
        .curves
        .iter()
        .filter(|curve| !curve.points.is_empty())
        .map(|curve| (place_of(subject, curve), curve))
        .collect();
    drawn.sort_by_key(|(place, _)| *place);
    let curves: Vec<(String, Vec<(f64, Summary)>)> = drawn
        .iter()
        .map(|(_, curve)| (format!("{} ({})", curve.name, agents(curve)), summaries(curve)))
        .collect();
    let all = || curves.iter().flat_map(|(_, points)| points);
    let half = |summary: &Summary| summary.interval().unwrap_or(0.0);
    let last = all().map(|(step, _)| *step).reduce(f64::max)?;
    let low = all().map(|(_, summary)| summary.mean - half(summary)).fold(f64::INFINITY, f64::min);
    let high =
        all().map(|(_, summary)| summary.mean + half(summary)).fold(f64::NEG_INFINITY, f64::max);
    let (across, up) = (Axis::exact(0.0, last), Axis::linear(low, high));
    let words: Vec<String> = curves
        .iter()
        .filter_map(|(name, points)| {
            let (_, end) = points.last()?;
            Some(format!("{name} ends at {}", with_interval(end.mean, end.interval())))
        })
        .collect();
    let mut plot =
        Plot::new("Learning curves", &words.join("; "), HEIGHT).gutters(46, 12).foot(40.0);
    plot.left_axis(&up, tick_label);
    plot.lower_axis(&across, tick_label);
    plot.text(1.0, HEIGHT + 34.0, 0.0, Anchor::End, "axis-name", "steps per agent");
    for (place, (_, points)) in curves.iter().enumerate() {
        let band: Vec<(f64, f64, f64)> = points
            .iter()
            .map(|(step, summary)| {
                let [lower, upper] = [-1.0, 1.0].map(|sign| summary.mean + sign * half(summary));
                (across.part(*step), plot.y(&up, lower), plot.y(&up, upper))
            })
            .collect();
        plot.band(&format!("band {}", look(place)), &band);
        let line: Vec<_> = points
            .iter()
            .map(|(step, summary)| Some((across.part(*step), plot.y(&up, summary.mean))))
            .collect();
        plot.line(&format!("line {}", look(place)), line.into_iter());
    }
    let names: Vec<&str> = curves.iter().map(|(name, _)| name.as_str()).collect();
    let content = key(&names) + "<figure>" + &plot.finish() + "</figure>";
    Some(section(
        "learning",
        "Learning curves",
        "Return of the last hundred episodes: the mean over agents, and its 95&nbsp;% interval as a band. Runs of the same algorithm and environment are one curve.",
        &content,
    ))
}

/// The first run of a curve: curves come in the order of the runs.
fn place_of(subject: &Subject, curve: &Curve) -> usize {
    let mut runs = subject.trainings.iter();
    let first = runs.position(|run| curve.name == format!("{} on {}", run.algorithm, run.env));
    first.unwrap_or(usize::MAX)
}

fn agents(curve: &Curve) -> String {
    match curve.agents() {
        1 => "1 agent".to_owned(),
        count => format!("{count} agents"),
    }
}

fn summaries(curve: &Curve) -> Vec<(f64, Summary)> {
    let every = curve.points.len().div_ceil(MAX_POINTS).max(1);
    // Counted from the end: where it ended is what people look for.
    let kept = curve.points.iter().rev().step_by(every);
    let mut points: Vec<(f64, Summary)> =
        kept.filter_map(|(step, returns)| Some((*step as f64, Summary::of(returns)?))).collect();
    points.reverse();
    points
}
