//! Reward, critic and sharing, crossed: what each of them is worth by itself.

use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Spread, Table};
use homeostat_sim_faas::RewardPreset;
use homeostat_simppo::{CriticInput, ParameterSharing, Preset, RewardSharing};
use homeostat_simulate::Scenario;

use super::bench::{Bench, LOAD, end_of, finding, plan, spread};

pub(super) fn cross(bench: &Bench<'_>) -> Result<Finding> {
    let mut finding = finding();
    let rewards: &[RewardPreset] = if bench.options.is_quick {
        &[RewardPreset::Slo]
    } else {
        &[RewardPreset::Slo, RewardPreset::Paper]
    };
    for reward in rewards {
        let mut table = Table::new(
            format!("reward {}, 12 functions at 76 % load", reward.name()),
            &[
                "reward of",
                "critic observes",
                "networks",
                "training reward",
                "SLO violations %",
                "p99 / SLO threshold",
                "container-s",
            ],
        );
        let plan = plan(12, LOAD, *reward)?;
        for (pay, of) in [(RewardSharing::Own, "own"), (RewardSharing::Team, "team")] {
            for (view, sees) in
                [(CriticInput::Local, "itself"), (CriticInput::Others, "the others")]
            {
                for (sharing, networks) in
                    [(ParameterSharing::None, "own"), (ParameterSharing::All, "one for all")]
                {
                    let mut preset = Preset::by_name("simppo").expect("it is a method");
                    preset.method.reward_sharing = pay;
                    preset.method.critic_input = view;
                    preset.method.parameter_sharing = sharing;
                    bench.say(&format!(
                        "reward of {of}, critic observes {sees}, networks {networks}"
                    ));
                    let trained = bench.train(&preset, &plan, bench.choose(40, 300))?;
                    let played = bench.play(&plan, &Scenario::Together, |place| {
                        trained[place].controllers.clone()
                    })?;
                    let ends: Vec<f64> =
                        trained.iter().map(|trained| end_of(&trained.curve)).collect();
                    table.push(vec![
                        of.into(),
                        sees.into(),
                        networks.into(),
                        Spread::of(&ends).into(),
                        spread(&played, |run| run.total.slo_violation_pct()).into(),
                        spread(&played, |run| run.total.p99_over_slo).into(),
                        spread(&played, |run| run.total.container_s).into(),
                    ]);
                }
            }
        }
        for name in ["none", "random", "ensure"] {
            let played = bench.play_named(&plan, &Scenario::Together, name)?;
            table.push(vec![
                name.into(),
                Cell::Nothing,
                Cell::Nothing,
                spread(&played, |run| run.total.reward).into(),
                spread(&played, |run| run.total.slo_violation_pct()).into(),
                spread(&played, |run| run.total.p99_over_slo).into(),
                spread(&played, |run| run.total.container_s).into(),
            ]);
        }
        finding.tables.push(table);
    }
    finding.tables.push(plus_crossed(bench)?);
    finding.notes = vec![
        "The training reward is that of a step in the last tenth of training, penalties included; \
         for policies that do not learn, that of a window without penalties."
            .to_owned(),
    ];
    Ok(finding)
}

/// `simppo+` with one of its parts taken away.
fn plus_crossed(bench: &Bench<'_>) -> Result<Table> {
    let mut table = Table::new(
        "simppo+ with one part removed, 12 functions at 76 % load",
        &[
            "what",
            "SLO violations %",
            "SLO violations % of a function",
            "p99 / SLO threshold",
            "container-s",
        ],
    );
    let plan = plan(12, LOAD, RewardPreset::Slo)?;
    type Change = fn(&mut Preset);
    let changes: [(&str, Change); 4] = [
        ("simppo+", |_| {}),
        ("own reward", |preset| preset.method.reward_sharing = RewardSharing::Own),
        ("critic observes own state only", |preset| {
            preset.method.critic_input = CriticInput::Local
        }),
        ("a network for each kind", |preset| {
            preset.method.parameter_sharing = ParameterSharing::Kind
        }),
    ];
    for (what, change) in changes {
        let mut preset = Preset::by_name("simppo+").expect("it is a method");
        change(&mut preset);
        let trained = bench.train(&preset, &plan, bench.choose(120, 600))?;
        let played =
            bench.play(&plan, &Scenario::Together, |place| trained[place].controllers.clone())?;
        table.push(vec![
            what.into(),
            spread(&played, |run| run.total.slo_violation_pct()).into(),
            spread(&played, super::bench::mean_function_violation_pct).into(),
            spread(&played, |run| run.total.p99_over_slo).into(),
            spread(&played, |run| run.total.container_s).into(),
        ]);
    }
    Ok(table)
}
