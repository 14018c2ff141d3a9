//! The answer as a sentence, and the tables behind it.

use std::fmt::Write;

use super::key::swatch;
use super::markup::{escape, listed, section, table};
use crate::compare::{ComparedRun, Comparison, Difference, RunKind, Verdict, compact, signed};

/// The paragraph and the tables of one comparison.
pub(super) fn headline(comparison: &Comparison, closest: Option<&Comparison>) -> String {
    let words = match comparison.kind {
        RunKind::Simulation => simulation_words(comparison),
        RunKind::Training => training_words(comparison),
    };
    let winner = closest.map_or(String::new(), |closest| {
        format!("<p class=\"answer winner\">{}</p>", winner_words(closest))
    });
    let mut html = format!("{winner}<p class=\"answer\">{words}</p>");
    if !comparison.setting_differences.is_empty() {
        let settings: Vec<String> =
            comparison.setting_differences.iter().map(|one| escape(&one.to_string())).collect();
        let _ = write!(
            html,
            "<p class=\"warning\"><strong>These runs have different settings</strong>, so nothing is called better or worse: {}.</p>",
            settings.join("; ")
        );
    }
    html.push_str(&figures_table(comparison));
    html.push_str(&differences_table(comparison));
    let heading = match comparison.kind {
        RunKind::Simulation => "Result",
        RunKind::Training => "Training results",
    };
    let id = match comparison.kind {
        RunKind::Simulation => "answer",
        RunKind::Training => "learnt",
    };
    section(id, heading, "", &html)
}

/// Who has the fewest SLO violations, and whether the seeds tell it from the next.
fn winner_words(closest: &Comparison) -> String {
    let [next, winner] = closest.runs.as_slice() else { return String::new() };
    let violations =
        winner.differences.iter().find(|difference| difference.metric.key == "slo_violation_ratio");
    let (shown, number) = match violations {
        Some(difference) => {
            let (mean, interval) = difference.in_unit();
            let shown = difference.verdict() == Verdict::Better;
            (shown, format!(" ({} points)", signed(mean, interval)))
        }
        None => (false, String::new()),
    };
    let [own, other] = [winner, next].map(|run| {
        format!(
            "{}&nbsp;% at {} container-seconds",
            figure(run, "slo_violation_ratio"),
            mean(run, "container_s")
        )
    });
    let (winner, next) = (escape(&winner.label), escape(&next.label));
    match shown {
        true => format!(
            "<strong>{winner} has the fewest SLO violations</strong>: {own}, against {other} of {next}, the next{number}."
        ),
        false => format!(
            "<strong>No clear winner</strong>: {winner} has the fewest SLO violations with {own}, but the seeds do not show a difference from {next}, {other}{number}."
        ),
    }
}

fn simulation_words(comparison: &Comparison) -> String {
    let told: Vec<String> = comparison
        .runs
        .iter()
        .map(|run| {
            format!(
                "<strong>{}</strong> violated the SLO in {}&nbsp;% of requests at {} container-seconds and {} GiB-seconds",
                escape(&run.label),
                figure(run, "slo_violation_ratio"),
                mean(run, "container_s"),
                mean(run, "memory_gib_s"),
            )
        })
        .collect();
    format!("{}.</p><p class=\"verdicts\">{}", told.join("; "), against(comparison))
}

fn training_words(comparison: &Comparison) -> String {
    let told: Vec<String> = comparison
        .runs
        .iter()
        .map(|run| {
            let agents = if run.trials == 1 { "agent" } else { "agents" };
            format!(
                "<strong>{}</strong> ended with a return of {} over {} {agents}",
                escape(&run.label),
                figure(run, "return_mean"),
                run.trials
            )
        })
        .collect();
    format!("{}.</p><p class=\"verdicts\">{}", told.join("; "), against(comparison))
}

fn figure(run: &ComparedRun, key: &str) -> String {
    let found = run.figures.iter().find(|(metric, _)| metric.key == key);
    let text = found.map(|(metric, summary)| metric.text(summary));
    format!("<span class=\"number\">{}</span>", text.unwrap_or_else(|| "–".to_owned()))
}

fn mean(run: &ComparedRun, key: &str) -> String {
    let found = run.figures.iter().find(|(metric, _)| metric.key == key);
    found.map_or_else(|| "–".to_owned(), |(_, summary)| compact(summary.mean, None))
}

/// What the differences show, run by run.
fn against(comparison: &Comparison) -> String {
    if comparison.runs.len() < 2 || !comparison.setting_differences.is_empty() {
        return String::new();
    }
    let base = escape(&comparison.runs[comparison.baseline].label);
    let others =
        comparison.runs.iter().enumerate().filter(|(place, _)| *place != comparison.baseline);
    let sentences: Vec<String> = others.map(|(_, run)| run_against(run, &base)).collect();
    sentences.join(" ")
}

fn run_against(run: &ComparedRun, base: &str) -> String {
    let name = escape(&run.label);
    if run.differences.is_empty() {
        return format!("{name} and {base} have no seed in common, so they are not compared.");
    }
    let of = |verdict: Verdict| -> Vec<String> {
        let all = run.differences.iter().filter(|difference| difference.verdict() == verdict);
        all.map(|difference| told(difference, verdict)).collect()
    };
    let (better, worse) = (of(Verdict::Better), of(Verdict::Worse));
    let mut parts = Vec::new();
    if !better.is_empty() {
        parts.push(format!("is better in {}", listed(&better)));
    }
    if !worse.is_empty() {
        parts.push(format!("is worse in {}", listed(&worse)));
    }
    let open = of(Verdict::NotShown);
    if !open.is_empty() {
        parts.push(format!("shows no difference in {}", listed(&open)));
    }
    if parts.is_empty() {
        return format!(
            "{name} and {base} have too few trials in common for an interval, so neither is called better."
        );
    }
    format!("Against {base}, {name} {}.", parts.join("; it "))
}

fn told(difference: &Difference, verdict: Verdict) -> String {
    let label = difference.metric.label;
    if verdict == Verdict::NotShown {
        return label.to_owned();
    }
    let unit = if difference.metric.unit == "%" { " points" } else { "" };
    let (mean, interval) = difference.in_unit();
    let change = compact(mean, interval);
    format!("{label} (<span class=\"number\">{change}</span>{unit})")
}

fn figures_table(comparison: &Comparison) -> String {
    // The other figures are in the pictures below.
    let shown = |key: &str| !["requests", "reward", "cpu_s", "oom_kills"].contains(&key);
    let Some(first) = comparison.runs.first() else { return String::new() };
    let trials = match comparison.kind {
        RunKind::Simulation => "seeds",
        RunKind::Training => "agents",
    };
    let metrics = first.figures.iter().map(|(metric, _)| *metric);
    let metrics: Vec<_> = metrics.filter(|metric| shown(metric.key)).collect();
    let mut columns = vec!["run".to_owned(), trials.to_owned()];
    columns.extend(metrics.iter().map(|metric| match metric.unit {
        "" => metric.label.to_owned(),
        unit => format!("{}, {unit}", metric.label),
    }));
    let rows = comparison.runs.iter().enumerate().map(|(place, run)| {
        let mut row =
            vec![format!("{}{}", swatch(place), escape(&run.label)), run.trials.to_string()];
        row.extend(metrics.iter().map(|metric| {
            let found = run.figures.iter().find(|(other, _)| other.key == metric.key);
            found.map_or("–".to_owned(), |(metric, summary)| stacked(&metric.text(summary)))
        }));
        row
    });
    let mut caption = format!("Means with 95&nbsp;% intervals over {trials}");
    if comparison.kind == RunKind::Simulation {
        caption.push_str("; p99 / SLO threshold is the geometric mean over functions");
    }
    table(&caption, &columns, &rows.collect::<Vec<_>>())
}

/// The interval under its mean: columns stay narrow and numbers comparable.
fn stacked(text: &str) -> String {
    match text.split_once(" ± ") {
        Some((mean, half)) => format!("{mean} <span class=\"half\">± {half}</span>"),
        None => text.to_owned(),
    }
}

fn differences_table(comparison: &Comparison) -> String {
    let runs = comparison.runs.iter().enumerate();
    let runs: Vec<(usize, &ComparedRun)> =
        runs.filter(|(_, run)| !run.differences.is_empty()).collect();
    let Some((_, first)) = runs.first() else { return String::new() };
    let mut columns = vec!["run".to_owned()];
    let metrics = first.differences.iter().map(|difference| difference.metric);
    columns.extend(metrics.map(|metric| match metric.unit {
        "%" => format!("{}, points", metric.label),
        _ => metric.label.to_owned(),
    }));
    let is_fair = comparison.setting_differences.is_empty();
    let rows = runs.iter().map(|(place, run)| {
        let mut row = vec![format!("{}{}", swatch(*place), escape(&run.label))];
        row.extend(run.differences.iter().map(|difference| {
            let (mean, interval) = difference.in_unit();
            let number = signed(mean, interval);
            let verdict = difference.verdict();
            let class = match verdict {
                Verdict::Better => "better",
                Verdict::Worse => "worse",
                Verdict::NotShown | Verdict::NoInterval => "open",
            };
            match is_fair {
                true => format!("{number} <span class=\"{class}\">{verdict}</span>"),
                false => number,
            }
        }));
        row
    });
    let base = escape(&comparison.runs[comparison.baseline].label);
    let how = match comparison.kind {
        RunKind::Simulation => "seed by seed",
        RunKind::Training => "Welch’s interval over agents",
    };
    let caption = format!("Differences from {base}, {how}");
    table(&caption, &columns, &rows.collect::<Vec<_>>())
}
