//! Each function's 99th percentile against its SLO, a mark for each policy.

use super::axis::{Axis, tick_label};
use super::key::{key, look};
use super::markup::{section, shorten};
use super::subject::{FunctionSubject, SimulatedRun, Subject};
use super::svg::{Anchor, Plot};

/// Functions that fit on one picture.
const MAX_ROWS: usize = 40;

/// Letters of a function's name that fit beside its row.
const LETTERS: usize = 17;

/// Height of one run's line in a row, and of the space between rows.
const LINE: f64 = 9.0;
const GAP: f64 = 15.0;

/// The section, if a function has answered.
pub(super) fn function_dots(subject: &Subject) -> Option<String> {
    let mut rows: Vec<&FunctionSubject> = subject.functions.iter().collect();
    if rows.len() > MAX_ROWS {
        rows.sort_by(|a, b| b.slo_violations.total_cmp(&a.slo_violations));
        rows.truncate(MAX_ROWS);
    }
    let all = rows.iter().flat_map(|row| {
        subject.simulations.iter().filter_map(|run| run.log_p99_over_slo(row.number))
    });
    let means: Vec<f64> = all.map(|summary| summary.mean.exp()).collect();
    if means.is_empty() {
        return None;
    }
    let (low, high) = means
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), mean| (low.min(*mean), high.max(*mean)));
    let across = Axis::log((low * 0.85).min(0.7), (high * 1.15).max(1.4));
    let row_height = LINE * subject.simulations.len() as f64 + GAP;
    let height = row_height * rows.len() as f64;
    let mut plot = Plot::new(
        "99th percentile of the latency relative to the SLO threshold, for each function",
        &describe(subject, &rows),
        height,
    )
    .gutters(128, 14)
    .foot(40.0);
    plot.lower_axis(&across, |over| format!("{}×", tick_label(over)));
    let name = "p99 / SLO threshold";
    plot.text(1.0, height + 34.0, 0.0, Anchor::End, "axis-name", name);
    plot.upright(across.part(1.0), "slo");
    for (place, row) in rows.iter().enumerate() {
        let top = row_height * place as f64;
        let y = top + row_height / 2.0;
        plot.level(top, "grid");
        let label = shorten(&row.label, LETTERS);
        plot.text(0.0, y + 4.0, -10.0, Anchor::End, "row-name", &label);
        for (series, run) in subject.simulations.iter().enumerate() {
            let Some(summary) = run.log_p99_over_slo(row.number) else { continue };
            let y = top + GAP / 2.0 + LINE * (series as f64 + 0.5);
            if let Some(half) = summary.interval() {
                let ends = [summary.mean - half, summary.mean + half];
                let [from, to] = ends.map(|end| across.part(end.exp()));
                plot.span(from, to, y, &format!("whisker {}", look(series)));
            }
            let says = format!(
                "{}, {}: p99 is {:.2} times the SLO threshold of {:.0} ms",
                row.label,
                run.label,
                summary.mean.exp(),
                row.slo_ms
            );
            plot.mark(look(series), across.part(summary.mean.exp()), y, &says);
        }
    }
    let left_out = subject.functions.len() - rows.len();
    let words = format!(
        "Left of the vertical line a function meets its SLO. Marks are geometric means over seeds, thin lines their 95&nbsp;% intervals; both are clipped at the sides.{}",
        if left_out > 0 {
            format!(
                " The {MAX_ROWS} functions with the most SLO violations; {left_out} others are left out."
            )
        } else {
            String::new()
        }
    );
    let content = key(&subject.labels()) + "<figure>" + &plot.finish() + "</figure>";
    Some(section("functions", "Which functions meet their SLO", &words, &content))
}

fn describe(subject: &Subject, rows: &[&FunctionSubject]) -> String {
    let met = |run: &SimulatedRun| {
        let is_met = |row: &&&FunctionSubject| {
            run.log_p99_over_slo(row.number).is_some_and(|summary| summary.mean <= 0.0)
        };
        rows.iter().filter(is_met).count()
    };
    let words = subject
        .simulations
        .iter()
        .map(|run| format!("{} meets {} of {} SLOs", run.label, met(run), rows.len()));
    words.collect::<Vec<_>>().join("; ")
}
