//! What was played, and how to play it again.

use std::fmt::Write;
use std::path::Path;

use homeostat_simulate::{Controllers, FinishedSimulation, SimulationFacts, TraceFiles};

use super::markup::{escape, section, table};
use super::subject::Subject;
use crate::compare::{SimulatorSettings, TrainingRun};

/// The section about every run.
pub(super) fn played(subject: &Subject, command: Option<&str>) -> String {
    let mut content = String::new();
    if !subject.simulations.is_empty() {
        let columns = [
            "run",
            "directory",
            "scenario",
            "load",
            "functions",
            "duration",
            "window",
            "seeds",
            "version",
        ]
        .map(str::to_owned);
        let rows = subject.simulations.iter().map(|run| simulation_row(&run.label, &run.run));
        content.push_str(&table("Simulations", &columns, &rows.collect::<Vec<_>>()));
    }
    if !subject.trainings.is_empty() {
        let columns =
            ["run", "directory", "environment", "steps", "agents", "seed", "ended", "version"]
                .map(str::to_owned);
        let rows = subject.trainings.iter().map(training_row);
        content.push_str(&table("Trainings", &columns, &rows.collect::<Vec<_>>()));
    }
    let _ = write!(
        content,
        "<h3>How to repeat it</h3><p>The same version, settings and seeds give the same bytes.</p><pre>{}</pre>",
        escape(&command.map_or_else(|| commands(subject), str::to_owned))
    );
    for (path, text) in &subject.settings {
        let _ = write!(
            content,
            "<details><summary>Settings of {}</summary><pre>{}</pre></details>",
            escape(&path.display().to_string()),
            escape(text.trim_end())
        );
    }
    section("played", "Runs and settings", "", &content)
}

fn simulation_row(label: &str, run: &FinishedSimulation) -> Vec<String> {
    let facts = &run.facts;
    vec![
        escape(label),
        escape(&run.path.display().to_string()),
        escape(&facts.scenario),
        escape(&facts.load),
        facts.functions.to_string(),
        format!("{}&nbsp;s", facts.duration_s),
        format!("{}&nbsp;s", facts.window_s),
        seed_list(&facts.seeds),
        escape(&facts.homeostat),
    ]
}

fn training_row(run: &TrainingRun) -> Vec<String> {
    vec![
        escape(&run.algorithm),
        escape(&run.path.display().to_string()),
        escape(&run.env),
        run.steps.to_string(),
        run.returns.len().to_string(),
        run.seed.to_string(),
        escape(&run.status),
        escape(&run.homeostat),
    ]
}

fn commands(subject: &Subject) -> String {
    let mut lines = Vec::new();
    for run in &subject.simulations {
        lines.push(simulation_command(&run.run.facts, &run.run.path));
    }
    for run in &subject.trainings {
        let config = quoted(&run.path.join("config.toml").display().to_string());
        lines.push(format!("homeostat train --config {config}"));
    }
    let directories: Vec<String> =
        subject.settings.iter().map(|(path, _)| quoted(&path.display().to_string())).collect();
    if directories.len() > 1 && (subject.simulations.is_empty() || subject.trainings.is_empty()) {
        lines.push(format!("homeostat compare {}", directories.join(" ")));
    }
    lines.push(format!("homeostat report {}", directories.join(" ")));
    lines.join("\n")
}

fn simulation_command(facts: &SimulationFacts, path: &Path) -> String {
    let simulator = SimulatorSettings::of_run(path);
    let mut command = format!("homeostat sim {}", quoted(&simulator.prefix));
    let is_rule = Controllers::names().contains(&facts.policy.as_str());
    let policy = match &facts.policy_file {
        Some(file) => file.display().to_string(),
        None if is_rule => facts.policy.clone(),
        // Runs of 0.1.0 have only the name of its file.
        None => format!("PATH/TO/{}", facts.policy),
    };
    let _ = write!(command, " --policy {}", quoted(&policy));
    let _ =
        write!(command, " --seeds {} --duration {}s", seed_list(&facts.seeds), facts.duration_s);
    if facts.scenario == "alone" {
        command.push_str(" --alone");
    }
    for (flag, file) in facts.trace.iter().flat_map(TraceFiles::flags) {
        let _ = write!(command, " {flag} {}", quoted(&file.display().to_string()));
    }
    if let Some(nodes) = facts.nodes {
        let _ = write!(command, " --nodes {nodes}");
    }
    if let Some(slo) = facts.slo_over_mean {
        let _ = write!(command, " --slo {slo}");
    }
    let config = path.join("config.toml").display().to_string();
    command + " --config " + &quoted(&config)
}

/// `1..5` for a range, else a list.
pub(super) fn seed_list(seeds: &[u64]) -> String {
    let is_range = seeds.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    match seeds {
        [first, .., last] if is_range => format!("{first}..{last}"),
        _ => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
    }
}

/// A word as a shell reads it.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "+-_./,=:@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("runs/sim-hpa+vpa"), "runs/sim-hpa+vpa");
        assert_eq!(quoted("my runs"), "'my runs'");
        assert_eq!(quoted("it's; rm -rf $HOME"), r"'it'\''s; rm -rf $HOME'");
    }

    #[test]
    fn seeds_are_ranges_where_they_can_be() {
        assert_eq!(seed_list(&[3]), "3");
        assert_eq!(seed_list(&[1, 2, 3]), "1..3");
        assert_eq!(seed_list(&[1, 4, 9]), "1,4,9");
    }
}
