//! The last decisions of a function, with their reasons.

use std::fmt::Write;

use super::key::swatch;
use super::markup::{escape, table};
use super::subject::Subject;
use super::timeline::SHARES_PER_MILLICORE;
use super::windows::Window;

/// A fold with a table for each policy.
pub(super) fn decisions(subject: &Subject, function: usize) -> String {
    let columns = ["at", "containers", "CPU shares", "memory, MiB", "because"].map(str::to_owned);
    let mut html =
        "<details class=\"decisions\"><summary>Last decisions and their reasons</summary>"
            .to_owned();
    for (place, run) in subject.simulations.iter().enumerate() {
        let Some(windows) = run.windows.get(&function) else { continue };
        let rows: Vec<Vec<String>> = windows.last.iter().rev().map(row).collect();
        let label = escape(&run.label);
        let _ = write!(html, "<h4>{}{label}</h4>", swatch(place));
        html.push_str(&table(&format!("{label}, newest first"), &columns, &rows));
    }
    html + "</details>"
}

fn row(window: &Window) -> Vec<String> {
    let decided = &window.decided;
    let shares = |millicores: f64| (millicores * SHARES_PER_MILLICORE).round();
    let reasons = match decided.reasons.as_slice() {
        [] => "nothing to change".to_owned(),
        reasons => escape(&reasons.join("; ")),
    };
    vec![
        format!("{:.0}&nbsp;s", window.t_s),
        change(f64::from(window.containers), f64::from(decided.containers)),
        change(shares(window.cpu_millicores), shares(decided.cpu_millicores)),
        change(window.memory_mib.round(), decided.memory_mib.round()),
        reasons,
    ]
}

/// `3`, or `3 → 4` where it changed.
fn change(from: f64, to: f64) -> String {
    if from == to { format!("{to}") } else { format!("{from}&nbsp;→&nbsp;<b>{to}</b>") }
}
