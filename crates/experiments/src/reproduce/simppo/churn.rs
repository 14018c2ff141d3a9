//! Functions that come and go while their agents learn.

use homeostat_core::{AgentId, SeedTree, Snapshot};
use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Line, Picture, Spread, Table};
use homeostat_sim_faas::{FaasPlan, Fleet, RewardPreset};
use homeostat_simppo::{ParameterSharing, Preset, TaskType, Training};
use homeostat_simulate::Scenario;

use super::bench::{Bench, LOAD, finding, mean, plan, spread, task_types_of, team};

/// The agents, ascending, each with its function.
type Roster = Vec<(AgentId, usize)>;

/// Functions that come (above zero) or go, five at a time, as in section 4.8.1.
const SCHEDULE: [i64; 4] = [5, 5, -5, 5];

pub(super) fn figure_4_9(bench: &Bench<'_>) -> Result<Finding> {
    incremental(
        bench,
        &["simppo", "simppo-kind", "simppo+"],
        "with base models: 16.6 % when five come, 11.3 % when five go, 300 episodes to converge again",
    )
}

pub(super) fn figure_4_10(bench: &Bench<'_>) -> Result<Finding> {
    incremental(
        bench,
        &["simppo", "simppo-alone"],
        "with base models the drop is 20 to 54.8 % smaller, and 300 episodes do instead of 600",
    )
}

/// A method by name; `simppo-kind` is SIMPPO with one pair of networks for each kind.
fn method(name: &str) -> Preset {
    if name != "simppo-kind" {
        return Preset::by_name(name).expect("it is a method");
    }
    let mut preset = Preset::by_name("simppo").expect("it is a method");
    preset.name = "simppo-kind";
    preset.method.parameter_sharing = ParameterSharing::Kind;
    preset
}

/// What one change of the team led to.
#[derive(Clone, Copy)]
struct Shock {
    before: f64,
    first: f64,
    end: f64,
    /// Episodes until the smoothed reward stays within 2 % of where it ends.
    episodes: f64,
}

impl Shock {
    /// From the curve up to the change and the curve after it.
    fn of(before: &[f64], after: &[f64]) -> Self {
        const SMOOTHED: usize = 20;
        let tail = |curve: &[f64]| mean(&curve[curve.len().saturating_sub(SMOOTHED)..]);
        let end = tail(after);
        let smooth: Vec<f64> = after.windows(SMOOTHED.min(after.len())).map(mean).collect();
        let is_near = |value: &f64| (value - end).abs() <= 0.02 * end.abs();
        // The last time it was away from its end, and what it takes to see it.
        let away = smooth.iter().rposition(|value| !is_near(value)).map_or(0, |place| place + 1);
        let episodes = if away == 0 { 0.0 } else { (away + SMOOTHED - 1).min(after.len()) as f64 };
        Self { before: tail(before), first: after[0], end, episodes }
    }

    fn drop_pct(&self) -> f64 {
        100.0 * (self.before - self.first) / self.before.abs().max(1e-9)
    }
}

/// Which functions leave and come follows from the seed, the same for every method.
fn change(roster: &Roster, by: i64, seed: u64, round: usize, catalogue: usize) -> Roster {
    let mut rng = SeedTree::new(seed).child("churn").stream(&round.to_string());
    let mut next = roster.clone();
    for _ in 0..by {
        // A number that was never used: its weights start from a seed of their own.
        let number = 1000 * (round as u32 + 1) + next.len() as u32;
        next.push((AgentId::new(number), rng.below(catalogue)));
    }
    for _ in by..0 {
        next.remove(rng.below(next.len()));
    }
    next
}

/// The same load for a roster of another size.
fn plan_for(roster: &Roster) -> Result<FaasPlan> {
    plan(roster.len(), LOAD, RewardPreset::Slo)
}

fn replace(training: &mut Training, preset: &Preset, roster: &Roster) -> Result<()> {
    let plan = plan_for(roster)?;
    let fleet = |plan: FaasPlan| match preset.env {
        "faas/fleet-set-points-v1" => Fleet::with_set_points(plan),
        _ => Fleet::with_steps(plan),
    };
    Ok(training.replace_envs(&|| Ok(Box::new(fleet(plan.clone()).with_roster(roster))))?)
}

/// Plays episodes and collects the mean reward of a step of each.
fn learn(training: &mut Training, num_envs: u64, episodes: u64) -> Result<Vec<f64>> {
    let mut curve = Vec::new();
    for _ in 0..episodes.div_ceil(num_envs) {
        let finished = training.episode()?;
        let rewards: Vec<f64> =
            finished.iter().map(|one| one.own_return / f64::from(one.length.max(1))).collect();
        curve.extend(std::iter::repeat_n(mean(&rewards), num_envs as usize));
    }
    Ok(curve)
}

fn incremental(bench: &Bench<'_>, methods: &[&str], paper: &str) -> Result<Finding> {
    let mut finding = finding();
    let period = bench.choose(24, 400);
    let mut table = Table::new(
        format!("reward drop and retraining; paper: {paper}"),
        &["method", "change", "reward before", "drop %", "episodes to converge again"],
    );
    // The rewards of set-points are negative: a drop in percent would mean little.
    let mut plus = Table::new(
        "negative reward of agents with set-points: SLO violations and containers, in percent of requests",
        &["method", "change", "before", "first episode after", "at the end"],
    );
    let mut lines = Vec::new();
    let total = period * (1 + SCHEDULE.len() as u64);
    for name in methods {
        let preset = method(name);
        bench.say(&format!("{name}: {total} episodes in which functions are added and removed"));
        let seeds = bench.for_seeds(|seed| schedule(&preset, seed, period))?;
        for (round, by) in SCHEDULE.iter().enumerate() {
            let of = |figure: fn(&Shock) -> f64| {
                let values = seeds.iter().map(|(shocks, _)| figure(&shocks[round]));
                Spread::of(&values.collect::<Vec<_>>())
            };
            let what = format!("{by:+} functions");
            if preset.env == "faas/fleet-set-points-v1" {
                plus.push(vec![
                    (*name).into(),
                    what.into(),
                    of(|shock| -100.0 * shock.before).into(),
                    of(|shock| -100.0 * shock.first).into(),
                    of(|shock| -100.0 * shock.end).into(),
                ]);
            } else {
                table.push(vec![
                    (*name).into(),
                    what.into(),
                    of(|shock| shock.before).into(),
                    of(Shock::drop_pct).into(),
                    of(|shock| shock.episodes).into(),
                ]);
            }
        }
        let curves: Vec<Vec<f64>> = seeds.into_iter().map(|(_, curve)| curve).collect();
        // Agents of set-points have another reward.
        if preset.env == "faas/fleet-v3" {
            lines.push(Line::over_seeds(name, &curves));
        }
    }
    for name in ["none", "random"] {
        let plan = plan(12, LOAD, RewardPreset::Slo)?;
        let played = bench.play_named(&plan, &Scenario::Together, name)?;
        let reached = spread(&played, |run| run.total.reward);
        table.push(vec![name.into(), Cell::Nothing, reached.into(), Cell::Nothing, Cell::Nothing]);
    }
    finding.tables.push(table);
    if !plus.rows.is_empty() {
        finding.tables.push(plus);
    }
    let marks = SCHEDULE.iter().enumerate();
    finding.pictures.push(Picture {
        title: "reward while functions are added and removed".to_owned(),
        x: "episode".to_owned(),
        y: "reward of a step, mean of agents".to_owned(),
        marks: marks
            .map(|(round, by)| ((period * (round as u64 + 1)) as f64, format!("{by:+}")))
            .collect(),
        lines,
    });
    finding.notes = vec![
        format!(
            "Twelve functions at first; every {period} episodes five come (drawn from the twelve \
             benchmarks) or five go; the cluster grows and shrinks with them, at 76 % load. The \
             schedule of a seed is the same for every method. Paper: every 800 episodes."
        ),
        "The drop compares the first episode after the change with the last twenty before; \
         converged is when the mean of twenty episodes stays within 2 % of where it ends."
            .to_owned(),
    ];
    Ok(finding)
}

fn schedule(preset: &Preset, seed: u64, period: u64) -> Result<(Vec<Shock>, Vec<f64>)> {
    let mut roster: Roster =
        (0..12).map(|number| (AgentId::new(number), number as usize)).collect();
    let plan = plan_for(&roster)?;
    let total = period * (1 + SCHEDULE.len() as u64);
    let mut training = team(preset, &plan, &task_types_of(&plan)?, seed, total)?;
    let num_envs = preset.method.num_envs as u64;
    let mut curve = learn(&mut training, num_envs, period)?;
    let mut shocks = Vec::new();
    for (round, by) in SCHEDULE.iter().enumerate() {
        roster = change(&roster, *by, seed, round, 12);
        replace(&mut training, preset, &roster)?;
        let after = learn(&mut training, num_envs, period)?;
        shocks.push(Shock::of(&curve, &after));
        curve.extend(after);
    }
    Ok((shocks, curve))
}

/// Functions at first, and what the paper prints: drop in percent and episodes, for +2, +5, +10,
/// -2, -5, -10.
type Printed = (usize, [Option<(f64, f64)>; 6]);
const TABLE_4_4: [Printed; 4] = [
    (
        5,
        [
            Some((17.9, 288.5)),
            Some((20.2, 369.9)),
            Some((38.6, 435.6)),
            Some((9.1, 129.6)),
            None,
            None,
        ],
    ),
    (
        20,
        [
            Some((13.3, 234.4)),
            Some((16.6, 325.6)),
            Some((42.7, 455.1)),
            Some((9.3, 133.4)),
            Some((10.3, 190.5)),
            Some((16.2, 309.1)),
        ],
    ),
    (
        50,
        [
            Some((9.3, 145.8)),
            Some((12.8, 243.0)),
            Some((24.2, 289.7)),
            Some((5.8, 105.1)),
            Some((6.6, 149.3)),
            Some((11.0, 248.5)),
        ],
    ),
    (
        110,
        [
            Some((5.9, 136.1)),
            Some((7.7, 185.8)),
            Some((14.9, 196.2)),
            Some((3.0, 47.2)),
            Some((4.8, 97.9)),
            Some((6.5, 132.0)),
        ],
    ),
];
/// The same and one more: no function comes or goes, to see what chance does.
const CHANGES: [i64; 7] = [2, 5, 10, -2, -5, -10, 0];

pub(super) fn table_4_4(bench: &Bench<'_>) -> Result<Finding> {
    let mut finding = finding();
    let mut table = Table::new(
        "SIMPPO: reward drop in the first episode after a change, and episodes to converge again",
        &["functions", "change", "drop %", "paper", "episodes", "paper's"],
    );
    let mut references =
        Table::new("reward of a step before the change", &["functions", "policy", "reward"]);
    let (before, after) = (bench.choose(20, 300), bench.choose(20, 150));
    let sizes: &[Printed] = if bench.options.is_quick { &TABLE_4_4[..2] } else { &TABLE_4_4 };
    for (functions, printed) in sizes {
        bench.say(&format!("{functions} functions: {before} episodes, then seven changes"));
        let seeds = bench.for_seeds(|seed| changes(*functions, seed, before, after))?;
        let plan = plan(*functions, LOAD, RewardPreset::Slo)?;
        for name in ["none", "random"] {
            let played = bench.play_named(&plan, &Scenario::Together, name)?;
            let reached = spread(&played, |run| run.total.reward);
            references.push(vec![functions.to_string().into(), name.into(), reached.into()]);
        }
        let before: Vec<f64> =
            seeds.iter().map(|row| row[0].map_or(0.0, |shock| shock.before)).collect();
        let reached = Spread::of(&before);
        references.push(vec![functions.to_string().into(), "simppo".into(), reached.into()]);
        for (place, by) in CHANGES.iter().enumerate() {
            let of = |figure: fn(&Shock) -> f64| -> Cell {
                let values: Vec<f64> =
                    seeds.iter().filter_map(|row| row[place].as_ref().map(figure)).collect();
                if values.is_empty() { Cell::Nothing } else { Spread::of(&values).into() }
            };
            let paper = |figure: fn((f64, f64)) -> f64| {
                let cell = printed.get(place).copied().flatten().map(figure);
                cell.map_or(Cell::Nothing, Cell::Number)
            };
            table.push(vec![
                functions.to_string().into(),
                format!("{by:+}").into(),
                of(Shock::drop_pct),
                paper(|pair| pair.0),
                of(|shock| shock.episodes),
                paper(|pair| pair.1),
            ]);
        }
    }
    finding.tables.extend([table, references]);
    finding.notes = vec![format!(
        "{before} episodes of training, then each change by itself from the same state, and \
         {after} episodes more: longer times to converge than that cannot be seen here. The row of \
         +0 shows what chance does. Nodes grow with the functions, at 76 % load."
    )];
    Ok(finding)
}

/// Each change, from one trained team.
fn changes(functions: usize, seed: u64, before: u64, after: u64) -> Result<Vec<Option<Shock>>> {
    let preset = method("simppo");
    let roster: Roster =
        (0..functions as u32).map(|number| (AgentId::new(number), number as usize % 12)).collect();
    let plan = plan_for(&roster)?;
    let task_types: Vec<TaskType> = task_types_of(&plan)?;
    let fresh = || team(&preset, &plan, &task_types, seed, before + after);
    let mut trained = fresh()?;
    let curve = learn(&mut trained, 1, before)?;
    let mut saved = Snapshot::default();
    trained.save(&mut saved);
    drop(trained);
    CHANGES
        .iter()
        .enumerate()
        .map(|(round, by)| {
            if functions as i64 + by < 2 {
                return Ok(None);
            }
            let mut training = fresh()?;
            training.load(&saved)?;
            let next = change(&roster, *by, seed, round, 12);
            replace(&mut training, &preset, &next)?;
            Ok(Some(Shock::of(&curve, &learn(&mut training, 1, after)?)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shock_is_measured_by_its_first_episode_and_its_end() {
        let before = vec![1.0; 40];
        let mut after = vec![0.5; 30];
        after.extend(vec![1.0; 70]);
        let shock = Shock::of(&before, &after);
        assert_eq!(shock.drop_pct(), 50.0);
        // From the 49th episode on the last twenty have at most one low one in fifty.
        assert!((45.0..=50.0).contains(&shock.episodes), "{}", shock.episodes);
        assert_eq!(Shock::of(&before, &before).episodes, 0.0);
    }

    #[test]
    fn everybody_has_the_same_churn() {
        let roster: Roster = (0..12).map(|k| (AgentId::new(k), k as usize)).collect();
        let next = change(&roster, 5, 3, 0, 12);
        assert_eq!(next, change(&roster, 5, 3, 0, 12));
        assert_eq!(next.len(), 17);
        assert_eq!(change(&next, -5, 3, 1, 12).len(), 12);
        assert!(next.windows(2).all(|pair| pair[0].0 < pair[1].0), "ascending");
    }
}
