//! The methods of the chapter side by side: training curves and latencies of twelve functions.

use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Line, Picture, Spread, Table};
use homeostat_sim_faas::RewardPreset;
use homeostat_simppo::Preset;
use homeostat_simulate::{Scenario, SimulationOutcome};

use super::bench::{Bench, LOAD, Trained, converged_at, end_of, finding, mean, plan, spread};

/// Functions of these experiments, one of each benchmark.
const FUNCTIONS: usize = 12;

/// A method with what the paper says of it.
type Claimed = (&'static str, &'static str);

pub(super) fn figure_4_3(bench: &Bench<'_>) -> Result<Finding> {
    curves(bench, &[("s-rl", "55.9 % below"), ("simppo", "-"), ("simppo+", "-")])
}

pub(super) fn figure_4_6(bench: &Bench<'_>) -> Result<Finding> {
    curves(
        bench,
        &[
            ("s-rl", "55.9 % below"),
            ("il-rl", "38.2 % below"),
            ("cpq-rl", "within 3 %"),
            ("ma-ppo", "-"),
            ("simppo", "-"),
        ],
    )
}

/// Training curves of methods in company, beside that of agents alone.
fn curves(bench: &Bench<'_>, methods: &[Claimed]) -> Result<Finding> {
    let mut finding = finding();
    let episodes = bench.choose(80, 600);
    let rewards: &[RewardPreset] = if bench.options.is_quick {
        &[RewardPreset::Slo]
    } else {
        &[RewardPreset::Slo, RewardPreset::Paper]
    };
    for reward in rewards {
        let plan = plan(FUNCTIONS, LOAD, *reward)?;
        let alone = bench.train_alone(*reward, episodes)?;
        let mut table = Table::new(
            format!("training, reward {}, 76 % load", reward.name()),
            &[
                "method",
                "reward of a step at the end",
                "below s-rl alone, %",
                "primes below s-rl alone, %",
                "paper",
                "episodes to 95 %",
                "seeds that converged",
                "deviation of ten episodes",
            ],
        );
        let ends = |trained: &[Trained]| -> Vec<f64> {
            trained.iter().map(|trained| end_of(&trained.curve)).collect()
        };
        let base = ends(&alone);
        let mut lines = vec![line("s-rl, alone", &alone)];
        let mut row = |name: &str, paper: &str, trained: &[Trained]| {
            let own = ends(trained);
            let below = |own: &[f64], base: &[f64]| -> Vec<f64> {
                let pairs = own.iter().zip(base);
                pairs.map(|(own, base)| 100.0 * (1.0 - own / base)).collect()
            };
            let converged: Vec<f64> =
                trained.iter().filter_map(|trained| converged_at(&trained.curve)).collect();
            let unsteady: Vec<f64> =
                trained.iter().map(|trained| deviation_at_end(&trained.primes)).collect();
            table.push(vec![
                name.into(),
                Spread::of(&own).into(),
                Spread::of(&below(&own, &base)).into(),
                Spread::of(&below(&ends_of_primes(trained), &ends_of_primes(&alone))).into(),
                paper.into(),
                if converged.is_empty() { Cell::Nothing } else { Spread::of(&converged).into() },
                format!("{} of {}", converged.len(), trained.len()).into(),
                Spread::of(&unsteady).into(),
            ]);
        };
        row("s-rl, alone", "-", &alone);
        for (name, paper) in methods.iter().filter(|(name, _)| *name != "simppo+") {
            let preset = Preset::by_name(name).expect("it is a method");
            let trained = bench.train(&preset, &plan, episodes)?;
            row(name, paper, &trained);
            lines.push(line(name, &trained));
        }
        for name in ["none", "random"] {
            let played = bench.play_named(&plan, &Scenario::Together, name)?;
            let reached = spread(&played, |run| run.total.reward);
            let mut cells = vec![name.into(), reached.into()];
            cells.resize(8, Cell::Nothing);
            table.push(cells);
        }
        finding.tables.push(table);
        finding.pictures.push(Picture {
            title: format!("reward of the agent of primes, reward {}", reward.name()),
            x: "episode".to_owned(),
            y: "reward of a step".to_owned(),
            marks: Vec::new(),
            lines,
        });
    }
    finding.notes = vec![
        "Rewards are means over the twelve agents, penalties included; none and random pay no \
         penalties. The deviation is that of primes' reward in the last fifth of training. The \
         paper shows primes."
            .to_owned(),
        "One at a time (cpq-rl) each agent acts once in twelve windows, learns from as few steps, \
         and pays penalties only where it acts. The paper's step takes one second, ours a window \
         of ten."
            .to_owned(),
    ];
    Ok(finding)
}

fn line(name: &str, trained: &[Trained]) -> Line {
    let curves: Vec<Vec<f64>> = trained.iter().map(|trained| trained.primes.clone()).collect();
    Line::over_seeds(name, &curves)
}

fn ends_of_primes(trained: &[Trained]) -> Vec<f64> {
    trained.iter().map(|trained| end_of(&trained.primes)).collect()
}

/// In the last fifth of training, of means of ten episodes: agents alone report no finer.
fn deviation_at_end(curve: &[f64]) -> f64 {
    let end: Vec<f64> = curve[curve.len() - curve.len() / 5..].chunks_exact(10).map(mean).collect();
    let middle = mean(&end);
    let squares: f64 = end.iter().map(|value| (value - middle).powi(2)).sum();
    (squares / end.len().saturating_sub(1).max(1) as f64).sqrt()
}

pub(super) fn figure_4_4(bench: &Bench<'_>) -> Result<Finding> {
    latencies(
        bench,
        &[],
        &["ensure", "ensure-util"],
        "s-rl together: 2.2 to 4.8 times; ensure alone: about the same as s-rl alone",
    )
}

pub(super) fn figure_4_7(bench: &Bench<'_>) -> Result<Finding> {
    latencies(
        bench,
        &["il-rl", "cpq-rl"],
        &[],
        "il-rl no better than s-rl together; cpq-rl 21.8 to 67.7 % above s-rl alone",
    )
}

pub(super) fn figure_4_11(bench: &Bench<'_>) -> Result<Finding> {
    latencies(
        bench,
        &["simppo", "simppo-all", "s-rl", "simppo+"],
        &["ensure", "hpa+vpa", "kpa"],
        "simppo 1.8 to 9.2 % above s-rl alone, ensure 26.9 to 32.5 %; simppo 2 to 4.5 times \
         better than s-rl together",
    )
}

/// p99 of every function under several methods in company, over that of S-RL alone.
fn latencies(
    bench: &Bench<'_>,
    methods: &[&str],
    heuristics: &[&str],
    paper: &str,
) -> Result<Finding> {
    let mut finding = finding();
    let reward = RewardPreset::Slo;
    let plan = plan(FUNCTIONS, LOAD, reward)?;
    let episodes = bench.choose(80, 500);
    let alone = bench.train_alone(reward, episodes)?;
    let by_place = |trained: Vec<Trained>| move |place: usize| trained[place].controllers.clone();
    let base = bench.play(&plan, &Scenario::Alone, by_place(alone.clone()))?;
    let mut columns: Vec<(String, Vec<Vec<SimulationOutcome>>)> = vec![(
        "s-rl, put together".to_owned(),
        bench.play(&plan, &Scenario::Together, by_place(alone))?,
    )];
    for name in methods {
        let preset = Preset::by_name(name).expect("it is a method");
        let trained = bench.train(&preset, &plan, episodes)?;
        let shown = if *name == "s-rl" { "s-rl, trained together" } else { name };
        let played = bench.play(&plan, &Scenario::Together, by_place(trained))?;
        columns.push((shown.to_owned(), played));
    }
    for name in heuristics.iter().chain(&["none", "random"]) {
        let played = bench.play_named(&plan, &Scenario::Together, name)?;
        columns.push(((*name).to_owned(), played));
    }
    if methods.is_empty() {
        for name in heuristics {
            let played = bench.play_named(&plan, &Scenario::Alone, name)?;
            columns.push((format!("{name}, alone"), played));
        }
    }
    finding.tables.push(per_function(&base, &columns));
    finding.tables.push(summary(&base, &columns, paper));
    finding.notes = vec![
        "p99 of a function, mean over evaluation episodes and seeds, over that of the s-rl agent \
         alone on the platform. Requests give up waiting after 20 s: ratios beyond about 20 mean \
         collapse."
            .to_owned(),
    ];
    Ok(finding)
}

fn p99(outcomes: &[Vec<SimulationOutcome>], place: usize) -> f64 {
    let values: Vec<f64> =
        outcomes.iter().flatten().filter_map(|run| run.functions[place].figures.p99_ms).collect();
    mean(&values)
}

fn per_function(
    base: &[Vec<SimulationOutcome>],
    columns: &[(String, Vec<Vec<SimulationOutcome>>)],
) -> Table {
    let mut names = vec!["function", "s-rl alone, ms"];
    names.extend(columns.iter().map(|(name, _)| name.as_str()));
    let mut table = Table::new("p99 over that of s-rl alone, by function", &names);
    for (place, function) in base[0][0].functions.iter().enumerate() {
        let alone = p99(base, place);
        let mut row: Vec<Cell> = vec![function.name.as_str().into(), alone.into()];
        row.extend(columns.iter().map(|(_, played)| Cell::Number(p99(played, place) / alone)));
        table.push(row);
    }
    table
}

fn summary(
    base: &[Vec<SimulationOutcome>],
    columns: &[(String, Vec<Vec<SimulationOutcome>>)],
    paper: &str,
) -> Table {
    let mut table = Table::new(
        format!("together; paper: {paper}"),
        &["policy", "p99 over s-rl alone", "least", "most", "SLO violations %", "container-s"],
    );
    let functions = base[0][0].functions.len();
    for (name, played) in columns {
        // Pairs by seed: the geometric mean over functions of this seed's ratios.
        let ratios: Vec<f64> = played
            .iter()
            .zip(base)
            .map(|(played, base)| {
                let of = |runs: &Vec<SimulationOutcome>, k| p99(std::slice::from_ref(runs), k);
                let logs = (0..functions).map(|k| (of(played, k) / of(base, k)).ln());
                (logs.sum::<f64>() / functions as f64).exp()
            })
            .collect();
        let each: Vec<f64> = (0..functions).map(|k| p99(played, k) / p99(base, k)).collect();
        let ends = Spread::of(&each);
        table.push(vec![
            name.as_str().into(),
            Spread::of(&ratios).into(),
            ends.min.into(),
            ends.max.into(),
            spread(played, |run| run.total.slo_violation_pct()).into(),
            spread(played, |run| run.total.container_s).into(),
        ]);
    }
    table
}
