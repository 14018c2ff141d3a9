//! The page about critical paths: where latency comes from, and what changed.

use std::fmt::Write;
use std::path::Path;

use homeostat_lab::{Result, write_atomically};
use homeostat_spans::{
    CriticalPaths, OperationComparison, OperationReport, SpanDefects, StepReport,
};

use super::document::Document;
use super::flame::{ServiceColours, flame, milliseconds, named, swatch};
use super::markup::{escape, listed, section, table};

/// What the page is about.
#[derive(Debug)]
pub struct CriticalPathPage<'a> {
    /// Name of the input.
    pub title: &'a str,
    /// Spans of the input.
    pub spans: usize,
    /// Traces of the input.
    pub traces: usize,
    /// One range of time, or two to compare.
    pub paths: &'a [CriticalPaths],
    /// The names of the two ranges.
    pub labels: &'a [String],
    /// What changed between them.
    pub changes: Option<&'a [OperationComparison]>,
    /// What was wrong with spans.
    pub defects: &'a SpanDefects,
}

/// Operations with a section of their own, and rows of a table.
const MAX_OPERATIONS: usize = 20;
const MAX_ROWS: usize = 15;

/// Writes the page as a whole or not at all.
pub fn write_critical_paths(page: &CriticalPathPage, out: &Path) -> Result<()> {
    write_atomically(out, html(page).as_bytes())
}

fn html(page: &CriticalPathPage) -> String {
    let colours = ServiceColours::of(page.paths.iter().flat_map(|paths| &paths.operations));
    let mut content = String::new();
    match page.changes {
        Some(changes) => {
            for (place, change) in changes.iter().take(MAX_OPERATIONS).enumerate() {
                content += &changed_operation(page, &colours, place, change);
            }
        }
        None => {
            let operations = page.paths.iter().flat_map(|paths| &paths.operations);
            for (place, report) in operations.take(MAX_OPERATIONS).enumerate() {
                content += &operation(&colours, place, report);
            }
        }
    }
    content += &defects(page.defects);
    let title = escape(page.title);
    let requests: u64 = page.paths.iter().map(|paths| paths.requests).sum();
    let operations = page.paths.iter().map(|paths| paths.operations.len()).max().unwrap_or(0);
    let header = format!(
        "<p class=\"name\">critical paths</p><h1>{title}</h1><p class=\"facts\">{} · {} · {} in {}</p>",
        counted(requests, "request"),
        counted(operations as u64, "operation"),
        counted(page.spans as u64, "span"),
        counted(page.traces as u64, "trace"),
    );
    Document {
        title: &format!("{title} – critical paths"),
        header: &header,
        content: &content,
        script: None,
    }
    .html()
}

fn operation(colours: &ServiceColours, place: usize, report: &OperationReport) -> String {
    let heading = heading(&report.service, &report.operation);
    let mut content = format!("<p class=\"answer\">{}</p>", answer(report));
    content += &colours.key();
    let title = format!("Critical path of {} {}", report.service, report.operation);
    let _ = write!(
        content,
        "<figure class=\"wide\">{}</figure>",
        flame(report, colours, report.latency.mean_ms, &title)
    );
    content += &steps_table(colours, report);
    section(&format!("operation-{place}"), &heading, &facts(report), &content)
}

/// The steps with the greatest shares, in words.
fn answer(report: &OperationReport) -> String {
    let words: Vec<String> = greatest(report)
        .iter()
        .take(3)
        .map(|step| {
            format!(
                "<span class=\"number\">{:.0}&nbsp;%</span> is spent in {} of {}",
                100.0 * step.share_ratio,
                named(&step.operation),
                named(&step.service)
            )
        })
        .collect();
    match words.is_empty() {
        true => "The requests took no time.".to_owned(),
        false => format!("Of the latency, {}.", listed(&words)),
    }
}

fn facts(report: &OperationReport) -> String {
    let latency = &report.latency;
    let errors = match report.errors {
        0 => String::new(),
        errors => format!(", {errors} of them with errors"),
    };
    let paths = match report.distinct_paths {
        1 => "All took the same critical path.".to_owned(),
        paths => format!(
            "They took {paths} different critical paths; {:.0}&nbsp;% took the most frequent one.",
            100.0 * report.most_frequent_path_ratio
        ),
    };
    format!(
        "{}{errors}: mean {}&nbsp;ms, median {}, 99th percentile {}, longest {}. {paths}",
        counted(report.requests, "request"),
        milliseconds(latency.mean_ms),
        milliseconds(latency.p50_ms),
        milliseconds(latency.p99_ms),
        milliseconds(latency.max_ms),
    )
}

fn steps_table(colours: &ServiceColours, report: &OperationReport) -> String {
    let columns = ["Step", "Service", "Own time, ms", "Share", "With calls, ms", "Requests"];
    let rows: Vec<Vec<String>> = greatest(report)
        .into_iter()
        .take(MAX_ROWS)
        .map(|step| {
            vec![
                format!("{}{}", swatch(colours.look(&step.service)), named(&step.operation)),
                named(&step.service),
                milliseconds(step.self_ms),
                format!("{:.1}&nbsp;%", 100.0 * step.share_ratio),
                milliseconds(step.total_ms),
                format!("{:.0}&nbsp;%", 100.0 * step.requests_ratio),
            ]
        })
        .collect();
    table(
        "Steps by their own share of the latency, and the part of the requests whose path has them",
        &columns.map(str::to_owned),
        &rows,
    )
}

/// Steps by their own time, without those that take none.
fn greatest(report: &OperationReport) -> Vec<&StepReport> {
    let mut steps: Vec<&StepReport> =
        report.steps.iter().filter(|step| step.self_ms > 0.0).collect();
    steps.sort_by(|a, b| b.self_ms.total_cmp(&a.self_ms));
    steps
}

fn changed_operation(
    page: &CriticalPathPage,
    colours: &ServiceColours,
    place: usize,
    change: &OperationComparison,
) -> String {
    let reports: Vec<Option<&OperationReport>> = page
        .paths
        .iter()
        .map(|paths| {
            let is_same = |report: &&OperationReport| {
                (&report.service, &report.operation) == (&change.service, &change.operation)
            };
            paths.operations.iter().find(is_same)
        })
        .collect();
    let mean = |report: &&OperationReport| report.latency.mean_ms;
    let full_ms = reports.iter().flatten().map(mean).fold(0.0, f64::max);
    let mut content = format!("<p class=\"answer\">{}</p>", change_in_words(change));
    content += &colours.key();
    for (report, label) in reports.into_iter().zip(page.labels) {
        let caption = match report {
            Some(report) => format!(
                "{}: {}, mean {}&nbsp;ms",
                escape(label),
                counted(report.requests, "request"),
                milliseconds(report.latency.mean_ms)
            ),
            None => format!("{}: no requests", escape(label)),
        };
        let drawn = report.map(|report| flame(report, colours, full_ms, label)).unwrap_or_default();
        let _ = write!(
            content,
            "<figure class=\"wide\"><figcaption>{caption}</figcaption>{drawn}</figure>"
        );
    }
    content += &changes_table(colours, change);
    let heading = heading(&change.service, &change.operation);
    section(&format!("operation-{place}"), &heading, "", &content)
}

fn change_in_words(change: &OperationComparison) -> String {
    let [Some(before), Some(after)] = change.latency else {
        return "There are requests in one of the two ranges only.".to_owned();
    };
    let difference = after.mean_ms - before.mean_ms;
    let direction = if difference > 0.0 { "longer" } else { "shorter" };
    let most = change.steps.iter().find(|step| step.change_ms * difference > 0.0);
    let culprit = most.map_or(String::new(), |step| {
        format!(
            "; the own time of {} of {} changed by <span class=\"number\">{:+.3}&nbsp;ms</span>",
            named(&step.operation),
            named(&step.service),
            step.change_ms
        )
    });
    format!(
        "Requests take <span class=\"number\">{}&nbsp;ms</span> {direction}{culprit}.",
        milliseconds(difference.abs())
    )
}

fn changes_table(colours: &ServiceColours, change: &OperationComparison) -> String {
    let columns =
        ["Step", "Service", "Before, ms", "After, ms", "Change, ms", "Share before", "after"];
    let rows: Vec<Vec<String>> = change
        .steps
        .iter()
        .take(MAX_ROWS)
        .map(|step| {
            vec![
                format!("{}{}", swatch(colours.look(&step.service)), named(&step.operation)),
                named(&step.service),
                milliseconds(step.self_ms[0]),
                milliseconds(step.self_ms[1]),
                format!("{:+.3}", step.change_ms),
                format!("{:.1}&nbsp;%", 100.0 * step.share_ratio[0]),
                format!("{:.1}&nbsp;%", 100.0 * step.share_ratio[1]),
            ]
        })
        .collect();
    table("Steps whose own time changed most", &columns.map(str::to_owned), &rows)
}

fn heading(service: &str, operation: &str) -> String {
    format!("{} <span class=\"service\">{}</span>", named(operation), named(service))
}

fn defects(defects: &SpanDefects) -> String {
    let Ok(serde_json::Value::Object(counts)) = serde_json::to_value(defects) else {
        return String::new();
    };
    let rows: Vec<Vec<String>> = counts
        .iter()
        .filter(|(_, count)| count.as_u64() != Some(0))
        .map(|(name, count)| vec![escape(&name.replace('_', " ")), count.to_string()])
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let columns = ["Reason", "Count"].map(str::to_owned);
    section("defects", "Spans dropped or repaired", "", &table("Counts by reason", &columns, &rows))
}

fn counted(count: u64, word: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count}&nbsp;{word}{ending}")
}

#[cfg(test)]
mod tests {
    use homeostat_spans::{Latency, compare};

    use super::*;

    fn paths(name: &str, self_ms: f64) -> CriticalPaths {
        let step = |caller: Option<usize>, self_ms: f64, total_ms: f64| StepReport {
            caller,
            depth: usize::from(caller.is_some()),
            service: name.to_owned(),
            operation: name.to_owned(),
            requests_ratio: 1.0,
            calls_per_request: 1.0,
            self_ms,
            share_ratio: self_ms / (self_ms + 1.0),
            total_ms,
        };
        let total = self_ms + 1.0;
        let latency = Latency { mean_ms: total, p50_ms: total, p99_ms: total, max_ms: total };
        let operation = OperationReport {
            service: name.to_owned(),
            operation: name.to_owned(),
            requests: 2,
            errors: 1,
            latency,
            distinct_paths: 1,
            most_frequent_path_ratio: 1.0,
            steps: vec![step(None, 1.0, total), step(Some(0), self_ms, self_ms)],
        };
        CriticalPaths { requests: 2, operations: vec![operation] }
    }

    fn page_of(paths: &[CriticalPaths], changes: Option<&[OperationComparison]>) -> String {
        let labels = ["+0s..<b>", "after"].map(str::to_owned);
        let defects = SpanDefects { duplicate: 7, ..SpanDefects::default() };
        html(&CriticalPathPage {
            title: "<script>",
            spans: 4,
            traces: 2,
            paths,
            labels: &labels,
            changes,
            defects: &defects,
        })
    }

    #[test]
    fn a_page_says_where_the_latency_is_and_no_name_is_markup() {
        let page = page_of(&[paths("<script>alert(1)</script>", 3.0)], None);
        assert!(!page.contains("<script"), "{page}");
        for part in [
            "75&nbsp;%</span> is spent in &lt;script&gt;",
            "class=\"plot flame\"",
            "duplicate",
            ">7<",
        ] {
            assert!(page.contains(part), "{part} is missing: {page}");
        }
    }

    #[test]
    fn a_comparison_draws_both_ranges_to_one_scale_and_names_the_culprit() {
        let both = [paths("db", 3.0), paths("db", 7.0)];
        let changes = compare(&both[0], &both[1]);
        let page = page_of(&both, Some(&changes));
        for part in
            ["4.00&nbsp;ms</span> longer", "+4.000&nbsp;ms", "+0s..&lt;b&gt;: 2&nbsp;requests"]
        {
            assert!(page.contains(part), "{part} is missing: {page}");
        }
        assert!(
            page.contains("width=\"50.000%\"") && page.contains("width=\"100.000%\""),
            "{page}"
        );
    }
}
