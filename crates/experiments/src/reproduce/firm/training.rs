//! Learning curves (figure 3.6): one agent for all services of Train-Ticket, one for one service, and one that
//! begins with the networks of the first; and how fast what they learnt repairs.

use homeostat_core::SeedTree;
use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Line, Picture, Spread, Table};
use rayon::prelude::*;
use serde_json::json;

use super::FirmOptions;
use super::agents::{Schedule, Task, Trained, train};

/// The application of training (3.3.3), and the service of the agents that have one: it is on the paths of most
/// types of requests.
pub(super) const TOPOLOGY: &str = "train-ticket";
const SERVICE: &str = "ts-basic-service";

const ARMS: [&str; 3] = ["one for all", "one for each", "transferred"];

/// What the paper prints: episodes until convergence.
const PAPER_EPISODES: [Option<f64>; 3] = [Some(15_000.0), None, Some(2000.0)];

pub(super) fn training(options: &FirmOptions, progress: &(dyn Fn(&str) + Sync)) -> Result<Finding> {
    let schedule = Schedule { episodes: if options.is_quick { 30 } else { 300 } };
    let general = Task::new(TOPOLOGY, "any")?;
    let special = Task::new(TOPOLOGY, SERVICE)?;
    let trained: Vec<[Trained; 3]> = options
        .seeds
        .par_iter()
        .map(|seed| {
            let seeds = SeedTree::new(*seed).child("firm/training");
            progress(&format!("seed {seed}: one for all"));
            let for_all = train(&general, schedule, usize::MAX, None, &seeds.child("all"))?;
            progress(&format!("seed {seed}: one for each, and a transferred one"));
            // The same anomalies for both.
            let own = seeds.child("each");
            let each = train(&special, schedule, usize::MAX, None, &own)?;
            let transferred = train(&special, schedule, usize::MAX, Some(&for_all), &own)?;
            Ok([for_all, each, transferred])
        })
        .collect::<Result<_>>()?;
    let mut finding = Finding::default();
    let mut table = Table::new(
        "mean reward of a step (at most 5) at the beginning and in the end, and episodes until 95 % of the gain",
        &["agent", "first tenth", "last tenth", "episodes", "paper's episodes"],
    );
    let tenth = (schedule.episodes / 10).max(1);
    let mean = |rewards: &[f64]| rewards.iter().sum::<f64>() / rewards.len() as f64;
    let mut picture = Picture {
        title: "reward while agents learn".to_owned(),
        x: "episode".to_owned(),
        y: "mean reward of a step".to_owned(),
        marks: Vec::new(),
        lines: Vec::new(),
    };
    let mut facts = json!({});
    for (arm, name) in ARMS.into_iter().enumerate() {
        let rewards: Vec<&Vec<f64>> = trained.iter().map(|arms| &arms[arm].rewards).collect();
        let over = |of: &dyn Fn(&Vec<f64>) -> f64| {
            Spread::of(&rewards.iter().map(|rewards| of(rewards)).collect::<Vec<_>>())
        };
        let first = over(&|rewards| mean(&rewards[..tenth]));
        let last = over(&|rewards| mean(&rewards[rewards.len() - tenth..]));
        let episodes = over(&|rewards| converged(rewards, tenth) as f64);
        table.push(vec![
            name.into(),
            first.into(),
            last.into(),
            episodes.into(),
            PAPER_EPISODES[arm].map_or(Cell::Nothing, Cell::from),
        ]);
        facts[name] = json!({ "first": first, "last": last, "episodes": episodes });
        let curves: Vec<Vec<f64>> = rewards.into_iter().cloned().collect();
        picture.lines.push(Line::over_seeds(name, &curves));
    }
    finding.tables.push(table);
    finding.pictures.push(picture);
    finding.facts.insert("training".to_owned(), facts);
    finding.notes = vec![format!(
        "{} episodes, at most 300 steps each, DDPG of Table 3.3; the paper trains for 15 000. One for each is trained on \
         {SERVICE} alone, as is the transferred one after it was trained on all services. Rewards of one for all are means \
         over services, so that its level does not compare with the others.",
        schedule.episodes
    )];
    Ok(finding)
}

/// The first episode from which the moving mean stays within 5 % of what was gained in all.
fn converged(rewards: &[f64], width: usize) -> usize {
    let means: Vec<f64> =
        rewards.windows(width).map(|part| part.iter().sum::<f64>() / width as f64).collect();
    let (Some(first), Some(last)) = (means.first(), means.last()) else { return rewards.len() };
    let is_close = |mean: &f64| last - mean <= 0.05 * (last - first).abs();
    means.iter().rposition(|mean| !is_close(mean)).map_or(0, |place| place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_has_converged_when_nothing_is_gained_any_more() {
        let curve: Vec<f64> = (0..100).map(|episode| f64::from(episode.min(40))).collect();
        let found = converged(&curve, 1);
        assert_eq!(found, 38);
        assert_eq!(converged(&[1.0; 50], 5), 0);
    }
}
