//! How late answers were, over each function's SLO: the share of requests slower than
//! any multiple of it.

use super::axis::{Axis, tick_label};
use super::key::{key, look};
use super::markup::section;
use super::subject::{SimulatedRun, Subject};
use super::svg::{Anchor, Plot};
use homeostat_simulate::{FunctionOutcome, QUANTILES};

/// The smallest share that is drawn: quantiles end there.
const MIN_SHARE: f64 = 0.001;

/// Points of a line.
const POINTS: usize = 160;

const HEIGHT: f64 = 260.0;

/// The section, if there are simulations with answers.
pub(super) fn latency(subject: &Subject) -> Option<String> {
    let tails: Vec<Tail> = subject.simulations.iter().map(Tail::of).collect();
    let ends = tails.iter().filter_map(Tail::ends);
    let (low, high) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    let across = Axis::log((low * 0.9).min(0.5), (high * 1.1).max(2.0));
    let up = Axis::log(MIN_SHARE, 1.0);
    let mut plot = Plot::new(
        "Share of requests slower than a multiple of their SLO threshold",
        &describe(subject, &tails),
        HEIGHT,
    )
    .gutters(46, 12)
    .foot(40.0);
    plot.left_axis(&up, |share| format!("{} %", tick_label(share * 100.0)));
    plot.lower_axis(&across, |over| format!("{}×", tick_label(over)));
    plot.text(1.0, HEIGHT + 34.0, 0.0, Anchor::End, "axis-name", "latency / SLO threshold");
    let one = across.part(1.0);
    plot.upright(one, "slo");
    let (dx, anchor) = if one > 0.7 { (-6.0, Anchor::End) } else { (6.0, Anchor::Start) };
    plot.text(one, 12.0, dx, anchor, "slo-name", "SLO");
    let hundredth = plot.y(&up, 0.01);
    plot.level(hundredth, "slo faint");
    for (place, tail) in tails.iter().enumerate() {
        let class = format!("line {}", look(place));
        let mut is_over = false;
        let mut points = Vec::new();
        for step in 0..=POINTS {
            let part = step as f64 / POINTS as f64;
            let share = tail.share_slower(across.value(part));
            // The first point below the picture is kept: it shows where the line leaves.
            if !is_over {
                points.push(Some((part, plot.y(&up, share))));
            }
            is_over = share < MIN_SHARE;
        }
        plot.line(&class, points.into_iter());
    }
    for (place, (tail, run)) in tails.iter().zip(&subject.simulations).enumerate() {
        if let Some(over) = tail.over_at(0.01) {
            let says = format!(
                "{}: 1 % of requests took more than {over:.2} times their SLO threshold",
                run.label
            );
            plot.mark(look(place), across.part(over), hundredth, &says);
        }
    }
    let content = key(&subject.labels()) + "<figure>" + &plot.finish() + "</figure>";
    Some(section(
        "latency",
        "Latency",
        "All requests of all functions and seeds that were answered or timed out: the share of requests whose latency exceeds a multiple of the SLO threshold. Marks are at the slowest hundredth of all requests together, in which busy functions count most; the p99 / SLO threshold of the table is the geometric mean over functions, in which each counts the same.",
        &content,
    ))
}

/// A line in words.
fn describe(subject: &Subject, tails: &[Tail]) -> String {
    let runs = subject.simulations.iter().zip(tails);
    let words: Vec<String> = runs
        .map(|(run, tail)| {
            let slower = tail.share_slower(1.0) * 100.0;
            format!("{}: {slower:.2} % slower than the SLO threshold", run.label)
        })
        .collect();
    words.join("; ")
}

/// The latencies of one run over SLOs: each function's quantiles with its requests.
struct Tail {
    parts: Vec<(f64, Vec<(f64, f64)>)>,
    requests: f64,
}

impl Tail {
    fn of(run: &SimulatedRun) -> Self {
        let functions = run.run.outcomes.iter().flat_map(|outcome| &outcome.functions);
        let is_drawn = |function: &&FunctionOutcome| {
            function.figures.p99_ms.is_some() && function.slo_ms > 0.0
        };
        let parts: Vec<_> = functions
            .filter(is_drawn)
            .map(|function| {
                let quantiles = QUANTILES.iter().zip(&function.latency_ms);
                let points = quantiles.map(|(part, ms)| (ms / function.slo_ms, 1.0 - part));
                (function.figures.requests as f64, points.collect())
            })
            .collect();
        let requests = parts.iter().map(|(requests, _)| requests).sum();
        Self { parts, requests }
    }

    /// The share of requests slower than this multiple of their SLO.
    fn share_slower(&self, over: f64) -> f64 {
        let slower = self.parts.iter().map(|(requests, points)| requests * slower(points, over));
        slower.sum::<f64>() / self.requests.max(1.0)
    }

    /// The multiple that this share of requests exceeds.
    fn over_at(&self, share: f64) -> Option<f64> {
        let (low, high) = self.ends()?;
        let (mut low, mut high) = (low.ln(), high.ln());
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if self.share_slower(middle.exp()) > share { low = middle } else { high = middle }
        }
        Some(high.exp())
    }

    /// The smallest and the largest multiple.
    fn ends(&self) -> Option<(f64, f64)> {
        let all = self.parts.iter().flat_map(|(_, points)| points).map(|(over, _)| *over);
        let positive = all.filter(|over| *over > 0.0 && over.is_finite());
        positive.map(|over| (over, over)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// Between two quantiles the tail is taken as a power law, a straight line here.
fn slower(points: &[(f64, f64)], over: f64) -> f64 {
    // The last quantile has nothing above it; a ten-thousandth stands for that.
    const NOTHING: f64 = 1e-4;
    let after = points.iter().position(|(at, _)| *at > over);
    match after {
        Some(0) => 1.0,
        None => 0.0,
        Some(after) => {
            let ((from, high), (to, low)) = (points[after - 1], points[after]);
            let way = if from > 0.0 { (over / from).ln() / (to / from).ln() } else { 1.0 };
            let (high, low) = (high.max(NOTHING).ln(), low.max(NOTHING).ln());
            (high + (low - high) * way).exp()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_runs_through_its_quantiles() {
        let points: Vec<(f64, f64)> = QUANTILES
            .iter()
            .enumerate()
            .map(|(place, part)| ((place + 1) as f64, 1.0 - part))
            .collect();
        for (over, share) in &points[..QUANTILES.len() - 1] {
            assert!((slower(&points, *over) - share).abs() < 1e-9, "{over}");
        }
        assert_eq!((slower(&points, 0.5), slower(&points, 99.0)), (1.0, 0.0));
        let tail = Tail { parts: vec![(10.0, points.clone()), (30.0, points)], requests: 40.0 };
        assert!((tail.over_at(0.01).unwrap() - 13.0).abs() < 1e-3);
    }
}
