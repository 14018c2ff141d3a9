//! A flame graph of critical paths: time from left to right, callers above what they call.

use std::collections::BTreeMap;
use std::fmt::Write;

use homeostat_spans::OperationReport;

use super::key::LOOKS;
use super::markup::{escape, shorten};

/// Height of a row, and of the bar in it.
const ROW: usize = 23;
const BAR: usize = 21;

/// Narrower bars, as a part of the width, could not be seen.
const MIN_PART: f64 = 0.002;

/// Narrower bars show no letter, which would be cut.
const MIN_LABELLED: f64 = 0.025;

/// Rows that are drawn; deeper calls are in the machine-readable output.
const MAX_DEPTH: usize = 48;

/// Colours of services: the ones with the greatest shares have their own, the rest the last.
#[derive(Debug)]
pub(super) struct ServiceColours<'a> {
    ranks: Vec<&'a str>,
}

impl<'a> ServiceColours<'a> {
    pub(super) fn of(reports: impl Iterator<Item = &'a OperationReport>) -> Self {
        let mut times: BTreeMap<&str, f64> = BTreeMap::new();
        for report in reports {
            for step in &report.steps {
                *times.entry(&step.service).or_default() += step.self_ms * report.requests as f64;
            }
        }
        let mut ranks: Vec<(&str, f64)> = times.into_iter().collect();
        ranks.sort_by(|a, b| b.1.total_cmp(&a.1));
        Self { ranks: ranks.into_iter().map(|(service, _)| service).collect() }
    }

    /// The look of a service; grey stands for all without their own.
    pub(super) fn look(&self, service: &str) -> usize {
        const GREY: usize = 6;
        let own: [usize; LOOKS - 2] = [0, 1, 2, 3, 4, 5];
        let rank = self.ranks.iter().position(|ranked| *ranked == service);
        rank.and_then(|rank| own.get(rank)).copied().unwrap_or(GREY)
    }

    /// Names beside colours.
    pub(super) fn key(&self) -> String {
        let mut html = "<ul class=\"key\">".to_owned();
        for service in self.ranks.iter().take(LOOKS - 2) {
            let _ = write!(html, "<li>{}{}</li>", swatch(self.look(service)), named(service));
        }
        if self.ranks.len() > LOOKS - 2 {
            let others = self.ranks.len() - (LOOKS - 2);
            let _ = write!(html, "<li>{}{others} other services</li>", swatch(LOOKS - 2));
        }
        html + "</ul>"
    }
}

pub(super) fn swatch(look: usize) -> String {
    format!("<span class=\"tile s{look}\" aria-hidden=\"true\"></span>")
}

/// A name from a trace as markup.
pub(super) fn named(name: &str) -> String {
    escape(&shorten(if name.is_empty() { "(unnamed)" } else { name }, 80))
}

/// The graph. Its full width stands for `full_ms`, so that two of them can share a scale.
pub(super) fn flame(
    report: &OperationReport,
    colours: &ServiceColours,
    full_ms: f64,
    title: &str,
) -> String {
    let mut bars = String::new();
    let mut places: Vec<Option<f64>> = Vec::with_capacity(report.steps.len());
    // Where the next call of each step begins.
    let mut next: Vec<f64> = vec![0.0; report.steps.len()];
    let mut rows = 0;
    for (index, step) in report.steps.iter().enumerate() {
        let part = step.total_ms / full_ms.max(f64::MIN_POSITIVE);
        let start = match step.caller {
            None => Some(0.0),
            Some(caller) => places[caller].map(|_| next[caller]),
        };
        let is_drawn = part >= MIN_PART && step.depth < MAX_DEPTH;
        places.push(start.filter(|_| is_drawn));
        let Some(start) = start.filter(|_| is_drawn) else { continue };
        if let Some(caller) = step.caller {
            next[caller] += part;
        }
        next[index] = start;
        rows = rows.max(step.depth + 1);
        let says = format!(
            "{} · {}\nown time {} ms, {:.1} % of the latency\nwith calls {} ms\non the path of {:.0} % of the requests",
            step.service,
            step.operation,
            milliseconds(step.self_ms),
            100.0 * step.share_ratio,
            milliseconds(step.total_ms),
            100.0 * step.requests_ratio
        );
        let label = match part >= MIN_LABELLED {
            true => format!(
                "<text x=\"6\" y=\"15\">{} <tspan>{:.1} %</tspan></text>",
                named(&step.operation),
                100.0 * step.share_ratio
            ),
            false => String::new(),
        };
        let _ = write!(
            bars,
            "<svg x=\"{:.3}%\" y=\"{}\" width=\"{:.3}%\" height=\"{BAR}\" class=\"s{}\"><title>{}</title><rect width=\"100%\" height=\"100%\" rx=\"2\"/>{label}</svg>",
            100.0 * start,
            step.depth * ROW,
            100.0 * part,
            colours.look(&step.service),
            escape(&says)
        );
    }
    format!(
        "<svg class=\"plot flame\" role=\"img\" height=\"{}\" style=\"--l:0px;--r:0px\"><title>{}</title><desc>Bars are steps of critical paths: as wide as their mean time, callers above what they call, the percentage is their own share of the latency.</desc>{bars}</svg>",
        rows.max(1) * ROW,
        escape(title)
    )
}

/// Milliseconds with as many digits as matter.
pub(super) fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        ms => format!("{ms:.3}"),
    }
}
