//! Serving while the workload changes (figure 5.9): the seven scenarios of Section 5.2.3, one after the other
//! in random order.

use homeostat_aware::{Profile, Stage};
use homeostat_core::{Persist, SimDuration, SimTime, Snapshot};
use homeostat_decide::{Observation, Policy, Proposal};
use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Line, Picture, Spread, Table};
use homeostat_sim_deploy::{Change, DeployPlan};
use homeostat_simulate::{ManagedConfig, ManagedPolicy};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::bootstrapping::serve;
use super::play::{Played, play};
use super::ratio::Ratio;
use super::workload::{EPISODE, Workload, aware};
use super::{AwareOptions, finding};

/// Key, and what it is.
const ARMS: [(&str, &str); 4] = [
    ("aware", "AWARE"),
    ("no_retraining", "the same policy, no retraining"),
    ("rule_based", "HPA and VPA"),
    ("converged", "policies trained on each change"),
];
const AWARE: usize = 0;
const NO_RETRAINING: usize = 1;
const CONVERGED: usize = 3;

/// Reward that a policy may lose before it is retrained: the 2.6 % of Section 5.5.3.
const TOLERATED_LOSS: f64 = 0.026;

/// How long everything takes, in episodes.
struct Lengths {
    /// Of training before the policy serves.
    training: usize,
    /// Of retraining to convergence on one change, for comparison.
    retraining: usize,
    /// Of each scenario, and of the time before the first.
    phase: usize,
}

struct Test {
    arms: Vec<Played>,
    /// How often retraining was triggered.
    triggered: usize,
    changes: Vec<Change>,
}

pub(super) fn serving(options: &AwareOptions, progress: &(dyn Fn(&str) + Sync)) -> Result<Finding> {
    let lengths = match options.is_quick {
        true => Lengths { training: 60, retraining: 20, phase: 8 },
        false => Lengths { training: 200, retraining: 100, phase: 40 },
    };
    let tests = options.seeds.par_iter().map(|seed| test(*seed, &lengths, progress));
    let tests = tests.collect::<Result<Vec<Test>>>()?;
    // The time before the first change is the same for all.
    let changed = |played: &Played| played.episodes(lengths.phase, 8 * lengths.phase);
    let of = |arm: usize, figure: fn(&Played) -> f64| -> Spread {
        Spread::of(&tests.iter().map(|test| figure(&changed(&test.arms[arm]))).collect::<Vec<_>>())
    };
    let ratio = |over: usize, figure: fn(&Played) -> f64| {
        let of_arm = |test: &Test, arm: usize| figure(&changed(&test.arms[arm]));
        Ratio::of(
            &tests.iter().map(|test| (of_arm(test, over), of_arm(test, AWARE))).collect::<Vec<_>>(),
        )
    };
    let gain = |against: usize, figure: fn(&Played) -> f64| {
        let of_test = |test: &Test| {
            let [ours, theirs] = [AWARE, against].map(|arm| figure(&changed(&test.arms[arm])));
            100.0 * (ours / theirs - 1.0)
        };
        Spread::of(&tests.iter().map(of_test).collect::<Vec<_>>())
    };
    let mut table = Table::new(
        "seven changes of the workload, one after the other",
        &[
            "arm",
            "reward of a decision",
            "CPU utilisation, %",
            "memory utilisation, %",
            "windows that violate the SLO, %",
            "requests that violate it, %",
        ],
    );
    let mut arms = Map::new();
    for (arm, (key, name)) in ARMS.into_iter().enumerate() {
        let percent = |figure| of(arm, figure).scaled(100.0);
        let figures = [
            of(arm, Played::reward),
            percent(Played::cpu),
            percent(Played::memory),
            percent(Played::violated_windows),
            percent(Played::violating_requests),
        ];
        let mut row: Vec<Cell> = vec![name.into()];
        row.extend(figures.map(Cell::from));
        table.push(row);
        let [reward, cpu, memory, windows, requests] = figures;
        arms.insert(
            key.to_owned(),
            json!({
                "reward": reward,
                "cpu_util_pct": cpu,
                "memory_util_pct": memory,
                "violated_windows_pct": windows,
                "violating_requests_pct": requests,
            }),
        );
    }
    let violations = ratio(NO_RETRAINING, Played::violated_windows);
    let loss = gain(CONVERGED, Played::reward).scaled(-1.0);
    let (cpu, memory) = (gain(NO_RETRAINING, Played::cpu), gain(NO_RETRAINING, Played::memory));
    let reward = gain(NO_RETRAINING, Played::reward);
    let mut beside = Table::new("AWARE against the others", &["figure", "here", "paper"]);
    let rows: [(&str, Cell, f64); 5] = [
        ("without retraining, times the SLO violations", violations.into(), 3.1),
        ("reward below that of converged policies, %", loss.into(), 3.6),
        ("CPU utilisation above no retraining, %", cpu.into(), 9.6),
        ("memory utilisation above no retraining, %", memory.into(), 14.8),
        ("reward above no retraining, %", reward.into(), 8.6),
    ];
    for (name, ours, paper) in rows {
        beside.push(vec![name.into(), ours, paper.into()]);
    }
    let triggered = Spread::of(&tests.iter().map(|test| test.triggered as f64).collect::<Vec<_>>());
    let facts = json!({
        "violations_ratio_no_retraining": violations,
        "request_violations_ratio_no_retraining": ratio(NO_RETRAINING, Played::violating_requests),
        "reward_loss_pct_vs_converged": loss,
        "cpu_util_gain_pct_vs_no_retraining": cpu,
        "memory_util_gain_pct_vs_no_retraining": memory,
        "reward_gain_pct_vs_no_retraining": reward,
        "retrainings": triggered,
        "changes": tests.iter().map(|test| json!(test.changes)).collect::<Vec<_>>(),
        "arms": Value::Object(arms),
        "paper": {
            "violations_ratio_no_retraining": 3.1,
            "reward_loss_pct_vs_converged": 3.6,
            "cpu_util_gain_pct_vs_no_retraining": 9.6,
            "memory_util_gain_pct_vs_no_retraining": 14.8,
            "reward_gain_pct_vs_no_retraining": 8.6,
        },
    });
    let triggers = format!("Retraining was triggered {triggered} times in a test.");
    let phases = format!(
        "Each scenario lasts {} episodes of 100 decisions and then ends; one whose payload the application does not \
         have changes nothing. The time before the first is not counted.",
        lengths.phase
    );
    let mut found = finding(
        vec![table, beside],
        &[
            &phases,
            "Retraining is triggered, as printed, when the mean of the last five episodes falls 2.6 % below that of \
             the policy before the changes, or when they vary three times as much.",
            "An SLO violation is a window of 15 s whose p99 is above the SLO. Ratios are those of the sums over the \
             tests, with intervals by the jackknife.",
            &triggers,
        ],
        facts,
    );
    let curve = |arm: usize| {
        let curves: Vec<Vec<f64>> = tests.iter().map(|test| test.arms[arm].rewards()).collect();
        Line::over_seeds(ARMS[arm].1, &curves)
    };
    found.pictures.push(Picture {
        title: "reward while the workload changes".to_owned(),
        x: "episode".to_owned(),
        y: "mean reward of a decision".to_owned(),
        marks: Vec::new(),
        lines: (0..ARMS.len()).map(curve).collect(),
    });
    Ok(found)
}

fn test(seed: u64, lengths: &Lengths, progress: &(dyn Fn(&str) + Sync)) -> Result<Test> {
    let workload = Workload::of_seed(seed, 960)?;
    progress(&format!("seed {seed}: training, {}", workload.rule_name));
    let mut trained = workload.managed(training())?;
    let seeds = workload.seeds.child("training");
    play(&workload, &workload.plan, &mut trained, lengths.training * EPISODE, &seeds)?;

    // What the policy is worth before the changes sets the thresholds.
    let seeds = workload.seeds.child("reference");
    let windows = lengths.phase.max(20) * EPISODE;
    let reference =
        play(&workload, &workload.plan, serve(&workload, &trained)?.as_mut(), windows, &seeds)?;
    let rewards = reference.rewards();
    let deviation = homeostat_lab::Summary::of(&rewards).map_or(0.0, |summary| summary.deviation);
    let profile = Profile {
        serving_reward: (1.0 - TOLERATED_LOSS) * reference.reward(),
        serving_deviation: 3.0 * deviation,
        episodes: 5,
        patience: usize::MAX,
        ..training().profile
    };

    let mut changes = Change::SCENARIOS.to_vec();
    workload.seeds.stream("changes").shuffle(&mut changes);
    let length = SimDuration::from_secs(15) * (lengths.phase * EPISODE) as u64;
    let schedule = (1u64..).zip(&changes).map(|(place, change)| (length * place, *change));
    let plan = workload.plan.clone().with_changes(schedule.collect());
    let windows = 8 * lengths.phase * EPISODE;
    let compared =
        |policy: &mut dyn Policy| play(&workload, &plan, policy, windows, &workload.compared());

    let mut managed =
        trained.moved(profile, workload.fallback()?, &workload.seeds.child("serving"))?;
    let with_retraining = compared(&mut managed)?;
    let triggers = managed.stages().iter().filter(|entry| entry.change.from == Stage::Serving);
    let triggered = triggers.count();
    for entry in managed.stages() {
        progress(&format!(
            "seed {seed}: {} to {} after {:.0} h: {}",
            entry.change.from,
            entry.change.to,
            entry.at.seconds() / 3600.0,
            entry.change.cause
        ));
    }
    let without = compared(serve(&workload, &trained)?.as_mut())?;
    let rule = compared(workload.fallback()?.as_mut())?;
    let mut converged = Converged { policies: vec![serve(&workload, &trained)?], length };
    for change in &changes {
        converged.policies.push(retrained(&workload, &trained, *change, lengths)?);
    }
    let converged = compared(&mut converged)?;
    progress(&format!("seed {seed}: done"));
    Ok(Test { arms: vec![with_retraining, without, rule, converged], triggered, changes })
}

/// Bootstrapping and training online, for as long as it is played.
fn training() -> ManagedConfig {
    let config = aware(0.0);
    let profile = Profile {
        online_reward: -1e9,
        serving_reward: 1e9,
        online_floor: None,
        activation_margin: None,
        ..config.profile
    };
    ManagedConfig { profile, ..config }
}

/// The policy after further training on the changed workload.
fn retrained(
    workload: &Workload,
    trained: &ManagedPolicy,
    change: Change,
    lengths: &Lengths,
) -> Result<Box<dyn Policy>> {
    if !change.affects(workload.plan.application(workload.number)) {
        return serve(workload, trained);
    }
    let name = format!("{change:?}");
    let seeds = workload.seeds.child("retraining").child(&name);
    let mut agent = trained.moved(training().profile, workload.fallback()?, &seeds)?;
    let plan: DeployPlan = workload.plan.clone().with_changes(vec![(SimDuration::ZERO, change)]);
    play(workload, &plan, &mut agent, lengths.retraining * EPISODE, &seeds)?;
    serve(workload, &agent)
}

/// For each phase a policy that was trained on it.
struct Converged {
    policies: Vec<Box<dyn Policy>>,
    length: SimDuration,
}

impl Policy for Converged {
    fn name(&self) -> &str {
        "converged"
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let phase = obs.now.saturating_since(SimTime::ZERO).nanos() / self.length.nanos();
        let last = self.policies.len() - 1;
        self.policies[(phase as usize).min(last)].propose(obs)
    }
}

impl Persist for Converged {
    fn save(&self, name: &str, out: &mut Snapshot) {
        for (place, policy) in self.policies.iter().enumerate() {
            policy.save(&format!("{name}/{place}"), out);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let mut policies = self.policies.iter_mut().enumerate();
        policies.try_for_each(|(place, policy)| policy.load(&format!("{name}/{place}"), from))
    }
}
