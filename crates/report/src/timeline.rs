//! Each function over the first seed: latency, load, and what the policies gave it.

use std::fmt::Write;

use super::axis::{Axis, tick_label};
use super::decisions::decisions;
use super::key::{key, look};
use super::markup::{escape, section};
use super::subject::{FunctionSubject, SimulatedRun, Subject};
use super::svg::{Anchor, Plot};
use super::windows::Point;

/// Linux gives a core 1024 shares.
pub(super) const SHARES_PER_MILLICORE: f64 = 1.024;

/// The largest multiple of an SLO that is drawn; larger ones are drawn here.
const MAX_OVER: f64 = 20.0;

const TALL: f64 = 130.0;
const SMALL: f64 = 72.0;

/// Height of one row of strokes for SLO violations, and of a stroke where every request violated the SLO.
const STROKE_ROW: f64 = 17.0;
const TALLEST_STROKE: f64 = 13.0;

/// A small panel: what it shows, and whether it moves in steps.
struct Panel {
    name: &'static str,
    value: fn(&Point) -> f64,
    is_stepped: bool,
}

const PANELS: [Panel; 4] = [
    Panel { name: "Requests per second", value: |point| point.arrivals_per_s, is_stepped: false },
    Panel { name: "Containers", value: |point| point.containers, is_stepped: true },
    Panel {
        name: "CPU shares of a container",
        value: |point| point.cpu_millicores * SHARES_PER_MILLICORE,
        is_stepped: true,
    },
    Panel {
        name: "Memory limit of a container, MiB",
        value: |point| point.memory_mib,
        is_stepped: true,
    },
];

/// The section, if a simulation has windows.
pub(super) fn timeline(subject: &Subject) -> Option<String> {
    let has_windows =
        |number: usize| subject.simulations.iter().any(|run| run.windows.contains_key(&number));
    let shown: Vec<&FunctionSubject> = subject
        .functions
        .iter()
        .filter(|function| function.is_shown && has_windows(function.number))
        .collect();
    let worst =
        shown.iter().rev().max_by(|a, b| a.first_seed_ratio.total_cmp(&b.first_seed_ratio))?.number;
    let mut content = chooser(&shown);
    for function in &shown {
        let open = if function.number == worst { " open" } else { "" };
        let _ = write!(
            content,
            "<details class=\"function\" id=\"function-{}\"{open}><summary><span class=\"name\">{}</span> <span class=\"aside\">{}</span></summary>{}</details>",
            function.number,
            escape(&function.label),
            aside(subject, function),
            body(subject, function)
        );
    }
    let per_point = subject.simulations.iter().flat_map(|run| run.windows.values());
    let per_point = per_point.map(|windows| windows.windows_per_point).max().unwrap_or(1);
    let thinned = match per_point {
        0 | 1 => String::new(),
        count => format!(
            " Each point covers up to {count} windows: their worst latency, and the mean of other figures."
        ),
    };
    let hidden = subject.functions.len() - shown.len();
    let hidden = match hidden {
        0 => String::new(),
        count => format!(" {count} functions with fewer SLO violations are left out."),
    };
    let seeds = subject.simulations.iter().filter_map(|run| run.run.facts.seeds.first());
    let mut seeds: Vec<String> = seeds.map(u64::to_string).collect();
    seeds.dedup();
    let words = format!(
        "Seed {}, window by window; the function with the largest share of SLO violations is expanded. Strokes under the first picture are SLO violations, a row for each policy: a stroke as high as its row is a window in which every request violated the SLO. Latencies beyond {MAX_OVER}× are drawn at the top.{thinned}{hidden}",
        seeds.join(", ")
    );
    Some(section("time", "Over time", &words, &content))
}

/// A choice of functions; the script shows it, as it needs the script.
fn chooser(shown: &[&FunctionSubject]) -> String {
    if shown.len() < 2 {
        return String::new();
    }
    let mut html =
        "<p class=\"chooser\" hidden><label>Function <select><option value=\"\">all</option>"
            .to_owned();
    for function in shown {
        let _ = write!(
            html,
            "<option value=\"function-{}\">{}</option>",
            function.number,
            escape(&function.label)
        );
    }
    html + "</select></label></p>"
}

/// The SLO, and how often each policy violated it.
fn aside(subject: &Subject, function: &FunctionSubject) -> String {
    let violations = subject.simulations.iter().filter_map(|run| {
        let first = run.outcomes_of(function.number).next()?;
        Some(format!("{} {:.1}&nbsp;%", escape(&run.label), first.figures.slo_violation_pct()))
    });
    let violations: Vec<String> = violations.collect();
    format!("SLO {:.0}&nbsp;ms; SLO violations: {}", function.slo_ms, violations.join(", "))
}

fn body(subject: &Subject, function: &FunctionSubject) -> String {
    let lines: Vec<(usize, &SimulatedRun, &[Point])> = subject
        .simulations
        .iter()
        .enumerate()
        .filter_map(|(place, run)| {
            let windows = run.windows.get(&function.number)?;
            Some((place, run, windows.points.as_slice()))
        })
        .collect();
    let durations = lines.iter().map(|(_, run, _)| run.run.facts.duration_s);
    let across = Axis::exact(0.0, durations.fold(0.0, f64::max));
    let mut html = key(&subject.labels());
    let _ = write!(
        html,
        "<figure><figcaption>p99 / SLO threshold</figcaption>{}</figure><div class=\"grid two\">",
        latency_panel(&lines, &across, function)
    );
    for panel in &PANELS {
        let _ = write!(
            html,
            "<figure><figcaption>{}</figcaption>{}</figure>",
            panel.name,
            small_panel(&lines, &across, panel, function)
        );
    }
    html + "</div>" + &decisions(subject, function.number)
}

fn latency_panel(
    lines: &[(usize, &SimulatedRun, &[Point])],
    across: &Axis,
    function: &FunctionSubject,
) -> String {
    let over =
        lines.iter().flat_map(|(_, _, points)| *points).filter_map(|point| point.p99_over_slo);
    let (low, high) = over
        .filter(|over| *over > 0.0)
        .fold((0.5_f64, 2.0_f64), |(low, high), over| (low.min(over), high.max(over)));
    let up = Axis::log(low.max(0.01), high.min(MAX_OVER));
    let words: Vec<String> = lines
        .iter()
        .map(|(_, run, points)| {
            let violated = points.iter().filter(|point| point.slo_violation_ratio() > 0.0).count();
            format!("{}: SLO violations in {violated} of {} points", run.label, points.len())
        })
        .collect();
    let rows = STROKE_ROW * lines.len() as f64;
    let title = format!("{}: p99 / SLO threshold", function.label);
    let mut plot = Plot::new(&title, &words.join("; "), TALL).foot(rows + 26.0);
    plot.left_axis(&up, |over| format!("{}×", tick_label(over)));
    let threshold = plot.y(&up, 1.0);
    plot.level(threshold, "slo");
    for (row, (place, _, points)) in lines.iter().enumerate() {
        let line = points.iter().map(|point| {
            point.p99_over_slo.map(|over| (across.part(point.t_s), plot.y(&up, over)))
        });
        let line: Vec<_> = line.collect();
        plot.line(&format!("line thin {}", look(*place)), line.into_iter());
        let violated = points.iter().filter(|point| point.slo_violation_ratio() > 0.0);
        let strokes = violated.map(|point| {
            // One violation among many is still to be seen.
            (
                across.part(point.t_s),
                (point.slo_violation_ratio().min(1.0) * TALLEST_STROKE).max(1.0),
            )
        });
        let foot = TALL + STROKE_ROW * (row as f64 + 1.0);
        plot.level(foot, "grid");
        plot.strokes(&format!("stroke {}", look(*place)), foot, strokes);
    }
    seconds(&mut plot, across, TALL + rows + 20.0);
    plot.finish()
}

fn small_panel(
    lines: &[(usize, &SimulatedRun, &[Point])],
    across: &Axis,
    panel: &Panel,
    function: &FunctionSubject,
) -> String {
    let values = lines.iter().flat_map(|(_, _, points)| *points).map(panel.value);
    let most = values.fold(0.0, f64::max);
    let up = Axis::linear(0.0, if most > 0.0 { most } else { 1.0 });
    let words: Vec<String> = lines
        .iter()
        .map(|(_, run, points)| {
            let sum: f64 = points.iter().map(panel.value).sum();
            format!("{}: mean {:.1}", run.label, sum / points.len().max(1) as f64)
        })
        .collect();
    let title = format!("{}: {}", function.label, panel.name);
    let mut plot = Plot::new(&title, &words.join("; "), SMALL);
    plot.left_axis(&up, tick_label);
    for (place, _, points) in lines {
        let class = format!("line thin {}", look(*place));
        let places =
            points.iter().map(|point| (across.part(point.t_s), plot.y(&up, (panel.value)(point))));
        let places: Vec<(f64, f64)> = places.collect();
        match panel.is_stepped {
            true => plot.steps(&class, places.into_iter()),
            false => plot.line(&class, places.into_iter().map(Some)),
        }
    }
    seconds(&mut plot, across, SMALL + 16.0);
    plot.finish()
}

/// Seconds along the foot.
fn seconds(plot: &mut Plot, across: &Axis, y: f64) {
    for tick in across.ticks() {
        let part = across.part(tick);
        let anchor = match part {
            part if part < 0.02 => Anchor::Start,
            part if part > 0.97 => Anchor::End,
            _ => Anchor::Middle,
        };
        plot.text(part, y, 0.0, anchor, "tick", &format!("{} s", tick_label(tick)));
    }
}
