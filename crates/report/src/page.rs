//! The page: everything put together and written as one file.

use std::path::{Path, PathBuf};

use homeostat_lab::{Result, write_atomically};

use super::additions::Additions;
use super::costs::costs;
use super::document::Document;
use super::function_dots::function_dots;
use super::headline::headline;
use super::latency::latency;
use super::learning::learning;
use super::markup::escape;
use super::played::played;
use super::subject::Subject;
use super::timeline::timeline;

const SCRIPT: &str = include_str!("page.js");

/// Writes a report about these runs as a whole or not at all. Runs that are broken or not
/// finished are refused with the name of the file.
pub fn write_report(paths: &[PathBuf], title: Option<&str>, out: &Path) -> Result<()> {
    write_report_with(paths, title, &Additions::default(), out)
}

/// [`write_report`] with more results of the same command.
pub fn write_report_with(
    paths: &[PathBuf],
    title: Option<&str>,
    additions: &Additions,
    out: &Path,
) -> Result<()> {
    let subject = Subject::read(paths)?;
    let html = page(&subject, title, additions);
    write_atomically(out, html.as_bytes())
}

fn page(subject: &Subject, title: Option<&str>, additions: &Additions) -> String {
    let title = escape(title.map_or_else(|| default_title(subject), str::to_owned).trim());
    let parts = [
        subject.played.as_ref().map(|played| headline(played, subject.closest.as_ref())),
        subject.trained.as_ref().map(|trained| headline(trained, None)),
        learning(subject),
        latency(subject),
        function_dots(subject),
        costs(subject),
        timeline(subject),
        Some(additions.sections()),
        Some(played(subject, additions.command.as_deref())),
    ];
    let content: String = parts.into_iter().flatten().collect();
    Document {
        title: &title,
        header: &format!("<h1>{title}</h1><p class=\"facts\">{}</p>", facts(subject)),
        content: &content,
        script: Some(SCRIPT),
    }
    .html()
}

fn default_title(subject: &Subject) -> String {
    let names: Vec<&str> = match subject.simulations.is_empty() {
        true => subject.trainings.iter().map(|run| run.algorithm.as_str()).collect(),
        false => subject.labels(),
    };
    match names.as_slice() {
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
        [] => "Report".to_owned(),
    }
}

/// One line under the title.
fn facts(subject: &Subject) -> String {
    let Some(first) = subject.simulations.first() else {
        let environments: Vec<String> =
            subject.trainings.iter().map(|run| escape(&run.env)).collect();
        return environments.first().cloned().unwrap_or_default();
    };
    let facts = &first.run.facts;
    let load = match facts.mean_load {
        Some(load) => {
            format!("{} load, mean {:.0}&nbsp;% of the cores", escape(&facts.load), load * 100.0)
        }
        None => format!("{} load", escape(&facts.load)),
    };
    format!(
        "{} functions {} · {load} · {}&nbsp;s · {} {}",
        facts.functions,
        escape(&facts.scenario),
        facts.duration_s,
        facts.seeds.len(),
        if facts.seeds.len() == 1 { "seed" } else { "seeds" }
    )
}
