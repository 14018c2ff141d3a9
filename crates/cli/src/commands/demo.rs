//! `homeostat demo`: the whole story in under a minute.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use homeostat_core::SimDuration;
use homeostat_experiments::demo::{DemoSize, Growth, GrowthWindow, TeamSummary, WatchedTeam};
use homeostat_experiments::faas_plan;
use homeostat_lab::{
    Candidate, Error, FormerPercentage, RunConfig, RunDirectory, load_candidates,
    with_former_percentages, write_atomically,
};
use homeostat_report::{Additions, Cell, Line, Picture, Table, write_report_with};
use homeostat_rl::Sampling;
use homeostat_simulate::{Controllers, FinishedSimulation, Scenario, Simulation};
use homeostat_train::{ExtraWriters, Training};
use serde_json::{Value, json};

use crate::Ending;
use crate::commands::sim::play_watched;
use crate::output::{Output, in_percent, print, print_records};
use crate::progress::{LiveView, StoryView};

/// Train agents for twelve serverless functions and compare them with autoscalers.
#[derive(Args)]
#[command(
    after_help = "Twelve agents train alone (S-RL) and twelve train together (simppo+). Both are compared with\nHPA+VPA and ENSURE on one simulated cluster, first with twelve functions, then while five more\nare added. Prints two tables and writes runs/demo/report.html, in less than a minute.\n\nExamples:\n  homeostat demo\n  homeostat demo --seed 7 --trials 10 --output json"
)]
pub(crate) struct DemoArguments {
    /// Training seed; the comparison uses other seeds.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: u64,
    /// Training episodes per agent.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    episodes: u64,
    /// Number of seeds in the comparison.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    trials: u64,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// Agents that learnt alone.
const ALONE: &str = "s-rl";

/// The autoscalers.
const RIVALS: [&str; 2] = ["hpa+vpa", "ensure"];

/// Steps of an episode, and a round of the live view: something moves at once.
const EPISODE_STEPS: u64 = 50;
const ROUND_STEPS: u64 = 500;

/// Seeds of the comparison begin here, far from those of training.
const FIRST_TRIAL: u64 = 1_000_000;

/// Functions at first and in the end, and nodes; a node has five cores.
const FUNCTIONS: [usize; 2] = [12, 17];
const NODES: [usize; 2] = [3, 4];

/// Windows of ten seconds before the newcomers come, and as many after.
const HALF: usize = 50;

/// Windows by which growth is judged: before it, once first allocations are forgotten; the first
/// hundred seconds of the newcomers; and what follows.
const SPANS: [Range<usize>; 3] = [10..HALF, HALF..HALF + 10, HALF + 10..2 * HALF];

/// Time that a window stays on a terminal, so that people can follow.
const FOLLOW: Duration = Duration::from_millis(50);

pub(crate) fn run(arguments: &DemoArguments) -> anyhow::Result<Ending> {
    match story(arguments) {
        Err(error) if matches!(error.downcast_ref(), Some(Error::Interrupted)) => {
            say!("stopped");
            Ok(Ending::Interrupted)
        }
        other => other.map(|()| Ending::Done),
    }
}

/// The percentages that the record of 0.1.0 had.
const FORMER: [FormerPercentage; 5] = [
    FormerPercentage { new: "slo_violation_ratio", old: "misses_pct" },
    FormerPercentage { new: "slo_violation_ratio_interval", old: "misses_interval" },
    FormerPercentage { new: "slo_violation_ratio_before", old: "misses_before_pct" },
    FormerPercentage { new: "slo_violation_ratio_first_100s", old: "misses_first_100s_pct" },
    FormerPercentage { new: "slo_violation_ratio_after", old: "misses_after_pct" },
];

fn story(arguments: &DemoArguments) -> anyhow::Result<()> {
    let config = config(arguments, FUNCTIONS[0])?;
    let plan = faas_plan(&config)?;
    say!(
        "Twelve serverless functions, each with a latency SLO, share one cluster at {:.0} % load.\n\
         First, twelve agents train, each alone on its own cluster. Then twelve agents train together\n\
         on the shared cluster. Both are compared with autoscalers. Ctrl-C stops early.\n",
        100.0 * plan.mean_load()
    );
    let directory = RunDirectory::next_free(Path::new("runs"), "demo");
    let alone = learn_alone(&config, &directory)?;
    let (together, summaries) = learn_together(&config, arguments, &directory)?;
    let contestants = contestants(alone, together)?;

    say!("\ncomparing all policies on requests that were not used in training");
    let mut finished = Vec::new();
    for controllers in &contestants {
        let simulation = Simulation {
            system: Arc::new(plan.clone()),
            scenario: Scenario::Together,
            controllers: controllers.clone(),
            duration: SimDuration::from_secs(1000),
        };
        finished.push(play(&simulation, &config, &directory, arguments.trials)?);
    }
    let (grown, growth) = grow(arguments, &contestants)?;

    let report = directory.join("report.html");
    let mut runs: Vec<PathBuf> = finished.iter().map(|run| run.path.clone()).collect();
    runs.push(directory.join(ALONE));
    let additions = Additions {
        pictures: vec![learning_of_team(&summaries), growth],
        tables: vec![growth_table(&grown)],
        command: Some(format!(
            "homeostat demo --seed {} --episodes {} --trials {}",
            arguments.seed, arguments.episodes, arguments.trials
        )),
    };
    write_report_with(&runs, Some("Twelve functions under four policies"), &additions, &report)?;
    let compared: Vec<Compared> = finished.iter().map(Compared::of).collect();
    let record = json!({
        "seed": arguments.seed,
        "episodes": arguments.episodes,
        "trials": arguments.trials,
        "load_pct": 100.0 * plan.mean_load(),
        "comparison": compared.iter().map(Compared::record).collect::<Vec<_>>(),
        "growth": grown.iter().map(Grown::record).collect::<Vec<_>>(),
        "verdict": verdict(&compared, &grown, arguments.trials),
        "report": report.display().to_string(),
        "run_directory": directory.display().to_string(),
        // The key of 0.1.0, for one release.
        "folder": directory.display().to_string(),
    });
    show(&record, arguments.output);
    Ok(())
}

fn config(arguments: &DemoArguments, functions: usize) -> anyhow::Result<RunConfig> {
    let size = DemoSize {
        seed: arguments.seed,
        steps: arguments.episodes * EPISODE_STEPS,
        log_every: ROUND_STEPS,
        functions,
        nodes: NODES[usize::from(functions > FUNCTIONS[0])],
    };
    Ok(size.config()?)
}

fn learn_alone(config: &RunConfig, directory: &Path) -> anyhow::Result<Controllers> {
    let learned = directory.join(ALONE);
    let training = Training::start(config.clone(), &learned, ExtraWriters::default())?;
    let summary = training.run(&mut LiveView::new(false)?)?;
    if summary.figures["status"] == "interrupted" {
        say!("the policies so far are in {}", learned.display());
        return Err(Error::Interrupted.into());
    }
    let seconds = summary.timing["elapsed_s"].as_f64().unwrap_or(0.0);
    say!("trained twelve agents, each alone, in {seconds:.1} s\n");
    let candidates = load_candidates(&learned)?;
    let (name, sampling) = (ALONE.to_owned(), Sampling::Greedy);
    Ok(Controllers::Learned { name, file: Some(learned), candidates, sampling, takes_turns: false })
}

fn learn_together(
    config: &RunConfig,
    arguments: &DemoArguments,
    directory: &Path,
) -> anyhow::Result<(Controllers, Vec<(u64, TeamSummary)>)> {
    let plan = faas_plan(config)?;
    let start = Instant::now();
    let mut team = WatchedTeam::new(&plan, arguments.seed, arguments.episodes)?;
    let view = StoryView::new("episode")?;
    let (mut episode, mut summaries) = (0, Vec::new());
    while episode < arguments.episodes {
        let summary = team.play()?;
        episode = (episode + team.episodes_at_once()).min(arguments.episodes);
        view.show(episode, arguments.episodes, &describe(&summary));
        summaries.push((episode, summary));
        view.stop_if_asked()?;
    }
    view.finish();
    let policy = team.policy().ok_or_else(|| Error::BadPolicy {
        path: WatchedTeam::METHOD.into(),
        reason: "its network stopped on a number that is not finite".to_owned(),
    })?;
    let file = directory.join(format!("{}.policy", WatchedTeam::METHOD));
    write_atomically(&file, &policy.to_bytes())?;
    say!(
        "trained twelve agents together, with one network, in {:.1} s: {}",
        start.elapsed().as_secs_f64(),
        file.display()
    );
    let name = WatchedTeam::METHOD.to_owned();
    let candidates = vec![Candidate { name: name.clone(), agent: 0, policy }];
    let sampling = Sampling::Greedy;
    let team =
        Controllers::Learned { name, file: Some(file), candidates, sampling, takes_turns: false };
    Ok((team, summaries))
}

/// SLO violations of the team while it learns, each point the mean of a stretch of episodes.
fn learning_of_team(summaries: &[(u64, TeamSummary)]) -> Picture {
    let stretch = summaries.len().div_ceil(80).max(1);
    let point = |summaries: &[(u64, TeamSummary)]| {
        let sum: f64 = summaries.iter().map(|(_, summary)| summary.slo_violation_ratio).sum();
        let last = summaries.last().map_or(0, |(episode, _)| *episode);
        (last as f64, 100.0 * sum / summaries.len() as f64, 0.0)
    };
    Picture {
        title: "Training of the team (simppo+)".to_owned(),
        x: "episode".to_owned(),
        y: "SLO violations, % of requests".to_owned(),
        marks: Vec::new(),
        lines: vec![Line {
            name: WatchedTeam::METHOD.to_owned(),
            points: summaries.chunks(stretch).map(point).collect(),
        }],
    }
}

/// The team first.
fn contestants(alone: Controllers, together: Controllers) -> anyhow::Result<Vec<Controllers>> {
    let mut contestants = vec![together, alone];
    for name in RIVALS {
        contestants.push(Controllers::parse(name, Sampling::Greedy)?);
    }
    Ok(contestants)
}

fn play(
    simulation: &Simulation,
    config: &RunConfig,
    directory: &Path,
    trials: u64,
) -> anyhow::Result<FinishedSimulation> {
    let seeds = (FIRST_TRIAL..FIRST_TRIAL + trials).collect();
    let facts = simulation.facts(None, seeds);
    let path = directory.join(format!("sim-{}", facts.policy));
    play_watched(simulation, &facts, config, &path, false)
}

/// Half-way five functions and a node come.
fn grow(
    arguments: &DemoArguments,
    contestants: &[Controllers],
) -> anyhow::Result<(Vec<Grown>, Picture)> {
    let config = config(arguments, FUNCTIONS[1])?;
    let plan = faas_plan(&config)?;
    say!(
        "\nthe platform grows: half-way five functions and a fourth node are added. The load rises to\n\
         {:.0} %; no policy is trained further",
        100.0 * plan.mean_load()
    );
    let (mut grown, mut lines) = (Vec::new(), Vec::new());
    for controllers in contestants {
        let growth = Growth {
            plan: plan.clone(),
            functions_at_first: FUNCTIONS[0],
            nodes_at_first: NODES[0],
            controllers: controllers.clone(),
            windows: HALF as u64,
        };
        let view = StoryView::new("second")?;
        let mut trials = Vec::new();
        for trial in 0..arguments.trials {
            let is_followed = trial == 0 && view.is_terminal();
            let windows = growth.run(FIRST_TRIAL + trial, &mut |window| {
                let seconds = window.at.seconds() as u64;
                let total = 2 * HALF as u64 * plan.window().seconds() as u64;
                let text = format!("{}, {}", controllers.name(), describe(&summary_of(window)));
                if trial == 0 {
                    view.show(seconds, total, &text);
                }
                if is_followed && controllers.name() == WatchedTeam::METHOD {
                    std::thread::sleep(FOLLOW);
                }
                view.stop_if_asked()
            })?;
            trials.push(windows);
        }
        view.finish();
        let curves = trials.iter().map(|windows| {
            let ratios =
                windows.iter().map(|window| 100.0 * summary_of(window).slo_violation_ratio);
            ratios.collect::<Vec<f64>>()
        });
        let mut line = Line::over_seeds(controllers.name(), &curves.collect::<Vec<_>>());
        // From windows to seconds.
        line.points.iter_mut().for_each(|(at, _, _)| *at *= plan.window().seconds());
        lines.push(line);
        grown.push(Grown::of(controllers.name(), &trials));
    }
    let half_way = HALF as f64 * plan.window().seconds();
    let picture = Picture {
        title: "When the platform grows".to_owned(),
        x: "second".to_owned(),
        y: "SLO violations, % of requests".to_owned(),
        marks: vec![(half_way, "five functions and a node more".to_owned())],
        lines,
    };
    Ok((grown, picture))
}

fn growth_table(grown: &[Grown]) -> Table {
    let columns = [
        "policy",
        "SLO violations before, %",
        "in the first hundred seconds, %",
        "after, %",
        "containers for each function before",
        "and after",
    ];
    let mut table = Table::new("Growth in figures", &columns);
    for one in grown {
        let mut row: Vec<Cell> = vec![one.policy.as_str().into()];
        row.extend(one.slo_violation_ratio.map(|ratio| Cell::Number(100.0 * ratio)));
        row.extend(one.containers_each.map(Cell::Number));
        table.push(row);
    }
    table
}

fn summary_of(window: &GrowthWindow) -> TeamSummary {
    TeamSummary {
        agents: window.functions,
        slo_met: window.slo_met as f64,
        slo_violated: (window.functions - window.slo_met) as f64,
        slo_violation_ratio: window.slo_violations as f64 / window.settled.max(1) as f64,
        containers: window.containers,
    }
}

fn describe(summary: &TeamSummary) -> String {
    format!(
        "{} agents  SLOs met {:>4.1}, violated {:>4.1}  SLO violations {:>4.1} %  containers {:>5.1}",
        summary.agents,
        summary.slo_met,
        summary.slo_violated,
        100.0 * summary.slo_violation_ratio,
        summary.containers
    )
}

/// One contestant on twelve functions, mean over trials.
struct Compared {
    policy: String,
    slo_violation_ratio: f64,
    interval: Option<f64>,
    p99_over_slo: f64,
    containers: f64,
}

impl Compared {
    fn of(run: &FinishedSimulation) -> Self {
        let all = run.summary();
        let number = |key: &str| all[key].as_f64().unwrap_or(0.0);
        Self {
            policy: run.facts.policy.clone(),
            slo_violation_ratio: number("slo_violation_ratio"),
            interval: all["slo_violation_ratio_interval"].as_f64(),
            p99_over_slo: number("p99_over_slo"),
            containers: number("container_s") / run.facts.duration_s,
        }
    }

    fn record(&self) -> Value {
        json!({
            "policy": self.policy,
            "slo_violation_ratio": self.slo_violation_ratio,
            "slo_violation_ratio_interval": self.interval,
            "p99_over_slo": self.p99_over_slo,
            // The name of 0.1.0, for one release.
            "p99_over_objective": self.p99_over_slo,
            "containers": self.containers,
        })
    }
}

/// One contestant on a platform that grows, over all trials.
struct Grown {
    policy: String,
    /// Fraction of requests that violated the SLO in each of [`SPANS`].
    slo_violation_ratio: [f64; 3],
    /// Containers for each function, before and after.
    containers_each: [f64; 2],
}

impl Grown {
    fn of(policy: &str, trials: &[Vec<GrowthWindow>]) -> Self {
        let of = |span: &Range<usize>| {
            let span = span.clone();
            trials.iter().flat_map(move |windows| &windows[span.clone()])
        };
        let violation_ratio = |span: &Range<usize>| {
            let violations: u64 = of(span).map(|window| window.slo_violations).sum();
            let settled: u64 = of(span).map(|window| window.settled).sum();
            violations as f64 / settled.max(1) as f64
        };
        let containers = |span: &Range<usize>| {
            let containers: f64 = of(span).map(|window| window.containers).sum();
            let functions: usize = of(span).map(|window| window.functions).sum();
            containers / functions.max(1) as f64
        };
        let [before, first, after] = &SPANS;
        Self {
            policy: policy.to_owned(),
            slo_violation_ratio: [before, first, after].map(violation_ratio),
            containers_each: [containers(before), containers(after)],
        }
    }

    fn record(&self) -> Value {
        let [before, first, after] = self.slo_violation_ratio;
        let [each_before, each_after] = self.containers_each;
        json!({
            "policy": self.policy,
            "slo_violation_ratio_before": before,
            "slo_violation_ratio_first_100s": first,
            "slo_violation_ratio_after": after,
            "containers_each_before": each_before,
            "containers_each_after": each_after,
        })
    }
}

/// What to call a policy in a sentence.
fn in_words(policy: &str) -> &str {
    match policy {
        WatchedTeam::METHOD => "agents trained together (simppo+)",
        ALONE => "agents trained alone (S-RL)",
        "hpa+vpa" => "HPA and VPA",
        "ensure" => "ENSURE",
        other => other,
    }
}

/// The outcome in one plain sentence, of the team first; and that it did not win, where it did
/// not.
fn verdict(compared: &[Compared], grown: &[Grown], trials: u64) -> String {
    let team = &compared[0];
    let by_violations =
        |a: &&Compared, b: &&Compared| a.slo_violation_ratio.total_cmp(&b.slo_violation_ratio);
    let best = compared.iter().min_by(by_violations).unwrap_or(team);
    let opening = if best.policy == team.policy {
        String::new()
    } else {
        format!(
            "{} had the fewest SLO violations, not the agents trained together: ",
            in_words(&best.policy)
        )
    };
    let in_time = |violation_ratio: f64| format!("{:.1}", 100.0 * (1.0 - violation_ratio));
    let result = |one: &Compared, verb: &str| {
        let answered = in_time(one.slo_violation_ratio);
        format!("{} {verb}{answered} % with {:.0}", in_words(&one.policy), one.containers)
    };
    let others: Vec<String> = compared[1..].iter().map(|other| result(other, "")).collect();
    let [before, first, after] = grown[0].slo_violation_ratio.map(in_time);
    let runs = if trials == 1 { "one seed".to_owned() } else { format!("{trials} seeds") };
    let sentence = format!(
        "{opening}over {runs}, {} met the SLO for {} % of requests with {:.0} containers, {}. When \
         five functions were added, the agents trained together met it for {before} % of requests \
         before, {first} % in the first hundred seconds, and {after} % after.",
        in_words(&team.policy),
        in_time(team.slo_violation_ratio),
        team.containers,
        others.join(", "),
    );
    sentence[..1].to_uppercase() + &sentence[1..]
}

fn show(record: &Value, output: Output) {
    let rows = |key: &str| record[key].as_array().cloned().unwrap_or_default();
    let with_former = |value: Value| with_former_percentages(value, &FORMER);
    match output {
        Output::Json => print(&format!("{:#}\n", with_former(record.clone()))),
        Output::Csv => {
            let rows = rows("comparison").into_iter().map(with_former);
            print_records(output, &rows.collect::<Vec<_>>());
        }
        Output::Table => {
            print_records(output, &rows("comparison").iter().map(for_people).collect::<Vec<_>>());
            print("\n");
            print_records(output, &rows("growth").into_iter().map(in_percent).collect::<Vec<_>>());
            let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
            print(&format!(
                "\n{}\n\nreport          {}\nrun directories {}\n",
                text("verdict"),
                text("report"),
                text("run_directory")
            ));
        }
    }
}

/// A row with its interval beside the mean.
fn for_people(row: &Value) -> Value {
    let percent = |key: &str| row[key].as_f64().map(|ratio| 100.0 * ratio);
    let violations = percent("slo_violation_ratio").unwrap_or(0.0);
    let violations = match percent("slo_violation_ratio_interval") {
        Some(interval) => format!("{violations:.1} +- {interval:.1}"),
        None => format!("{violations:.1}"),
    };
    json!({
        "policy": row["policy"],
        "slo_violation_pct": violations,
        "p99_over_slo": row["p99_over_slo"],
        "containers": row["containers"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(policy: &str, slo_violation_ratio: f64) -> Compared {
        Compared {
            policy: policy.to_owned(),
            slo_violation_ratio,
            interval: None,
            p99_over_slo: 1.0,
            containers: 50.0,
        }
    }

    fn grown() -> [Grown; 1] {
        let policy = WatchedTeam::METHOD.to_owned();
        [Grown { policy, slo_violation_ratio: [0.01, 0.08, 0.02], containers_each: [4.0, 4.0] }]
    }

    #[test]
    fn the_verdict_says_who_won() {
        let won = verdict(&[compared("simppo+", 0.02), compared("ensure", 0.04)], &grown(), 5);
        assert_eq!(
            won,
            "Over 5 seeds, agents trained together (simppo+) met the SLO for 98.0 % of requests with \
             50 containers, ENSURE 96.0 % with 50. When five functions were added, the agents \
             trained together met it for 99.0 % of requests before, 92.0 % in the first hundred \
             seconds, and 98.0 % after."
        );
        let lost = verdict(&[compared("simppo+", 0.05), compared("ensure", 0.04)], &grown(), 1);
        assert!(lost.starts_with(
            "ENSURE had the fewest SLO violations, not the agents trained together: over one seed, "
        ));
    }

    #[test]
    fn growth_is_judged_before_at_once_and_after() {
        let window = |place: usize| GrowthWindow {
            at: homeostat_core::SimTime::ZERO,
            functions: 10,
            slo_met: 9,
            settled: 100,
            slo_violations: if SPANS[1].contains(&place) { 20 } else { 5 },
            containers: 40.0,
        };
        let windows: Vec<_> = (0..2 * HALF).map(window).collect();
        let grown = Grown::of("x", &[windows.clone(), windows]);
        assert_eq!(grown.slo_violation_ratio, [0.05, 0.2, 0.05]);
        assert_eq!(grown.containers_each, [4.0, 4.0]);
    }
}
