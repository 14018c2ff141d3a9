//! What policies took and how well they used it: a bar for each, with its interval.

use std::fmt::Write;

use homeostat_lab::Summary;

use super::axis::Axis;
use super::key::look;
use super::markup::{section, shorten};
use super::subject::Subject;
use super::svg::{Anchor, Plot};
use crate::compare::{Comparison, with_interval};

const ROW: f64 = 26.0;
const BAR: f64 = 12.0;

/// Which figures are drawn, under what name, and whether they are parts of a whole.
const FIGURES: [(&str, &str, bool); 6] = [
    ("cpu_utilisation", "CPU utilisation", true),
    ("memory_utilisation", "Memory utilisation", true),
    ("container_s", "Container-seconds", false),
    ("memory_gib_s", "Memory reserved, GiB-seconds", false),
    ("cpu_s", "CPU-seconds used", false),
    ("cold_starts", "Cold starts", false),
];

/// The section, if there are simulations.
pub(super) fn costs(subject: &Subject) -> Option<String> {
    let comparison = subject.played.as_ref()?;
    let mut content = "<div class=\"grid two\">".to_owned();
    for (key, name, is_part) in FIGURES {
        let _ = write!(
            content,
            "<figure><figcaption>{name}</figcaption>{}</figure>",
            bars(comparison, key, name, is_part)
        );
    }
    content.push_str("</div>");
    Some(section(
        "costs",
        "Resource cost",
        "Means over seeds; thin lines are 95&nbsp;% intervals. Prices differ between providers, so cost is given in billed resources: seconds of containers, memory and CPU.",
        &content,
    ))
}

fn bars(comparison: &Comparison, key: &str, name: &str, is_part: bool) -> String {
    let rows: Vec<(&str, Summary)> = comparison
        .runs
        .iter()
        .filter_map(|run| {
            let found = run.figures.iter().find(|(metric, _)| metric.key == key);
            found.map(|(_, summary)| (run.label.as_str(), *summary))
        })
        .collect();
    let factor = if is_part { 100.0 } else { 1.0 };
    let far = |summary: &Summary| summary.mean + summary.interval().unwrap_or(0.0);
    let most = rows.iter().map(|(_, summary)| far(summary)).fold(0.0, f64::max);
    // Bars end well before the side: their numbers stand behind them.
    let across = Axis::exact(0.0, if is_part { most.max(1.0) } else { most } * 1.02);
    let words: Vec<String> = rows
        .iter()
        .map(|(label, summary)| format!("{label}: {}", number(summary, factor, is_part)))
        .collect();
    let mut plot =
        Plot::new(name, &words.join("; "), ROW * rows.len() as f64).gutters(78, 120).foot(4.0);
    for (place, (label, summary)) in rows.iter().enumerate() {
        let middle = ROW * (place as f64 + 0.5);
        let end = across.part(summary.mean);
        plot.text(0.0, middle + 4.0, -8.0, Anchor::End, "row-name", &shorten(label, 11));
        plot.bar(end, middle - BAR / 2.0, BAR, &format!("bar {}", look(place)));
        if let Some(half) = summary.interval() {
            let ends = [summary.mean - half, summary.mean + half].map(|end| across.part(end));
            plot.span(ends[0], ends[1], middle, "interval");
        }
        let behind = across.part(far(summary));
        let text = number(summary, factor, is_part);
        plot.text(behind, middle + 4.0, 7.0, Anchor::Start, "value", &text);
    }
    plot.finish()
}

fn number(summary: &Summary, factor: f64, is_part: bool) -> String {
    let text = with_interval(summary.mean * factor, summary.interval().map(|half| half * factor));
    if is_part { text + " %" } else { text }
}
