//! What p99 costs of the mean, and what a predictor's classes are worth.

use homeostat_lab::Result;
use homeostat_muserve::schedule::Job;
use homeostat_report::{Cell, Finding, Line, Picture, Spread, Table};
use serde_json::json;

use super::arms::{Arm, HEAD_STARTS, Learnt, Lengths, Outcome};
use super::recorded::Recorded;

/// Deadlines as multiples of FCFS's p99, which this sweep reads in advance.
const DEADLINES: [f64; 8] = [0.6, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.7];

const RULES: [(&str, Lengths, bool); 4] = [
    ("oracle, deadline", Lengths::True, true),
    ("oracle, ageing", Lengths::True, false),
    ("ssjf, deadline", Lengths::Predicted, true),
    ("ssjf, ageing", Lengths::Predicted, false),
];

/// Names of predictors, and which class each makes of a pair of classes.
type Predictor = (&'static str, fn(usize) -> usize);

const PREDICTORS: [Predictor; 4] = [
    ("binary: five classes, cut in two", |class| usize::from(class % 5 >= 2)),
    ("three classes", |class| class / 5),
    ("five classes", |class| class % 5),
    ("three and five classes", |class| class),
];

fn settings(is_deadline: bool) -> &'static [f64] {
    // Without a head start ageing is FCFS.
    if is_deadline { &DEADLINES } else { &HEAD_STARTS[1..] }
}

/// The outcome of each rule with each of its settings, one after the other.
pub(super) fn trade_off(learnt: &Learnt, jobs: &[Job]) -> Vec<Outcome> {
    let p99 = learnt.outcome(Arm::Fcfs, jobs).p99;
    let arm = |lengths: Lengths, is_deadline: bool, setting: f64| match is_deadline {
        true => Arm::KnownDeadline(lengths, setting * p99),
        false => Arm::Aged(lengths, setting),
    };
    let of_rule = |(_, lengths, is_deadline): &(&str, Lengths, bool)| {
        let (lengths, is_deadline) = (*lengths, *is_deadline);
        settings(is_deadline).iter().map(move |setting| arm(lengths, is_deadline, *setting))
    };
    RULES.iter().flat_map(of_rule).map(|arm| learnt.outcome(arm, jobs)).collect()
}

/// Shortest first with each predictor, without and with deadlines.
pub(super) fn predictors(known: &[Recorded], jobs: &[Job]) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for (_, of_class) in PREDICTORS {
        let learnt = Learnt::classes(known, of_class)?;
        for arm in [Arm::ShortestFirst(Lengths::Predicted), Arm::Deadlines(Lengths::Predicted)] {
            outcomes.push(learnt.outcome(arm, jobs));
        }
    }
    Ok(outcomes)
}

/// Gain in per cent, part of the oracle's gain and p99 of one place over seeds; `base` has FCFS and the oracle.
fn figures(base: &[(Outcome, Outcome)], seeds: &[Vec<Outcome>], place: usize) -> [Spread; 3] {
    let over_seeds = |figure: &dyn Fn(&(Outcome, Outcome), &Outcome) -> f64| {
        let each = base.iter().zip(seeds).map(|(base, seed)| figure(base, &seed[place]));
        Spread::of(&each.collect::<Vec<_>>())
    };
    [
        over_seeds(&|(fcfs, _), own| 100.0 * (1.0 - own.mean / fcfs.mean)),
        over_seeds(&|(fcfs, oracle), own| (fcfs.mean - own.mean) / (fcfs.mean - oracle.mean)),
        over_seeds(&|(fcfs, _), own| own.p99 / fcfs.p99),
    ]
}

pub(super) fn report_trade_off(
    finding: &mut Finding,
    base: &[(Outcome, Outcome)],
    seeds: &[Vec<Outcome>],
) {
    let title = "what p99 costs of the mean at load 0.9 (deadlines are read from FCFS's run)";
    let columns = ["rule", "setting", "mean gain %", "part of the oracle's", "p99 / FCFS"];
    let mut table = Table::new(title, &columns);
    let (mut lines, mut rows, mut place) = (Vec::new(), Vec::new(), 0);
    for (name, _, is_deadline) in RULES {
        let mut points = Vec::new();
        for setting in settings(is_deadline) {
            let [gain, part, p99] = figures(base, seeds, place);
            place += 1;
            let half = gain.interval.unwrap_or(0.0);
            points.push((p99.mean, gain.mean, half));
            rows.push(json!({
                "rule": name, "setting": setting, "jct_gain_pct": gain,
                "part_of_oracle_gain": part, "p99_vs_fcfs": p99,
            }));
            let cells: [Cell; 5] =
                [name.into(), (*setting).into(), gain.into(), part.into(), p99.into()];
            table.push(cells.to_vec());
        }
        lines.push(Line { name: name.to_owned(), points });
    }
    finding.facts.insert("trade_off".to_owned(), json!(rows));
    finding.tables.push(table);
    finding.pictures.push(Picture {
        title: "gain in mean completion time against p99".to_owned(),
        x: "p99 / FCFS".to_owned(),
        y: "mean gain %".to_owned(),
        marks: Vec::new(),
        lines,
    });
    finding.notes.push(
        "In the trade-off a deadline's setting is a multiple of FCFS's p99 of the same requests, which no server \
         knows in advance, and ageing's is a head start in mean service times."
            .to_owned(),
    );
}

pub(super) fn report_predictors(
    finding: &mut Finding,
    base: &[(Outcome, Outcome)],
    seeds: &[Vec<Outcome>],
) {
    let columns = ["predictor", "order", "mean gain %", "part of the oracle's", "p99 / FCFS"];
    let mut table = Table::new("predictors at load 0.9 (appendix B.2)", &columns);
    let mut rows = Vec::new();
    for (predictor, (name, _)) in PREDICTORS.into_iter().enumerate() {
        for (order, order_name) in ["ssjf", "ssjf_deadlines"].into_iter().enumerate() {
            let [gain, part, p99] = figures(base, seeds, 2 * predictor + order);
            rows.push(json!({
                "predictor": name, "order": order_name, "jct_gain_pct": gain,
                "part_of_oracle_gain": part, "p99_vs_fcfs": p99,
            }));
            let cells: [Cell; 5] =
                [name.into(), order_name.into(), gain.into(), part.into(), p99.into()];
            table.push(cells.to_vec());
        }
    }
    finding.facts.insert("predictors".to_owned(), json!(rows));
    finding.tables.push(table);
    finding.notes.push(
        "The recorded predictions are those of BERT as a classifier with three and with five classes; the files with \
         regressions and ordinal classes are not published in this form."
            .to_owned(),
    );
}
